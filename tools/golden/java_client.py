"""Transactional clients of Kafka's own Java library, driven line by line as a child process.

Shell grade. The library of version 4 speaks the transaction protocol of KIP-890 where the broker
has it (TV2), the one of version 3 always the older one (TV1). Jars and the compiled program live in
the same cache outside of git as those of `kafka_tools`.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from golden.kafka_tools import (
    KAFKA_VERSION,
    LOG4J_VERSION,
    KafkaJars,
    KafkaToolError,
    default_cache,
    fetch_into,
)

OLD_VERSION = "3.9.1"
HELPERS = ("TransactionalClient.java",)
ANSWER = "> "
POM = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>ledgerstone</groupId><artifactId>kafka-clients-cache</artifactId><version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka-clients</artifactId>
      <version>{version}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId>
      <version>{log4j}</version>
    </dependency>
  </dependencies>
</project>
"""


class JavaError(Exception):
    """What the Java client threw: the name of its class, and its words."""

    def __init__(self, name: str, words: str) -> None:
        super().__init__(f"{name}: {words}")
        self.name = name


def fetch_client_jars(version: str = KAFKA_VERSION, cache: Path | None = None) -> KafkaJars:
    """The client library of one version, fetched with Maven on first use."""
    directory = (cache or default_cache()) / f"{version}-clients"
    fetch_into(directory, POM.format(version=version, log4j=LOG4J_VERSION), HELPERS)
    return KafkaJars(version=version, directory=directory)


@dataclass(slots=True)
class JavaClients:
    """One process with as many producers and consumers as it is asked for."""

    jars: KafkaJars
    bootstrap: str
    log: Path
    _process: subprocess.Popen[str] | None = None
    _output: IO[str] | None = field(default=None)

    def start(self) -> None:
        command = self.jars.java("TransactionalClient", self.bootstrap, log_level="warn")
        self._output = self.log.open("w", encoding="utf-8")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._output,
            text=True,
            encoding="utf-8",
        )

    def ask(self, *words: str) -> list[str]:
        """Waits for the answer."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        assert self._output is not None
        process.stdin.write("\t".join(words) + "\n")
        process.stdin.flush()
        # What the library logs goes to the same place.
        while not (line := process.stdout.readline()).startswith(ANSWER):
            if not line:
                raise KafkaToolError(f"the Java client ended; see {self.log}")
            self._output.write(line)
        status, *values = line.rstrip("\n").removeprefix(ANSWER).split("\t")
        if status == "error":
            raise JavaError(values[0], values[1])
        return values

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.communicate()
        assert self._output is not None
        self._output.close()
