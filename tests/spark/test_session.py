"""The session builder: what it sets, and that a machine without Java can start it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from ledgerstone.spark.session_builder import SessionPlan, settings
from tests.spark.kit import QUERY_TIMEOUT_S


def test_the_caller_has_the_last_word() -> None:
    plan = SessionPlan(conf={"spark.sql.session.timeZone": "Europe/Berlin"})

    assert settings(plan)["spark.sql.session.timeZone"] == "Europe/Berlin"


def test_a_cluster_is_not_told_to_stay_on_loopback() -> None:
    local, cluster = (settings(SessionPlan(master=m)) for m in ("local[2]", "spark://h:7077"))

    assert local["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.driver.bindAddress" not in cluster
    assert "spark.sql.shuffle.partitions" not in cluster


def test_settings_reach_the_session(spark: SparkSession) -> None:
    expected = settings(SessionPlan())

    for key in ("spark.python.unix.domain.socket.enabled", "spark.driver.host"):
        assert spark.conf.get(key) == expected[key]


_CHECKPOINT_FILES = "spark.sql.streaming.checkpointFileManagerClass"


def test_checkpoints_of_other_jvms_and_of_hadoop_are_left_to_spark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    alone, cluster = (settings(SessionPlan(master=m)) for m in ("local[2]", "local-cluster[1,1,9]"))
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    with_hadoop = settings(SessionPlan(master="local[2]"))

    assert alone[_CHECKPOINT_FILES].endswith(".FileSystemBasedCheckpointFileManager")
    assert _CHECKPOINT_FILES not in cluster
    assert _CHECKPOINT_FILES not in with_hadoop


def count_by_key(spark: SparkSession, table: Path, checkpoint: Path) -> list[tuple[int, int]]:
    """A stream with state, until it has seen what is there; how often each key was seen."""
    found: dict[int, int] = {}

    def keep(frame: DataFrame, batch_id: int) -> None:
        del batch_id
        found.update((row.key, row["count"]) for row in frame.collect())

    records = spark.readStream.schema("key bigint").parquet(str(table))
    writer = records.groupBy("key").count().writeStream.outputMode("update").foreachBatch(keep)
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    assert writer.start().awaitTermination(QUERY_TIMEOUT_S), "the query does not end"
    return sorted(found.items())


def test_nothing_on_local_disk_gets_a_checksum_file(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(4).selectExpr("id % 2 AS key")
    table, checkpoint = tmp_path / "table", tmp_path / "checkpoint"

    rows.write.parquet(str(table))
    seen = count_by_key(spark, table, checkpoint)

    assert seen == [(0, 2), (1, 2)]
    assert spark.conf.get(_CHECKPOINT_FILES) == settings(SessionPlan())[_CHECKPOINT_FILES]
    assert (checkpoint / "state").is_dir()
    assert not list(tmp_path.rglob("*.crc"))


def test_a_checkpoint_with_checksum_files_goes_on_without(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = spark.range(4).selectExpr("id % 2 AS key")
    table, checkpoint = tmp_path / "table", tmp_path / "checkpoint"
    with as_spark_comes(spark):
        rows.write.parquet(str(table))
        count_by_key(spark, table, checkpoint)
    had_checksums = bool(list((checkpoint / "state").rglob(".*.crc")))

    # As after a crash between a state and its commit: the batch is run again, over its own files.
    (checkpoint / "commits" / "0").unlink()
    again = count_by_key(spark, table, checkpoint)
    rows.write.mode("append").parquet(str(table))
    seen = count_by_key(spark, table, checkpoint)

    assert had_checksums
    assert again == [(0, 2), (1, 2)]
    assert seen == [(0, 4), (1, 4)]


@contextmanager
def as_spark_comes(spark: SparkSession) -> Iterator[None]:
    """Checkpoints and local files as without our settings."""
    assert spark._jvm is not None
    conf = spark._jsc.hadoopConfiguration()
    files = spark._jvm.org.apache.hadoop.fs.FileSystem.getLocal(conf)
    ours = settings(SessionPlan())[_CHECKPOINT_FILES]
    files.setWriteChecksum(True)
    spark.conf.set(_CHECKPOINT_FILES, ours.replace("FileSystemBased", "FileContextBased"))
    spark.conf.set("fs.AbstractFileSystem.file.impl", "org.apache.hadoop.fs.local.LocalFs")
    try:
        yield
    finally:
        files.setWriteChecksum(False)
        spark.conf.set(_CHECKPOINT_FILES, ours)
        spark.conf.unset("fs.AbstractFileSystem.file.impl")


_PROGRAM = """
import ledgerstone.spark
spark = ledgerstone.spark.session("no java", memory="512m", short_lived=True, fast_start=False)
print("SUM", spark.range(10).selectExpr("sum(id)").first()[0])
"""


@pytest.mark.slow
def test_a_machine_without_java_uses_the_wheel(tmp_path: Path) -> None:
    tools = ("bash", "sh", "chmod", "ps", "dirname", "uname", "nice", "readlink", "basename", "rm")
    for tool in tools:
        (tmp_path / tool).symlink_to(shutil.which(tool) or "/bin/false")
    environment = {k: v for k, v in os.environ.items() if k != "JAVA_HOME"}

    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env={**environment, "PATH": str(tmp_path), "LEDGERSTONE_CACHE_DIR": str(tmp_path / "c")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "SUM 45" in done.stdout, done.stderr
