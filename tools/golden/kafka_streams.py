"""A Kafka Streams program as a child process: Kafka's own jars, and a topology beside this file.

Shell grade. Nothing of it is stored in the repository: jars and the compiled program live in the
same cache outside of git as those of `kafka_tools`.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from golden.kafka_tools import (
    KAFKA_VERSION,
    LOG4J_VERSION,
    KafkaJars,
    default_cache,
    fetch_into,
)

HELPERS = ("ForeignKeyJoin.java", "ExactlyOnceTotals.java", "TableTotals.java")
POM = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>ledgerstone</groupId><artifactId>kafka-streams-cache</artifactId><version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka-streams</artifactId>
      <version>{version}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId>
      <version>{log4j}</version>
    </dependency>
  </dependencies>
</project>
"""


def fetch_streams_jars(cache: Path | None = None, version: str = KAFKA_VERSION) -> KafkaJars:
    """Kafka Streams with its state stores, fetched with Maven on first use."""
    directory = (cache or default_cache()) / f"{version}-streams"
    fetch_into(directory, POM.format(version=version, log4j=LOG4J_VERSION), HELPERS)
    return KafkaJars(version=version, directory=directory)


@dataclass(slots=True, kw_only=True)
class StreamsProgram:
    """One instance of a program: started, killed, its local state deleted, started again."""

    jars: KafkaJars
    main_class: str
    work: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    session: int = 0

    @property
    def state(self) -> Path:
        return self.work / "state"

    @property
    def log_file(self) -> Path:
        return self.work / f"streams-{self.session}.out"

    def log_text(self) -> str:
        return self.log_file.read_text(errors="replace")

    def start(self) -> None:
        assert self.process is None
        self.session += 1
        self.work.mkdir(parents=True, exist_ok=True)
        settings = {**self.settings, "state.dir": str(self.state)}
        lines = [f"{key}={value}\n" for key, value in settings.items()]
        (self.work / "streams.properties").write_text("".join(lines))
        command = self.jars.java(
            self.main_class, str(self.work / "streams.properties"), log_level="info"
        )
        with self.log_file.open("wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)

    @property
    def has_ended(self) -> bool:
        """By itself, which it never does while all is well."""
        return self.process is None or self.process.poll() is not None

    def kill(self) -> None:
        """kill -9: nothing is flushed, committed or said to the group."""
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.wait()

    def delete_state(self) -> None:
        """As a new machine would start: everything comes from the changelogs."""
        assert self.process is None
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.state)
