"""Spark's own Kafka connector as an oracle: its jars, fetched with Maven on first use.

Maven finds no 4.3.0 of it; 4.2.0 works with Spark 4.3, and so does the
token provider of 4.0.0, which it loads but does not use here.
"""

import subprocess
from pathlib import Path
from typing import Final

from golden.kafka_tools import KafkaToolError, default_cache

VERSION: Final = "4.2.0"
_COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
_ARTIFACTS: Final = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{VERSION}",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:4.1.0",
    "org.apache.commons:commons-pool2:2.12.1",
)


def connector_jars() -> list[Path]:
    directory = default_cache() / f"spark-connector-{VERSION}"
    if not (directory / "complete").exists():
        directory.mkdir(parents=True, exist_ok=True)
        for artifact in _ARTIFACTS:
            _copy(artifact, directory)
        (directory / "complete").touch()
    return sorted(directory.glob("*.jar"))


def _copy(artifact: str, directory: Path) -> None:
    command = ["mvn", "-B", "-q", _COPY, f"-Dartifact={artifact}", f"-DoutputDirectory={directory}"]
    done = subprocess.run(command, cwd=directory, capture_output=True, encoding="utf-8")
    if done.returncode != 0:
        raise KafkaToolError(f"{artifact}: {(done.stdout + done.stderr)[-2000:]}")
