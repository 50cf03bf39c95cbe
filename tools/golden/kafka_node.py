"""One Apache Kafka node of a planned cluster: controller, broker, or both, as a child process.

Shell grade. A heap of 256 MiB is enough for a controller and for a broker with few partitions.
"""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from golden.cluster_plan import CLUSTER_ID, ClusterPlan, PlannedNode, properties_text
from golden.kafka_tools import KafkaJars, KafkaToolError

STARTED = re.compile(r"Kafka Server started")
LED = re.compile(r"Completed transition to Leader\w*\(.*?epoch=(\d+)")
POLL_S = 0.05


def format_directory(jars: KafkaJars, properties: Path, arguments: list[str]) -> str:
    """Kafka's storage tool; works for directories that we will run in, too."""
    command = ["format", "-t", CLUSTER_ID, "-c", str(properties), *arguments]
    done = subprocess.run(
        jars.java("kafka.tools.StorageTool", *command),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise KafkaToolError(done.stdout + done.stderr)
    return done.stdout


def name_directory(data: Path, directory_id: str) -> None:
    """Kafka draws the id of a directory by lot unless it formats one of the first voters."""
    file = data / "meta.properties"
    text = re.sub(r"(?m)^directory\.id=.*$", f"directory.id={directory_id}", file.read_text())
    file.write_text(text)


@dataclass(slots=True, kw_only=True)
class KafkaNode:
    """A directory and, while running, the process that owns it."""

    jars: KafkaJars
    plan: ClusterPlan
    planned: PlannedNode
    work: Path
    heap_mb: int = 256
    # In front of the command, such as what puts it into a network namespace.
    prefix: tuple[str, ...] = ()
    # Options of the virtual machine, instead of those for small nodes.
    jvm: tuple[str, ...] = ()
    session: int = 0
    process: subprocess.Popen[bytes] | None = None
    output: IO[bytes] | None = None

    @property
    def node_id(self) -> int:
        return self.planned.node_id

    @property
    def data(self) -> Path:
        return self.work / "data"

    @property
    def metadata(self) -> Path:
        return self.data / "__cluster_metadata-0"

    @property
    def properties(self) -> Path:
        return self.work / "server.properties"

    @property
    def log_file(self) -> Path:
        return self.work / f"node-{self.session}.out"

    @property
    def log_text(self) -> str:
        """Of this session."""
        return self.log_file.read_text(errors="replace")

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def format(self) -> None:
        self.work.mkdir(parents=True, exist_ok=True)
        self.write_properties()
        format_directory(self.jars, self.properties, self.plan.format_arguments(self.planned))
        name_directory(self.data, self.planned.directory_id)

    def write_properties(self) -> None:
        found = self.plan.properties(self.planned, self.data)
        self.properties.write_text(properties_text(found))

    def start(self) -> None:
        """Returns at once: a controller is ready only when a majority runs."""
        assert self.process is None
        self.session += 1
        self.output = self.log_file.open("wb")
        self.process = subprocess.Popen(
            [*self.prefix, *self._command()], stdout=self.output, stderr=subprocess.STDOUT
        )

    def _command(self) -> list[str]:
        arguments = ("kafka.Kafka", str(self.properties))
        found = self.jars.java(*arguments, log_level="info", heap_mb=self.heap_mb)
        if not self.jvm:
            return found
        log4j = next(each for each in found if each.startswith("-Dlog4j2."))
        libs = f"{self.jars.directory / 'libs'}/*"
        return [found[0], *self.jvm, log4j, "-cp", libs, *arguments]

    def wait_started(self, timeout_s: float = 90.0) -> None:
        self.wait_for(STARTED, timeout_s)

    def wait_for(self, pattern: re.Pattern[str], timeout_s: float = 60.0) -> re.Match[str]:
        """Until this session's log says it."""
        found: list[re.Match[str]] = []

        def is_said() -> bool:
            match = pattern.search(self.log_text)
            found.extend([] if match is None else [match])
            return match is not None

        self.wait_until(is_said, pattern.pattern, timeout_s)
        return found[0]

    def wait_until(self, done: Callable[[], bool], what: str, timeout_s: float = 60.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not done():
            if not self.is_running:
                raise KafkaToolError(f"node ended while waiting for {what}; see {self.log_file}")
            if time.monotonic() > deadline:
                raise KafkaToolError(f"no {what} within {timeout_s} s; see {self.log_file}")
            time.sleep(POLL_S)

    def stop(self) -> None:
        """Leadership handed over, logs flushed, the clean marker written."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def forget(self) -> None:
        """A process that has ended by itself."""
        assert self.process is not None
        assert self.output is not None
        self.process.wait(timeout=90)
        self.process = None
        self.output.close()

    def _end(self, number: signal.Signals) -> None:
        assert self.process is not None
        assert self.output is not None
        self.process.send_signal(number)
        try:
            self.process.wait(timeout=90)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise KafkaToolError(f"no end after {number.name}; see {self.log_file}") from None
        finally:
            self.process = None
            self.output.close()
