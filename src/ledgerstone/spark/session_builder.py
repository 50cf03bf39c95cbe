"""A Spark session that starts from pip alone, with settings that fit a log on this machine. Shell.

Nothing is hidden: `settings` returns every key that is set and README.md says why; what the caller
passes in `conf` wins. Environment variables are set only where they are not set already.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession

from ledgerstone.spark.class_archive import ClassArchive, archive_for, keep_when_ended
from ledgerstone.spark.java import find_java

LOOPBACK: Final = "127.0.0.1"
_ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_RAW_LOCAL_FS: Final = "org.apache.hadoop.fs.local.RawLocalFs"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPlan:
    app_name: str = "ledgerstone"
    master: str = "local[*]"
    memory: str = "1g"  # of the driver's JVM, which is all there is with a local master
    ui: bool = False
    fast_start: bool = True
    # C1 only and the serial collector: a quicker start and slower queries. For tests.
    short_lived: bool = False
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        return self.master.startswith("local")


def settings(plan: SessionPlan, archive: ClassArchive | None = None) -> dict[str, str]:
    """Every setting of ours, and over them the caller's."""
    ours = {
        "spark.app.name": plan.app_name,
        "spark.master": plan.master,
        "spark.driver.memory": plan.memory,
        "spark.ui.enabled": str(plan.ui).lower(),
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
        "spark.hadoop.fs.AbstractFileSystem.file.impl": _RAW_LOCAL_FS,
    }
    if plan.is_local:
        ours |= {
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),
        }
    options = " ".join(_java_options(plan, archive))
    if options:
        ours["spark.driver.extraJavaOptions"] = options
    return {**ours, **plan.conf}


def _java_options(plan: SessionPlan, archive: ClassArchive | None) -> list[str]:
    options = [] if archive is None else list(archive.options)
    if plan.short_lived:
        options += ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    return options


def start(plan: SessionPlan) -> SparkSession:
    """The session; starts a JVM unless this process has one already."""
    archive = None
    if SparkContext._gateway is None:
        java = find_java(os.environ)
        os.environ["JAVA_HOME"] = str(java.path)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        if plan.is_local:
            os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
        if plan.fast_start:
            spark_home = Path(pyspark.__file__).parent
            archive = archive_for(java, pyspark.__version__, spark_home)
    builder = SparkSession.builder
    for key, value in settings(plan, archive).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    gateway = SparkContext._gateway
    if archive is not None and gateway is not None:
        keep_when_ended(archive, gateway.proc)
    return session
