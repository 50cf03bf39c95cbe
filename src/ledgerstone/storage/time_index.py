"""The time index of a segment: the offset up to which no record is newer than a time. Disk.

Owns the format of `.timeindex` files and their rules; buffering and searching are in `index_file`.
Contract in README.md. An entry (timestamp, offset) says: every record with a greater timestamp has
a greater offset.

Differs from Kafka: no preallocation, see `index_file`. The slot that is reserved for the entry a
segment gets when it is rolled is therefore a convention, not space on disk.
"""

import struct
from typing import ClassVar, Final, NamedTuple

from ledgerstone.errors import CorruptFile, IndexFull, IndexOutOfOrder, SegmentOffsetOverflow
from ledgerstone.storage.index_file import UNKNOWN_COUNT, SparseIndex
from ledgerstone.types import INT32_MAX, NO_TIMESTAMP

# timestamp int64, relative offset int32
ENTRY: Final = struct.Struct(">qi")
ENTRY_BYTES: Final = ENTRY.size


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int


def decode_entries(data: bytes, base_offset: int = 0) -> list[TimestampOffset]:
    """Every whole entry of a file's content; a torn one at the end is ignored."""
    whole = memoryview(data)[: len(data) - len(data) % ENTRY_BYTES]
    return [TimestampOffset(t, base_offset + relative) for t, relative in ENTRY.iter_unpack(whole)]


class TimeIndex(SparseIndex):
    __slots__ = ()

    entry = ENTRY
    entry_bytes = ENTRY_BYTES
    typecodes: ClassVar[tuple[str, str]] = ("q", "i")

    @property
    def is_full(self) -> bool:
        """One slot stays free for the entry that is forced when the segment rolls."""
        # Called at every append: the count is nearly always known.
        count = self._count
        return (self.entry_count if count == UNKNOWN_COUNT else count) >= self.max_entries - 1

    @property
    def last_offset(self) -> int:
        return self.last_entry().offset

    def last_entry(self) -> TimestampOffset:
        last = self._last()
        return self._nothing() if last is None else self._timestamp_offset(last)

    def maybe_append(self, timestamp: int, offset: int, *, skip_full_check: bool = False) -> None:
        """Adds an entry when time has moved on; the same timestamp again changes nothing."""
        relative = offset - self.base_offset
        if not 0 <= relative <= INT32_MAX:
            raise SegmentOffsetOverflow(
                f"{self.path}: offset {offset} does not fit base offset {self.base_offset}"
            )
        if self.is_full and not skip_full_check:
            raise IndexFull(f"{self.path}: {self.entry_count} of {self.max_entries} entries taken")
        last = self.last_entry()
        if self.entry_count and (offset < last.offset or timestamp < last.timestamp):
            raise IndexOutOfOrder(
                f"{self.path}: timestamp {timestamp} offset {offset} after"
                f" timestamp {last.timestamp} offset {last.offset} in entry {self.entry_count}"
            )
        if timestamp > last.timestamp:
            self._push(timestamp, relative)

    def lookup(self, target_timestamp: int) -> TimestampOffset:
        """The largest entry at or below the target, else (-1, base offset)."""
        slot = self._count_below(0, target_timestamp + 1) - 1
        return self._nothing() if slot < 0 else self._timestamp_offset(self._entry_at(slot))

    def truncate_to(self, offset: int) -> None:
        """Drops every entry whose offset is at or above `offset`."""
        self._keep_first(self._count_below(1, offset - self.base_offset))

    def sanity_check(self) -> None:
        self._check_length()
        last = self._last()
        if last is None:
            return
        position = self.size_bytes - ENTRY_BYTES
        if last[1] < 0:
            raise CorruptFile(self.path, position, f"last relative offset {last[1]} is negative")
        if last == (0, 0):
            # Power loss saves the length of a file and not always its content. Where a log has
            # records of 1970, rebuilding its index does no harm.
            raise CorruptFile(self.path, position, "the last entry is all zeros")
        first = self._entry_at(0)
        if last[0] < first[0]:
            raise CorruptFile(
                self.path, position, f"last timestamp {last[0]} is below the first, {first[0]}"
            )
        previous = self._entry_at(self.entry_count - 2) if self.entry_count > 1 else None
        if previous is not None and (last[0] <= previous[0] or last[1] < previous[1]):
            raise CorruptFile(self.path, position, f"last entry {last} follows {previous}")

    def _nothing(self) -> TimestampOffset:
        return TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def _timestamp_offset(self, entry: tuple[int, int]) -> TimestampOffset:
        return TimestampOffset(entry[0], self.base_offset + entry[1])
