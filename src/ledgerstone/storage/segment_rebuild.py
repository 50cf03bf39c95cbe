"""Rebuilds a segment from its log file alone: the good batches and their index entries.

Grade D: reads through a `File`. An unclean start reads gigabytes this way, so one loop checks a
window of batches, and makes objects only of batches that `OnBatch` needs to see. The rules are
those of an append, `Segment.account`, which tests use as the reference.
"""

from array import array
from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple

from ledgerstone.errors import UnsupportedForMessageFormat
from ledgerstone.fs import File
from ledgerstone.records.batch import (
    ATTRIBUTES_AT,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MIN_BATCH_LENGTH,
    BatchHeader,
    read_header,
)
from ledgerstone.records.crc import crc32c
from ledgerstone.storage.batch_scan import WINDOW_BYTES, refuse_old_format
from ledgerstone.types import INT32_MAX, NO_PRODUCER_ID, NO_TIMESTAMP

# From a batch header: base offset, length, leader epoch, magic, CRC, last offset delta, largest
# timestamp, producer id. The rest is skipped.
_UNPACK: Final = Struct(">qiibI2xi8xqq10x").unpack_from

# Called for each batch with a producer or a new leader epoch, and for the last batch of each
# window, so that the caller knows how far the log goes.
OnBatch = Callable[[BatchHeader, memoryview], None]


class IndexRoom(NamedTuple):
    interval_bytes: int
    offset_entries: int
    time_entries: int


class SegmentRebuild:
    """Grows window by window. Invariant: `size` counts whole and good batches only."""

    def __init__(
        self, base_offset: int, room: IndexRoom, on_batch: OnBatch, *, is_gapless: bool = False
    ) -> None:
        self.size = 0
        self.first_timestamp: int | None = None
        self.max_timestamp = NO_TIMESTAMP
        self.offset_of_max_timestamp = base_offset
        self.bytes_since_index_entry = 0
        # Entries, offsets relative to the base.
        self.offset_keys, self.offset_positions = array("i"), array("i")
        self.time_keys, self.time_offsets = array("q"), array("i")
        self._base_offset = base_offset
        self._room = room
        self._on_batch = on_batch
        self._last_offset = base_offset - 1
        self._leader_epoch: int | None = None
        # Never compacted: each batch begins where the one before it ends. The checksum does not
        # cover offsets, so this is the only check on them.
        self._is_gapless = is_gapless
        self._is_over = False

    @property
    def next_offset(self) -> int:
        """One past the last good batch."""
        return self._last_offset + 1

    def read(self, file: File, end: int) -> None:
        """Takes the batches of a file of `end` bytes up to the first that is torn or bad.

        Raises CorruptRecord if it is bad, returns if it is torn; either way `size` is where the log
        ends."""
        window = bytearray(min(WINDOW_BYTES, end))
        while not self._is_over and self.size + HEADER_SIZE <= end:
            position = self.size
            view = memoryview(window)[: end - position]
            filled = file.pread_into(view, position)
            self._take(view[:filled])
            if self.size > position or self._is_over:
                continue
            if filled < HEADER_SIZE:
                return
            try:
                size = read_header(view[:filled]).size
            except UnsupportedForMessageFormat as error:
                refuse_old_format(file, position, end, error)
            if position + size > end or filled < len(view):
                return
            # One batch larger than the window; its size was checked against the file.
            view.release()
            window = bytearray(size)

    def _take(self, view: memoryview) -> None:
        """Takes the whole batches in `view`; stops before bytes it does not understand."""
        base, interval_bytes, size = self._base_offset, self._room.interval_bytes, self.size
        previous, leader_epoch = self._last_offset, self._leader_epoch
        highest, since_entry = self.max_timestamp, self.bytes_since_index_entry
        is_gapless = self._is_gapless
        unpack, at, last_at, end, told_at = _UNPACK, 0, 0, len(view), 0
        while end - at >= HEADER_SIZE:
            base_offset, length, epoch, magic, crc, delta, timestamp, producer_id = unpack(view, at)
            stop = at + LOG_OVERHEAD + length
            if stop > end or magic != MAGIC or length < MIN_BATCH_LENGTH:
                break
            last_offset = base_offset + delta
            if crc32c(view[at + ATTRIBUTES_AT : stop]) != crc or base_offset <= previous:
                self._is_over = True
                break
            if not 0 <= last_offset - base <= INT32_MAX:
                self._is_over = True
                break
            if is_gapless and base_offset != previous + 1:
                self._is_over = True
                break
            if producer_id > NO_PRODUCER_ID or epoch != leader_epoch:
                leader_epoch, told_at = epoch, stop
                self._on_batch(read_header(view, at), view[at:stop])
            # From here on, the same as `Segment.account`.
            if size == 0:
                self.first_timestamp = timestamp
            if timestamp > highest:
                highest, self.offset_of_max_timestamp = timestamp, last_offset
            if since_entry > interval_bytes and self._has_room():
                self._add_entries(last_offset - base, size, highest)
                since_entry = 0
            size += stop - at
            since_entry += stop - at
            previous, last_at, at = last_offset, at, stop
        self.size, self.bytes_since_index_entry, self.max_timestamp = size, since_entry, highest
        self._last_offset, self._leader_epoch = previous, leader_epoch
        if told_at < at:
            self._on_batch(read_header(view, last_at), view[last_at:at])

    def _has_room(self) -> bool:
        if len(self.offset_keys) >= self._room.offset_entries:
            return False
        return len(self.time_keys) < self._room.time_entries

    def _add_entries(self, relative: int, position: int, timestamp: int) -> None:
        self.offset_keys.append(relative)
        self.offset_positions.append(position)
        if timestamp > (self.time_keys[-1] if self.time_keys else NO_TIMESTAMP):
            self.time_keys.append(timestamp)
            self.time_offsets.append(self.offset_of_max_timestamp - self._base_offset)
