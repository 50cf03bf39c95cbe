"""WriteTxnMarkers: how transactions end in partitions, and what readers then see."""

import pytest

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersRequestTopic,
    DescribeProducersResponse,
)
from ledgerstone.protocol.messages.fetch import FetchPartitionResponse, FetchResponse
from ledgerstone.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponse,
)
from ledgerstone.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ledgerstone.records.batch import iter_headers
from ledgerstone.records.control import ControlType, read_control_record
from ledgerstone.replication.partition import Partition
from ledgerstone.server.http.monitor import samples
from ledgerstone.storage.log_reader import collect_aborted, read
from ledgerstone.types import TopicPartition
from tests.kit.in_process import Client, InProcess
from tests.kit.roles import change_partition, fetched_by, led_by
from tests.unit.server.asks import BY_NAME, TOPIC, create_topic, end_offset, fetch, write
from tests.unit.server.txn_asks import (
    PRODUCER,
    V1,
    V2,
    ScriptedCoordinator,
    end_txn,
    marker,
    marker_codes,
    produce_in_txn,
    txn_batch,
)

TP = TopicPartition(TOPIC, 0)
READ_COMMITTED = 1


@pytest.fixture(autouse=True)
def topic(machine: InProcess, client: Client) -> None:
    create_topic(client, partitions=2)
    machine.broker.verification.coordinator = ScriptedCoordinator()


def partition_of(machine: InProcess) -> Partition:
    return machine.broker.partitions.get(TP)


def headers(machine: InProcess) -> list[tuple[int, bool, int]]:
    """Offset, whether it is a control batch, epoch: of each batch."""
    log = partition_of(machine).log
    piece = read(log, log.log_start_offset, max_bytes=1 << 20).slice
    assert piece is not None
    return [
        (header.base_offset, header.is_control, header.producer_epoch)
        for _, header in iter_headers(piece.read())
    ]


def fetched_committed(client: Client, offset: int = 0) -> FetchPartitionResponse:
    request = fetch({0: offset}, isolation_level=READ_COMMITTED)
    return client.ask(request, FetchResponse, BY_NAME).responses[0].partitions[0]


def latest(client: Client, isolation: int) -> int:
    asked = ListOffsetsRequestPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation, topics=[ListOffsetsRequestTopic(TOPIC, [asked])]
    )
    return client.ask(request, ListOffsetsResponse).topics[0].partitions[0].offset


def aborted_in(answer: FetchPartitionResponse) -> list[tuple[int, int]]:
    return [(each.producer_id, each.first_offset) for each in answer.aborted_transactions or []]


# -- what is written --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("commit", "kind"), [(True, ControlType.COMMIT), (False, ControlType.ABORT)]
)
def test_marker_is_a_control_batch_of_78_bytes(
    machine: InProcess, client: Client, commit: bool, kind: ControlType
) -> None:
    produce_in_txn(client, txn_batch())

    assert end_txn(client, commit=commit, coordinator_epoch=7) == 0

    piece = read(partition_of(machine).log, 1, max_bytes=1000).slice
    assert piece is not None
    data = piece.read()
    ((_, header),) = iter_headers(data)
    control = read_control_record(data)
    assert len(data) == 78
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (PRODUCER, 0, -1)
    assert header.is_transactional
    assert (control.type, control.coordinator_epoch) == (kind, 7)


def test_markers_of_several_producers_and_partitions_are_answered_together(
    machine: InProcess, client: Client
) -> None:
    produce_in_txn(client, {0: txn_batch(), 1: txn_batch()})
    request = WriteTxnMarkersRequest(
        [
            marker(partitions=(0, 1, 9)),
            marker(producer_id=7, topic="nowhere", commit=False),
            marker(producer_id=8, partitions=()),
            marker(partitions=(0,), coordinator_epoch=-5),
        ]
    )

    response = client.ask(request, WriteTxnMarkersResponse, 2)

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert marker_codes(response) == {
        PRODUCER: {
            TP: ErrorCode.TRANSACTION_COORDINATOR_FENCED,
            TopicPartition(TOPIC, 1): 0,
            TopicPartition(TOPIC, 9): unknown,
        },
        7: {TopicPartition("nowhere", 0): unknown},
    }
    assert end_offset(machine) == 2


def test_request_without_markers_is_answered(client: Client) -> None:
    request = WriteTxnMarkersRequest([])

    assert client.ask(request, WriteTxnMarkersResponse, 1) == WriteTxnMarkersResponse()


def test_marker_without_data_is_written_and_not_indexed(machine: InProcess, client: Client) -> None:
    write(client, "a")

    assert end_txn(client, commit=False) == 0

    log = partition_of(machine).log
    assert headers(machine) == [(0, False, -1), (1, True, 0)]
    assert log.last_stable_offset == 2
    assert collect_aborted(log, 0, 2) == ()


