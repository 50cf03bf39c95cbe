"""What a segment's indexes share: a path, a life cycle, and sorted entries. Disk.

`IndexFile` owns one path and does no I/O until it is used. `SparseIndex` adds fixed-size entries of
two sorted columns, found by binary search. The rules are in README.md.

Differs from Kafka: nothing is preallocated or mapped. A sparse index keeps its newest entries in
memory and writes them behind, so a file holds exactly its entries, and an idle index costs a few
integers and no descriptor. Killing the process loses unwritten entries of the active segment; an
unclean start rebuilds that segment's indexes anyway.
"""

import struct
from array import array
from bisect import bisect_left
from collections.abc import MutableSequence
from typing import ClassVar, Final

from ledgerstone.errors import CorruptFile
from ledgerstone.fs import File, Filesystem

UNKNOWN_COUNT: Final = -1
# A binary search on disk stops at this many entries and reads them at once.
BLOCK_ENTRIES: Final = 512
# The newest entries that stay in memory; twice this many trigger a write.
WARM_ENTRIES: Final = 1024

# Two arrays; `array` itself cannot be subscripted before Python 3.12.
_Columns = tuple[MutableSequence[int], MutableSequence[int]]


class IndexFile:
    """One file beside a segment's log. It may not exist yet, and may never need to."""

    __slots__ = ("_count", "_fs", "base_offset", "path")

    entry_bytes: ClassVar[int]

    def __init__(self, fs: Filesystem, path: str, base_offset: int) -> None:
        self._fs = fs
        self.path = path
        self.base_offset = base_offset
        # Entries, written or not; UNKNOWN_COUNT until first used.
        self._count = UNKNOWN_COUNT

    @property
    def entry_count(self) -> int:
        if self._count == UNKNOWN_COUNT:
            self._count = self.file_bytes() // self.entry_bytes
        return self._count

    @property
    def size_bytes(self) -> int:
        return self.entry_count * self.entry_bytes

    def exists(self) -> bool:
        return self._fs.exists(self.path)

    def flush(self) -> None:
        """Hands everything to the operating system."""

    def rename(self, new_path: str) -> None:
        """Creates no file if there is none; buffered entries go to the new path."""
        if self.exists():
            self._fs.rename(self.path, new_path)
        self.path = new_path

    def unlink(self) -> None:
        if self.exists():
            self._fs.unlink(self.path)
        self._count = 0

    def file_bytes(self) -> int:
        return self._fs.size_of(self.path) if self.exists() else 0

    def _check_length(self) -> None:
        size = self.file_bytes()
        if size % self.entry_bytes:
            raise CorruptFile(
                self.path, size, f"length {size} is not a multiple of {self.entry_bytes}"
            )

    def _read(self, file: File, slot: int, count: int) -> bytes:
        position = slot * self.entry_bytes
        data = file.pread(count * self.entry_bytes, position)
        if len(data) < count * self.entry_bytes:
            raise CorruptFile(
                self.path, position, f"{count} entries expected, {len(data)} bytes found"
            )
        return data

    def _write(self, data: bytes, position: int) -> None:
        file = self._fs.open(self.path, create=True)
        try:
            file.pwrite(data, position)
        finally:
            file.close()

    def _truncate_file(self, count: int) -> None:
        if self.exists():
            file = self._fs.open(self.path)
            try:
                file.truncate(count * self.entry_bytes)
            finally:
                file.close()


