"""Nodes of a quorum as processes, driven by the commands that an operator types."""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.kit.broker import broker_environment, free_address, wait_until
from tests.kit.storage_tool import ledgerstone, properties_file


def _free_port() -> int:
    return int(free_address().rpartition(":")[2])


@dataclass(slots=True, kw_only=True)
class NodeProcess:
    """One server.properties, one directory and, while it runs, one process."""

    node_id: int
    work: Path
    settings: dict[str, str]
    port: int = field(default_factory=_free_port)
    controller_port: int = field(default_factory=_free_port)
    http_port: int = field(default_factory=_free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def controller(self) -> str:
        return f"127.0.0.1:{self.controller_port}"

    @property
    def properties(self) -> Path:
        return self.work / "server.properties"

    @property
    def data(self) -> Path:
        return self.work / "data"

    @property
    def ready_file(self) -> Path:
        return self.work / "ready.json"

    @property
    def log_text(self) -> str:
        return (self.work / "out").read_text(errors="replace")

    def write_properties(self, **changed: str) -> None:
        """Changes are keys with underscores for dots; an empty value takes the key away."""
        for key, value in changed.items():
            self.settings[key.replace("_", ".")] = value
        given = {key: value for key, value in self.settings.items() if value}
        own = {"node.id": str(self.node_id), "log.dirs": str(self.data)}
        properties_file(self.properties, {**own, **given})

    def format(self, *options: str) -> str:
        done = ledgerstone("format", "--config", str(self.properties), *options)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def wipe(self) -> None:
        shutil.rmtree(self.data)

    def start(self, *, waits: bool = True) -> None:
        assert self.process is None
        with (self.work / "out").open("ab") as output:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "ledgerstone", "up"),
                    *("--config", str(self.properties), "--ready-file", str(self.ready_file)),
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=broker_environment(),
            )
        if waits:
            self.wait_ready()

    def wait_ready(self) -> None:
        def is_ready() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, self.log_text
            return self.ready_file.exists()

        wait_until(is_ready, f"node {self.node_id} is ready", timeout_s=60)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)
        self.ready_file.unlink(missing_ok=True)

    def _end(self, number: signal.Signals) -> None:
        if self.process is None:
            return
        self.process.send_signal(number)
        self.process.wait(timeout=60)
        self.process = None


@contextmanager
def nodes(
    work: Path, count: int, settings: Mapping[str, str] | None = None
) -> Iterator[list[NodeProcess]]:
    """Combined nodes that know each other's controllers; nothing is formatted or started."""
    made = []
    for node_id in range(1, count + 1):
        directory = work / str(node_id)
        directory.mkdir(parents=True)
        made.append(NodeProcess(node_id=node_id, work=directory, settings=dict(settings or {})))
    servers = ",".join(each.controller for each in made)
    with ExitStack() as stack:
        for each in made:
            each.settings |= {
                "process.roles": "broker,controller",
                "listeners": f"PLAINTEXT://{each.bootstrap},CONTROLLER://{each.controller}",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.bootstrap.servers": servers,
                "ledgerstone.http.listener": f"127.0.0.1:{each.http_port}",
            }
            each.write_properties()
            stack.callback(each.kill)
        yield made


def quorum(command: str, *options: str) -> str:
    done = ledgerstone("quorum", command, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def replicas(bootstrap: str) -> dict[int, dict[str, Any]]:
    """`ledgerstone quorum status --json`, by node. A leader remembers a lost directory for a while
    as an observer; the voter of that id is the one meant."""
    lines = quorum("status", "--json", "--bootstrap", bootstrap).splitlines()
    rows = sorted(map(json.loads, lines), key=lambda row: row["role"] != "observer")
    return {row["node"]: row for row in rows}


def voters(bootstrap: str) -> list[int]:
    rows = replicas(bootstrap).values()
    return sorted(row["node"] for row in rows if row["role"] != "observer")


def add_when_it_follows(leader: NodeProcess, new: NodeProcess) -> None:
    wait_until(
        lambda: new.node_id in replicas(leader.bootstrap), f"node {new.node_id} fetches metadata"
    )
    quorum("add", "--config", str(new.properties), "--bootstrap", leader.bootstrap)
