"""Reads one partition's segment files as windows of whole batches. Shell; opens files read-only.

It decides visibility for `read_committed` as a broker does: aborted transactions are in the
`.txnindex` files, and the first open transaction is the end of what is visible.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ledgerstone.errors import CorruptFile, StorageError
from ledgerstone.records.batch import HEADER_SIZE, read_header
from ledgerstone.records.kernels import scan
from ledgerstone.spark.windows import FetchWindow
from ledgerstone.storage.batch_scan import scan_headers
from ledgerstone.storage.filenames import SWAP, Kind, file_name, parse_file_name
from ledgerstone.storage.txn_index import AbortedTxnEntry, decode_entries
from ledgerstone.system import OsFile
from ledgerstone.types import AbortedTxn

_WINDOW_BYTES: Final = 8 << 20


class InterruptedSwap(StorageError):
    """A crash came between two renames; only a broker knows which files count."""


class PartitionFiles:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        bases = []
        for name in sorted(os.listdir(directory)):
            parsed = parse_file_name(name)
            if parsed is not None and parsed.suffix == SWAP:
                raise InterruptedSwap(f"{directory / name}: start a broker on this directory once")
            if parsed is not None and parsed.kind is Kind.LOG and not parsed.suffix:
                bases.append(parsed.offset)
        self._bases = bases
        self._aborted = [entry for base in bases for entry in self._aborted_in(base)]

    @property
    def start_offset(self) -> int:
        return self._bases[0] if self._bases else 0

    def end_offset(self, *, committed: bool) -> int:
        """After the last batch, or where the first open transaction began.

        Raises CorruptFile where a segment before the last is torn: a crash tears only the end of a
        log, and what is missing in its middle is lost."""
        end = 0
        opened: dict[int, int] = {}  # producer id: first offset of its open transaction
        for base in self._bases:
            file = self._open(base)
            reached = 0
            try:
                for position, header in scan_headers(file, 0, file.size()):
                    end, reached = header.next_offset, position + header.size
                    if header.is_control:
                        opened.pop(header.producer_id, None)
                    elif header.is_transactional:
                        opened.setdefault(header.producer_id, header.base_offset)
                if reached < file.size() and base != self._bases[-1]:
                    name = self._directory / file_name(base, Kind.LOG)
                    raise CorruptFile(str(name), reached, "a batch is cut off, and more follow")
            finally:
                file.close()
        return min(opened.values(), default=end) if committed else end

    def windows_from(self, offset: int) -> Iterator[FetchWindow]:
        """As fetches would bring them: each goes on where the one before ended, though compaction
        may have left nothing there. Only what lies below the first file was deleted."""
        reached = max(offset, self.start_offset)
        following = [*self._bases[1:], None]
        for base, after in zip(self._bases, following, strict=True):
            if after is None or after > offset:
                for window, next_offset in self._windows_of(base, offset):
                    yield window._replace(fetch_offset=reached)
                    reached = next_offset

    def _windows_of(self, base: int, offset: int) -> Iterator[tuple[FetchWindow, int]]:
        """With the offset after each."""
        file = self._open(base)
        try:
            position, size, wanted = 0, file.size(), _WINDOW_BYTES
            while position + HEADER_SIZE <= size:
                data = file.pread(min(wanted, size - position), position)
                found = scan(data)
                if not len(found):
                    wanted = read_header(data).size
                    if position + wanted > size:
                        return  # the torn tail of a crash
                    continue
                position, wanted = position + found.consumed, _WINDOW_BYTES
                first, last = int(found.base_offset[0]), int(found.last_offset[-1])
                if last >= offset:
                    whole = memoryview(data)[: found.consumed]
                    aborted = self._aborted_between(first, last)
                    yield FetchWindow(first, whole, aborted), last + 1
        finally:
            file.close()

    def _aborted_between(self, first: int, last: int) -> tuple[AbortedTxn, ...]:
        return tuple(
            AbortedTxn(entry.producer_id, entry.first_offset)
            for entry in self._aborted
            if entry.last_offset >= first and entry.first_offset <= last
        )

    def _aborted_in(self, base: int) -> list[AbortedTxnEntry]:
        path = self._directory / file_name(base, Kind.TXN_INDEX)
        return decode_entries(path.read_bytes(), str(path)) if path.exists() else []

    def _open(self, base: int) -> OsFile:
        path = self._directory / file_name(base, Kind.LOG)
        return OsFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
