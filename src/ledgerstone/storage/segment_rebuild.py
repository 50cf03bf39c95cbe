"""Rebuilds a segment from its log file alone: the good batches and their index entries.

Grade D: reads through a `File`. An unclean start reads gigabytes this way, so windows of a large
file go to a kernel, and objects are made only of batches that `OnBatch` needs to see. `_take_plain`
says what the kernel does, and serves small files, for which no kernel has to be loaded. The rules
are those of an append, `Segment.account`, which tests use as the reference.
"""

from array import array
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple

from ledgerstone.errors import KernelBuildFailed, UnsupportedForMessageFormat
from ledgerstone.fs import File
from ledgerstone.records.batch import (
    ATTRIBUTES_AT,
    CONTROL_FLAG,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MIN_BATCH_LENGTH,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    read_header,
)
from ledgerstone.records.crc import crc32c
from ledgerstone.records.kernels.rebuilding import Rebuilding, RebuildStop
from ledgerstone.storage.batch_scan import WINDOW_BYTES, refuse_old_format
from ledgerstone.storage.producer_entry import REMEMBERED_BATCHES
from ledgerstone.types import INT32_MAX, INT64_MAX, NO_PRODUCER_ID, NO_TIMESTAMP

# From a batch header: base offset, length, leader epoch, magic, CRC, attributes, last offset delta,
# largest timestamp, producer id. The rest is skipped.
_UNPACK: Final = Struct(">qiibIHi8xqq10x").unpack_from
_OF_TRANSACTIONS: Final = TRANSACTIONAL_FLAG | CONTROL_FLAG
# Below it a file is not worth loading the kernels.
_COMPILED_BYTES: Final = 1 << 20
# Producers whose last batches are kept back at a time.
_MOST_HELD: Final = 1000

