"""Snapshots, restore, verification and missed deletes, against a real broker."""

from base64 import b64encode
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from ledgerstone.client.admin import delete_records
from ledgerstone.client.blocking import Client
from ledgerstone.client.producer import NewRecord
from ledgerstone.pipeline.definition import (
    Pipeline,
)
from ledgerstone.pipeline.erasing_snapshots import purge_snapshots
from ledgerstone.pipeline.errors import DeletesMissed, PipelineError
from ledgerstone.pipeline.runner import run_pipeline
from ledgerstone.pipeline.state.jobs import PartitionDone, PartitionJob, run_here, run_on
from ledgerstone.pipeline.state.loading import load_into
from ledgerstone.pipeline.state.making import Made, drop_older
from ledgerstone.pipeline.state.reconcile import reconcile
from ledgerstone.pipeline.state.snapshot import TopicSource, restore, snapshot
from ledgerstone.pipeline.state.verify import verify
from ledgerstone.pipeline.tables.opening import executors_of, open_target
from ledgerstone.spark.read_options import OnMissedTombstones
from ledgerstone.state.points import AtOffset, AtOffsets
from ledgerstone.state.rebuild import rebuild
from ledgerstone.types import TopicPartition
from tests.kit.broker import BrokerProcess, wait_until
from tests.kit.cleaner_api import compact, get, post
from tests.kit.table_model import Record, changes_of, table_rows, text_pipeline
from tests.spark.conftest import MakeTopic, Produce

MakePipeline = Callable[..., Pipeline]


@pytest.fixture
def pipeline_for(broker: BrokerProcess, tmp_path: Path) -> MakePipeline:
    def make(topic: str, *, keep_bytes: bool = False) -> Pipeline:
        made = text_pipeline("sqlite", str(tmp_path / "table"), keep_bytes=keep_bytes)
        source = replace(made.source, bootstrap=broker.bootstrap, topic=topic, group=f"g-{topic}")
        return replace(made, name=topic, source=source, work=str(tmp_path / "work"))

    return make


def live_in(made: Made) -> dict[bytes, bytes]:
    rows = [
        row
        for each in made.manifest.partitions
        for row in pq.read_table(Path(made.path) / each.file).to_pylist()
    ]
    return {row["key"]: row["value"] for row in rows if row["value"] is not None}


def rows_in(pipeline: Pipeline) -> list[str]:
    with closing(open_target(pipeline)) as target:
        target.prepare()
        return [row[0] for row in table_rows(target.rows())]


def test_snapshot_reads_only_what_is_new_and_has_the_checksum_of_the_state(
    broker: BrokerProcess, client: Client, make_topic: MakeTopic, produce: Produce, tmp_path: Path
) -> None:
    topic = make_topic("snap", partitions=2, cleanup_policy="compact")
    source = TopicSource(bootstrap=broker.bootstrap, topic=topic)
    produce(*(NewRecord(topic, f"k{n}".encode(), f"v{n}".encode()) for n in range(50)))
    first = snapshot(source, tmp_path)
    produce(NewRecord(topic, b"k1", None), NewRecord(topic, b"k2", b"new"))

    second = snapshot(source, tmp_path)

    state = rebuild(client, topic)
    assert sum(each.records_read for each in first.manifest.partitions) == 50
    assert sum(each.records_read for each in second.manifest.partitions) == 2
    assert second.manifest.checksum == f"{state.checksum:032x}" != first.manifest.checksum
    assert (len(live_in(second)), live_in(second)[b"k2"]) == (49, b"new")
    assert sum(each.deleted_keys for each in second.manifest.partitions) == 1


def test_snapshot_rewrites_nothing_that_did_not_change_and_old_ones_go(
    broker: BrokerProcess, make_topic: MakeTopic, produce: Produce, tmp_path: Path
) -> None:
    topic = make_topic("calm", partitions=2, cleanup_policy="compact")
    source = TopicSource(bootstrap=broker.bootstrap, topic=topic)
    produce(NewRecord(topic, b"a", b"1", partition=0), NewRecord(topic, b"b", b"1", partition=1))
    first = snapshot(source, tmp_path)
    produce(NewRecord(topic, b"b", b"2", partition=1))

    jobs_of: list[list[int]] = []

    def run_jobs(jobs: list[PartitionJob]) -> list[PartitionDone]:
        jobs_of.append([each.partition for each in jobs])
        return run_here(jobs)

    second = snapshot(source, tmp_path, run_jobs=run_jobs)
    third = snapshot(source, tmp_path, run_jobs=run_jobs)
    gone = drop_older(tmp_path, 1)

    assert live_in(third) == {b"a": b"1", b"b": b"2"}
    assert second.manifest.checksum == third.manifest.checksum != first.manifest.checksum
    assert len(gone) == 2
    assert {each.name for each in tmp_path.iterdir()} == {Path(third.path).name, "lock"}
    assert jobs_of == [[1], []]