class SparseIndex(IndexFile):
    """Entries of two integers. Column 0 rises strictly, column 1 never falls.

    Invariant: slots [0, _written) are on disk, [_memory_start, entry_count) are in memory, and the
    two ranges leave no gap. While `_columns` is None nothing is in memory.
    """

    __slots__ = ("_columns", "_memory_start", "_written", "max_entries")

    entry: ClassVar[struct.Struct]
    typecodes: ClassVar[tuple[str, str]]

    def __init__(self, fs: Filesystem, path: str, base_offset: int, max_bytes: int) -> None:
        super().__init__(fs, path, base_offset)
        self.max_entries = max_bytes // self.entry_bytes
        self._written = 0
        self._memory_start = 0
        self._columns: _Columns | None = None

    def flush(self) -> None:
        """Writes the buffered entries. Creates no file if there are none."""
        if self._columns is None or self._written == self.entry_count:
            return
        keys, values = self._columns
        first = self._written - self._memory_start
        pack = self.entry.pack
        data = b"".join(map(pack, keys[first:], values[first:]))
        self._write(data, self._written * self.entry_bytes)
        self._written = self._count

    def close(self) -> None:
        """Writes buffered entries and frees memory. Using the index again reopens it."""
        self.flush()
        self._columns = None

    def seal(self) -> None:
        """As `close`, and the file exists afterwards even without entries.

        A sealed segment whose index is missing would be taken for one that needs recovery.
        """
        self.close()
        if not self.exists():
            self._write(b"", 0)

    def unlink(self) -> None:
        super().unlink()
        self._columns = None
        self._written = self._memory_start = 0

    def truncate_all(self) -> None:
        """Starts over, even from a file of invalid length."""
        self._columns = None
        self._written = self._memory_start = self._count = 0
        self._truncate_file(0)

    def _push(self, key: int, value: int) -> None:
        keys, values = self._warm_columns()
        keys.append(key)
        values.append(value)
        self._count += 1
        if len(keys) >= 2 * WARM_ENTRIES:
            self.flush()
            del keys[:WARM_ENTRIES], values[:WARM_ENTRIES]
            self._memory_start += WARM_ENTRIES

    def extend(self, keys: MutableSequence[int], values: MutableSequence[int]) -> None:
        """Appends many entries; the caller vouches for their order."""
        own_keys, own_values = self._warm_columns()
        own_keys.extend(keys)
        own_values.extend(values)
        self._count += len(keys)
        surplus = len(own_keys) - WARM_ENTRIES
        if surplus >= WARM_ENTRIES:
            self.flush()
            del own_keys[:surplus], own_values[:surplus]
            self._memory_start += surplus

    def _warm_columns(self) -> _Columns:
        """The columns in memory. An index that becomes active again first reads its tail."""
        if self._columns is None:
            count = self.entry_count
            start = max(0, count - BLOCK_ENTRIES)
            keys, values = (array(code) for code in self.typecodes)
            if count:
                for key, value in self._read_block(start, count):
                    keys.append(key)
                    values.append(value)
            self._columns = keys, values
            self._memory_start, self._written = start, count
        return self._columns

    def _entry_at(self, slot: int) -> tuple[int, int]:
        if self._columns is not None and slot >= self._memory_start:
            keys, values = self._columns
            return keys[slot - self._memory_start], values[slot - self._memory_start]
        return self._read_block(slot, slot + 1)[0]

    def _last(self) -> tuple[int, int] | None:
        count = self.entry_count
        return self._entry_at(count - 1) if count else None

    def _count_below(self, column: int, target: int) -> int:
        """The number of entries below `target` in that column; also the first slot that is not."""
        on_disk = self.entry_count
        if self._columns is not None:
            in_memory = bisect_left(self._columns[column], target)
            if in_memory or not self._memory_start:
                return self._memory_start + in_memory
            on_disk = self._memory_start
        return self._count_below_on_disk(column, target, on_disk)

    def _count_below_on_disk(self, column: int, target: int, end: int) -> int:
        if not end:
            return 0
        start = 0
        file = self._fs.open(self.path)
        try:
            while end - start > BLOCK_ENTRIES:
                middle = (start + end) // 2
                if self.entry.unpack(self._read(file, middle, 1))[column] < target:
                    start = middle + 1
                else:
                    end = middle
            block = self._read(file, start, end - start)
        finally:
            file.close()
        unpack_from, entry_bytes = self.entry.unpack_from, self.entry_bytes
        return start + bisect_left(
            range(end - start), target, key=lambda i: unpack_from(block, i * entry_bytes)[column]
        )

    def _read_block(self, start: int, end: int) -> list[tuple[int, int]]:
        file = self._fs.open(self.path)
        try:
            block = self._read(file, start, end - start)
        finally:
            file.close()
        return [(key, value) for key, value in self.entry.iter_unpack(block)]

    def _keep_first(self, count: int) -> None:
        if count >= self.entry_count:
            return
        if self._columns is None:
            self._truncate_file(count)
        else:
            self._truncate_memory(self._columns, count)
        self._count = count

    def _truncate_memory(self, columns: _Columns, count: int) -> None:
        keys, values = columns
        kept = max(0, count - self._memory_start)
        del keys[kept:], values[kept:]
        if not kept:
            # The next append reads the tail from disk again.
            self._columns = None
        if count < self._written:
            self._truncate_file(count)
            self._written = count
