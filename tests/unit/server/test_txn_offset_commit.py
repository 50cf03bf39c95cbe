"""TxnOffsetCommit: offsets that count once their transaction is committed."""

from collections.abc import Callable

import pytest

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ledgerstone.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from ledgerstone.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from ledgerstone.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ledgerstone.records.batch import iter_headers
from ledgerstone.replication.partition import Partition
from ledgerstone.storage.log_reader import read
from ledgerstone.types import TopicPartition
from tests.kit.in_process import Client, InProcess
from tests.kit.roles import change_partition, fetched_by, led_by
from tests.unit.server.asks import TOPIC, commit_offset, create_topic
from tests.unit.server.txn_asks import (
    PRODUCER,
    ScriptedCoordinator,
    commit_in_txn,
    end_txn,
    marker,
    marker_codes,
    txn_offsets,
)

OFFSETS = "__consumer_offsets"
TP = TopicPartition(OFFSETS, 0)
HOUR_MS = 3_600_000
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


@pytest.fixture
def machine() -> InProcess:
    return InProcess(settings={"offsets.topic.num.partitions": "1"})


@pytest.fixture(autouse=True)
def coordinator(machine: InProcess, client: Client) -> ScriptedCoordinator:
    create_topic(client, partitions=2)
    machine.broker.verification.coordinator = coordinator = ScriptedCoordinator()
    return coordinator


def end(client: Client, *, commit: bool = True, **fields: int) -> int:
    return end_txn(client, commit=commit, topic=OFFSETS, **fields)


def offsets(client: Client, group: str = "g", *, require_stable: bool = False) -> dict[int, int]:
    """By partition; an unstable one as its error code."""
    response = client.ask(fetch_request(group, require_stable), OffsetFetchResponse, 8)
    return told(response)


def fetch_request(group: str = "g", require_stable: bool = True) -> OffsetFetchRequest:
    groups = [OffsetFetchRequestGroup(group_id=group, topics=None)]
    return OffsetFetchRequest(groups=groups, require_stable=require_stable)


def told(response: OffsetFetchResponse) -> dict[int, int]:
    return {
        each.partition_index: each.error_code or each.committed_offset
        for topic in response.groups[0].topics
        for each in topic.partitions
    }


def partition_of(machine: InProcess) -> Partition:
    return machine.broker.partitions.get(TP)


# -- the life of an offset --------------------------------------------------------------------


def test_offset_counts_once_its_transaction_is_committed(client: Client) -> None:
    assert commit_offset(client, "g", 1) == 0
    assert commit_in_txn(client, "g", 5) == 0

    assert offsets(client) == {0: 1}
    assert offsets(client, require_stable=True) == {0: UNSTABLE}
    assert end(client) == 0

    assert offsets(client, require_stable=True) == {0: 5}


def test_offset_of_an_aborted_transaction_never_counted(client: Client) -> None:
    assert commit_offset(client, "g", 1) == 0
    assert commit_in_txn(client, "g", 5) == 0

    assert end(client, commit=False) == 0

    assert offsets(client, require_stable=True) == {0: 1}


def test_plain_commit_after_it_stays(client: Client) -> None:
    assert commit_in_txn(client, "g", 5) == 0
    assert commit_offset(client, "g", 7) == 0

    assert offsets(client, require_stable=True) == {0: UNSTABLE}
    assert end(client) == 0

    assert offsets(client, require_stable=True) == {0: 7}


def test_offsets_of_the_last_write_count_whichever_transaction_ends_first(client: Client) -> None:
    assert commit_in_txn(client, "g", 5, producer_id=1) == 0
    assert commit_in_txn(client, "g", 6, producer_id=2) == 0

    assert end(client, producer_id=2) == 0
    assert offsets(client, require_stable=True) == {0: UNSTABLE}
    assert end(client, producer_id=1) == 0

    assert offsets(client, require_stable=True) == {0: 6}


def test_all_of_it_is_the_same_after_a_restart(machine: InProcess, client: Client) -> None:
    assert commit_in_txn(client, "g", 5) == 0
    assert commit_in_txn(client, "h", 6, producer_id=2) == 0
    assert end(client, producer_id=2) == 0

    machine.kill()
    client = machine.connect()

    assert offsets(client, "h", require_stable=True) == {0: 6}
    assert offsets(client) == {}
    assert end(client) == 0
    assert offsets(client, require_stable=True) == {0: 5}


