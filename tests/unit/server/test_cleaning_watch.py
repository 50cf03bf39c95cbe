"""What the owner of cleaning makes of a worker that falls silent."""

import pytest

from ledgerstone.cleaner.plan import CleanedGroup
from ledgerstone.cleaner.worker import clean
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.server.cleaning.parts import PassFailed
from ledgerstone.server.effects import Clean
from ledgerstone.server.http.monitor import readiness, samples
from ledgerstone.server.results import GroupCleaned, StillAtWork
from ledgerstone.types import TopicPartition
from tests.kit.in_process import Client, InProcess
from tests.kit.logs import batch
from tests.unit.server.asks import TOPIC, create_topic, produced

TP = TopicPartition(TOPIC, 0)
TIMEOUT_MS = 60_000


@pytest.fixture
def at_work(machine: InProcess, client: Client) -> Clean:
    """A pass whose worker was handed the plan and says nothing."""
    create_topic(client, TOPIC, 1, cleanup_policy="compact")
    machine.held_passes = []
    for value in "12":
        records = batch(("a", value), timestamp=machine.clock.now_ms())
        assert produced(client, records).error_code == ErrorCode.NONE
    machine.broker.partitions.get(TP).log.roll()
    machine.broker.cleaning.look_now()
    machine.tick()
    (effect,) = machine.held_passes
    machine.held_passes = []
    return effect


def totals(machine: InProcess) -> dict[str, float]:
    return {sample.name: sample.value for sample in samples(machine.broker)}


def test_hanging_worker_is_given_up_and_makes_the_broker_unready(
    machine: InProcess, at_work: Clean
) -> None:
    machine.advance(TIMEOUT_MS - 1)
    early = list(machine.given_up)
    machine.advance(1)

    page = readiness(machine.broker)
    assert early == []
    assert [effect.number for effect in machine.given_up] == [at_work.number]
    assert page.status == 503
    assert "the cleaning worker hangs: it said nothing for 60000 ms" in page.body
    assert totals(machine)["ledgerstone_cleaner_silent_workers_total"] == 1


def test_partition_stays_busy_until_the_hanging_worker_is_dead(
    machine: InProcess, at_work: Clean
) -> None:
    machine.advance(4 * TIMEOUT_MS)
    still_busy = machine.broker.cleaning.is_busy(TP)
    dead = PassFailed("killed", worker_died=True)
    machine.report(at_work, dead)

    assert len(machine.given_up) == 1
    assert still_busy
    assert not machine.broker.cleaning.is_busy(TP)
    assert machine.broker.cleaning.troubles[TP].failures == 1


def test_partition_of_a_killed_worker_is_cleaned_by_the_next_one_and_all_is_well_again(
    machine: InProcess, at_work: Clean
) -> None:
    machine.advance(TIMEOUT_MS)
    dead = PassFailed("killed", worker_died=True)
    machine.report(at_work, dead)
    during = readiness(machine.broker).status
    machine.held_passes = None

    machine.advance(16_000)

    assert during == 503
    assert readiness(machine.broker).status == 200
    assert totals(machine)["ledgerstone_cleaner_passes_total"] == 1
    assert totals(machine)["ledgerstone_cleaner_worker_deaths_total"] == 1


def test_worker_that_says_it_is_at_work_may_take_as_long_as_it_likes(
    machine: InProcess, at_work: Clean
) -> None:
    for _ in range(100):
        machine.advance(TIMEOUT_MS // 2)
        machine.report(at_work, StillAtWork())

    assert machine.given_up == []
    assert readiness(machine.broker).status == 200


def test_worker_that_waits_for_its_owner_is_not_called_silent_until_it_may_go_on(
    machine: InProcess, at_work: Clean
) -> None:
    machine.held_flushes = []
    groups: list[CleanedGroup] = []
    clean(
        machine.fs,
        at_work.plan,
        dice=machine.dice,
        on_group=groups.append,
        should_abort=lambda: False,
    )
    machine.report(at_work, GroupCleaned(groups[0]))

    machine.advance(4 * TIMEOUT_MS)
    while_it_waited = list(machine.given_up)
    machine.flush(machine.held_flushes[0])
    machine.advance(TIMEOUT_MS)

    assert while_it_waited == []
    assert machine.called_off[at_work.number] is False
    assert [effect.number for effect in machine.given_up] == [at_work.number]


def test_hanging_worker_of_a_pass_that_was_called_off_is_given_up_too(
    machine: InProcess, at_work: Clean
) -> None:
    machine.perform(machine.broker.cleaning.abort(TP))

    machine.advance(TIMEOUT_MS)

    assert [effect.number for effect in machine.given_up] == [at_work.number]
