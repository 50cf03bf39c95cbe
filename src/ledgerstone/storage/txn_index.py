"""The transaction index of a segment: the aborted transactions whose marker it holds. Disk.

Owns the format of `.txnindex` files and their rules. Contract in README.md. A read_committed reader
skips what is listed here, so a missing entry is a dirty read: entries are written through at once.
Most segments never have one, and then there is no file.
"""

import struct
from typing import Final, NamedTuple

from ledgerstone.errors import CorruptFile, IndexOutOfOrder
from ledgerstone.fs import File
from ledgerstone.storage.index_file import IndexFile

# version int16, producer id, first offset, last offset, last stable offset int64
ENTRY: Final = struct.Struct(">hqqqq")
ENTRY_BYTES: Final = ENTRY.size
VERSION: Final = 0
# Read at a time: a few tens of KiB.
PIECE_ENTRIES: Final = 512


class AbortedTxnEntry(NamedTuple):
    """`last_offset` is the marker's; `last_stable_offset` is its value just after the marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode_entry(entry: AbortedTxnEntry) -> bytes:
    return ENTRY.pack(VERSION, *entry)


def decode_entries(data: bytes, path: str = "txnindex") -> list[AbortedTxnEntry]:
    """Every whole entry of a file's content; a torn one at the end is ignored."""
    whole = memoryview(data)[: len(data) - len(data) % ENTRY_BYTES]
    entries: list[AbortedTxnEntry] = []
    for version, *fields in ENTRY.iter_unpack(whole):
        if version != VERSION:
            position = len(entries) * ENTRY_BYTES
            raise CorruptFile(path, position, f"version {version}, only {VERSION} is known")
        entries.append(AbortedTxnEntry(*fields))
    return entries


class TxnIndex(IndexFile):
    __slots__ = ()

    entry_bytes = ENTRY_BYTES

    def append(self, entry: AbortedTxnEntry) -> None:
        count = self.entry_count
        if count:
            last = self._read_from(count - 1)[0]
            if entry.last_offset <= last.last_offset:
                raise IndexOutOfOrder(
                    f"{self.path}: last offset {entry.last_offset} after {last.last_offset}"
                    f" in entry {count}"
                )
        self._write(encode_entry(entry), count * ENTRY_BYTES)
        self._count = count + 1

    def entries(self) -> list[AbortedTxnEntry]:
        return self._read_from(0)

    def collect(
        self, fetch_offset: int, upper_bound_offset: int
    ) -> tuple[list[AbortedTxnEntry], bool]:
        """The transactions that overlap [fetch_offset, upper_bound_offset), and whether that is
        all of them; if not, later segments may hold more.

        Every read_committed fetch comes here, and a client can abort a million times in a segment:
        what ended before the fetch is skipped by search, the rest is read a piece at a time."""
        count = self.entry_count
        found: list[AbortedTxnEntry] = []
        if not count:
            return found, False
        file = self._fs.open(self.path)
        try:
            slot = 0 if count <= PIECE_ENTRIES else self._first_ending_at(file, fetch_offset)
            while slot < count:
                some = min(PIECE_ENTRIES, count - slot)
                for entry in decode_entries(self._read(file, slot, some), self.path):
                    overlaps = entry.first_offset < upper_bound_offset
                    if overlaps and entry.last_offset >= fetch_offset:
                        found.append(entry)
                    if entry.last_stable_offset >= upper_bound_offset:
                        # No transaction was open below this point when the marker was written.
                        return found, True
                slot += some
        finally:
            file.close()
        return found, False

    def _first_ending_at(self, file: File, offset: int) -> int:
        """The first slot whose transaction ended at `offset` or later; last offsets rise."""
        low, high = 0, self.entry_count
        while low < high:
            middle = (low + high) // 2
            (entry,) = decode_entries(self._read(file, middle, 1), self.path)
            if entry.last_offset < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def truncate_to(self, offset: int) -> None:
        """Cuts at the first transaction that ended at or above `offset`."""
        entries = self.entries()
        kept = next((i for i, e in enumerate(entries) if e.last_offset >= offset), len(entries))
        if kept < len(entries):
            self._truncate_file(kept)
            self._count = kept

    def reset(self) -> None:
        """Starts over, even from a file of invalid length."""
        self._truncate_file(0)
        self._count = 0

    def sanity_check(self) -> None:
        self._check_length()
        for slot, entry in enumerate(self.entries()):
            if entry.last_offset < self.base_offset:
                raise CorruptFile(
                    self.path,
                    slot * ENTRY_BYTES,
                    f"last offset {entry.last_offset} is below base offset {self.base_offset}",
                )

    def close(self) -> None:
        """Nothing is buffered and nothing is open."""

    def _read_from(self, slot: int) -> list[AbortedTxnEntry]:
        count = self.entry_count
        if slot >= count:
            return []
        file = self._fs.open(self.path)
        try:
            data = self._read(file, slot, count - slot)
        finally:
            file.close()
        return decode_entries(data, self.path)