# Called in the order of the log with each batch of a transaction, each marker, each batch with a
# new leader epoch, and the last one, so that the caller knows how far the log goes. Of what a
# producer wrote outside of transactions, with those batches at least that a producer entry
# remembers, and with their headers alone.
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
        # Headers of the last batches of each producer that `on_batch` has not seen.
        self._held: dict[int, deque[bytes]] = {}
        # The header of the last batch, while `on_batch` has not seen it either.
        self._untold: bytes | None = None
        self._compiled: Rebuilding | None = None

    @property
    def next_offset(self) -> int:
        """One past the last good batch."""
        return self._last_offset + 1

    def read(self, file: File, end: int) -> None:
        """Takes the batches of a file of `end` bytes up to the first that is torn or bad.

        Raises CorruptRecord if it is bad, returns if it is torn; either way `size` is where the log
        ends."""
        try:
            self._read(file, end)
        finally:
            self._tell_held()
            if self._untold is not None:
                self._on_batch(read_header(self._untold), memoryview(self._untold))
                self._untold = None

    def _read(self, file: File, end: int) -> None:
        window = bytearray(min(WINDOW_BYTES, end))
        if _COMPILED_BYTES <= end <= INT32_MAX and self._base_offset <= INT64_MAX - INT32_MAX:
            self._compiled = self._rebuilding()
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

    def _rebuilding(self) -> Rebuilding:
        found = Rebuilding(
            self._base_offset,
            interval_bytes=self._room.interval_bytes,
            offset_room=self._room.offset_entries,
            time_room=self._room.time_entries,
            is_gapless=self._is_gapless,
        )
        self.offset_keys, self.offset_positions = found.offset_keys, found.offset_positions
        self.time_keys, self.time_offsets = found.time_keys, found.time_offsets
        return found

    def _take(self, view: memoryview) -> None:
        """Takes the whole batches in `view`; stops before bytes it does not understand."""
        if self._compiled is not None:
            try:
                if self._take_compiled(view, self._compiled):
                    return
            except KernelBuildFailed:
                pass
            self._compiled = None
        self._take_plain(view)

    def _take_compiled(self, view: memoryview, compiled: Rebuilding) -> bool:
        """False, and nothing is taken, where the kernel cannot compute CRCs."""
        compiled.begin(view)
        stop = compiled.take()
        if stop is RebuildStop.HAS_NO_CRC:
            return False
        while True:
            for producer_id, at in compiled.produced(REMEMBERED_BATCHES):
                self._hold(producer_id, bytes(view[at : at + HEADER_SIZE]))
            if stop is RebuildStop.TO_BE_TOLD:
                batch = view[compiled.at :]
                self._tell(batch[: read_header(batch).size])
                compiled.told()
            elif stop is not RebuildStop.ROWS_ARE_FULL:
                break
            stop = compiled.take()
        self._is_over = stop is RebuildStop.IS_OVER
        figures = compiled.figures
        self.size, self._last_offset = figures.size, figures.last_offset
        self.first_timestamp = figures.first_timestamp if figures.size else None
        self.max_timestamp = figures.max_timestamp
        self.offset_of_max_timestamp = figures.offset_of_max_timestamp
        self.bytes_since_index_entry = figures.bytes_since_index_entry
        if compiled.at:
            last_at = compiled.last_at
            self._untold = bytes(view[last_at : last_at + HEADER_SIZE]) if last_at >= 0 else None
        return True

    def _take_plain(self, view: memoryview) -> None:
        base, (interval_bytes, most_offsets, most_times) = self._base_offset, self._room
        previous, leader_epoch, size = self._last_offset, self._leader_epoch, self.size
        highest, since_entry = self.max_timestamp, self.bytes_since_index_entry
        offset_keys, time_keys, is_gapless = self.offset_keys, self.time_keys, self._is_gapless
        unpack, at, last_at, end = _UNPACK, 0, -1, len(view)
        while end - at >= HEADER_SIZE:
            base_offset, length, epoch, magic, crc, attributes, delta, timestamp, producer_id = (
                unpack(view, at)
            )
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
            last_at = at
            if epoch != leader_epoch or attributes & _OF_TRANSACTIONS:
                leader_epoch, last_at = epoch, -1
                self._tell(view[at:stop])
            elif producer_id > NO_PRODUCER_ID:
                last_at = -1
                self._hold(producer_id, bytes(view[at : at + HEADER_SIZE]))
            # From here on, the same as `Segment.account`.
            if size == 0:
                self.first_timestamp = timestamp
            if timestamp > highest:
                highest, self.offset_of_max_timestamp = timestamp, last_offset
            if (
                since_entry > interval_bytes
                and len(offset_keys) < most_offsets
                and len(time_keys) < most_times
            ):
                offset_keys.append(last_offset - base)
                self.offset_positions.append(size)
                if highest > (time_keys[-1] if time_keys else NO_TIMESTAMP):
                    time_keys.append(highest)
                    self.time_offsets.append(self.offset_of_max_timestamp - base)
                since_entry = 0
            size += stop - at
            since_entry += stop - at
            previous, at = last_offset, stop
        self.size, self.bytes_since_index_entry, self.max_timestamp = size, since_entry, highest
        self._last_offset, self._leader_epoch = previous, leader_epoch
        if at:
            self._untold = bytes(view[last_at : last_at + HEADER_SIZE]) if last_at >= 0 else None

    def _hold(self, producer_id: int, header: bytes) -> None:
        """Most batches of a producer are superseded by its next five, and never told."""
        held = self._held.get(producer_id)
        if held is None:
            if len(self._held) == _MOST_HELD:
                self._tell_held()
            held = self._held[producer_id] = deque(maxlen=REMEMBERED_BATCHES)
        held.append(header)

    def _tell(self, batch: memoryview) -> None:
        self._tell_held()
        self._on_batch(read_header(batch), batch)

    def _tell_held(self) -> None:
        # Headers begin with their base offset, most significant byte first.
        for header in sorted(each for held in self._held.values() for each in held):
            self._on_batch(read_header(header), memoryview(header))
        self._held.clear()
