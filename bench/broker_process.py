"""A broker as a separate process, and its resource usage according to the kernel."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 20.0
POLL_S = 0.002
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Linux's clockid_t of another process: what clock_getcpuclockid(3) computes.
_PROCESS_CPU_CLOCK = 2


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads so far; finer than the ticks of /proc/PID/stat."""
    return time.clock_gettime(~pid << 3 | _PROCESS_CPU_CLOCK)


def rss_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerProcess:
    pid: int
    host: str
    port: int
    ready_s: float  # from the start of the process until the ready file was there

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def cpu_s(self) -> float:
        return cpu_seconds(self.pid)

    @property
    def rss_bytes(self) -> int:
        return rss_bytes(self.pid)


@contextmanager
def broker_process(
    directory: Path,
    settings: Mapping[str, str] | None = None,
    arguments: Sequence[str] = (),
    *,
    python: Path = Path(sys.executable),
    environment: Mapping[str, str] | None = None,
) -> Iterator[BrokerProcess]:
    """Runs until the block ends. `directory` gets the data, the ready file and the log."""
    ready_file = directory / "ready.json"
    ready_file.unlink(missing_ok=True)
    command = [str(python), "-m", "ledgerstone", "up", "--data", str(directory / "data")]
    if "listeners" not in (settings or {}):
        command += ["--listen", "127.0.0.1:0"]
    command += ["--http", "127.0.0.1:0"]
    command += ["--ready-file", str(ready_file), "--log-level", "warning", *arguments]
    for key, value in (settings or {}).items():
        command += ["-c", f"{key}={value}"]
    with (directory / "broker.log").open("ab") as log:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        _wait_until_ready(process, ready_file, directory)
        ready_s = time.perf_counter() - started
        facts = json.loads(ready_file.read_text(encoding="utf-8"))
        host, _, port = facts["bootstrap"].rpartition(":")
        yield BrokerProcess(pid=process.pid, host=host, port=int(port), ready_s=ready_s)
    finally:
        _end(process)


def _wait_until_ready(process: subprocess.Popen[bytes], ready_file: Path, directory: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not ready_file.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            text = (directory / "broker.log").read_text(encoding="utf-8", errors="replace")
            raise RuntimeError(f"the broker did not start:\n{text}")
        time.sleep(POLL_S)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
