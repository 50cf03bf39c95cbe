"""A process that searches and scans for keys on behalf of a broker. Shell.

Own process rather than a thread, as the cleaner's: compiled code and big buffers stay out of the
broker. It talks over its standard input and output in frames of `scan_messages`, one at a time:

    broker: search(plan) | residue(plan)    worker: progress(bytes)  at most once a second
    broker: abort                           worker: searched(report) | scanned(report)
                                                    | failed(detail, aborted)

`abort` may come at any time and the end of input means the same: then the broker is gone. A plan
holds secrets, which is why it comes through the pipe; nothing of it is ever written anywhere.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Final

from ledgerstone.erasure.residue import scan_dirs
from ledgerstone.erasure.scan_messages import (
    LENGTH_BYTES,
    Message,
    body_size,
    decode,
    encode,
    plan_of,
    report_message,
)
from ledgerstone.erasure.scan_plan import ScanAborted, ScanPlan, SearchPlan
from ledgerstone.erasure.search import search_partitions
from ledgerstone.fs import Filesystem
from ledgerstone.system import OsFile, OsFilesystem

_INPUT: Final = 0
_OUTPUT: Final = 1
# Scanning can wait; whoever produces and consumes cannot.
_NICE: Final = 5
PROGRESS_S: Final = 1.0
# A long wait is cut into pieces, so that whoever gives the scan up is heard in between.
_LONGEST_WAIT_S: Final = 0.3


class BrokerGone(Exception):
    """Nobody reads us any more."""


class ReadingFilesystem(OsFilesystem):
    """Opens for reading only: a scan also meets files that nobody may write, and pipes."""

    __slots__ = ()

    def open(self, path: str, *, create: bool = False) -> OsFile:
        assert not create, f"a scan creates {path}"
        return OsFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))


class Conversation:
    """The worker's end of the pipe."""

    def __init__(self, read_from: int, write_to: int) -> None:
        self._read_from = read_from
        self._write_to = write_to
        self._said_at_s = time.monotonic()

    def receive(self) -> Message:
        return decode(self._read(body_size(self._read(LENGTH_BYTES))))

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = os.read(self._read_from, min(size - len(data), 1 << 20))
            if not piece:
                raise BrokerGone
            data += piece
        return bytes(data)

    def send(self, message: Message) -> None:
        self._said_at_s = time.monotonic()
        view = memoryview(encode(message))
        try:
            while view:
                view = view[os.write(self._write_to, view) :]
        except BrokenPipeError as error:
            raise BrokerGone from error

    def go_on(self, done_bytes: int) -> None:
        """Says now and then how far the work is; raises ScanAborted once it is not wanted."""
        if time.monotonic() - self._said_at_s >= PROGRESS_S:
            self.send({"kind": "progress", "bytes": done_bytes})
        # While a plan is at work the broker has nothing to say but that.
        if select.select([self._read_from], [], [], 0)[0]:
            self.receive()
            raise ScanAborted("the broker gave it up")


class Pace:
    """Counts what is read and waits where that is more than is allowed."""

    def __init__(
        self, bytes_per_second: float | None, go_on: Callable[[int], None], *, now_s: float
    ) -> None:
        self._bytes_per_second = bytes_per_second
        self._go_on = go_on
        self._started_s = now_s
        self._done_bytes = 0

    def before_read(self, size_bytes: int) -> None:
        self._go_on(self._done_bytes)
        if self._bytes_per_second is not None:
            due_s = self._started_s + self._done_bytes / self._bytes_per_second
            while (left_s := due_s - time.monotonic()) > 0:
                time.sleep(min(left_s, _LONGEST_WAIT_S))
                self._go_on(self._done_bytes)
        self._done_bytes += size_bytes


def work(fs: Filesystem, plan: ScanPlan, before_read: Callable[[int], None]) -> Message:
    """The answer to one plan. A border: what goes wrong is told, not raised."""
    try:
        if isinstance(plan, SearchPlan):
            return report_message(search_partitions(fs, plan, before_read=before_read))
        return report_message(scan_dirs(fs, plan, before_read=before_read))
    except BrokerGone:
        raise
    except ScanAborted as error:
        return {"kind": "failed", "detail": str(error), "aborted": True}
    except Exception as error:  # noqa: BLE001
        detail = f"{type(error).__name__}: {error}"
        return {"kind": "failed", "detail": detail, "aborted": False}


def serve(conversation: Conversation, fs: Filesystem) -> None:
    """Plan after plan, until the broker closes the pipe."""
    while True:
        message = conversation.receive()
        if message["kind"] not in ("search", "residue"):
            # An abort that crossed the end of the work it was for.
            continue
        plan = plan_of(message)
        pace = Pace(plan.bytes_per_second, conversation.go_on, now_s=time.monotonic())
        conversation.send(work(fs, plan, pace.before_read))


def main() -> None:
    # Ctrl-C at the broker's terminal is for the broker, which closes the pipe when it is done.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICE)
    try:
        serve(Conversation(_INPUT, _OUTPUT), ReadingFilesystem())
    except BrokerGone:
        sys.exit(0)


if __name__ == "__main__":
    main()
