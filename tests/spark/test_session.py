"""The session builder: what it sets, and that a machine without Java can start it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ledgerstone.spark.session_builder import SessionPlan, settings


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
