"""A task that runs again after an attempt of it wrote some of its rows."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from ledgerstone.protocol.messages.produce import (
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicResponse,
)
from ledgerstone.records.record import iter_records
from ledgerstone.spark.decision import WriteId
from ledgerstone.spark.errors import WriteFailed
from ledgerstone.spark.outgoing import outgoing_rows
from ledgerstone.spark.sink import TaskWriter
from ledgerstone.spark.write_options import write_columns, write_options
from ledgerstone.types import TopicPartition
from tests.unit.client.fake_cluster import FakeCluster

HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("partition", IntegerType()),
        StructField("headers", ArrayType(HEADER)),
    ]
)
OPTIONS = write_options({"kafka.bootstrap.servers": "nowhere", "topic": "t"}, overwrite=False)

Row = tuple[bytes, bytes | None, int | None, Sequence[tuple[str, bytes]]]


def attempt(cluster: FakeCluster, producer_id: int, rows: Sequence[Row]) -> None:
    names = ("key", "value", "partition", "headers")
    content: list[dict[str, Any]] = [
        dict(zip(names, (*row[:3], [{"key": n, "value": v} for n, v in row[3]]), strict=True))
        for row in rows
    ]
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    kinds = (pa.binary(), pa.binary(), pa.int32(), pa.list_(header))
    batch = pa.RecordBatch.from_pylist(
        content, schema=pa.schema(list(zip(names, kinds, strict=True)))
    )
    cluster.once(
        InitProducerIdRequest, InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
    )
    with cluster.client() as client:
        writer = TaskWriter(client, OPTIONS, WriteId("query", 0, 0))
        writer.write(outgoing_rows(batch, write_columns(SCHEMA, OPTIONS), OPTIONS, now_ms=0))


def values_and_headers(cluster: FakeCluster, number: int) -> list[tuple[object, object]]:
    batches = cluster.logs[TopicPartition("t", number)].batches
    return [(each.value, each.headers) for batch in batches for each in iter_records(batch)]


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    made.topic("t", [1, 1])
    return made


def test_row_for_one_partition_is_not_taken_for_its_twin_in_another(cluster: FakeCluster) -> None:
    rows: list[Row] = [(b"k", b"v", 0, ()), (b"k", b"v", 1, ())]

    def taken_by_the_second(request: ApiMessage) -> ProduceResponse:
        assert isinstance(request, ProduceRequest)
        (first, second) = request.topic_data[0].partition_data
        assert isinstance(second.records, memoryview)
        cluster.logs[TopicPartition("t", 1)].append(second.records)
        too_large = int(ErrorCode.MESSAGE_TOO_LARGE)
        answers = [
            ProducePartitionResponse(index=first.index, error_code=too_large),
            ProducePartitionResponse(index=second.index, base_offset=0),
        ]
        return ProduceResponse(responses=[ProduceTopicResponse("t", partition_responses=answers)])

    cluster.once(ProduceRequest, taken_by_the_second)
    with pytest.raises(WriteFailed):
        attempt(cluster, 7, rows)
    attempt(cluster, 8, rows)

    assert values_and_headers(cluster, 0) == [(b"v", ())]
    assert values_and_headers(cluster, 1) == [(b"v", ())]


def test_row_is_not_taken_for_one_with_other_headers(cluster: FakeCluster) -> None:
    made: Row = (b"k", b"v", 0, [("event", b"made")])
    paid: Row = (b"k", b"v", 0, [("event", b"paid")])

    attempt(cluster, 7, [paid])
    attempt(cluster, 8, [made, paid])

    found = [headers for _, headers in values_and_headers(cluster, 0)]
    assert found == [(("event", b"paid"),), (("event", b"made"),)]


def test_partition_below_zero_is_refused_and_not_taken_for_none(cluster: FakeCluster) -> None:
    with pytest.raises(WriteFailed, match="a row asks for partition -1"):
        attempt(cluster, 7, [(b"k", b"v", None, ()), (b"k", b"v", -1, ())])

    assert values_and_headers(cluster, 0) + values_and_headers(cluster, 1) == []
