"""A process that runs cleaning passes for a broker. Shell.

Own process rather than a thread: compiled code and big buffers stay out of the broker, and a pass
that dies takes nothing with it. It talks over its standard input and output in frames of
`messages`, one pass at a time:

    broker: ping             worker: progress  between passes
    broker: clean(plan)      worker: group(…)  each time a `.cleaned` segment is complete
    broker: proceed | abort  worker: …         it waits for this after each group
                             worker: progress  at most once a second, while it works
                             worker: done(report) | failed(detail)

`abort` may come at any time and the end of input means the same: then the broker is gone. Where the
system can, a worker dies with its broker: one that was stopped just then would else go on later, in
a directory that has a new owner.
"""

import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Final

from ledgerstone.cleaner.cleaning_pass import run_pass
from ledgerstone.cleaner.messages import (
    LENGTH_BYTES,
    Message,
    body_size,
    decode,
    encode,
    group_message,
    plan_of,
    report_message,
)
from ledgerstone.cleaner.plan import CleanedGroup, CleaningPlan, PassReport
from ledgerstone.cleaner.throttle import Throttle
from ledgerstone.clock import Dice
from ledgerstone.fs import Filesystem
from ledgerstone.system import OsFilesystem, SystemClock, SystemDice

_INPUT: Final = 0
_OUTPUT: Final = 1
# Cleaning can wait; whoever produces and consumes cannot.
_NICE: Final = 5
PROGRESS_S: Final = 1.0
_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h


class BrokerGone(Exception):
    """Nobody reads us any more."""


class Conversation:
    """The worker's end of the pipe."""

    def __init__(self, read_from: int, write_to: int) -> None:
        self._read_from = read_from
        self._write_to = write_to
        self.is_aborted = False
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

    def should_abort(self) -> bool:
        """Outside of a handshake the broker has nothing to say but that. It is asked all through a
        pass, so this is also where the broker is told that the pass goes on."""
        if time.monotonic() - self._said_at_s >= PROGRESS_S:
            self.send({"kind": "progress"})
        if not self.is_aborted and select.select([self._read_from], [], [], 0)[0]:
            self.receive()
            self.is_aborted = True
        return self.is_aborted

    def report_group(self, group: CleanedGroup) -> None:
        if self.should_abort():
            return
        self.send(group_message(group))
        self.is_aborted = self.receive()["kind"] != "proceed"


def clean(
    fs: Filesystem,
    plan: CleaningPlan,
    *,
    dice: Dice,
    on_group: Callable[[CleanedGroup], None],
    should_abort: Callable[[], bool],
    throttle: Throttle | None = None,
) -> PassReport | str:
    """One pass; a text where it came to no end. A border: what goes wrong is told, not raised."""

    def hand_over(group: CleanedGroup) -> None:
        # The owner renames the files at once, so not only they but their names must be durable.
        fs.fsync_dir(plan.directory)
        on_group(group)

    try:
        return run_pass(
            fs, plan, dice=dice, on_group=hand_over, should_abort=should_abort, throttle=throttle
        )
    except BrokerGone:
        raise
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {error}"


def serve(conversation: Conversation, fs: Filesystem) -> None:
    """Passes until the broker closes the pipe."""
    while True:
        message = conversation.receive()
        if message["kind"] == "ping":
            conversation.send({"kind": "progress"})
        if message["kind"] != "clean":
            # Or an abort that crossed the end of the pass it was for.
            continue
        conversation.is_aborted = False
        plan = plan_of(message)
        outcome = clean(
            fs,
            plan,
            dice=SystemDice(),
            throttle=_throttle(plan),
            on_group=conversation.report_group,
            should_abort=conversation.should_abort,
        )
        if isinstance(outcome, PassReport):
            conversation.send(report_message(outcome))
        else:
            conversation.send({"kind": "failed", "detail": outcome})


def _throttle(plan: CleaningPlan) -> Throttle | None:
    if plan.bytes_per_second is None:
        return None
    return Throttle(
        plan.bytes_per_second, clock=SystemClock(), sleep_ms=lambda ms: time.sleep(ms / 1000)
    )


def _die_with_the_broker() -> None:
    """Only Linux can; elsewhere a worker notices when it next asks whether to go on."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def main() -> None:
    _die_with_the_broker()
    # Ctrl-C at the broker's terminal is for the broker, which closes the pipe when it is done.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICE)
    try:
        serve(Conversation(_INPUT, _OUTPUT), OsFilesystem())
    except BrokerGone:
        sys.exit(0)


if __name__ == "__main__":
    main()
