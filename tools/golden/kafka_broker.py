"""One Apache Kafka broker (KRaft, a single combined node) as a child process on the loopback.

Shell grade. The broker is only a writer of files here: few partitions, small buffers, and a
cleaner that looks for work often, so that a pass follows soon after it is allowed.
"""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from golden.kafka_tools import KafkaJars, KafkaToolError

CLUSTER_ID = "TGVkZ2Vyc3RvbmVHb2xkZQ"  # any 16 bytes in base64url; fixed, so that it repeats
STARTED = re.compile(r"Kafka Server started")
CLEANED = re.compile(
    r"Log cleaner thread \d+ cleaned log (?P<log>\S+) "
    r"\(dirty section = \[(?P<start>\d+), (?P<end>\d+)[\])]"
)

BROKER_CONFIG: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.max.timeout.ms": "3600000",
    "num.network.threads": "2",
    "num.io.threads": "2",
    "log.cleaner.threads": "1",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.cleaner.backoff.ms": "300",
    "log.segment.delete.delay.ms": "100",
    # Far beyond a session: neither retention nor a periodic checkpoint may come in between.
    "log.initial.task.delay.ms": "86400000",
    "log.retention.check.interval.ms": "86400000",
}


def free_port() -> int:
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(slots=True, kw_only=True)
class KafkaBroker:
    """A data directory and, while running, the process that owns it."""

    jars: KafkaJars
    work: Path
    port: int = field(default_factory=free_port)
    controller_port: int = field(default_factory=free_port)
    # Instead of or besides those of BROKER_CONFIG.
    settings: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    output: IO[bytes] | None = None
    session: int = 0

    @property
    def data(self) -> Path:
        return self.work / "data"

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log_file(self) -> Path:
        return self.work / f"broker-{self.session}.out"

    def format(self) -> None:
        """Writes the configuration and an empty, formatted log directory."""
        self.work.mkdir(parents=True)
        config = {
            **BROKER_CONFIG,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},"
            f"CONTROLLER://127.0.0.1:{self.controller_port}",
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "log.dirs": str(self.data),
            **self.settings,
        }
        lines = [f"{key}={value}\n" for key, value in config.items()]
        (self.work / "server.properties").write_text("".join(lines))
        arguments = ["format", "-t", CLUSTER_ID, "-c", str(self.work / "server.properties")]
        done = subprocess.run(
            self.jars.java("kafka.tools.StorageTool", *arguments),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise KafkaToolError(done.stdout + done.stderr)

    def start(self) -> None:
        assert self.process is None
        self.session += 1
        self.output = self.log_file.open("wb")
        self.process = subprocess.Popen(
            self.jars.java(
                "kafka.Kafka", str(self.work / "server.properties"), log_level="info", heap_mb=512
            ),
            stdout=self.output,
            stderr=subprocess.STDOUT,
        )
        self.wait_until(lambda: STARTED.search(self.log_text()) is not None, "start")

    def stop(self) -> None:
        """A clean stop: indexes trimmed, snapshots and the clean marker written."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """kill -9: files stay as the process last left them in the page cache."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        assert self.process is not None
        assert self.output is not None
        self.process.send_signal(number)
        self.process.wait(timeout=90)
        self.process = None
        self.output.close()

    def log_text(self) -> str:
        return self.log_file.read_text(errors="replace")

    def cleaned(self) -> Iterator[tuple[str, int, int]]:
        """Cleaning passes of this session: partition, first dirty offset, end offset."""
        for match in CLEANED.finditer(self.log_text()):
            yield match["log"], int(match["start"]), int(match["end"])

    def wait_until(self, done: Callable[[], bool], what: str, timeout_s: float = 90.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not done():
            if self.process is None or self.process.poll() is not None:
                raise KafkaToolError(f"broker ended while waiting for {what}; see {self.log_file}")
            if time.monotonic() > deadline:
                raise KafkaToolError(f"no {what} within {timeout_s} s; see {self.log_file}")
            time.sleep(0.1)
