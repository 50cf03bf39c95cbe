"""The transaction coordinator as clients meet it. The leaders of partitions are stood in for."""

import pytest

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ledgerstone.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ledgerstone.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from ledgerstone.protocol.messages.end_txn import EndTxnResponse
from ledgerstone.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from ledgerstone.protocol.messages.metadata_records import FeatureLevelRecord
from ledgerstone.server.handlers import list_transactions
from ledgerstone.server.http.monitor import samples
from ledgerstone.server.request import Request
from ledgerstone.server.session import Session
from ledgerstone.server.transactions.marking import Retries
from ledgerstone.types import TopicPartition
from tests.kit.in_process import Client, InProcess
from tests.kit.roles import change_partition, fetched_by
from tests.unit.server.asks import TOPIC, create_topic, delete_topic
from tests.unit.server.transactions_kit import (
    ID,
    MarkerWriter,
    TxnProducer,
    find_coordinator,
)

P0, P1 = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
STATE = "__transaction_state"


@pytest.fixture
def writer(machine: InProcess) -> MarkerWriter:
    writer = MarkerWriter()
    machine.broker.transactions.settling.markers = writer
    return writer


@pytest.fixture
def producer(client: Client, writer: MarkerWriter) -> TxnProducer:
    """Has its coordinator and a topic of two partitions."""
    create_topic(client, partitions=2)
    assert find_coordinator(client) == 0
    return TxnProducer(client)


def state_of(producer: TxnProducer) -> str:
    return producer.described().transaction_state


def test_a_transaction_from_its_first_partition_to_its_markers(
    producer: TxnProducer, writer: MarkerWriter
) -> None:
    assert producer.init() == 0
    assert producer.add(P0, P1) == 0
    assert state_of(producer) == "Ongoing"

    assert producer.end(commit=True) == 0

    assert writer.marked == [[P0, P1]]
    (marker,) = writer.requests[0].markers
    assert (marker.producer_id, marker.producer_epoch) == (producer.producer_id, 0)
    assert (marker.transaction_result, marker.transaction_version) == (True, 0)
    assert marker.coordinator_epoch == 0
    assert state_of(producer) == "CompleteCommit"


def test_version_2_hands_out_the_next_epoch(producer: TxnProducer, writer: MarkerWriter) -> None:
    producer.init()
    producer.add(P0)

    assert producer.end(commit=False, version=5) == 0

    assert producer.producer_epoch == 1
    (marker,) = writer.requests[0].markers
    assert (marker.producer_epoch, marker.transaction_result) == (1, False)
    assert marker.transaction_version == 2


def test_the_state_topic_has_kafkas_settings(machine: InProcess, producer: TxnProducer) -> None:
    assert machine.broker.image.topic_config(STATE) == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    }


def test_before_the_state_topic_exists_nobody_coordinates(
    machine: InProcess, client: Client
) -> None:
    producer = TxnProducer(client)

    assert producer.init() == ErrorCode.NOT_COORDINATOR
    assert producer.end(commit=True) == ErrorCode.NOT_COORDINATOR
    assert producer.described().error_code == ErrorCode.NOT_COORDINATOR
    assert STATE not in machine.broker.image.topics


def test_an_empty_id_is_no_id(producer: TxnProducer) -> None:
    nobody = TxnProducer(producer.client, "", 0, 0)

    assert nobody.init() == ErrorCode.INVALID_REQUEST
    assert nobody.end(commit=True) == ErrorCode.INVALID_REQUEST
    assert nobody.described().error_code == ErrorCode.INVALID_REQUEST


def test_before_the_first_transaction_none_is_listed(client: Client) -> None:
    request = ListTransactionsRequest(state_filters=["Ongoing", "Lost"])

    listed = client.ask(request, ListTransactionsResponse)

    assert (listed.error_code, listed.transaction_states) == (0, [])
    assert listed.unknown_state_filters == ["Lost"]


