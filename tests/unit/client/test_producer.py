"""Records on their way to a log: batches, partitions, repetitions, refusals."""

import pytest

from ledgerstone.client.errors import CallTimedOut
from ledgerstone.client.partitioner import partition_of
from ledgerstone.client.producer import NewRecord, Placed, Producer, ProducerConfig
from ledgerstone.client.session import SessionConfig
from ledgerstone.errors import ConfigError, InvalidRecord
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from ledgerstone.protocol.messages.produce import (
    ProducePartitionResponse,
    ProduceRecordError,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicResponse,
)
from ledgerstone.records.batch import Codec, read_header
from ledgerstone.records.record import Record, iter_records
from ledgerstone.sim.clock import DEFAULT_START_MS
from ledgerstone.types import NO_OFFSET, TopicPartition
from tests.unit.client.fake_cluster import FakeCluster

P0 = TopicPartition("t", 0)


def cluster_of(*leaders: int) -> FakeCluster:
    cluster = FakeCluster(sorted(set(leaders)))
    cluster.topic("t", leaders)
    return cluster


def records_in(cluster: FakeCluster, partition: TopicPartition = P0) -> list[Record]:
    return [record for batch in cluster.logs[partition].batches for record in iter_records(batch)]


def refused(code: int, message: str | None = None) -> ProduceResponse:
    answer = ProducePartitionResponse(index=0, error_code=code, error_message=message)
    return ProduceResponse(responses=[ProduceTopicResponse("t", partition_responses=[answer])])


def test_record_arrives_as_it_was_given() -> None:
    cluster = cluster_of(1)
    new = NewRecord("t", b"k", b"v", headers=(("h", b"x"), ("n", None)), timestamp_ms=5)

    with cluster.client() as client:
        placed = Producer(client).send([new])

    assert placed == [Placed(P0, 0, 5)]
    assert records_in(cluster) == [Record(0, 5, b"k", b"v", (("h", b"x"), ("n", None)))]


def test_tombstone_has_no_value_and_an_empty_value_is_no_tombstone() -> None:
    cluster = cluster_of(1)

    with cluster.client() as client:
        Producer(client).send([NewRecord("t", b"k", None), NewRecord("t", b"k", b"")])

    assert [record.value for record in records_in(cluster)] == [None, b""]


def test_record_without_a_time_gets_the_clocks() -> None:
    cluster = cluster_of(1)

    with cluster.client() as client:
        Producer(client).send([NewRecord("t", b"k", b"v")])

    assert records_in(cluster)[0].timestamp == DEFAULT_START_MS


def test_answers_come_in_the_order_of_the_records() -> None:
    cluster = cluster_of(1, 2, 1)
    keys = [b"%d" % number for number in range(20)]

    with cluster.client() as client:
        placed = Producer(client).send([NewRecord("t", key, key) for key in keys])

    for key, where in zip(keys, placed, strict=True):
        assert isinstance(where, Placed)
        assert where.partition.partition == partition_of(key, 3)
        assert records_in(cluster, where.partition)[where.offset].key == key


def test_explicit_partition_wins_over_the_keys() -> None:
    cluster = cluster_of(1, 1, 1)

    with cluster.client() as client:
        placed = Producer(client).send([NewRecord("t", b"k", b"v", partition=n) for n in range(3)])

    partitions = [each.partition.partition for each in placed if isinstance(each, Placed)]
    assert partitions == [0, 1, 2]


def test_one_request_carries_one_batch_per_partition() -> None:
    cluster = cluster_of(1)
    config = ProducerConfig(batch_bytes=100)

    with cluster.client() as client:
        placed = Producer(client, config).send([NewRecord("t", b"k", b"x" * 40)] * 4)

    assert len(cluster.asked(ProduceRequest)) == 4
    assert [each.offset for each in placed if isinstance(each, Placed)] == [0, 1, 2, 3]


def test_codec_is_the_one_asked_for() -> None:
    cluster = cluster_of(1)

    with cluster.client() as client:
        Producer(client, ProducerConfig(codec=Codec.ZSTD)).send([NewRecord("t", b"k", b"v" * 99)])

    (batch,) = cluster.logs[P0].batches
    assert read_header(batch).codec is Codec.ZSTD


def test_without_acks_nobody_knows_the_offset() -> None:
    cluster = cluster_of(1)

    with cluster.client() as client:
        placed = Producer(client, ProducerConfig(acks=0)).send([NewRecord("t", b"k", b"v")])

    assert placed == [Placed(P0, NO_OFFSET, DEFAULT_START_MS)]
    assert len(records_in(cluster)) == 1


def test_passing_refusal_is_repeated_with_the_same_bytes() -> None:
    cluster = cluster_of(1)
    cluster.once(ProduceRequest, refused(ErrorCode.NOT_ENOUGH_REPLICAS))

    with cluster.client() as client:
        placed = Producer(client, ProducerConfig(idempotent=True)).send(
            [NewRecord("t", b"k", b"v")]
        )

    first, second = (each for _, each in cluster.requests if isinstance(each, ProduceRequest))
    assert first == second
    assert placed == [Placed(P0, 0, DEFAULT_START_MS)]


