"""What a leader and its followers tell each other about deletes, on the wire."""

from typing import Any

import pytest

from ledgerstone.protocol.messages.fetch import FetchPartitionResponse, FetchResponse
from ledgerstone.replication.partition import Partition
from ledgerstone.replication.partition_removal import PartitionRemoval
from tests.kit.in_process import Client, InProcess
from tests.kit.roles import change_partition
from tests.unit.server.asks import TOPIC, create_topic, write
from tests.unit.server.leading_kit import LED, ask, register

QUIET: Any = {"removable_to": -1, "removed_to": -1, "clean_to": -1, "held_from_offset": -1}


@pytest.fixture
def partition(machine: InProcess, client: Client) -> Partition:
    create_topic(client, cleanup_policy="compact")
    register(machine, 2)
    change_partition(machine, LED, isr=[1], replicas=[1, 2])
    found = machine.broker.partitions.get(LED)
    knowledge = machine.broker.cleaning.knowledge()
    found.removal = PartitionRemoval(log=found.log, knowledge=knowledge)
    found.removal.assume(found.role)
    return found


def fetch_as_follower(
    client: Client, offset: int, clean_to: int = -1, **how: Any
) -> FetchPartitionResponse | None:
    """What the answer says of the partition; None: nothing."""
    request = ask(client, offset, **how)
    for each in request.topics[0].partitions:
        each.clean_to = each.removed_to = clean_to
    answer = client.ask(request, FetchResponse, 17)
    return answer.responses[0].partitions[0] if answer.responses else None


def told(answer: FetchPartitionResponse | None) -> dict[str, int]:
    assert answer is not None
    return {name: getattr(answer, name) for name in QUIET}


def cleaned(machine: InProcess, offset: int) -> None:
    machine.broker.cleaning.files.first_dirty_offsets[LED] = offset


def test_a_follower_that_tells_nothing_is_told_nothing(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    write(client, "value")

    assert told(fetch_as_follower(machine.connect(), 0)) == QUIET


def test_a_follower_hears_how_far_deletes_may_go(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    write(client, "1", "2", "3")
    cleaned(machine, 3)
    assert partition.removal is not None
    partition.removal.before_removal(1)

    found = told(fetch_as_follower(machine.connect(), 3, clean_to=2))

    assert found == {**QUIET, "removable_to": 2, "removed_to": 1, "clean_to": 3}


def test_a_fetch_that_diverges_reports_nothing(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    write(client, "1")
    change_partition(machine, LED, leader=1)
    cleaned(machine, 1)

    answer = fetch_as_follower(machine.connect(), 2, clean_to=2, last_fetched_epoch=0)

    assert answer is not None
    assert answer.diverging_epoch is not None
    assert told(answer) == QUIET
    assert partition.removal is not None
    standing = partition.removal.standing()
    assert standing is not None
    assert standing.holder == "replica 2 has not reported"


def test_a_session_names_a_quiet_partition_when_deletes_may_go_further(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    write(client, "1", "2")
    follower = machine.connect()
    request = ask(follower, 2, session_epoch=0)
    request.topics[0].partitions[0].clean_to = 2
    opened = follower.ask(request, FetchResponse, 17)

    def again(epoch: int) -> FetchPartitionResponse | None:
        request = ask(follower, 2, session_id=opened.session_id, session_epoch=epoch)
        request.topics = []
        answer = follower.ask(request, FetchResponse, 17)
        return answer.responses[0].partitions[0] if answer.responses else None

    again(1)
    quiet = again(2)
    cleaned(machine, 2)
    news = told(again(3))

    assert quiet is None
    assert (news["removable_to"], news["clean_to"]) == (2, 2)
    assert again(4) is None


def test_consumers_are_told_nothing(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    write(client, "1")
    request = ask(client, 0)
    request.replica_state = None
    request.topics[0].topic_id = machine.broker.image.topics[TOPIC].topic_id
    request.topics[0].partitions[0].clean_to = 5

    answer = client.ask(request, FetchResponse, 17)

    assert told(answer.responses[0].partitions[0]) == QUIET