def test_unknown_and_internal_partitions_are_refused_with_the_whole_request(
    producer: TxnProducer,
) -> None:
    producer.init()
    unknown, internal = TopicPartition("nowhere", 0), TopicPartition("__consumer_offsets", 0)

    codes = producer.add_all(P0, unknown, internal)

    assert codes == {
        P0: ErrorCode.OPERATION_NOT_ATTEMPTED,
        unknown: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        internal: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
    assert state_of(producer) == "Empty"


def test_offsets_of_a_group_are_a_partition_like_any_other(
    producer: TxnProducer, writer: MarkerWriter
) -> None:
    producer.init()

    assert producer.add_offsets("readers") == 0
    assert producer.end(commit=True) == 0

    assert [each.topic for each in writer.marked[0]] == ["__consumer_offsets"]


@pytest.mark.parametrize(("version", "code"), [(1, 47), (2, 90), (4, 90)])
def test_old_clients_know_fencing_by_another_code(
    producer: TxnProducer, version: int, code: int
) -> None:
    producer.init()
    TxnProducer(producer.client).init()

    assert producer.end(commit=True, version=version) == code
    assert producer.add_offsets("readers", version=version) == code
    assert producer.add(P0, version=min(version, 3)) == code


@pytest.mark.parametrize(("repeats", "answered"), [(50, 50), (51, 1)])
def test_an_id_that_is_named_too_often_is_described_once(
    producer: TxnProducer, repeats: int, answered: int
) -> None:
    producer.init()
    request = DescribeTransactionsRequest(transactional_ids=[ID, "unknown"] * repeats)

    response = producer.client.ask(request, DescribeTransactionsResponse)

    found = [(each.transactional_id, each.error_code) for each in response.transaction_states]
    assert found == [(ID, 0), ("unknown", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)] * answered


def test_brokers_add_and_verify_for_several_transactions(producer: TxnProducer) -> None:
    producer.init()
    other = TxnProducer(producer.client, "others")
    other.init()

    def asked(who: TxnProducer, *, verify_only: bool) -> AddPartitionsToTxnTransaction:
        topic = AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])
        return AddPartitionsToTxnTransaction(
            who.transactional_id, who.producer_id, who.producer_epoch, verify_only, [topic]
        )

    request = AddPartitionsToTxnRequest(
        transactions=[asked(producer, verify_only=False), asked(other, verify_only=True)]
    )
    response = producer.client.ask(request, AddPartitionsToTxnResponse, 5)

    assert response.error_code == 0
    assert [
        (each.transactional_id, each.topic_results[0].results_by_partition[0].partition_error_code)
        for each in response.results_by_transaction
    ] == [(ID, 0), ("others", ErrorCode.TRANSACTION_ABORTABLE)]


def test_a_marker_that_is_refused_is_written_again(
    machine: InProcess, producer: TxnProducer, writer: MarkerWriter
) -> None:
    producer.init()
    producer.add(P0, P1)
    writer.codes[P1] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert producer.end(commit=True) == 0
    described = producer.described()
    assert described.transaction_state == "PrepareCommit"
    assert described.topics[0].partitions == [1]

    machine.advance(200)
    writer.codes.clear()
    machine.advance(400)

    assert writer.marked == [[P0, P1], [P1], [P1], [P1]]
    assert state_of(producer) == "CompleteCommit"


def test_a_partition_that_is_deleted_needs_no_marker(
    machine: InProcess, producer: TxnProducer, writer: MarkerWriter
) -> None:
    producer.init()
    producer.add(P0)
    writer.codes[P0] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    producer.end(commit=True)

    delete_topic(producer.client)
    machine.tick()

    assert state_of(producer) == "CompleteCommit"


@pytest.mark.parametrize(
    "code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED]
)
def test_a_fenced_coordinator_writes_no_more(
    machine: InProcess, producer: TxnProducer, writer: MarkerWriter, code: int
) -> None:
    producer.init()
    producer.add(P0)
    writer.codes[P0] = code
    producer.end(commit=True)

    machine.advance(60_000)

    assert len(writer.requests) == 1
    assert state_of(producer) == "PrepareCommit"


def test_while_leaders_are_slow_the_next_transaction_waits(
    machine: InProcess, producer: TxnProducer, writer: MarkerWriter
) -> None:
    producer.init()
    producer.add(P0)
    writer.is_slow = True
    assert producer.end(commit=True) == 0

    assert producer.add(P0) == ErrorCode.CONCURRENT_TRANSACTIONS
    writer.release()
    assert producer.add(P0) == 0