def test_batch_has_its_producer_and_no_sequence(machine: InProcess, client: Client) -> None:
    commit_offset(client, "g", 1)
    assert commit_in_txn(client, "g", 5) == 0

    piece = read(partition_of(machine).log, 1, max_bytes=1 << 20).slice
    assert piece is not None
    ((_, header),) = iter_headers(piece.read())
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (PRODUCER, 0, -1)
    assert header.is_transactional
    assert not header.is_control
    assert partition_of(machine).log.last_stable_offset == 1


def test_group_with_pending_offsets_can_be_deleted_and_nothing_returns(client: Client) -> None:
    assert commit_in_txn(client, "g", 5) == 0

    request = DeleteGroupsRequest(groups_names=["g"])
    assert client.ask(request, DeleteGroupsResponse).results[0].error_code == 0
    assert end(client) == 0

    assert offsets(client) == {}


# -- the coordinator of the transaction -------------------------------------------------------


@pytest.mark.parametrize(("version", "verifies"), [(0, True), (3, True), (4, True), (5, False)])
def test_partition_of_the_group_is_verified_and_from_version_5_on_added(
    client: Client, coordinator: ScriptedCoordinator, version: int, verifies: bool
) -> None:
    assert commit_in_txn(client, version=version) == 0

    (request,) = coordinator.asked
    assert coordinator.partitions_asked() == [[TP]]
    assert request.transactions[0].verify_only is verifies


