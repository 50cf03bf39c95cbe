"""A node of ours in a planned cluster, with the face of `golden.kafka_node.KafkaNode`."""

import json
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from golden.cluster_plan import ClusterPlan, PlannedNode, properties_text
from golden.kafka_node import format_directory, name_directory
from golden.kafka_tools import KafkaJars
from tests.kit.broker import broker_environment, wait_until


@dataclass(slots=True, kw_only=True)
class LedgerstoneNode:
    plan: ClusterPlan
    planned: PlannedNode
    work: Path
    # Kafka's storage tool formats the directory if they are given, `ledgerstone format` otherwise.
    jars: KafkaJars | None = None
    prefix: tuple[str, ...] = ()
    session: int = 0
    process: subprocess.Popen[bytes] | None = None

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
        return self.log_file.read_text(encoding="utf-8", errors="replace")

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
        arguments = self.plan.format_arguments(self.planned)
        if self.jars is not None:
            format_directory(self.jars, self.properties, arguments)
        else:
            self._format_ourselves(arguments)
        name_directory(self.data, self.planned.directory_id)

    def _format_ourselves(self, arguments: list[str]) -> None:
        from golden.cluster_plan import CLUSTER_ID

        command = [sys.executable, "-m", "ledgerstone", "format", "--cluster-id", CLUSTER_ID]
        command += ["--config", str(self.properties), *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=broker_environment()
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def write_properties(self) -> None:
        found = self.plan.properties(self.planned, self.data)
        self.properties.write_text(properties_text(found))

    def start(self) -> None:
        """Returns at once, as Kafka's does."""
        assert self.process is None
        self.session += 1
        self._ready_file.unlink(missing_ok=True)
        command = [*self.prefix, sys.executable, "-m", "ledgerstone", "up"]
        command += ["--config", str(self.properties), "--http", "127.0.0.1:0"]
        command += ["--ready-file", str(self._ready_file)]
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, env=broker_environment()
            )

    @property
    def _ready_file(self) -> Path:
        return self.work / "ready.json"

    @property
    def ready(self) -> Any:
        return json.loads(self._ready_file.read_text(encoding="utf-8"))

    def wait_started(self, timeout_s: float = 90.0) -> None:
        wait_until(self._is_started, f"node {self.node_id} is ready", timeout_s)

    def _is_started(self) -> bool:
        assert self.is_running, f"node {self.node_id} ended:\n{self.log_text}"
        return self._ready_file.exists()

    def stop(self) -> None:
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
        self.process.wait(60)
        self.process = None

    def _end(self, number: signal.Signals) -> None:
        process, self.process = self.process, None
        assert process is not None
        process.send_signal(number)
        try:
            code = process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"no end after {number.name}:\n{self.log_text[-5000:]}") from None
        expected = 0 if number is signal.SIGTERM else -number
        assert code == expected, f"ended with {code}:\n{self.log_text[-5000:]}"