def test_a_restart_writes_the_markers_again(machine: InProcess, producer: TxnProducer) -> None:
    producer.init()
    producer.add(P0, P1)
    machine.broker.transactions.settling.markers = slow = MarkerWriter(is_slow=True)
    producer.end(commit=True)

    machine.kill()
    machine.broker.transactions.settling.markers = writer = MarkerWriter()
    machine.tick()

    assert writer.marked == slow.marked == [[P0, P1]]
    # The broker did not stop cleanly, so its partitions have a new leader epoch.
    assert writer.requests[0].markers[0].coordinator_epoch == 1
    producer = TxnProducer(machine.connect())
    assert state_of(producer) == "CompleteCommit"
    assert producer.init() == 0
    assert producer.producer_epoch == 1


def test_a_transaction_that_takes_too_long_is_aborted(
    machine: InProcess, producer: TxnProducer, writer: MarkerWriter
) -> None:
    producer.init(timeout_ms=5000)
    producer.add(P0)

    machine.advance(5000)
    assert state_of(producer) == "Ongoing"
    machine.advance(10_001)

    assert state_of(producer) == "CompleteAbort"
    assert writer.requests[0].markers[0].producer_epoch == 1
    assert producer.end(commit=True) == ErrorCode.PRODUCER_FENCED


def test_ids_are_forgotten_after_a_week(machine: InProcess, producer: TxnProducer) -> None:
    producer.init()

    machine.jump(days=8)

    # The connection was closed meanwhile.
    producer = TxnProducer(machine.connect())
    assert producer.described().error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    machine.kill()
    producer = TxnProducer(machine.connect())
    assert producer.described().error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_transactions_are_listed_by_state_producer_and_duration(
    machine: InProcess, producer: TxnProducer
) -> None:
    producer.init()
    producer.add(P0)
    other = TxnProducer(producer.client, "others")
    other.init()
    machine.clock.advance(ms=1000)

    def listed(**filters: object) -> list[str]:
        request = ListTransactionsRequest(**filters)  # type: ignore[arg-type]
        response = producer.client.ask(request, ListTransactionsResponse)
        assert response.error_code == 0
        return sorted(each.transactional_id for each in response.transaction_states)

    assert listed() == ["others", ID]
    assert listed(state_filters=["Ongoing"]) == [ID]
    assert listed(state_filters=["Nowhere"]) == []
    assert listed(producer_id_filters=[other.producer_id]) == ["others"]
    assert listed(duration_filter=999, state_filters=["Ongoing"]) == [ID]
    assert listed(duration_filter=1000, state_filters=["Ongoing"]) == []
    assert listed(transactional_id_pattern="o.*s") == ["others"]
    assert listed(transactional_id_pattern="o") == []


def test_a_broker_with_transactions_says_so(client: Client) -> None:
    request = ApiVersionsRequest(client_software_name="t", client_software_version="1")

    newest = client.ask(request, ApiVersionsResponse, 4)
    older = client.ask(request, ApiVersionsResponse, 3)

    assert ("transaction.version", 2, 2) in [
        (each.name, each.max_version_level, each.min_version_level)
        for each in older.finalized_features
    ]
    supported = [
        (each.name, each.min_version, each.max_version) for each in newest.supported_features
    ]
    assert ("transaction.version", 0, 2) in supported
    # Clients of version 3 cannot read a feature that begins at 0.
    assert [each.name for each in older.supported_features] == ["metadata.version"]


def test_a_directory_of_an_older_release_learns_the_feature_at_its_start(
    machine: InProcess, client: Client
) -> None:
    name = "transaction.version"
    machine.broker.controller_link.write([FeatureLevelRecord(name=name, feature_level=0)])
    assert name not in machine.broker.image.features

    machine.kill()

    assert machine.broker.image.features == {"metadata.version": 30, name: 2}
    machine.kill()
    assert machine.broker.image.features[name] == 2