@pytest.mark.parametrize(
    ("said", "version", "expected"),
    [
        (ErrorCode.NETWORK_EXCEPTION, 3, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NETWORK_EXCEPTION, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, 3, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, 5, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 5, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 3, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.PRODUCER_FENCED, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, 4, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 3, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_refusal_is_told_as_clients_of_groups_know_it(
    client: Client, coordinator: ScriptedCoordinator, said: int, version: int, expected: int
) -> None:
    coordinator.script = [said]

    assert commit_in_txn(client, version=version) == expected

    assert offsets(client, require_stable=True) == {}


def test_late_answer_of_the_coordinator_commits(
    machine: InProcess, client: Client, coordinator: ScriptedCoordinator
) -> None:
    assert commit_offset(client, "g", 1) == 0
    coordinator.is_late = True
    client.send(txn_offsets(), 5)
    assert not client.answers

    coordinator.answer_all()
    machine.perform(machine.broker.changed_from_outside())

    response = client.take(TxnOffsetCommitResponse)
    assert response.topics[0].partitions[0].error_code == 0
    assert offsets(client, require_stable=True) == {0: UNSTABLE}


def test_marker_between_question_and_answer_voids_the_answer(
    machine: InProcess, client: Client, coordinator: ScriptedCoordinator
) -> None:
    coordinator.is_late = True
    client.send(txn_offsets(), 3)
    assert end(machine.connect(), commit=False) == 0

    coordinator.answer_all()
    machine.perform(machine.broker.changed_from_outside())

    response = client.take(TxnOffsetCommitResponse)
    assert response.topics[0].partitions[0].error_code == ErrorCode.INVALID_TXN_STATE


def test_older_epoch_is_refused(client: Client) -> None:
    assert commit_in_txn(client, producer_epoch=1) == 0

    assert commit_in_txn(client, producer_epoch=0) == ErrorCode.INVALID_PRODUCER_EPOCH


# -- the group --------------------------------------------------------------------------------


def test_unknown_group_begins_without_a_generation_and_is_refused_with_one(client: Client) -> None:
    assert commit_in_txn(client, "new", generation_id=-1) == 0
    assert commit_in_txn(client, "other", generation_id=0) == ErrorCode.ILLEGAL_GENERATION


def test_group_id_must_not_be_empty(client: Client, coordinator: ScriptedCoordinator) -> None:
    assert commit_in_txn(client, "") == ErrorCode.INVALID_GROUP_ID
    assert coordinator.asked == []


def test_partitions_that_do_not_exist_are_refused_and_the_others_committed(client: Client) -> None:
    request = txn_offsets()
    request.topics[0].partitions.append(txn_offsets(partition=9).topics[0].partitions[0])
    request.topics += txn_offsets(topic="nowhere").topics

    response = client.ask(request, TxnOffsetCommitResponse, 3)

    found = {
        (topic.name, each.partition_index): each.error_code
        for topic in response.topics
        for each in topic.partitions
    }
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert found == {(TOPIC, 0): 0, (TOPIC, 9): unknown, ("nowhere", 0): unknown}


def test_nothing_to_commit_asks_nobody(client: Client, coordinator: ScriptedCoordinator) -> None:
    nowhere = txn_offsets(topic="nowhere")
    nothing = TxnOffsetCommitRequest(group_id="g", topics=[TxnOffsetCommitRequestTopic(TOPIC)])

    response = client.ask(nowhere, TxnOffsetCommitResponse, 3)
    assert response.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.ask(nothing, TxnOffsetCommitResponse, 3) == TxnOffsetCommitResponse()
    assert coordinator.asked == []


def test_long_metadata_is_refused(client: Client) -> None:
    too_large = ErrorCode.OFFSET_METADATA_TOO_LARGE

    assert commit_in_txn(client, metadata="x" * 4097) == too_large


def test_memory_of_pending_offsets_is_limited() -> None:
    machine = InProcess(settings={"ledgerstone.offsets.max.bytes": "4096"})
    client = machine.connect()
    create_topic(client)
    machine.broker.verification.coordinator = ScriptedCoordinator()

    found = [commit_in_txn(client, f"group-{number}") for number in range(20)]

    assert found[0] == 0
    assert found[-1] == ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    assert commit_in_txn(client, "group-0", 6) == 0
    machine.check_invariants()


# -- in flight --------------------------------------------------------------------------------


@pytest.fixture
def followed(machine: InProcess, client: Client) -> Callable[[], None]:
    """A follower that has nothing until it is told to fetch."""
    commit_offset(client, "g", 1)
    partition = partition_of(machine)
    partition.assume(led_by(1, 1, (1, 2)))
    return lambda: fetched_by(machine, partition, 2)


def test_offsets_are_unstable_from_the_moment_they_are_written(
    machine: InProcess, client: Client, followed: Callable[[], None]
) -> None:
    followed()
    client.send(txn_offsets("g", 5), 3)
    successor = machine.connect()
    successor.send(fetch_request("g", require_stable=True), 8)
    assert not successor.answers

    followed()

    assert client.take(TxnOffsetCommitResponse).topics[0].partitions[0].error_code == 0
    assert told(successor.take(OffsetFetchResponse)) == {0: UNSTABLE}


def test_stable_offsets_are_those_of_the_marker_in_flight(
    machine: InProcess, client: Client, followed: Callable[[], None]
) -> None:
    client.send(txn_offsets("g", 5), 3)
    followed()
    client.take(TxnOffsetCommitResponse)
    client.send(WriteTxnMarkersRequest([marker(topic=OFFSETS)]), 2)
    successor = machine.connect()
    successor.send(fetch_request("g", require_stable=True), 8)
    assert not client.answers

    followed()

    assert marker_codes(client.take(WriteTxnMarkersResponse)) == {PRODUCER: {TP: 0}}
    assert told(successor.take(OffsetFetchResponse)) == {0: 5}


def test_marker_of_a_shard_that_moved_is_for_the_next_one(
    machine: InProcess, client: Client
) -> None:
    commit_offset(client, "g", 1)
    change_partition(machine, TP, replicas=[1, 2], isr=[1, 2])
    client.send(WriteTxnMarkersRequest([marker(topic=OFFSETS)]), 2)

    change_partition(machine, TP, leader=2)

    elsewhere = {PRODUCER: {TP: ErrorCode.NOT_LEADER_OR_FOLLOWER}}
    assert marker_codes(client.take(WriteTxnMarkersResponse)) == elsewhere
    assert end(client) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_marker_of_an_older_coordinator_is_refused_by_a_shard(client: Client) -> None:
    assert commit_in_txn(client) == 0
    assert end(client, coordinator_epoch=3) == 0
    assert commit_in_txn(client) == 0

    assert end(client, coordinator_epoch=2) == ErrorCode.TRANSACTION_COORDINATOR_FENCED

    assert offsets(client, require_stable=True) == {0: UNSTABLE}


def test_offsets_are_known_after_a_restart_where_the_cleaner_emptied_a_marker(
    machine: InProcess, client: Client
) -> None:
    assert commit_in_txn(client, "g", 5) == 0
    assert commit_offset(client, "g", 7) == 0
    assert end(client) == 0
    partition_of(machine).log.roll()
    # Its data goes, it gets a horizon, and the horizon passes. The end of what was cleaned stays.
    for _ in range(3):
        machine.broker.cleaning.ask(TP)
        machine.advance(25 * HOUR_MS)
    headers = list(partition_of(machine).log.segments.first.headers())
    assert [(each.is_control, each.record_count) for each in headers] == [(False, 1), (True, 0)]

    machine.stop()
    machine.start()

    assert offsets(machine.connect()) == {0: 7}
