"""The demo's broker, a process that ends with us. Shell.

It runs on a virtual clock and free ports. Its log goes to a file; the end of it is shown if the
broker does not start or ends early.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from ledgerstone.demo.errors import DemoFailed

START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 20.0
_POLL_S: Final = 0.02
_SHOWN_LINES: Final = 8


class DemoBroker(NamedTuple):
    process: subprocess.Popen[bytes]
    data: Path
    bootstrap: str
    http: str  # http://HOST:PORT
    page: str  # with the token that lets the page change something


@contextlib.contextmanager
def starting_broker(directory: Path) -> Iterator["StartingBroker"]:
    """A broker that starts in the background; ends with the context."""
    log_path = directory / "broker.log"
    ready = directory / "ready.json"
    command = [sys.executable, "-m", "ledgerstone", "up", "--data", str(directory / "data")]
    command += ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--clock", "virtual"]
    with log_path.open("ab") as log:
        # In its own session: Ctrl-C reaches us, and we stop the broker cleanly.
        process = subprocess.Popen(
            [*command, "--ready-file", str(ready)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=own_environment(),
            start_new_session=True,
        )
    try:
        yield StartingBroker(process, directory / "data", ready, log_path)
    finally:
        end_process(process, STOP_TIMEOUT_S)


class StartingBroker:
    def __init__(
        self, process: subprocess.Popen[bytes], data: Path, ready: Path, log: Path
    ) -> None:
        self._process = process
        self._data = data
        self._ready = ready
        self._log = log

    def wait(self) -> DemoBroker:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not self._ready.exists():
            self.check()
            if time.monotonic() > deadline_s:
                raise DemoFailed(f"the broker is not ready after {START_TIMEOUT_S:.0f} s")
            time.sleep(_POLL_S)
        facts = json.loads(self._ready.read_text(encoding="utf-8"))
        return DemoBroker(
            process=self._process,
            data=self._data,
            bootstrap=facts["bootstrap"],
            http=facts["http"],
            page=f"{facts['http']}/?token={facts['token']}",
        )

    def check(self) -> None:
        code = self._process.poll()
        if code is not None:
            raise DemoFailed(f"the broker ended with exit code {code}: {end_of(self._log)}")


def own_environment() -> dict[str, str]:
    """KAFKA_* variables of the machine would be settings of the broker."""
    return {name: text for name, text in os.environ.items() if not name.startswith("KAFKA_")}


def end_of(log: Path) -> str:
    """The last lines, for an error message."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        return str(error)
    return " / ".join(lines[-_SHOWN_LINES:])


def end_process(process: subprocess.Popen[bytes], patience_s: float) -> None:
    """Asks, waits, and then kills the whole session of the process."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience_s)
    # Also its children, if it could not stop them itself.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
