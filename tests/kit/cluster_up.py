"""`ledgerstone cluster up` as a process, and the other commands on its directory."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.kit.broker import broker_environment, wait_until
from tests.kit.command_line import Done, ledgerstone

# Elections and sessions short enough for a test, long enough for a busy machine.
QUICK = (
    "controller.quorum.election.timeout.ms=500",
    "controller.quorum.fetch.timeout.ms=2000",
    "broker.heartbeat.interval.ms=300",
    "broker.session.timeout.ms=3000",
    "offsets.topic.num.partitions=1",
    "transaction.state.log.num.partitions=1",
    "group.initial.rebalance.delay.ms=0",
)


@dataclass(slots=True)
class ClusterUp:
    work: Path
    nodes: int = 3
    arguments: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def data(self) -> Path:
        return self.work / "cluster"

    @property
    def ready_file(self) -> Path:
        return self.work / "ready.json"

    @property
    def text(self) -> str:
        return (self.work / "cluster.out").read_text(encoding="utf-8", errors="replace")

    @property
    def bootstrap(self) -> str:
        found: str = self.facts["bootstrap"]
        return found

    def __enter__(self) -> "ClusterUp":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(30)
            # The kernel ends the nodes with it.
            pids = [each["pid"] for each in self.facts.get("nodes", {}).values()]
            wait_until(lambda: not any(map(is_alive, pids)), "its nodes have ended")

    def start(self) -> None:
        self.launch()
        wait_until(self._is_ready, "the cluster is up", 90)
        self.read()

    def launch(self) -> None:
        """Returns at once."""
        assert self.process is None
        command = [sys.executable, "-m", "ledgerstone", "cluster", "up"]
        command += ["--nodes", str(self.nodes), "--data", str(self.data)]
        command += ["--ready-file", str(self.ready_file)]
        for each in QUICK:
            command += ["-c", each]
        with (self.work / "cluster.out").open("wb") as output:
            self.process = subprocess.Popen(
                [*command, *self.arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=broker_environment(),
            )

    def _is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"cluster up ended:\n{self.text}"
        return self.ready_file.exists()

    def read(self) -> dict[str, Any]:
        self.facts = json.loads(self.ready_file.read_text(encoding="utf-8"))
        return self.facts

    def wait_until_up(self, node: int, *, not_pid: int = -1, timeout_s: float = 60) -> None:
        def is_up() -> bool:
            found = self.read()["nodes"].get(str(node))
            return found is not None and found["up"] and found["pid"] != not_pid

        wait_until(is_up, f"node {node} is up:\n{self.text}", timeout_s)

    def pid(self, node: int) -> int:
        found: int = self.read()["nodes"][str(node)]["pid"]
        return found

    def command(self, name: str, *arguments: str) -> str:
        """What `ledgerstone cluster NAME ... --data` prints."""
        done = self.run(name, *arguments)
        assert done.code == 0, f"{done.stdout}{done.stderr}\n{self.text}"
        return done.stdout

    def run(self, name: str, *arguments: str) -> Done:
        return ledgerstone("cluster", name, *arguments, "--data", str(self.data))

    def interrupt(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)

    def wait(self, timeout_s: float = 60) -> int:
        assert self.process is not None
        process, self.process = self.process, None
        try:
            return process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"no end:\n{self.text}") from None


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie is not alive: nobody has asked for its exit code yet.
    state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    return state != "Z"
