"""Worker processes: one of our own to talk to, and a broker's as the kernel shows them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ledgerstone.workers.frames import LENGTH_BYTES, Message, body_size, decode, encode
from tests.kit.cleaner_api import workers_of

CLEANER = "ledgerstone.cleaner.worker"
SCANNER = "ledgerstone.erasure.worker"
ANALYST = "ledgerstone.server.anatomy.worker"

Worker = subprocess.Popen[bytes]


def command_of(module: str, *, parent: int) -> list[str]:
    return [sys.executable, "-m", "ledgerstone.workers", str(parent), module]


@contextmanager
def started(module: str) -> Iterator[Worker]:
    """A worker whose owner is the test."""
    command = command_of(module, parent=os.getpid())
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process
        process.kill()


def tell(worker: Worker, message: Message) -> None:
    assert worker.stdin is not None
    worker.stdin.write(encode(message))
    worker.stdin.flush()


def tell_job(worker: Worker, content: Message) -> None:
    tell(worker, {"kind": "job", "content": content})


def hear(worker: Worker) -> Message:
    """The next thing it says, other than that it is still at work."""
    assert worker.stdout is not None
    while True:
        message = decode(worker.stdout.read(body_size(worker.stdout.read(LENGTH_BYTES))))
        if message["kind"] != "progress":
            return message


def worker_running(parent: int, module: str) -> int | None:
    """The live child of `parent` that runs `module`; None while there is none."""
    for pid in workers_of(parent):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if module.encode() in words:
            return pid
    return None


def is_alive(pid: int) -> bool:
    """A zombie is dead."""
    return _state(pid) not in (None, "Z")


def zombies_of(parent: int) -> list[int]:
    """Children that ended and that nobody has waited for."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            pid = int(entry.name)
            if _state(pid) == "Z" and _parent(pid) == parent:
                found.append(pid)
    return found


def _fields(pid: int) -> list[str] | None:
    """Of its `stat`, behind the name of the program."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def _state(pid: int) -> str | None:
    fields = _fields(pid)
    return fields[0] if fields else None


def _parent(pid: int) -> int | None:
    fields = _fields(pid)
    return int(fields[1]) if fields else None
