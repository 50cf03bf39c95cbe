"""Entries of both indexes for batches written in bulk. Pure.

The rule that says which batches get entries, and the entries' formats, are in storage/README.md.
"""

import ctypes
from struct import Struct
from typing import Final

import numpy as np

from ledgerstone.records.kernels.descriptors import IndexCall
from ledgerstone.records.kernels.filling import filled
from ledgerstone.records.kernels.loader import kernel
from ledgerstone.records.kernels.windows import Int64s
from ledgerstone.types import NO_TIMESTAMP

OFFSET_ENTRY_BYTES: Final = 8
TIME_ENTRY_BYTES: Final = 12
_FIRST_ROOM: Final = 256
_STATE_FIELDS: Final = 10
_TIME_ENTRY: Final = Struct(">qi")


class IndexEntries:
    """The entries of one new segment; they wait in memory, which their room bounds."""

    __slots__ = (
        *("_base_offset", "_call", "_entries", "_room", "_state"),
        *("offset_entries", "time_entries"),
    )

    def __init__(
        self, base_offset: int, *, interval_bytes: int, offset_room: int, time_room: int
    ) -> None:
        self._base_offset = base_offset
        self.offset_entries = bytearray()
        self.time_entries = bytearray()
        # Position, position of the last entry's batch, newest timestamp and its offset, the last
        # timestamp that has an entry, whether an index is full, room of both, entries of a call.
        self._state = (ctypes.c_int64 * _STATE_FIELDS)(
            0, 0, NO_TIMESTAMP, base_offset, NO_TIMESTAMP, 0, offset_room, time_room, 0, 0
        )
        nothing = np.empty(0, np.int64)
        self._call = filled(
            IndexCall,
            size=nothing,
            last_offset=nothing,
            max_timestamp=nothing,
            count=0,
            base_offset=base_offset,
            interval_bytes=interval_bytes,
            state=self._state,
            offset_entries=b"",
            time_entries=b"",
        )
        self._reserve(_FIRST_ROOM)

    def add(self, size: Int64s, last_offset: Int64s, max_timestamp: Int64s) -> None:
        """Batches that lie behind those before, one after the other; one of no bytes is none."""
        count = len(size)
        if count > self._room:
            self._reserve(count)
        sizes, offsets, timestamps = (
            np.ascontiguousarray(column, np.int64) for column in (size, last_offset, max_timestamp)
        )
        call = self._call
        call.set(size=sizes, last_offset=offsets, max_timestamp=timestamps, count=count)
        kernel("index_batches")(call)
        offset_count, time_count = self._state[8:]
        offset_entries, time_entries = self._entries
        self.offset_entries += offset_entries[: offset_count * OFFSET_ENTRY_BYTES]
        self.time_entries += time_entries[: time_count * TIME_ENTRY_BYTES]

    def _reserve(self, count: int) -> None:
        """A place for one entry of each kind for so many batches."""
        kinds = (OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES)
        arrays = [np.empty(count * entry_bytes, np.uint8) for entry_bytes in kinds]
        self._room = count
        self._entries = tuple(array.data for array in arrays)
        self._call.set(offset_entries=arrays[0], time_entries=arrays[1])

    def add_newest(self) -> None:
        """The entry a finished segment ends with, unless its timestamp has one."""
        _, _, timestamp, offset, indexed, *_ = self._state
        if timestamp > indexed:
            self.time_entries += _TIME_ENTRY.pack(timestamp, offset - self._base_offset)
