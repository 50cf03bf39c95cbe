"""A segment rebuilt from its log file, window after window. Pure, without numpy.

An unclean start reads gigabytes this way before a broker serves anybody. What the kernel decides is
in storage/segment_rebuild.py, its plain twin.
"""

import ctypes
from array import array
from enum import IntEnum
from typing import Final, NamedTuple

from ledgerstone.records.kernels.descriptors import RebuildCall
from ledgerstone.records.kernels.filling import filled
from ledgerstone.records.kernels.loader import kernel
from ledgerstone.types import NO_TIMESTAMP

# Entries, and batches of producers, that one call has room for.
_ROWS: Final = 1024
_STATE_FIELDS: Final = 16
_AT: Final = 0
_TOLD_AT: Final = 1
_LAST_AT: Final = 2
_NEW_ROWS: Final = slice(13, 16)
# None that a batch can have.
_NO_EPOCH_YET: Final = -(1 << 40)


class RebuildStop(IntEnum):
    NEEDS_BYTES = 0
    IS_OVER = 1
    TO_BE_TOLD = 2
    ROWS_ARE_FULL = 3
    HAS_NO_CRC = 4


class Figures(NamedTuple):
    size: int
    first_timestamp: int  # if there are batches
    max_timestamp: int
    offset_of_max_timestamp: int
    bytes_since_index_entry: int
    last_offset: int


class Rebuilding:
    """`begin` a window, then `take` until it stops for good; `told` after TO_BE_TOLD."""

    __slots__ = (
        *("_call", "_offsets", "_positions", "_produced_at", "_producer_ids", "_state"),
        *("_time_offsets", "_times", "offset_keys", "offset_positions", "time_keys"),
        "time_offsets",
    )

    def __init__(
        self,
        base_offset: int,
        *,
        interval_bytes: int,
        offset_room: int,
        time_room: int,
        is_gapless: bool,
    ) -> None:
        # Entries of the segment, offsets relative to its base.
        self.offset_keys, self.offset_positions = array("i"), array("i")
        self.time_keys, self.time_offsets = array("q"), array("i")
        self._offsets, self._positions, self._time_offsets = (
            array("i", bytes(4 * _ROWS)) for _ in range(3)
        )
        self._times, self._producer_ids, self._produced_at = (
            array("q", bytes(8 * _ROWS)) for _ in range(3)
        )
        # As `source.rebuilding` numbers them.
        self._state = (ctypes.c_int64 * _STATE_FIELDS)(
            *(0, -1, -1, 0, NO_TIMESTAMP, NO_TIMESTAMP, base_offset, 0, base_offset - 1),
            *(_NO_EPOCH_YET, 0, 0, NO_TIMESTAMP, 0, 0, 0),
        )
        self._call = filled(
            RebuildCall,
            buffer=b"",
            end=0,
            base_offset=base_offset,
            interval_bytes=interval_bytes,
            offset_room=offset_room,
            time_room=time_room,
            is_gapless=int(is_gapless),
            rows=_ROWS,
            state=self._state,
            offset_keys=self._offsets,
            offset_positions=self._positions,
            time_keys=self._times,
            time_offsets=self._time_offsets,
            producer_ids=self._producer_ids,
            produced_at=self._produced_at,
        )

    def begin(self, window: memoryview) -> None:
        """Its first byte is the one behind the last batch taken."""
        self._call.set(buffer=window, end=len(window))
        self._state[_AT], self._state[_TOLD_AT], self._state[_LAST_AT] = 0, -1, -1

    def take(self) -> RebuildStop:
        stop = RebuildStop(kernel("rebuild_batches")(self._call))
        offsets, times, _ = self._state[_NEW_ROWS]
        self.offset_keys += self._offsets[:offsets]
        self.offset_positions += self._positions[:offsets]
        self.time_keys += self._times[:times]
        self.time_offsets += self._time_offsets[:times]
        return stop

    @property
    def at(self) -> int:
        """In the window: the batch before which it stopped."""
        return self._state[_AT]

    @property
    def last_at(self) -> int:
        """The last batch of the window, if it has no producer and was not to be told; else -1."""
        return self._state[_LAST_AT]

    def told(self) -> None:
        self._state[_TOLD_AT] = self._state[_AT]

    def produced(self, most: int) -> list[tuple[int, int]]:
        """Producer and position of batches of the last call, in their order: of each producer the
        last `most`."""
        count = self._state[_NEW_ROWS][2]
        found: list[tuple[int, int]] = []
        seen: dict[int, int] = {}
        ids, places = self._producer_ids[:count], self._produced_at[:count]
        for producer_id, at in zip(reversed(ids), reversed(places), strict=True):
            number = seen.get(producer_id, 0)
            if number < most:
                seen[producer_id] = number + 1
                found.append((producer_id, at))
        found.reverse()
        return found

    @property
    def figures(self) -> Figures:
        return Figures(*self._state[3:9])
