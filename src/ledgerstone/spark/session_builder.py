"""A Spark session that starts from pip alone, with settings that fit a log on this machine. Shell.

Nothing is hidden: `settings` returns every key that is set, README.md says why, and the caller's
`conf` overrides them. Environment variables are set only if they are not set already.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.records.kernels.cache import cache_directory
from ledgerstone.spark.class_archive import ClassArchive, archive_for, keep_when_ended
from ledgerstone.spark.java import find_java
from ledgerstone.spark.spark_home import linked_home

LOOPBACK: Final = "127.0.0.1"
_ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
# As large as what a reader hands on: 65,536 rows of 20 kB would be more than the heap.
_ARROW_BYTES: Final = 16 << 20
_RAW_LOCAL_FS: Final = "org.apache.hadoop.fs.local.RawLocalFs"
_CHECKPOINT_FILES: Final = "spark.sql.streaming.checkpointFileManagerClass"
# Spark's other one asks Hadoop about links, which starts four processes for each file.
_BY_RENAME: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)

# What the JVM of this process was started with; once it is gone it cannot be asked.
started_with: dict[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPlan:
    app_name: str = "ledgerstone"
    master: str = "local[*]"
    memory: str = "1g"  # of the driver's JVM, which is all there is with a local master
    ui: bool = False
    fast_start: bool = True  # with the class archive of earlier sessions
    # Writes the archive if there is none; its end then takes some seconds of CPU longer.
    keep_classes: bool = True
    # C1 only and the serial collector: a quicker start and slower queries. For tests.
    short_lived: bool = False
    conf: Mapping[str, str] = field(default_factory=dict)
    log_file: Path | None = None  # of the JVM and of all that it starts; None: our own outputs

    @property
    def is_local(self) -> bool:
        return self.master.startswith("local")

    @property
    def is_one_jvm(self) -> bool:
        """Tasks run in the driver's JVM. Not so with `local-cluster[2,1,1024]`."""
        return self.master.partition("[")[0] == "local"


def settings(plan: SessionPlan, archive: ClassArchive | None = None) -> dict[str, str]:
    """Our settings, overridden by the caller's."""
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
        "spark.sql.execution.arrow.maxBytesPerBatch": str(_ARROW_BYTES),
        "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
        "spark.hadoop.fs.AbstractFileSystem.file.impl": _RAW_LOCAL_FS,
    }
    if plan.is_local:
        ours |= {
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),
        }
    if plan.is_one_jvm and not os.environ.get("HADOOP_CONF_DIR"):
        # With a Hadoop cluster, checkpoints lie on HDFS, which renames over no file this way.
        ours[_CHECKPOINT_FILES] = _BY_RENAME
    ours["spark.driver.extraJavaOptions"] = " ".join(_java_options(plan, archive))
    return {**ours, **plan.conf}


def _java_options(plan: SessionPlan, archive: ClassArchive | None) -> list[str]:
    # A JVM that runs out of memory would neither answer nor end.
    options = ["-XX:+ExitOnOutOfMemoryError"]
    options += [] if archive is None else archive.options
    if plan.short_lived:
        options += ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    return options


def start(plan: SessionPlan) -> SparkSession:
    """The session; starts a JVM unless this process has one already."""
    archive = None
    home = _spark_home(plan)
    if SparkContext._gateway is None:
        java = find_java(os.environ)
        os.environ["JAVA_HOME"] = str(java.path)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        if plan.is_local:
            os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
        if plan.fast_start:
            archive = archive_for(java, pyspark.__version__, home, keep=plan.keep_classes)
    builder = SparkSession.builder
    chosen = settings(plan, archive)
    for key, value in chosen.items():
        builder = builder.config(key, value)
    with _started_from(home):
        if SparkContext._gateway is None:
            started_with.update(chosen)
            if plan.log_file is not None:
                _launch(chosen, plan.log_file)
        session = builder.getOrCreate()
    if plan.is_one_jvm and chosen.get(_CHECKPOINT_FILES) == _BY_RENAME:
        _write_no_checksums(session)
    gateway = SparkContext._gateway
    if archive is not None and gateway is not None:
        keep_when_ended(archive, gateway.proc)
    return session


def _write_no_checksums(session: SparkSession) -> None:
    """No `.crc` beside files on local disk.

    Crash here: a file that replaces another is renamed first, its `.crc` second; a state with the
    `.crc` of its predecessor cannot be read."""
    jvm, context = session._jvm, session._jsc
    if jvm is not None and context is not None:
        # Hadoop has no setting for it, and one such object for a JVM.
        files = jvm.org.apache.hadoop.fs.FileSystem.getLocal(context.hadoopConfiguration())
        files.setWriteChecksum(False)


def _launch(chosen: Mapping[str, str], log_file: Path) -> None:
    """Starts the JVM with its own outputs; Spark would give it ours."""
    conf = SparkConf(loadDefaults=False)
    for key, value in chosen.items():
        conf.set(key, value)
    log_file.parent.mkdir(parents=True, exist_ok=True)
    with log_file.open("wb") as file:
        outputs = {"stdout": file, "stderr": file}
        gateway = launch_gateway(conf, outputs)  # type: ignore[no-untyped-call]
    SparkContext._ensure_initialized(gateway=gateway)


def _spark_home(plan: SessionPlan) -> Path:
    """SPARK_HOME if set, else one whose Python processes start quickly, else as installed."""
    if given := os.environ.get("SPARK_HOME"):
        return Path(given)
    if not plan.is_local:
        # Executors on other machines may get the path, and have no such directory.
        return Path(pyspark.__file__).parent
    return home_on_this_machine()


def home_on_this_machine() -> Path:
    """Of the installed Spark; if it can be, one whose Python processes start quickly."""
    installed = Path(pyspark.__file__).parent
    py4j = find_spec("py4j")
    packages = {"pyspark": installed}
    if py4j is not None and py4j.origin is not None:
        packages["py4j"] = Path(py4j.origin).parent
    return linked_home(installed, packages, cache_directory()) or installed


@contextmanager
def _started_from(home: Path) -> Iterator[None]:
    """For the JVM only: what this process starts later may belong to another Spark."""
    before = os.environ.get("SPARK_HOME")
    os.environ["SPARK_HOME"] = str(home)
    try:
        yield
    finally:
        if before is None:
            del os.environ["SPARK_HOME"]
