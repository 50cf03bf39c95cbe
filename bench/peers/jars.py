"""What comes from Maven Central: Kafka's jars, and Spark's own connector for Kafka. Shell.

Nothing of either is committed; both lie in the ignored cache. Where they cannot be had, the callers
get the reason instead and run without.
"""

import subprocess
from pathlib import Path
from typing import Final, NamedTuple

import pyspark

from golden.kafka_tools import (
    DEPENDENCY_PLUGIN,
    REPOSITORY,
    KafkaJars,
    KafkaToolError,
    fetch_jars,
)

CACHE: Final = REPOSITORY / ".cache" / "spark-kafka"
JDBC_CACHE: Final = REPOSITORY / ".cache" / "postgres-jdbc"
JDBC_VERSION: Final = "42.7.7"


class Artifacts(NamedTuple):
    """A set that works together. Everything else that the connector needs is inside Spark."""

    connector: str
    token_provider: str
    clients: str
    pool: str

    @property
    def label(self) -> str:
        text = f"connector {self.connector}, kafka-clients {self.clients}"
        if self.token_provider != self.connector:
            text += f", token provider {self.token_provider}"
        return text


CLIENTS: Final = ("3.9.2", "2.13.1")
# The connector of this very Spark first. For Spark 4.3.0 Maven Central has none; it has the one of
# 4.2.0, but not the token provider that belongs to it, whose newest release there is 4.0.0. That
# mixture was tried on Spark 4.3.0: batch and streaming reads come back whole. Nobody releases it
# like this, so every result names the versions.
CANDIDATES: Final = (
    Artifacts(pyspark.__version__, pyspark.__version__, *CLIENTS),
    Artifacts("4.2.0", "4.0.0", *CLIENTS),
)
# Transitive dependencies are left out, for Spark has them; then no POM but these is looked into,
# some of which name further repositories.
_DEPENDENCY: Final = """    <dependency>
      <groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>
      <exclusions><exclusion>
        <groupId>*</groupId><artifactId>*</artifactId>
      </exclusion></exclusions>
    </dependency>
"""
_POM: Final = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>ledgerstone</groupId><artifactId>spark-kafka-cache</artifactId><version>1</version>
  <packaging>pom</packaging>
  <dependencies>
{dependencies}  </dependencies>
</project>
"""


class Connector(NamedTuple):
    label: str
    jars: tuple[Path, ...]


def pom_of(artifacts: Artifacts) -> str:
    return _pom(
        ("org.apache.spark", "spark-sql-kafka-0-10_2.13", artifacts.connector),
        ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", artifacts.token_provider),
        ("org.apache.kafka", "kafka-clients", artifacts.clients),
        ("org.apache.commons", "commons-pool2", artifacts.pool),
    )


def _pom(*wanted: tuple[str, str, str]) -> str:
    return _POM.format(
        dependencies="".join(
            _DEPENDENCY.format(group=group, name=name, version=version)
            for group, name, version in wanted
        )
    )


def fetch_connector() -> Connector | str:
    """The first candidate that can be had, or why there is none."""
    reason = ""
    for artifacts in CANDIDATES:
        directory = CACHE / artifacts.connector
        if not (directory / "complete").exists():
            reason = _fetch(pom_of(artifacts), directory)
            if reason:
                continue
        return Connector(artifacts.label, tuple(sorted((directory / "libs").glob("*.jar"))))
    return f"Spark's connector for Kafka could not be fetched: {reason}"


def fetch_jdbc() -> Connector | str:
    """PostgreSQL's driver for Java, or why there is none."""
    directory = JDBC_CACHE / JDBC_VERSION
    if not (directory / "complete").exists():
        pom = _pom(("org.postgresql", "postgresql", JDBC_VERSION))
        if reason := _fetch(pom, directory):
            return f"PostgreSQL's driver could not be fetched: {reason}"
    return Connector(f"pgjdbc {JDBC_VERSION}", tuple((directory / "libs").glob("*.jar")))


def _fetch(pom: str, directory: Path) -> str:
    """Why it failed, or nothing."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "pom.xml").write_text(pom, encoding="utf-8")
    command = ["mvn", "-B", "-q", DEPENDENCY_PLUGIN, "-DoutputDirectory=libs"]
    try:
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error)
    if done.returncode != 0:
        return next(iter((done.stdout + done.stderr).strip().splitlines()), "mvn failed")
    (directory / "complete").touch()
    return ""


def fetch_kafka() -> KafkaJars | str:
    try:
        return fetch_jars()
    except (KafkaToolError, OSError) as error:
        lines = str(error).splitlines()
        return f"Apache Kafka could not be fetched: {' '.join(lines[:2])}"
