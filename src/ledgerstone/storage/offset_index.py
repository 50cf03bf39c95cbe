"""The offset index of a segment: which file position to start reading from for an offset. Disk.

Owns the format of `.index` files and their rules; buffering and searching are in `index_file`.
Contract in README.md. An entry's key is the last offset of an appended set, its position where that
set begins. The segment decides when to add entries.

Differs from Kafka: no preallocation, see `index_file`. A file that Kafka left preallocated after a
crash ends in zero entries; `sanity_check` calls it corrupt, so that it gets rebuilt.
"""

import struct
from typing import ClassVar, Final, NamedTuple

from ledgerstone.errors import CorruptFile, IndexFull, IndexOutOfOrder, SegmentOffsetOverflow
from ledgerstone.storage.index_file import UNKNOWN_COUNT, SparseIndex
from ledgerstone.types import INT32_MAX

# relative offset int32, position int32
ENTRY: Final = struct.Struct(">ii")
ENTRY_BYTES: Final = ENTRY.size


class OffsetPosition(NamedTuple):
    offset: int
    position: int


def decode_entries(data: bytes, base_offset: int = 0) -> list[OffsetPosition]:
    """Every whole entry of a file's content; a torn one at the end is ignored."""
    whole = memoryview(data)[: len(data) - len(data) % ENTRY_BYTES]
    return [OffsetPosition(base_offset + o, position) for o, position in ENTRY.iter_unpack(whole)]


class OffsetIndex(SparseIndex):
    __slots__ = ()

    entry = ENTRY
    entry_bytes = ENTRY_BYTES
    typecodes: ClassVar[tuple[str, str]] = ("i", "i")

    @property
    def is_full(self) -> bool:
        # Called at every append: the count is nearly always known.
        count = self._count
        return (self.entry_count if count == UNKNOWN_COUNT else count) >= self.max_entries

    @property
    def last_offset(self) -> int:
        """The last indexed offset; the base offset if there is none."""
        last = self._last()
        return self.base_offset if last is None else self.base_offset + last[0]

    @property
    def last_position(self) -> int:
        """0 if there is no entry."""
        last = self._last()
        return 0 if last is None else last[1]

    def append(self, offset: int, position: int) -> None:
        relative = offset - self.base_offset
        if not 0 <= relative <= INT32_MAX:
            raise SegmentOffsetOverflow(
                f"{self.path}: offset {offset} does not fit base offset {self.base_offset}"
            )
        if self.is_full:
            raise IndexFull(f"{self.path}: all {self.max_entries} entries are taken")
        last = self._last()
        if last is not None and relative <= last[0]:
            raise IndexOutOfOrder(
                f"{self.path}: offset {offset} after {self.base_offset + last[0]}"
                f" in entry {self.entry_count}"
            )
        self._push(relative, position)

    def lookup(self, target_offset: int) -> OffsetPosition:
        """The largest entry at or below the target, else the segment's beginning."""
        slot = self._count_below(0, target_offset - self.base_offset + 1) - 1
        if slot < 0:
            return OffsetPosition(self.base_offset, 0)
        return self._offset_position(slot)

    def upper_bound_position(self, start_position: int, size: int) -> OffsetPosition | None:
        """The first entry at or past the end of a read."""
        slot = self._count_below(1, start_position + size)
        return self._offset_position(slot) if slot < self.entry_count else None

    def floor_position(self, position: int) -> int:
        """The largest indexed position at or below `position`, else 0: a batch begins there."""
        slot = self._count_below(1, position + 1) - 1
        return 0 if slot < 0 else self._entry_at(slot)[1]

    def truncate_to(self, offset: int) -> None:
        """Drops every entry at or above `offset`."""
        self._keep_first(self._count_below(0, offset - self.base_offset))

    def sanity_check(self) -> None:
        self._check_length()
        last = self._last()
        if last is None:
            return
        position = self.size_bytes - ENTRY_BYTES
        if last[0] < 0 or last[1] < 0:
            raise CorruptFile(self.path, position, f"last entry {last} has a negative field")
        previous = self._entry_at(self.entry_count - 2) if self.entry_count > 1 else None
        if previous is not None and last[0] <= previous[0]:
            raise CorruptFile(
                self.path, position, f"last relative offset {last[0]} follows {previous[0]}"
            )

    def _offset_position(self, slot: int) -> OffsetPosition:
        relative, position = self._entry_at(slot)
        return OffsetPosition(self.base_offset + relative, position)
