"""Micro-batches of a restarted query, planned on a cluster that has changed meanwhile."""

import pytest
from pyspark.sql.datasource import InputPartition

from ledgerstone.records.builder import build_batch
from ledgerstone.spark import stream_reader
from ledgerstone.spark.errors import DataLoss
from ledgerstone.spark.offsets import to_json
from ledgerstone.spark.positions import partitions_of
from ledgerstone.spark.range_task import RangeTask, SharedTask
from ledgerstone.spark.read_options import Rows, Topics, read_options
from ledgerstone.spark.schema import projection, schema_of
from ledgerstone.spark.stream_reader import StreamReader
from ledgerstone.types import TopicPartition
from ledgerstone.uuid_text import uuid_to_text
from tests.unit.client.fake_cluster import FakeCluster, topic_id_of

OLD, NEW = TopicPartition("t-old", 0), TopicPartition("t-new", 0)
SHAPE = projection(schema_of(Rows.RECORDS, include_headers=False), Rows.RECORDS)
IDS = {each.topic: uuid_to_text(topic_id_of(each.topic)) for each in (OLD, NEW)}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """It has one topic of the two that the query has planned to read."""
    made = FakeCluster()
    made.topic(NEW.topic, [1])
    made.logs[NEW].append(build_batch([(0, b"k", b"v", ())] * 5))
    monkeypatch.setattr(stream_reader, "connect", lambda _: made.client())
    monkeypatch.setattr(stream_reader, "settle", lambda: None)  # pytest's objects are not to freeze
    return made


def planned(*, fail_on_data_loss: bool) -> list[str]:
    options = read_options(
        {
            "kafka.bootstrap.servers": "nowhere",
            "subscribePattern": "t-.*",
            "onMissedTombstones": "ignore",
            "failOnDataLoss": str(fail_on_data_loss),
        },
        streaming=True,
    )
    reader = StreamReader(options, SHAPE)
    start, end = to_json({OLD: 1, NEW: 2}, IDS), to_json({OLD: 3, NEW: 4}, IDS)
    tasks = reader.partitions(start, end)
    reader.stop()
    return [str(part.wanted) for task in tasks for part in parts_of(task)]


def parts_of(task: InputPartition) -> list[RangeTask]:
    if isinstance(task, SharedTask):
        return task.parts
    assert isinstance(task, RangeTask)
    return [task]


def test_planned_batch_goes_on_without_a_topic_that_was_deleted_if_that_is_allowed(
    cluster: FakeCluster,
) -> None:
    assert planned(fail_on_data_loss=False) == ["t-new-0 [2, 4)"]


def test_planned_batch_with_a_topic_that_was_deleted_has_lost_data(cluster: FakeCluster) -> None:
    with pytest.raises(DataLoss, match=r"partitions t-old-0 are gone; set failOnDataLoss=false"):
        planned(fail_on_data_loss=True)


def test_pattern_matches_no_internal_topic(cluster: FakeCluster) -> None:
    offsets = TopicPartition("__consumer_offsets", 0)
    cluster.topic(offsets.topic, [1])
    cluster.internal.append(offsets.topic)

    with cluster.client() as client:
        everything = partitions_of(client, Topics(pattern=".*"))
        named = partitions_of(client, Topics(subscribe=(offsets.topic,)))

    assert everything == [NEW]
    assert named == [offsets]
