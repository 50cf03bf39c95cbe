"""Settings for dozens of JVMs on one machine that each live for a minute.

Half of the CPU time of such a JVM goes to loading classes and to compiling. So all of them map one
archive of classes, which is that of our own sessions, and compile only simply."""

import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from ledgerstone.pipeline.shapes import StandaloneCluster
from ledgerstone.spark.class_archive import archive_for
from ledgerstone.spark.java import find_java

VARIABLE = "JAVA_TOOL_OPTIONS"
_SIMPLE = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_TIMEOUT_S = 600.0
# Loads what drivers and executors need, and ends well: only such an end writes the archive.
_SESSION = """
import ledgerstone.spark
spark = ledgerstone.spark.session(master="local[1]", conf={"spark.log.level": "ERROR"})
spark.sparkContext.parallelize([1], 1).map(str).collect()
spark.range(3).groupBy("id").count().collect()
spark.stop()
"""


def set_quick_jvms(patch: pytest.MonkeyPatch) -> None:
    """In our environment, which a cluster and its drivers get. Makes the archive if need be."""
    # First, since these options are a part of what an archive is for.
    patch.setenv(VARIABLE, _SIMPLE)
    if not _archive_options():
        environment = StandaloneCluster.environment()
        subprocess.run(
            [sys.executable, "-c", _SESSION],
            env=environment, capture_output=True, timeout=_TIMEOUT_S, check=True,
        )  # fmt: skip
    patch.setenv(VARIABLE, " ".join([_SIMPLE, *_archive_options()]))


def _archive_options() -> tuple[str, ...]:
    environment = StandaloneCluster.environment()
    home = Path(environment["SPARK_HOME"])
    archive = archive_for(find_java(environment), pyspark.__version__, home, keep=False)
    return () if archive is None else archive.options