def test_idempotent_batches_count_their_records() -> None:
    cluster = cluster_of(1)

    with cluster.client() as client:
        producer = Producer(client, ProducerConfig(idempotent=True))
        producer.send([NewRecord("t", b"k", b"v")] * 3)
        producer.send([NewRecord("t", b"k", b"v")])

    headers = [read_header(batch) for batch in cluster.logs[P0].batches]
    assert [(each.producer_id, each.base_sequence) for each in headers] == [(4000, 0), (4000, 3)]
    assert len(cluster.asked(InitProducerIdRequest)) == 1


def test_idempotent_producer_takes_a_new_id_after_a_failure() -> None:
    cluster = cluster_of(1)
    record = NewRecord("t", b"k", b"v")

    with cluster.client() as client:
        producer = Producer(client, ProducerConfig(idempotent=True))
        producer.send([record])
        cluster.once(ProduceRequest, refused(ErrorCode.MESSAGE_TOO_LARGE))
        producer.send([record])
        producer.send([record])

    assert len(cluster.asked(InitProducerIdRequest)) == 2
    assert [read_header(each).base_sequence for each in cluster.logs[P0].batches] == [0, 0]


def test_duplicate_is_taken_for_written() -> None:
    cluster = cluster_of(1)
    answer = ProducePartitionResponse(
        index=0, error_code=ErrorCode.DUPLICATE_SEQUENCE_NUMBER, base_offset=-1
    )
    topic = ProduceTopicResponse("t", partition_responses=[answer])
    cluster.once(ProduceRequest, ProduceResponse(responses=[topic]))

    with cluster.client() as client:
        placed = Producer(client, ProducerConfig(idempotent=True)).send(
            [NewRecord("t", b"k", b"v")]
        )

    assert placed == [Placed(P0, NO_OFFSET, DEFAULT_START_MS)]


def test_refusal_names_the_record_to_blame_and_stops_its_partition() -> None:
    cluster = cluster_of(1)
    answer = ProducePartitionResponse(
        index=0,
        error_code=ErrorCode.INVALID_RECORD,
        error_message="compacted",
        record_errors=[ProduceRecordError(0, "no key")],
    )
    topic = ProduceTopicResponse("t", partition_responses=[answer])
    cluster.once(ProduceRequest, ProduceResponse(responses=[topic]))
    config = ProducerConfig(batch_bytes=1)

    with cluster.client() as client:
        outcomes = Producer(client, config).send([NewRecord("t", b"k", b"v")] * 3)

    assert [type(each) for each in outcomes] == [InvalidRecord] * 3
    assert "compacted; record 0: no key" in str(outcomes[0])
    assert records_in(cluster) == []


def test_failure_of_one_partition_leaves_the_others_alone() -> None:
    cluster = cluster_of(1, 2)
    cluster.once(ProduceRequest, refused(ErrorCode.MESSAGE_TOO_LARGE))

    with cluster.client() as client:
        new = [NewRecord("t", b"k", b"v", partition=number) for number in range(2)]
        first, second = Producer(client).send(new)

    assert not isinstance(first, Placed)
    assert second == Placed(TopicPartition("t", 1), 0, DEFAULT_START_MS)


def test_idempotence_without_all_acks_is_refused() -> None:
    cluster = cluster_of(1)

    with cluster.client() as client, pytest.raises(ConfigError, match="acks=1"):
        Producer(client, ProducerConfig(idempotent=True, acks=1))


def test_idempotent_producer_takes_a_new_id_after_a_send_that_no_broker_answered() -> None:
    cluster = cluster_of(1)
    config = SessionConfig(call_timeout_ms=2_000)
    log = cluster.logs[P0]

    def written_and_gone(request: ApiMessage) -> Exception:
        assert isinstance(request, ProduceRequest)
        records = request.topic_data[0].partition_data[0].records
        assert isinstance(records, memoryview)
        log.append(records)
        cluster.down.append(cluster.nodes[1])
        return ConnectionResetError(104, "Connection reset by peer")

    with cluster.client(config) as client:
        producer = Producer(client, ProducerConfig(idempotent=True))
        cluster.once(ProduceRequest, written_and_gone)
        with pytest.raises(CallTimedOut):
            producer.send([NewRecord("t", b"k", b"first")])
        cluster.down.clear()
        cluster.once(
            InitProducerIdRequest, InitProducerIdResponse(producer_id=4001, producer_epoch=0)
        )
        producer.send([NewRecord("t", b"k", b"second")])

    # With the numbers of the first, a leader would take the second for the first.
    headers = [read_header(each) for each in log.batches]
    assert [(each.producer_id, each.base_sequence) for each in headers] == [(4000, 0), (4001, 0)]
