"""Work on whole topics: bulk compaction of a broker's directory, mirrors between two brokers."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ledgerstone.client.admin import NewTopic, create_topic, delete_topic
from ledgerstone.client.blocking import Client
from ledgerstone.client.configs import Resource, ResourceType, describe_configs
from ledgerstone.client.offsets import CommittedOffset, commit_offsets, committed_offsets
from ledgerstone.client.producer import NewRecord, Producer
from ledgerstone.errors import LogDirLocked
from ledgerstone.pipeline.bulk_compaction import BulkCompaction, compact
from ledgerstone.pipeline.connecting import connect_to
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.mirror.rounds import Mirror, mirror_round
from ledgerstone.pipeline.mirror.verifying import verify_mirror
from ledgerstone.state.rebuild import rebuild
from ledgerstone.types import TopicPartition
from tests.kit.broker import BrokerProcess
from tests.spark.conftest import MakeTopic, Produce, Recreate
from tests.spark.test_flows_sources import records_in


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("other")) as process:
        yield process


def test_a_directory_is_compacted_while_its_broker_is_away(
    spark: SparkSession, other: BrokerProcess
) -> None:
    topic = NewTopic(
        name="bulk", partitions=2, replication_factor=1, configs={"cleanup.policy": "compact"}
    )
    wish = BulkCompaction(paths=[str(other.data)], topics=["bulk"])
    with connect_to(other.bootstrap) as client:
        create_topic(client, topic)
        producer = Producer(client)
        for turn in range(5):
            producer.send([NewRecord("bulk", b"%d" % n, b"%d" % turn) for n in range(100)])
        producer.send([NewRecord("bulk", b"%d" % n, None) for n in range(10)])
        before = rebuild(client, "bulk").checksum
    with pytest.raises(LogDirLocked):
        compact(spark, wish)

    other.stop()
    outcomes = compact(spark, wish)
    other.start()

    with connect_to(other.bootstrap) as client:
        assert rebuild(client, "bulk").checksum == before
        assert len(records_in(client, "bulk", 2)) == 100
    assert [each.failure for each in outcomes] == ["", ""]
    assert sum(each.records_before for each in outcomes) == 510
    assert sum(each.records_after for each in outcomes) == 100


def mirror_of(broker: BrokerProcess, other: BrokerProcess, topic: str, work: Path) -> Mirror:
    return Mirror(
        source=broker.bootstrap,
        target=other.bootstrap,
        topics={topic: f"copy.{topic}"},
        work=str(work),
        group=f"{topic}-mirror",
    )


def test_a_mirror_keeps_records_settings_and_the_places_of_groups(
    spark: SparkSession,
    broker: BrokerProcess,
    other: BrokerProcess,
    client: Client,
    make_topic: MakeTopic,
    produce: Produce,
    tmp_path: Path,
) -> None:
    topic = make_topic("mirrored", partitions=2, cleanup_policy="compact", retention_ms="12345")
    reader = f"{topic}-reader"
    mirror = replace(mirror_of(broker, other, topic, tmp_path), groups=[reader])
    produce(
        *[NewRecord(topic, b"%d" % n, b"x" * n, partition=n % 2) for n in range(50)],
        NewRecord(topic, b"1", None, [("why", b"asked"), ("null", None)], 1, 1_600_000_000_000),
    )
    place = TopicPartition(topic, 0)
    commit_offsets(client, reader, {place: CommittedOffset(7)})

    first = mirror_round(spark, mirror).copied
    idle = mirror_round(spark, mirror).copied
    produce(NewRecord(topic, b"late", b"", partition=0))
    second = mirror_round(spark, mirror).copied

    assert sum(each.records for each in first) == 51
    assert sum(each.tombstones for each in first) == 1
    assert idle == []
    assert [each.records for each in second] == [1]
    assert [each.is_equal for each in verify_mirror(mirror)] == [True]
    copy = f"copy.{topic}"
    with connect_to(other.bootstrap) as target:
        originals, copies = records_in(client, topic, 2), records_in(target, copy, 2)
        settings = describe_configs(target, Resource(ResourceType.TOPIC, copy))
        moved = committed_offsets(target, reader)
    assert copies == originals
    assert {each.name: each.value for each in settings}["retention.ms"] == "12345"
    assert moved[TopicPartition(copy, 0)].offset == 7
    told = committed_offsets(client, mirror.group)
    assert told[place].offset == 26


def test_a_round_whose_notes_were_lost_copies_nothing_twice(
    spark: SparkSession,
    broker: BrokerProcess,
    other: BrokerProcess,
    client: Client,
    make_topic: MakeTopic,
    produce: Produce,
    tmp_path: Path,
    new_name: Callable[[str], str],
) -> None:
    topic = make_topic("lost-notes")
    mirror = mirror_of(broker, other, topic, tmp_path / "first")
    produce(*[NewRecord(topic, b"%d" % n, b"v") for n in range(10)])
    mirror_round(spark, mirror)
    produce(NewRecord(topic, b"more", b"v"))

    copied = mirror_round(spark, replace(mirror, work=str(tmp_path / "second"))).copied

    assert [(each.recognised, each.records) for each in copied] == [(10, 1)]
    with connect_to(other.bootstrap) as target:
        assert records_in(target, f"copy.{topic}") == records_in(client, topic)


def test_a_topic_that_was_created_again_is_not_mixed_into_its_copy(
    spark: SparkSession,
    broker: BrokerProcess,
    other: BrokerProcess,
    make_topic: MakeTopic,
    recreate: Recreate,
    produce: Produce,
    tmp_path: Path,
) -> None:
    topic = make_topic("mirrored-anew")
    mirror = mirror_of(broker, other, topic, tmp_path / "first")
    produce(*[NewRecord(topic, b"old%d" % n, b"v") for n in range(4)])
    mirror_round(spark, mirror)
    recreate(topic)
    produce(*[NewRecord(topic, b"new%d" % n, b"v") for n in range(6)])

    for command in (lambda: mirror_round(spark, mirror), lambda: verify_mirror(mirror)):
        with pytest.raises(PipelineError, match=r"created again: .* another work directory"):
            command()

    with connect_to(other.bootstrap) as target:
        copied = records_in(target, f"copy.{topic}")
        delete_topic(target, f"copy.{topic}")
    assert len(copied) == 4
    anew = replace(mirror, work=str(tmp_path / "second"))
    assert [each.records for each in mirror_round(spark, anew).copied] == [6]
    with connect_to(other.bootstrap) as target:
        delete_topic(target, f"copy.{topic}")
    with pytest.raises(PipelineError, match="and it was mirrored; start over"):
        mirror_round(spark, anew)


def test_a_difference_is_found(
    spark: SparkSession,
    broker: BrokerProcess,
    other: BrokerProcess,
    make_topic: MakeTopic,
    produce: Produce,
    tmp_path: Path,
) -> None:
    topic = make_topic("differs")
    mirror = mirror_of(broker, other, topic, tmp_path)
    produce(NewRecord(topic, b"a", b"1"))
    mirror_round(spark, mirror)
    with connect_to(other.bootstrap) as target:
        Producer(target).send([NewRecord(f"copy.{topic}", b"a", b"2")])

    (check,) = verify_mirror(mirror)

    assert not check.is_equal
