"""Logs that machines are rebuilt from, replayed in slices so that others are served meanwhile.

Grade D. A coordinator that gains fifty partitions has fifty logs to read. They are replayed one
after the other, a slice at a time; the owner calls `work_off` until the queue is empty. A machine
serves once its log is replayed to the end, uncommitted records included, and all of that is
committed: then no answer can rest on a record that is lost.
"""

from collections.abc import Iterator
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from ledgerstone.clock import Clock
from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import Damage, KafkaError, StorageError
from ledgerstone.replication.partition import Partition
from ledgerstone.storage.filenames import Kind
from ledgerstone.storage.log import PartitionLog

# How long one slice may take, and how many records it may have at most.
_SLICE_MS: Final = 20
SLICE_RECORDS: Final = 5000
# The clock is asked after so many records.
_LOOK_RECORDS: Final = 64
# The log, or what is in it, cannot be read. Nothing of it may reach who told of the leadership.
_UNREADABLE: Final = (KafkaError, StorageError, OSError, ValueError, KeyError)


class Replayable(Protocol):
    """A machine and the partition that remembers it."""

    @property
    def partition(self) -> Partition: ...

    def load(self) -> Iterator[int]:
        """Replays the partition; yields the offset of each record before it is replayed."""
        ...


H = TypeVar("H", bound=Replayable)


class Ended(NamedTuple, Generic[H]):
    number: int
    hosted: H
    is_damaged: bool  # its log cannot be replayed, and is marked so


@dataclass(slots=True)
class _Replay(Generic[H]):
    hosted: H
    records: Iterator[int]
    last_offset: int


class SlicedReplays(Generic[H]):
    """Machines by the number of their partition, in the order in which they came."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[int, _Replay[H]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, number: int, hosted: H) -> None:
        start_offset = hosted.partition.log.log_start_offset
        self._waiting[number] = _Replay(hosted, hosted.load(), start_offset)

    def forget(self, number: int) -> None:
        """Another broker leads the partition now."""
        self._waiting.pop(number, None)

    def work_off(self) -> list[Ended[H]]:
        """One slice; the machines whose replay ended in it."""
        ended: list[Ended[H]] = []
        end_ms = self._clock.monotonic_ms() + _SLICE_MS
        left = SLICE_RECORDS
        while self._waiting and left > 0 and self._clock.monotonic_ms() < end_ms:
            number, replay = next(iter(self._waiting.items()))
            taken, is_over, is_damaged = self._replay(replay, left, end_ms)
            left -= taken
            if is_over:
                del self._waiting[number]
                ended.append(Ended(number, replay.hosted, is_damaged))
        return ended

    def _replay(self, replay: _Replay[H], limit: int, end_ms: int) -> tuple[int, bool, bool]:
        """How many records it took, whether it is over, and whether the log is damaged."""
        taken = 0
        try:
            for offset in replay.records:
                replay.last_offset = offset
                taken += 1
                is_time_up = taken % _LOOK_RECORDS == 0 and self._clock.monotonic_ms() >= end_ms
                if taken >= limit or is_time_up:
                    return taken, False, False
        except _UNREADABLE as error:
            _mark_damaged(replay.hosted.partition.log, replay.last_offset, error)
            return taken, True, True
        return taken, True, False


def _mark_damaged(log: PartitionLog, last: int, error: Exception) -> None:
    path = (log.segments.floor(last) or log.segments.first).path(Kind.LOG)
    log.damaged([Damage(path, 0, 0, f"after offset {last} it cannot be replayed: {error}")])