# -- epochs -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "epoch", "told"),
    [
        (0, 0, 0),
        (0, 1, 0),
        (1, 0, 0),
        (2, 1, 0),
        (2, 0, ErrorCode.INVALID_PRODUCER_EPOCH),
        (0, -1, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, -1, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_open_transaction_is_ended_by_its_epoch_or_in_version_2_by_a_newer_one(
    machine: InProcess, client: Client, version: int, epoch: int, told: int
) -> None:
    produce_in_txn(client, txn_batch())

    assert end_txn(client, epoch=epoch, version=version) == told

    assert partition_of(machine).log.last_stable_offset == (0 if told else 2)


def test_repeated_marker_of_version_2_is_accepted_and_written_again(
    machine: InProcess, client: Client
) -> None:
    produce_in_txn(client, txn_batch(), V2)
    assert end_txn(client, epoch=1, version=2) == 0

    assert end_txn(client, epoch=1, version=2) == 0

    assert headers(machine) == [(0, False, 0), (1, True, 1), (2, True, 1)]
    assert partition_of(machine).log.last_stable_offset == 3


def test_late_marker_of_version_2_does_not_end_the_next_transaction(
    machine: InProcess, client: Client
) -> None:
    produce_in_txn(client, txn_batch(), V2)
    assert end_txn(client, epoch=1, version=2) == 0
    produce_in_txn(client, txn_batch(epoch=1), V2)

    assert end_txn(client, epoch=1, version=2) == ErrorCode.INVALID_PRODUCER_EPOCH

    assert partition_of(machine).log.last_stable_offset == 2


def test_late_marker_of_version_1_ends_the_next_transaction_as_in_kafka(
    machine: InProcess, client: Client
) -> None:
    """What KIP-890 mends with version 2, and a broker cannot mend without the client."""
    produce_in_txn(client, txn_batch(0), V1)
    assert end_txn(client) == 0
    produce_in_txn(client, txn_batch(1), V1)

    assert end_txn(client) == 0

    assert partition_of(machine).log.last_stable_offset == 4


def test_largest_epoch_ends_a_transaction_of_its_own(machine: InProcess, client: Client) -> None:
    produce_in_txn(client, txn_batch(epoch=32767), V2)

    assert end_txn(client, epoch=32767, version=2) == 0

    assert partition_of(machine).log.last_stable_offset == 2


def test_older_coordinator_is_fenced_also_after_a_restart(
    machine: InProcess, client: Client
) -> None:
    produce_in_txn(client, txn_batch(0))
    assert end_txn(client, coordinator_epoch=5) == 0
    machine.kill()
    client = machine.connect()
    machine.broker.verification.coordinator = ScriptedCoordinator()
    produce_in_txn(client, txn_batch(1))

    fenced = end_txn(client, coordinator_epoch=4)

    assert fenced == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert end_txn(client, coordinator_epoch=5) == 0


# -- replicas ---------------------------------------------------------------------------------


def test_marker_is_answered_once_it_is_committed(machine: InProcess, client: Client) -> None:
    partition = partition_of(machine)
    partition.assume(led_by(1, 1, (1, 2)))
    client.send(WriteTxnMarkersRequest([marker(partitions=(0, 1))]), 2)
    assert not client.answers

    fetched_by(machine, partition, 2)

    found = marker_codes(client.take(WriteTxnMarkersResponse))
    assert found == {PRODUCER: {TP: 0, TopicPartition(TOPIC, 1): 0}}


def test_marker_is_not_the_end_before_every_replica_has_it(
    machine: InProcess, client: Client
) -> None:
    partition = partition_of(machine)
    produce_in_txn(client, txn_batch())
    partition.assume(led_by(1, 1, (1, 2)))
    client.send(WriteTxnMarkersRequest([marker()]), 2)
    assert partition.log.last_stable_offset == 0

    fetched_by(machine, partition, 2)

    assert partition.log.last_stable_offset == 2


def test_marker_of_a_lost_partition_is_for_its_next_leader(
    machine: InProcess, client: Client
) -> None:
    change_partition(machine, TP, replicas=[1, 2], isr=[1, 2])
    client.send(WriteTxnMarkersRequest([marker()]), 2)
    assert not client.answers

    change_partition(machine, TP, leader=2)

    found = marker_codes(client.take(WriteTxnMarkersResponse))
    assert found == {PRODUCER: {TP: ErrorCode.NOT_LEADER_OR_FOLLOWER}}
    assert end_txn(client) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_marker_that_replicas_never_take_is_answered_after_half_a_minute(
    machine: InProcess, client: Client
) -> None:
    partition_of(machine).assume(led_by(1, 1, (1, 2)))
    client.send(WriteTxnMarkersRequest([marker()]), 2)

    machine.advance(30_000)

    found = marker_codes(client.take(WriteTxnMarkersResponse))
    assert found == {PRODUCER: {TP: ErrorCode.REQUEST_TIMED_OUT}}


# -- readers ----------------------------------------------------------------------------------


def test_reader_of_committed_data_stops_at_the_open_transaction(client: Client) -> None:
    write(client, "a")
    produce_in_txn(client, txn_batch())
    write(client, "b")

    answer = fetched_committed(client)

    assert (answer.last_stable_offset, answer.high_watermark) == (1, 3)
    assert (latest(client, READ_COMMITTED), latest(client, 0)) == (1, 3)
    assert fetched_committed(client, 1).records == b""


def test_interleaved_transactions_hold_readers_back_until_both_are_decided(
    machine: InProcess, client: Client
) -> None:
    produce_in_txn(client, txn_batch(producer_id=1))
    produce_in_txn(client, txn_batch(producer_id=2))
    produce_in_txn(client, txn_batch(1, producer_id=1))

    assert end_txn(client, producer_id=2, commit=False) == 0
    held_back = latest(client, READ_COMMITTED)
    assert end_txn(client, producer_id=1) == 0

    assert (held_back, latest(client, READ_COMMITTED)) == (0, 5)
    assert aborted_in(fetched_committed(client)) == [(2, 1)]


def test_waiting_reader_wakes_at_the_marker_with_the_list_of_what_was_aborted(
    machine: InProcess, client: Client
) -> None:
    produce_in_txn(client, txn_batch(0))
    reader = machine.connect()
    request = fetch({0: 0}, isolation_level=READ_COMMITTED, max_wait_ms=10_000, min_bytes=1)
    reader.send(request, BY_NAME)
    produce_in_txn(client, txn_batch(1))
    assert not reader.answers

    assert end_txn(client, commit=False) == 0

    answer = reader.take(FetchResponse).responses[0].partitions[0]
    assert answer.last_stable_offset == 3
    assert aborted_in(answer) == [(PRODUCER, 0)]


def test_waiting_reader_is_not_woken_by_what_is_committed_but_undecided(
    machine: InProcess, client: Client
) -> None:
    partition = partition_of(machine)
    produce_in_txn(client, txn_batch(0))
    partition.assume(led_by(1, 1, (1, 2)))
    fetched_by(machine, partition, 2)
    reader = machine.connect()
    request = fetch({0: 0}, isolation_level=READ_COMMITTED, max_wait_ms=10_000, min_bytes=1)
    reader.send(request, BY_NAME)
    write(client, "plain")
    fetched_by(machine, partition, 2)
    client.send(WriteTxnMarkersRequest([marker()]), 2)
    assert not reader.answers

    fetched_by(machine, partition, 2)

    assert reader.take(FetchResponse).responses[0].partitions[0].last_stable_offset == 3


@pytest.mark.parametrize(
    ("offset", "listed"), [(0, True), (1, True), (2, True), (3, False), (4, False)]
)
def test_aborted_transaction_is_listed_as_long_as_its_marker_lies_ahead(
    client: Client, offset: int, listed: bool
) -> None:
    for sequence in range(2):
        produce_in_txn(client, txn_batch(sequence))
    assert end_txn(client, commit=False) == 0  # at 2
    produce_in_txn(client, txn_batch(2))
    assert end_txn(client) == 0

    found = aborted_in(fetched_committed(client, offset))

    assert found == ([(PRODUCER, 0)] if listed else [])


def test_producers_are_described_with_their_open_transactions(client: Client) -> None:
    produce_in_txn(client, txn_batch(0))
    assert end_txn(client, coordinator_epoch=3) == 0
    produce_in_txn(client, txn_batch(1))
    request = DescribeProducersRequest([DescribeProducersRequestTopic(TOPIC, [0])])

    response = client.ask(request, DescribeProducersResponse)

    (found,) = response.topics[0].partitions[0].active_producers
    assert (found.producer_id, found.producer_epoch, found.last_sequence) == (PRODUCER, 0, 1)
    assert (found.coordinator_epoch, found.current_txn_start_offset) == (3, 2)


def test_transaction_that_nobody_ends_is_counted_until_somebody_does(
    machine: InProcess, client: Client
) -> None:
    """As `kafka-transactions abort` ends one that its coordinator does not know."""
    records = txn_batch(timestamp=machine.clock.now_ms())
    assert produce_in_txn(client, records) == {0: 0}

    def late() -> float:
        name = "kafka_server_replicamanager_partitionswithlatetransactionscount"
        (found,) = [each.value for each in samples(machine.broker) if each.name == name]
        return found

    machine.advance(20 * 60_000)
    before = late()
    machine.advance(1)
    hanging = late()
    assert end_txn(machine.connect(), commit=False, version=0) == 0

    assert (before, hanging, late()) == (0, 1, 0)
    assert latest(machine.connect(), READ_COMMITTED) == 2
