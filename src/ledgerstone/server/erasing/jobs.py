"""Searches, scans and writes on other brokers: begun, asked after, fetched in pieces. Grade D.

`RemoteJobs` is the side that asks, `HostJobs` the side that works. Whoever asks gives a job its
number, so that a lost answer to the beginning does not begin it twice. Results can be large, and
wait at the host until they are fetched. Contract: erasure/README.md, "Several brokers".
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from ledgerstone.clock import Clock
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.erasure.host_messages import CHUNK_BYTES, MAX_RESULT_BYTES, WorkKind, encoded
from ledgerstone.errors import InvalidRequest
from ledgerstone.server.erasing.others import OtherBrokers, Said, Unanswered

_FIRST_PAUSE_MS: Final = 50
_LONGEST_PAUSE_MS: Final = 1_000
# A broker whose answers stay away for so long is given up; the metadata may say so before.
_PATIENCE_MS: Final = 30_000
# Of jobs at a host at a time, and how long one is kept that nobody asks after.
MAX_HOST_JOBS: Final = 64
_FORGOTTEN_AFTER_MS: Final = 600_000
NOT_DONE: Final = -1
_FORGET: Final = -1

OnEnd = Callable[[bytes | Unanswered], None]


@dataclass(slots=True)
class _Job:
    number: int
    broker_id: int
    on_end: OnEnd
    is_for_user: bool = False
    data: bytearray = field(default_factory=bytearray)
    due_ms: int | None = None  # when it is asked after next; None: an answer is awaited
    pause_ms: int = _FIRST_PAUSE_MS
    silent_since_ms: int | None = None


@dataclass(slots=True)
class RemoteJobs:
    clock: Clock
    others: OtherBrokers
    _jobs: dict[int, _Job] = field(default_factory=dict)
    _next_number: int = 1

    def start(
        self,
        broker_id: int,
        content: Mapping[str, Any],
        on_end: OnEnd,
        *,
        is_for_user: bool = False,
    ) -> None:
        """`on_end` is called once, unless the jobs of erasures are forgotten before."""
        job = _Job(self._next_number, broker_id, on_end, is_for_user)
        self._next_number += 1
        self._jobs[job.number] = job

        def begun(word: Said | Unanswered) -> None:
            if job.number not in self._jobs:
                return
            if isinstance(word, Unanswered):
                self._end(job, word)
            else:
                self._rest(job)

        self.others.ask(broker_id, WorkKind.START, begun, encoded(content), job=job.number)

    def forget(self) -> None:
        """Those of erasures. What a user asked for is no business of the journal, and the user
        waits for its end."""
        self._jobs = {number: job for number, job in self._jobs.items() if job.is_for_user}

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def next_deadline_ms(self) -> int | None:
        due = [each.due_ms for each in self._jobs.values() if each.due_ms is not None]
        return min(due, default=None)

    def tick(self) -> None:
        now_ms = self.clock.monotonic_ms()
        for job in list(self._jobs.values()):
            if job.due_ms is not None and now_ms >= job.due_ms:
                job.due_ms = None
                self._fetch(job)

    def _rest(self, job: _Job) -> None:
        job.due_ms = self.clock.monotonic_ms() + job.pause_ms
        job.pause_ms = min(job.pause_ms * 2, _LONGEST_PAUSE_MS)

    def _fetch(self, job: _Job) -> None:
        def heard(word: Said | Unanswered) -> None:
            if job.number not in self._jobs:
                return
            if isinstance(word, Unanswered):
                self._missed(job, word)
            elif word.size == NOT_DONE:
                job.silent_since_ms = None
                self._rest(job)
            else:
                self._take(job, word)

        position = len(job.data)
        self.others.ask(job.broker_id, WorkKind.RESULT, heard, job=job.number, position=position)

    def _missed(self, job: _Job, word: Unanswered) -> None:
        """An answer got lost; one that was given and refuses is the end."""
        now_ms = self.clock.monotonic_ms()
        if job.silent_since_ms is None:
            job.silent_since_ms = now_ms
        if not word.may_be_done or now_ms - job.silent_since_ms >= _PATIENCE_MS:
            self._end(job, word)
        else:
            self._rest(job)

    def _take(self, job: _Job, word: Said) -> None:
        job.silent_since_ms = None
        job.data += word.content
        if word.size > MAX_RESULT_BYTES or len(job.data) > word.size or not word.content:
            reason = f"broker {job.broker_id} sends {word.size} bytes that are no result"
            self._end(job, Unanswered(reason))
        elif len(job.data) == word.size:
            self.others.ask(
                job.broker_id, WorkKind.RESULT, _ignored, job=job.number, position=_FORGET
            )
            self._end(job, bytes(job.data))
        else:
            self._fetch(job)

    def _end(self, job: _Job, outcome: bytes | Unanswered) -> None:
        del self._jobs[job.number]
        job.on_end(outcome)


def _ignored(word: Said | Unanswered) -> None:
    """It is forgotten in time by itself."""


class JobKey(NamedTuple):
    """Whose job: another life of the same broker begins to count anew."""

    broker_id: int
    broker_epoch: int
    number: int


@dataclass(slots=True)
class _HostJob:
    asked_ms: int
    result: bytes | None = None
    failure: str | None = None


@dataclass(slots=True)
class HostJobs:
    clock: Clock
    _jobs: dict[JobKey, _HostJob] = field(default_factory=dict)

    def begin(self, key: JobKey) -> bool:
        """False where it is known already. InvalidRequest where there are too many."""
        now_ms = self.clock.monotonic_ms()
        for each, job in list(self._jobs.items()):
            if now_ms - job.asked_ms >= _FORGOTTEN_AFTER_MS:
                del self._jobs[each]
        if key in self._jobs:
            return False
        if len(self._jobs) >= MAX_HOST_JOBS:
            raise InvalidRequest(f"{len(self._jobs)} jobs are under way, at most {MAX_HOST_JOBS}")
        self._jobs[key] = _HostJob(now_ms)
        return True

    def end(self, key: JobKey, content: Mapping[str, Any] | str) -> None:
        """With its result, or with why there is none."""
        job = self._jobs.get(key)
        if job is None:
            return
        if isinstance(content, str):
            job.failure = content
            return
        job.result = encoded(content)
        if len(job.result) > MAX_RESULT_BYTES:
            job.failure = f"its result has {len(job.result)} bytes, at most {MAX_RESULT_BYTES}"

    def result(self, key: JobKey, position: int) -> tuple[int, bytes]:
        """The size of the whole, or NOT_DONE, and what lies from `position` on."""
        if position == _FORGET:
            self._jobs.pop(key, None)
            return NOT_DONE, b""
        job = self._jobs.get(key)
        if job is None:
            raise InvalidRequest(f"there is no job {key.number}: it was forgotten, or never begun")
        job.asked_ms = self.clock.monotonic_ms()
        if job.failure is not None:
            raise InvalidRequest(job.failure)
        if job.result is None:
            return NOT_DONE, b""
        if not 0 <= position < len(job.result):
            raise InvalidRequest(f"position {position} of {len(job.result)} bytes")
        return len(job.result), job.result[position : position + CHUNK_BYTES]