def test_metrics_count_ids_open_transactions_and_what_waits(
    machine: InProcess, producer: TxnProducer, writer: MarkerWriter
) -> None:
    producer.init(timeout_ms=5000)
    producer.add(P0)
    TxnProducer(producer.client, "others").init()
    machine.clock.advance(ms=3000)

    def value(name: str, **labels: str) -> float:
        wanted = tuple(labels.items())
        (found,) = (
            each.value
            for each in samples(machine.broker)
            if each.name == name and each.labels == wanted
        )
        return found

    assert value("ledgerstone_transactional_ids", state="Ongoing") == 1
    assert value("ledgerstone_transactional_ids", state="Empty") == 1
    assert value("ledgerstone_transactional_ids", state="PrepareAbort") == 0
    assert value("ledgerstone_transactions_open") == 1
    assert value("ledgerstone_transactions_open_oldest_seconds") == 3
    assert value("ledgerstone_transaction_memory_bytes") > 1800
    waiting = (
        "kafka_coordinator_transaction_transactionmarkerchannelmanager_unknowndestinationqueuesize"
    )
    assert value(waiting) == 0

    writer.codes[P0] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    machine.advance(20_000)
    assert value("ledgerstone_transactions_timed_out_total") == 1
    assert value(waiting) == 1
    assert value("ledgerstone_transactions_open") == 0


# -- a replicated log: nothing is true before it is committed --------------------------------


def test_answers_wait_for_the_replicas(
    machine: InProcess, producer: TxnProducer, writer: MarkerWriter
) -> None:
    producer.init()
    producer.add(P0)
    number = machine.broker.transactions.topic.number_for(ID)
    partition = machine.broker.partitions.get(TopicPartition(STATE, number))
    change_partition(machine, partition.topic_partition, leader=1, isr=[1, 2], replicas=[1, 2])
    fetched_by(machine, partition, 2)

    producer.client.send(producer.end_request(commit=True))
    assert producer.client.is_waiting
    assert not writer.requests

    fetched_by(machine, partition, 2)
    assert producer.client.take(EndTxnResponse).error_code == 0
    assert writer.marked == [[P0]]


def test_a_lost_leadership_sends_everyone_to_the_next_coordinator(
    machine: InProcess, producer: TxnProducer, writer: MarkerWriter
) -> None:
    producer.init()
    producer.add(P0)
    number = machine.broker.transactions.topic.number_for(ID)
    partition = machine.broker.partitions.get(TopicPartition(STATE, number))
    change_partition(machine, partition.topic_partition, leader=1, isr=[1, 2], replicas=[1, 2])
    fetched_by(machine, partition, 2)
    producer.client.send(producer.end_request(commit=True))

    change_partition(machine, partition.topic_partition, leader=2)

    assert producer.client.take(EndTxnResponse).error_code == ErrorCode.NOT_COORDINATOR
    assert producer.init() == ErrorCode.NOT_COORDINATOR
    assert not writer.requests
    assert machine.broker.transactions.memory.held_bytes == 0


class _Time(int):
    """Counts how often times are compared."""

    compared = 0

    def __lt__(self, other: int) -> bool:
        _Time.compared += 1
        return int.__lt__(self, other)


def test_work_for_transactions_that_wait_grows_with_their_number_alone() -> None:
    """A leader that is away holds up every transaction it has a partition of."""
    retries, now_ms, count = Retries(), _Time(5), 500

    for number in range(count):
        retries.soon(0, f"id-{number}", now_ms)
    next_ms = retries.next_deadline_ms
    for key in retries.due(now_ms):
        retries.forget(*key)

    assert next_ms == now_ms
    assert retries.next_deadline_ms is None
    assert _Time.compared <= 2 * count


class _Id(int):
    """Counts how often ids are compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        _Id.compared += 1
        return int.__eq__(self, other)

    __hash__ = int.__hash__


def test_work_for_a_filter_does_not_grow_with_the_transactions(
    machine: InProcess, producer: TxnProducer
) -> None:
    """Both may be very many, and one thread serves everybody."""
    for number in range(5):
        assert TxnProducer(producer.client, f"txn-{number}").init() == 0
    ids: list[int] = [_Id(number) for number in range(100_000, 100_500)]
    message = ListTransactionsRequest(producer_id_filters=ids)
    session = Session("host")

    answer = list_transactions.handle(
        machine.broker, Request(1, 66, 2, 0, None, session, 0), message
    )

    assert isinstance(answer, ListTransactionsResponse)
    assert answer.transaction_states == []
    assert _Id.compared <= len(ids)
