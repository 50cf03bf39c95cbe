"""When the runtime has to look again at what is due: not after every request that waits."""

import pytest

from ledgerstone.protocol.messages.metadata import MetadataRequest
from ledgerstone.server.effects import Dial
from tests.kit.in_process import Client, InProcess
from tests.unit.server.asks import BY_NAME, create_topic, fetch

WAIT_MS = 500
DIAL = Dial(1, "127.0.0.1", 9092, "replication-0")


@pytest.fixture
def machine() -> InProcess:
    return InProcess()


@pytest.fixture
def client(machine: InProcess) -> Client:
    client = machine.connect()
    create_topic(client)
    return client


def looked(machine: InProcess, *, wakes_in_ms: int) -> None:
    """As the runtime does it: it has set its timer."""
    machine.broker.may_be_due_sooner = False
    machine.broker.wakes_ms = machine.broker.clock.monotonic_ms() + wakes_in_ms


@pytest.mark.parametrize(("wakes_in_ms", "is_sooner"), [(WAIT_MS, False), (WAIT_MS + 1, True)])
def test_waiting_fetch_is_looked_at_only_if_it_ends_before_the_next_tick(
    machine: InProcess, client: Client, wakes_in_ms: int, is_sooner: bool
) -> None:
    looked(machine, wakes_in_ms=wakes_in_ms)

    client.send(fetch(max_wait_ms=WAIT_MS, min_bytes=1), BY_NAME)

    assert len(machine.broker.purgatory) == 1
    assert machine.broker.may_be_due_sooner == is_sooner


def test_request_that_may_change_anything_is_looked_at_whatever_it_does(
    machine: InProcess, client: Client
) -> None:
    looked(machine, wakes_in_ms=0)

    client.send(MetadataRequest(topics=[]))

    assert machine.broker.may_be_due_sooner


def test_answer_to_a_follower_concerns_the_agents_that_are_listed_and_no_others(
    machine: InProcess,
) -> None:
    broker = machine.broker
    due_ms = broker.housekeeping.next_deadline_ms
    asked = []
    for concerned, wakes_ms in (
        ((broker.housekeeping,), due_ms + 1),
        ((broker.housekeeping,), due_ms),
        ((), due_ms + 1),
    ):
        broker.agents.concerned_by[DIAL.purpose] = concerned
        broker.may_be_due_sooner, broker.wakes_ms = False, wakes_ms
        asked.append(broker.may_be_due_sooner_after(DIAL))

    assert asked == [True, False, False]


def test_answer_for_any_other_purpose_may_concern_every_agent(machine: InProcess) -> None:
    looked(machine, wakes_in_ms=0)

    assert machine.broker.may_be_due_sooner_after(DIAL)


def test_answer_that_served_somebody_who_waits_now_is_looked_at(machine: InProcess) -> None:
    machine.broker.agents.concerned_by[DIAL.purpose] = ()
    looked(machine, wakes_in_ms=0)
    machine.broker.may_be_due_sooner = True

    assert machine.broker.may_be_due_sooner_after(DIAL)
