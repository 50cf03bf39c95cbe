"""The worker's side: one job after the other, until the owner is gone. Shell.

A worker talks over its standard input and output as `conversation` says. It ends with its input,
and on Linux the kernel kills it with its parent: a worker that was stopped just then would else go
on later, in a directory that has a new owner.
"""

import ctypes
import os
import select
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib import import_module
from typing import Final

from ledgerstone.core_dumps import forbid_core_dumps
from ledgerstone.workers import conversation
from ledgerstone.workers.frames import LENGTH_BYTES, Message, body_size, decode, encode

_INPUT: Final = 0
_OUTPUT: Final = 1
_ERRORS: Final = 2
PROGRESS_S: Final = 1.0
_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h


class OwnerGone(Exception):
    """The other end of the line is closed."""


class Line(ABC):
    """The worker's end of a conversation."""

    def __init__(self) -> None:
        self.is_aborted = False
        self._said_at_s = time.monotonic()

    @abstractmethod
    def receive(self) -> Message:
        """Waits for the next message; raises OwnerGone where none can come."""

    @abstractmethod
    def has_message(self) -> bool:
        """Whether `receive` would not wait."""

    @abstractmethod
    def _send(self, message: Message) -> None: ...

    def send(self, message: Message) -> None:
        self._said_at_s = time.monotonic()
        self._send(message)

    def should_abort(self) -> bool:
        """Asked all through a job, so this is also where the worker says that it is at work."""
        if time.monotonic() - self._said_at_s >= PROGRESS_S:
            self.send({"kind": conversation.PROGRESS})
        # While a job is at work the owner has nothing to say but that.
        if not self.is_aborted and self.has_message():
            self.receive()
            self.is_aborted = True
        return self.is_aborted

    def hand_over(self, content: Message) -> None:
        """A part of the result; waits for the owner's word about it."""
        if self.should_abort():
            return
        self.send(conversation.part(content))
        self.is_aborted = self.receive()["kind"] != conversation.PROCEED


class PipeLine(Line):
    def __init__(self, read_from: int, write_to: int) -> None:
        super().__init__()
        self._read_from = read_from
        self._write_to = write_to

    def receive(self) -> Message:
        return decode(self._read(body_size(self._read(LENGTH_BYTES))))

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = os.read(self._read_from, min(size - len(data), 1 << 20))
            if not piece:
                raise OwnerGone
            data += piece
        return bytes(data)

    def has_message(self) -> bool:
        return bool(select.select([self._read_from], [], [], 0)[0])

    def _send(self, message: Message) -> None:
        self.write(encode(message))

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._write_to, view) :]
        except BrokenPipeError as error:
            raise OwnerGone from error


# What a worker does: a job's content in; out comes what it found, or a text that says why it found
# nothing. It asks `Line.should_abort` at least once a second.
Work = Callable[[Message, Line], Message | str]


def serve(line: Line, work: Work) -> None:
    """Job after job. Raises OwnerGone at the end. A border: what goes wrong in a job is said."""
    while True:
        message = line.receive()
        if message["kind"] == conversation.PING:
            line.send({"kind": conversation.HERE})
        if message["kind"] != conversation.JOB:
            # Or a word that crossed the end of the job it was about.
            continue
        line.is_aborted = False
        try:
            found = work(message["content"], line)
        except OwnerGone:
            raise
        except Exception as error:  # noqa: BLE001
            found = f"{type(error).__name__}: {error}"
        if isinstance(found, str):
            line.send(conversation.failed(found))
        else:
            line.send(conversation.done(found))


def run(parent: int, module: str) -> None:
    """The life of a worker process. `module` has `NICE`, and `make_work() -> Work`."""
    # First of all: importing what does the work takes a third of a second.
    die_with_parent(parent)
    forbid_core_dumps(os.environ)
    # Ctrl-C at the broker's terminal is for the broker, which closes the pipe when it is done.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    trade = import_module(module)
    os.nice(trade.NICE)
    output = os.dup(_OUTPUT)
    # What a library prints must not end up between two frames.
    os.dup2(_ERRORS, _OUTPUT)
    try:
        serve(PipeLine(_INPUT, output), trade.make_work())
    except OwnerGone:
        sys.exit(0)


def die_with_parent(parent: int) -> None:
    """Only Linux kills; elsewhere a worker notices when it next asks whether to go on."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        # It died before the kernel was asked.
        sys.exit(0)
