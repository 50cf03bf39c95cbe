"""A log in memory that forgets what was not synced. Contract: `ledgerstone.raft.log`.

Changes since the last sync are an ordered list. Power loss keeps a prefix of them: a log's recovery
cuts a torn tail, so what is left always is one.
"""

from bisect import bisect_right
from collections.abc import Callable
from operator import attrgetter
from typing import NamedTuple

from ledgerstone.raft.replica import OffsetAndEpoch
from ledgerstone.records.batch import read_header
from ledgerstone.storage.leader_epochs import LeaderEpochs
from ledgerstone.types import Buffer


class Entry(NamedTuple):
    """One batch."""

    base_offset: int
    next_offset: int
    epoch: int
    crc: int
    data: bytes


class _Append(NamedTuple):
    entry: Entry


class _Truncate(NamedTuple):
    end_offset: int


class _StartOver(NamedTuple):
    at: OffsetAndEpoch


class _RaiseStart(NamedTuple):
    offset: int


_Change = _Append | _Truncate | _StartOver | _RaiseStart
_NEXT_OFFSET = attrgetter("next_offset")


class _Content:
    """Batches and where they begin, as the cache or the platter has them."""

    def __init__(self) -> None:
        self.start = OffsetAndEpoch(0, 0)
        self.entries: list[Entry] = []
        self.epochs = LeaderEpochs()

    @property
    def end_offset(self) -> int:
        return self.entries[-1].next_offset if self.entries else self.start.offset

    def change(self, change: _Change) -> None:
        match change:
            case _Append(entry):
                assert entry.base_offset == self.end_offset, (entry.base_offset, self.end_offset)
                self.entries.append(entry)
                self.epochs.assign(entry.epoch, entry.base_offset)
            case _Truncate(end_offset):
                while self.entries and self.entries[-1].next_offset > end_offset:
                    self.entries.pop()
                self.epochs.truncate_from_end(self.end_offset)
            case _StartOver(at):
                self.start = at
                self.entries.clear()
                self.epochs.clear()
            case _RaiseStart(offset):
                epoch = self.epochs.epoch_for_offset(offset - 1)
                gone = bisect_right(self.entries, offset, key=_NEXT_OFFSET)
                del self.entries[:gone]
                self.start = OffsetAndEpoch(offset, self.start.epoch if epoch is None else epoch)
                self.epochs.truncate_from_start(offset)

    def index_of(self, offset: int) -> int:
        """Of the first batch that ends after `offset`."""
        return bisect_right(self.entries, offset, key=_NEXT_OFFSET)


class MemoryLog:
    def __init__(
        self,
        on_append: Callable[[Entry], None] = lambda entry: None,
        share: Callable[[Entry], Entry] = lambda entry: entry,
    ) -> None:
        """`share` may return an equal entry that other logs hold, too."""
        self._share = share
        self._cache = _Content()
        self._platter = _Content()
        self._unsynced: list[_Change] = []
        self._synced_count = 0
        self._on_append = on_append
        self.raised_count = 0

    # -- the contract -------------------------------------------------------------------------

    @property
    def start_offset(self) -> int:
        return self._cache.start.offset

    @property
    def end_offset(self) -> int:
        return self._cache.end_offset

    @property
    def last_epoch(self) -> int:
        return self._cache.entries[-1].epoch if self._cache.entries else self._cache.start.epoch

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch | None:
        end = self._cache.epochs.end_offset_for(epoch, self.end_offset)
        return None if end.epoch < 0 else OffsetAndEpoch(end.end_offset, end.epoch)

    def epoch_of(self, offset: int) -> int | None:
        entry = self.entry_at(offset)
        return None if entry is None else entry.epoch

    def read(self, offset: int, max_bytes: int) -> bytes:
        found: list[bytes] = []
        size = 0
        for entry in self._cache.entries[self._cache.index_of(offset) :]:
            if found and size + len(entry.data) > max_bytes:
                break
            found.append(entry.data)
            size += len(entry.data)
        return b"".join(found)

    def append(self, batch: Buffer) -> None:
        header = read_header(batch)
        entry = Entry(
            header.base_offset, header.next_offset, header.leader_epoch, header.crc, bytes(batch)
        )
        entry = self._share(entry)
        self._change(_Append(entry))
        self._on_append(entry)

    def truncate_to(self, end_offset: int) -> None:
        self._change(_Truncate(end_offset))

    def start_over(self, at: OffsetAndEpoch) -> None:
        self._change(_StartOver(at))

    def raise_start_offset(self, offset: int) -> None:
        if offset > self.start_offset:
            self.raised_count += 1
            self._change(_RaiseStart(offset))

    def _change(self, change: _Change) -> None:
        self._cache.change(change)
        self._unsynced.append(change)

    # -- the disk -----------------------------------------------------------------------------

    def begin_sync(self) -> int:
        """A mark: what was changed before it is durable once `end_sync` says so."""
        return self._synced_count + len(self._unsynced)

    def end_sync(self, mark: int) -> None:
        count = mark - self._synced_count
        if count > 0:
            self._keep(count)

    def _keep(self, count: int) -> None:
        for change in self._unsynced[:count]:
            self._platter.change(change)
        del self._unsynced[:count]
        self._synced_count += count

    @property
    def unsynced_count(self) -> int:
        return len(self._unsynced)

    def lose_power(self, kept: int) -> bool:
        """Only the first `kept` unsynced changes survive; returns whether any was lost."""
        lost = kept < len(self._unsynced)
        self._keep(kept)
        self._unsynced.clear()
        cache = _Content()
        cache.start = self._platter.start
        cache.entries = list(self._platter.entries)
        cache.epochs = LeaderEpochs(self._platter.epochs.entries())
        self._cache = cache
        return lost

    # -- for checkers -------------------------------------------------------------------------

    def entry_at(self, offset: int) -> Entry | None:
        index = self._cache.index_of(offset)
        if offset < self.start_offset or index >= len(self._cache.entries):
            return None
        return self._cache.entries[index]

    def previous_of(self, entry: Entry) -> Entry | None:
        index = self._cache.index_of(entry.base_offset)
        return self._cache.entries[index - 1] if index > 0 else None

    def entries_from(self, offset: int) -> list[Entry]:
        return self._cache.entries[self._cache.index_of(offset) :]

    def holds_durably(self, offset: int, epoch: int) -> bool:
        """Whether the record at `offset` is on the platter, or in what a snapshot replaced."""
        if offset < self._platter.start.offset:
            return True
        index = self._platter.index_of(offset)
        if index >= len(self._platter.entries):
            return False
        return self._platter.entries[index].epoch == epoch
