"""A broker as a process of its own: started, stopped, killed and started again on the same port.

The first start asks for port 0 and learns the port from the ready file; later starts ask for the
same one, so that clients find the broker again. Whoever waits here polls a condition and gives up
at a deadline with the broker's log in the message; nobody sleeps for a guessed time.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.request import urlopen

SOURCE = Path(__file__).parents[2] / "src"
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
POLL_INTERVAL_S = 0.02
# Whoever has waited for a second already may wait a moment longer. Most conditions ask a broker, a
# browser or the kernel, which costs milliseconds of CPU each time.
PATIENT_AFTER_S = 1.0
PATIENT_INTERVAL_S = 0.1

# Rebalances that do not wait for stragglers, and sessions short enough to watch one expire.
FAST_GROUPS: Mapping[str, str] = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "4",
}

T = TypeVar("T")


def wait_until(condition: Callable[[], T], what: str, timeout_s: float = 30.0) -> T:
    """The first true result of `condition`; AssertionError if there is none in time."""
    begun_s = time.monotonic()
    pause = threading.Event()
    while not (answer := condition()):
        waited_s = time.monotonic() - begun_s
        if waited_s > timeout_s:
            raise AssertionError(f"waited {timeout_s} s in vain until {what}; last was {answer!r}")
        pause.wait(POLL_INTERVAL_S if waited_s < PATIENT_AFTER_S else PATIENT_INTERVAL_S)
    return answer


@dataclass(slots=True)
class BrokerProcess:
    """`directory` gets the data, the ready file and the log. Settings hold for later starts too."""

    directory: Path
    settings: dict[str, str] = field(default_factory=lambda: dict(FAST_GROUPS))
    listen: str = "127.0.0.1:0"
    # The advertised address; differs from `listen` if advertised.listeners is set.
    bootstrap: str = ""
    http: str = ""
    # Further arguments of `ledgerstone up`.
    arguments: tuple[str, ...] = ()
    _process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "BrokerProcess":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.kill()

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def log_text(self) -> str:
        return (self.directory / "broker.log").read_text(encoding="utf-8", errors="replace")

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker is not running"
        return self._process.pid

    def start(self) -> None:
        assert self._process is None, "the broker is already running"
        ready_file = self.directory / "ready.json"
        ready_file.unlink(missing_ok=True)
        command = [sys.executable, "-m", "ledgerstone", "up", "--data", str(self.data)]
        if "listeners" not in self.settings:
            command += ["--listen", self.listen]
        command += ["--http", "127.0.0.1:0"]
        command += ["--ready-file", str(ready_file), *self.arguments]
        for key, value in self.settings.items():
            command += ["-c", f"{key}={value}"]
        with (self.directory / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, env=broker_environment()
            )
        wait_until(lambda: self._is_ready(ready_file), "the broker is ready", START_TIMEOUT_S)
        facts = json.loads(ready_file.read_text(encoding="utf-8"))
        self.bootstrap, self.http = facts["bootstrap"], facts["http"]
        if self.listen.endswith(":0"):
            self.listen = self.bootstrap

    def _is_ready(self, ready_file: Path) -> bool:
        assert self._process is not None
        code = self._process.poll()
        if code is not None:
            self._process = None
            raise AssertionError(f"the broker ended with {code}:\n{self.log_text}")
        return ready_file.exists()

    def stop(self) -> None:
        """As an operator stops it: asked, and expected to end well."""
        process, self._process = self._process, None
        assert process is not None, "the broker is not running"
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(
                f"no end {STOP_TIMEOUT_S} s after SIGTERM:\n{self.log_text}"
            ) from None
        assert code == 0, f"ended with {code} after SIGTERM:\n{self.log_text}"

    def kill(self) -> None:
        process, self._process = self._process, None
        assert process is not None, "the broker is not running"
        process.kill()
        process.wait()

    def pause(self) -> None:
        """Frozen, as by a debugger or a stalled disk: connections stay open without responses."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def get(self, path: str) -> str:
        """A page of the HTTP listener."""
        with urlopen(f"{self.http}{path}", timeout=10) as response:
            text: Any = response.read().decode()
        return str(text)


def free_address() -> str:
    """For a broker that must be told its port, because it tells clients another one."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
    return f"{host}:{port}"


def broker_environment() -> dict[str, str]:
    """KAFKA_* variables of the machine would be settings; a test names all of its own."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("KAFKA_")}
    kept["PYTHONPATH"] = str(SOURCE)
    if os.geteuid() != 0:
        # Tests look into /proc/PID of a broker; only root may without this.
        kept["LEDGERSTONE_CORE_DUMPS"] = "allow"
    return kept
