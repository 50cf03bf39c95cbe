"""What an owner and its worker may say, and in which order. Pure.

    owner: ping              worker: here                between jobs
    owner: job(content)      worker: progress            at least once a second, while it works
                             worker: part(content)       then it waits for a word
    owner: proceed | abort                               the word
                             worker: done(content) | failed(detail)

`abort` may come at any time. One that crosses the end of its job is read between jobs and dropped.
`Conversation` is the owner's end. It believes nothing that is out of turn: a worker that says
anything else is not the program it should be, and has to go.
"""

from enum import Enum, auto
from typing import Final, NamedTuple

from ledgerstone.workers.frames import Message

PING: Final = "ping"
HERE: Final = "here"
JOB: Final = "job"
PROGRESS: Final = "progress"
PART: Final = "part"
PROCEED: Final = "proceed"
ABORT: Final = "abort"
DONE: Final = "done"
FAILED: Final = "failed"


class Here(NamedTuple):
    """An idle worker is alive."""


class ProgressReport(NamedTuple):
    """The worker is still at its job."""


class PartReport(NamedTuple):
    """A piece of the result; the worker waits for a word about it."""

    content: Message


class DoneReport(NamedTuple):
    content: Message


class FailureReport(NamedTuple):
    """The job failed; the worker lives and takes the next one."""

    detail: str


Said = Here | ProgressReport | PartReport | DoneReport | FailureReport


class OutOfTurn(Exception):
    """A worker said what it must not say now."""


class _Turn(Enum):
    IDLE = auto()
    ASKED = auto()  # whether it is there
    AT_WORK = auto()
    WAITING = auto()  # for a word about a part


class Conversation:
    """The owner's end. Methods return the message to send; `hear` takes what was received."""

    __slots__ = ("_turn",)

    def __init__(self) -> None:
        self._turn = _Turn.IDLE

    def ping(self) -> Message:
        assert self._turn is _Turn.IDLE, self._turn
        self._turn = _Turn.ASKED
        return {"kind": PING}

    def job(self, content: Message) -> Message:
        assert self._turn is _Turn.IDLE, self._turn
        self._turn = _Turn.AT_WORK
        return {"kind": JOB, "content": content}

    def word(self, *, go_on: bool) -> Message | None:
        """None where there is nothing to say it about."""
        if self._turn is _Turn.WAITING:
            self._turn = _Turn.AT_WORK
            return {"kind": PROCEED if go_on else ABORT}
        if self._turn is _Turn.AT_WORK and not go_on:
            return {"kind": ABORT}
        return None

    def hear(self, message: Message) -> Said:
        kind = message["kind"]
        match self._turn, kind:
            case _Turn.ASKED, "here":
                self._turn = _Turn.IDLE
                return Here()
            case _Turn.AT_WORK, "progress":
                return ProgressReport()
            case _Turn.AT_WORK, "part":
                self._turn = _Turn.WAITING
                return PartReport(_content(message))
            case _Turn.AT_WORK, "done":
                self._turn = _Turn.IDLE
                return DoneReport(_content(message))
            case _Turn.AT_WORK, "failed" if isinstance(message.get("detail"), str):
                self._turn = _Turn.IDLE
                return FailureReport(message["detail"])
        raise OutOfTurn(f"it said {kind[:20]!r} while it was {self._turn.name.lower()}")


def _content(message: Message) -> Message:
    content = message.get("content")
    if not isinstance(content, dict):
        raise OutOfTurn(f"it said {message['kind']!r} without content")
    return content


def part(content: Message) -> Message:
    return {"kind": PART, "content": content}


def done(content: Message) -> Message:
    return {"kind": DONE, "content": content}


def failed(detail: str) -> Message:
    return {"kind": FAILED, "detail": detail}