def test_only_one_process_makes_snapshots_in_a_directory(
    broker: BrokerProcess, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source = TopicSource(bootstrap=broker.bootstrap, topic=make_topic("alone"))
    (tmp_path / "making-4711").mkdir()

    def run_jobs(jobs: list[PartitionJob]) -> list[PartitionDone]:
        with pytest.raises(PipelineError, match="another process"):
            snapshot(source, tmp_path)
        return run_here(jobs)

    made = snapshot(source, tmp_path, run_jobs=run_jobs)

    assert {each.name for each in tmp_path.iterdir()} == {Path(made.path).name, "lock"}


def test_snapshot_on_executors_is_the_same(
    spark: SparkSession,
    broker: BrokerProcess,
    make_topic: MakeTopic,
    produce: Produce,
    tmp_path: Path,
) -> None:
    topic = make_topic("snap-spark", partitions=3)
    source = TopicSource(bootstrap=broker.bootstrap, topic=topic)
    produce(*(NewRecord(topic, f"k{n}".encode(), b"v") for n in range(30)))

    here = snapshot(source, tmp_path / "here")
    there = snapshot(source, tmp_path / "there", run_jobs=run_on(spark))

    assert there.manifest.partitions == here.manifest.partitions


def test_snapshot_of_a_topic_made_anew_is_refused(
    broker: BrokerProcess, make_topic: MakeTopic, produce: Produce, tmp_path: Path
) -> None:
    topics = [make_topic("snap-a"), make_topic("snap-b")]
    snapshot(TopicSource(bootstrap=broker.bootstrap, topic=topics[0]), tmp_path)

    with pytest.raises(PipelineError, match=f"not of {topics[1]}"):
        snapshot(TopicSource(bootstrap=broker.bootstrap, topic=topics[1]), tmp_path)


def test_restore_leaves_out_what_was_erased_since_but_not_what_was_deleted(
    broker: BrokerProcess, make_topic: MakeTopic, produce: Produce, tmp_path: Path
) -> None:
    topic = make_topic("restore")
    source = TopicSource(bootstrap=broker.bootstrap, topic=topic)
    produce(*(NewRecord(topic, key, b"then") for key in (b"a", b"b", b"c")))
    erasure = [("ledgerstone.erasure.id", b"e-1")]
    produce(
        NewRecord(topic, b"a", None, erasure),
        NewRecord(topic, b"b", None),
        NewRecord(topic, b"c", b"now"),
    )

    made = restore(source, tmp_path / "none", tmp_path / "out", AtOffset(3))

    assert live_in(made) == {b"b": b"then", b"c": b"then"}
    assert (made.erased, made.manifest.complete) == (1, True)


def test_restore_from_a_snapshot_forgets_keys_that_the_log_has_forgotten(
    broker: BrokerProcess, make_topic: MakeTopic, produce: Produce, tmp_path: Path
) -> None:
    topic = make_topic("forgotten", cleanup_policy="compact", delete_retention_ms="0")
    source = TopicSource(bootstrap=broker.bootstrap, topic=topic)
    produce(NewRecord(topic, b"gone", b"1"), NewRecord(topic, b"here", b"1"))
    snapshot(source, tmp_path / "snaps")
    produce(NewRecord(topic, b"gone", None), NewRecord(topic, b"here", b"2"))
    _remove_tombstones(broker, topic)

    careful = restore(source, tmp_path / "snaps", tmp_path / "out", AtOffsets({0: 2}))
    asked = restore(
        source, tmp_path / "snaps", tmp_path / "out", AtOffsets({0: 2}), include_forgotten=True
    )

    assert (live_in(careful), careful.forgotten) == ({b"here": b"1"}, 1)
    assert live_in(asked) == {b"gone": b"1", b"here": b"1"}


def test_restore_does_not_bring_back_a_key_erased_and_written_anew(
    broker: BrokerProcess, make_topic: MakeTopic, produce: Produce, tmp_path: Path
) -> None:
    topic = make_topic("erased-anew", cleanup_policy="compact", delete_retention_ms="0")
    source = TopicSource(bootstrap=broker.bootstrap, topic=topic)
    snaps, before = tmp_path / "snaps", AtOffsets({0: 3})
    produce(*(NewRecord(topic, key, b"then") for key in (b"erased", b"changed", b"still")))
    snapshot(source, snaps)
    erasure_id = _erase(broker, topic, b"erased")
    produce(NewRecord(topic, b"erased", b"again"), NewRecord(topic, b"changed", b"now"))
    _remove_tombstones(broker, topic)

    doubting = restore(source, snaps, tmp_path / "out", before)
    purge_snapshots(snaps, topic, b"erased", erasure_id)
    told = restore(source, snaps, tmp_path / "out", before)
    asked = restore(source, snaps, tmp_path / "out", AtOffset(10))

    # Which of the two was erased is unknown, unless the snapshot recorded it.
    assert (live_in(doubting), doubting.forgotten) == ({b"still": b"then"}, 2)
    assert live_in(told) == {b"changed": b"then", b"still": b"then"}
    assert live_in(asked)[b"erased"] == b"again"


def test_restored_state_fills_a_table_that_then_goes_on(
    spark: SparkSession,
    broker: BrokerProcess,
    make_topic: MakeTopic,
    produce: Produce,
    pipeline_for: MakePipeline,
    tmp_path: Path,
) -> None:
    topic = make_topic("refill")
    produce(*(NewRecord(topic, key, b"1") for key in (b"a", b"b", b"c")))
    source = TopicSource(bootstrap=broker.bootstrap, topic=topic)
    made = restore(source, tmp_path / "none", tmp_path / "out", AtOffset(2))
    pipeline = pipeline_for(topic)
    with closing(open_target(pipeline, spark=spark)) as target:
        load_into(pipeline, target, Path(made.path), executors_of(spark))
    loaded = rows_in(pipeline)

    status = run_pipeline(pipeline, spark, once=True)

    assert (loaded, rows_in(pipeline), status.changes) == (["a", "b"], ["a", "b", "c"], 1)


def test_verify_finds_missing_extra_and_stale_rows_and_repairs_them(
    spark: SparkSession, make_topic: MakeTopic, produce: Produce, pipeline_for: MakePipeline
) -> None:
    topic = make_topic("verify", cleanup_policy="compact")
    pipeline = pipeline_for(topic, keep_bytes=True)
    produce(*(NewRecord(topic, key, b"1") for key in (b"a", b"b", b"c")))
    run_pipeline(pipeline, spark, once=True)
    wrong = [Record(0, 0, b"a", None, 1), Record(0, 1, b"b", b"x", 1), Record(0, 9, b"z", b"1", 1)]
    produce(NewRecord(topic, b"later", b"1"))
    with closing(open_target(pipeline)) as target:
        target.prepare()
        target.repair(changes_of(pipeline, wrong))

        found = verify(spark, pipeline, target, repair=True)
        after = verify(spark, pipeline, target)

    assert (found.missing, found.stale, found.extra, found.pending) == (1, 1, 1, 1)
    assert (found.exact, after.is_equal) == (True, True)
    assert not found.partitions[0].is_equal
    assert any("extra id='z'" in each for each in found.examples)
    assert rows_in(pipeline) == ["a", "b", "c"]


def test_missed_delete_is_noticed_and_reconciled(
    spark: SparkSession,
    broker: BrokerProcess,
    make_topic: MakeTopic,
    produce: Produce,
    pipeline_for: MakePipeline,
) -> None:
    topic = make_topic("missed", cleanup_policy="compact", delete_retention_ms="0")
    pipeline = pipeline_for(topic)
    produce(NewRecord(topic, b"ghost", b"1"), NewRecord(topic, b"here", b"1"))
    run_pipeline(pipeline, spark, once=True)
    produce(NewRecord(topic, b"ghost", None), NewRecord(topic, b"here", b"2"))
    _remove_tombstones(broker, topic)

    with pytest.raises(DeletesMissed, match="tombstones were removed below"):
        run_pipeline(pipeline, spark, once=True)
    kept = rows_in(pipeline)
    choice = OnMissedTombstones.RECONCILE
    healing = replace(pipeline, source=replace(pipeline.source, on_missed_tombstones=choice))
    status = run_pipeline(healing, spark, once=True)

    assert (kept, rows_in(pipeline)) == (["ghost", "here"], ["here"])
    assert (status.reconciled, status.state) == (1, "finished")


def test_rows_of_a_topic_that_expires_records_are_not_taken_for_missed_deletes(
    spark: SparkSession,
    client: Client,
    make_topic: MakeTopic,
    produce: Produce,
    pipeline_for: MakePipeline,
) -> None:
    topic = make_topic("expires", cleanup_policy="compact,delete")
    pipeline = pipeline_for(topic)
    produce(NewRecord(topic, b"expired", b"1"), NewRecord(topic, b"here", b"1"))
    run_pipeline(pipeline, spark, once=True)
    delete_records(client, {TopicPartition(topic, 0): 1})

    with closing(open_target(pipeline)) as target:
        target.prepare()
        with pytest.raises(PipelineError, match=r"cleanup\.policy=compact,delete"):
            reconcile(spark, pipeline, target)
        with pytest.raises(PipelineError, match=r"may have expired"):
            verify(spark, pipeline, target, repair=True)

    assert rows_in(pipeline) == ["expired", "here"]


def _erase(broker: BrokerProcess, topic: str, key: bytes) -> str:
    """The id of an erasure whose tombstone is written."""
    asked = {"key": b64encode(key).decode(), "reason": "asked for", "requested_by": "tests"}
    erasure_id: str = post(broker, f"topics/{topic}/erasures", **asked)["erasures"][0]["id"]
    wait_until(lambda: get(broker, f"erasures/{erasure_id}")["tombstones"], "it has a tombstone")
    return erasure_id


def _remove_tombstones(broker: BrokerProcess, topic: str) -> None:
    """The first pass stamps them, the second removes them; the last record of a log stays."""
    for _ in range(2):
        compact(broker, topic)
