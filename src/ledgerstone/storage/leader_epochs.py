"""Which leader epoch begins at which offset of one partition. Pure; the file is in `checkpoints`.

Contract in README.md. Two replicas find where their logs diverge by asking each other where an
epoch ended, so the list must never claim more than the log holds: truncating the log truncates this
list too.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import attrgetter
from typing import Final, NamedTuple

from ledgerstone.errors import InvariantViolation
from ledgerstone.types import NO_LEADER_EPOCH, NO_OFFSET


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


class EpochEndOffset(NamedTuple):
    epoch: int
    end_offset: int


UNDEFINED: Final = EpochEndOffset(NO_LEADER_EPOCH, NO_OFFSET)

_EPOCH = attrgetter("epoch")
_START_OFFSET = attrgetter("start_offset")


class LeaderEpochs:
    """Invariant: epochs and start offsets both rise strictly."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._entries: list[EpochEntry] = []
        # One by one, so that entries out of order in a file are resolved as in a log.
        for entry in entries:
            self.assign(entry.epoch, entry.start_offset)

    def entries(self) -> list[EpochEntry]:
        return list(self._entries)

    @property
    def latest_epoch(self) -> int | None:
        return self._entries[-1].epoch if self._entries else None

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Notes that `epoch` begins at `start_offset`; returns whether anything changed.

        Contradicting entries are removed: the log follows the newest leader.
        """
        if epoch < 0 or start_offset < 0:
            raise InvariantViolation(f"epoch {epoch} cannot start at offset {start_offset}")
        entries = self._entries
        if entries and epoch == entries[-1].epoch and start_offset >= entries[-1].start_offset:
            return False
        while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
            entries.pop()
        entries.append(EpochEntry(epoch, start_offset))
        return True

    def truncate_from_end(self, end_offset: int) -> bool:
        """The log now ends at `end_offset`: epochs that begin there or later did not happen."""
        kept = bisect_left(self._entries, end_offset, key=_START_OFFSET)
        changed = kept < len(self._entries)
        del self._entries[kept:]
        return changed

    def truncate_from_start(self, start_offset: int) -> bool:
        """The log now begins at `start_offset`: the epoch of that offset begins there."""
        gone = bisect_right(self._entries, start_offset, key=_START_OFFSET)
        if not gone:
            return False
        first = EpochEntry(self._entries[gone - 1].epoch, start_offset)
        changed = gone > 1 or self._entries[0] != first
        self._entries[:gone] = [first]
        return changed

    def clear(self) -> bool:
        changed = bool(self._entries)
        self._entries.clear()
        return changed

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEndOffset:
        """The largest known epoch at or below the one asked for, and where it ends.

        An epoch above all known ones: undefined, because the asker may know more. One below all
        known ones: that epoch with our first offset, so that the asker truncates to it.
        """
        if epoch < 0 or not self._entries or epoch > self._entries[-1].epoch:
            return UNDEFINED
        if epoch == self._entries[-1].epoch:
            return EpochEndOffset(epoch, log_end_offset)
        higher = bisect_right(self._entries, epoch, key=_EPOCH)
        found_epoch = self._entries[higher - 1].epoch if higher else epoch
        return EpochEndOffset(found_epoch, self._entries[higher].start_offset)

    def epoch_for_offset(self, offset: int) -> int | None:
        after = bisect_right(self._entries, offset, key=_START_OFFSET)
        return self._entries[after - 1].epoch if after else None

    def check_invariants(self) -> None:
        for before, after in zip(self._entries, self._entries[1:], strict=False):
            assert before.epoch < after.epoch, (before, after)
            assert before.start_offset < after.start_offset, (before, after)
        assert not self._entries or min(self._entries[0]) >= 0, self._entries[0]
