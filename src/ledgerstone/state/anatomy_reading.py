"""Resumable analysis: reads a partition's files from the start, or from where the last run ended.

Grade D. An analysis can resume as long as the segments it has read are the first ones of the next
plan; the last of them may have grown. Otherwise it starts over. The kernels check the structure; a
damaged log is not analysed, and the reason is reported.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final

import numpy as np

from ledgerstone.errors import CorruptFile, KafkaError, MessageTooLarge
from ledgerstone.fs import File, Filesystem, join
from ledgerstone.records.batch import BATCH_LENGTH_AT, LOG_OVERHEAD, MAGIC_END
from ledgerstone.records.kernels import Batches, Columns, scan, walk
from ledgerstone.records.kernels.windows import Int64s
from ledgerstone.state.anatomy_division import MAX_KEYS, Division
from ledgerstone.state.anatomy_plan import AnatomyPlan, AnatomyReport, SegmentSpan
from ledgerstone.state.visibility import Flags, check_order, hidden_batches
from ledgerstone.storage.filenames import Kind, file_name
from ledgerstone.storage.txn_index import decode_entries
from ledgerstone.types import AbortedTxn

WINDOW_BYTES: Final = 2 << 20
# Decompressed payloads of one walk; a larger batch is walked alone, up to the plan's limit.
PIECE_LIMIT_BYTES: Final = 8 << 20
_INT32: Final = Struct(">i")


class Analysis:
    """The analysis of one partition. Unusable after `bring_up_to` raises."""

    __slots__ = (
        *("_before_read", "_buffer", "_division", "_fs", "_max_keys", "_position", "_read"),
        "_seed",
    )

    def __init__(self, fs: Filesystem, *, seed: bytes, max_keys: int = MAX_KEYS) -> None:
        self._fs = fs
        self._seed = seed
        self._max_keys = max_keys
        self._division = self._new_division()
        self._read: list[SegmentSpan] = []  # as far as each was known
        self._position = 0  # in the last of them
        self._buffer = memoryview(b"")
        self._before_read: Callable[[int], None] = lambda size: None

    def _new_division(self) -> Division:
        return Division(seed=self._seed, max_keys=self._max_keys)

    @property
    def followed_keys(self) -> int:
        """The number of keys in memory."""
        return self._division.followed_keys

    def bring_up_to(
        self, plan: AnatomyPlan, *, before_read: Callable[[int], None] = lambda size: None
    ) -> AnatomyReport:
        """`before_read` gets the size of each window, and 0 before each file; it may wait, or
        raise."""
        self._before_read = before_read
        # Not bytearray: zeroing it would be wasted work. Not kept between calls.
        self._buffer = np.empty(WINDOW_BYTES, np.uint8).data
        try:
            return self._bring_up_to(plan)
        finally:
            self._buffer = memoryview(b"")

    def _bring_up_to(self, plan: AnatomyPlan) -> AnatomyReport:
        is_resumed = self._continues(plan.segments)
        if not is_resumed:
            self._division, self._read, self._position = self._new_division(), [], 0
        aborted = self._aborted_in(plan)
        read_bytes = 0
        for at, span in enumerate(plan.segments):
            if at < len(self._read) - 1:
                continue
            self._before_read(0)
            if at == len(self._read):
                self._division.begin_segment(span.base_offset)
                self._read.append(span)
                self._position = 0
            self._read[at] = span
            read_bytes += self._read_segment(plan, span, aborted)
            if self._position < span.size_bytes:
                # The end of decided data: the next segment waits until this one is done.
                break
        return AnatomyReport(
            segments=tuple(self._division.segments()),
            horizons=tuple(self._division.horizons()),
            keys=self._division.keys,
            sampled_one_in=self._division.weight,
            read_bytes=read_bytes,
            is_resumed=is_resumed,
        )

    def _continues(self, segments: tuple[SegmentSpan, ...]) -> bool:
        count = len(self._read)
        if not 0 < count <= len(segments) or tuple(self._read[:-1]) != segments[: count - 1]:
            return False
        last, now = self._read[-1], segments[count - 1]
        is_same = (last.base_offset, last.generation) == (now.base_offset, now.generation)
        return is_same and now.size_bytes >= last.size_bytes

    # -- files -------------------------------------------------------------------------------------

    def _aborted_in(self, plan: AnatomyPlan) -> Int64s:
        """One row per aborted transaction: first offset, marker's offset, producer id."""
        names = set(self._fs.list_dir(plan.directory))
        found: list[tuple[int, int, int]] = []
        for span in plan.segments:
            name = file_name(span.base_offset, Kind.TXN_INDEX)
            if name not in names:
                continue
            self._before_read(0)
            path = join(plan.directory, name)
            file = self._fs.open(path)
            try:
                entries = decode_entries(file.pread(file.size(), 0), path)
            finally:
                file.close()
            found += [(each.first_offset, each.last_offset, each.producer_id) for each in entries]
        return np.array(found, np.int64).reshape(-1, 3)

    def _read_segment(self, plan: AnatomyPlan, span: SegmentSpan, aborted: Int64s) -> int:
        path = join(plan.directory, file_name(span.base_offset, Kind.LOG))
        began_at = self._position
        if began_at >= span.size_bytes:
            return 0
        file = self._fs.open(path)
        try:
            for view, batches in self._windows(file, path, span.size_bytes):
                taken_bytes = self._take(view, batches, plan, aborted)
                self._position += taken_bytes
                if taken_bytes < batches.consumed:
                    break
        except KafkaError as error:
            raise CorruptFile(path, self._position, str(error)) from error
        finally:
            file.close()
        return self._position - began_at

    def _windows(
        self, file: File, path: str, size_bytes: int
    ) -> Iterator[tuple[memoryview, Batches]]:
        room = len(self._buffer)
        while self._position < size_bytes:
            wanted = min(room, size_bytes - self._position)
            self._before_read(wanted)
            view = (
                self._buffer[:wanted]
                if wanted <= len(self._buffer)
                else np.empty(wanted, np.uint8).data
            )
            if file.pread_into(view, self._position) < wanted:
                raise CorruptFile(path, self._position, f"the file ends before {size_bytes}")
            batches = scan(view)
            if len(batches) == 0:
                room = _declared_bytes(view, path, self._position, size_bytes - self._position)
                continue
            check_order(batches)
            yield view, batches
            room = len(self._buffer)

    def _take(self, view: memoryview, batches: Batches, plan: AnatomyPlan, aborted: Int64s) -> int:
        """Takes the decided part of a window; returns its bytes."""
        decided = int((batches.last_offset < plan.end_offset).sum())
        if decided == 0:
            return 0
        if decided < len(batches):
            batches = batches.first(decided)
        first, last = batches.base_offset[0], batches.last_offset[-1]
        here = aborted[(aborted[:, 0] <= last) & (aborted[:, 1] >= first)].tolist()
        transactions = [AbortedTxn(producer_id, offset) for offset, _, producer_id in here]
        hidden = hidden_batches(view, batches, transactions)
        done = 0
        while done < len(batches):
            columns = _walk(view, batches, hidden, done, plan.decompression_limit_bytes)
            self._division.take(columns, hidden[done : done + len(columns.batches)])
            done += len(columns.batches)
        return batches.consumed


def _walk(view: memoryview, batches: Batches, hidden: Flags, first: int, limit: int) -> Columns:
    start = int(batches.position[first])

    def within(most_bytes: int) -> Columns:
        return walk(
            view,
            start=start,
            end=batches.consumed,
            verify_crc=False,
            limit=most_bytes,
            skip=hidden[first:],
        )

    try:
        return within(PIECE_LIMIT_BYTES)
    except MessageTooLarge:
        return within(limit)


def _declared_bytes(view: memoryview, path: str, position: int, left_bytes: int) -> int:
    """The size of the one batch that does not fit, bounded by the file."""
    if len(view) < MAGIC_END:
        raise CorruptFile(path, position, f"{len(view)} bytes after the last batch")
    size = LOG_OVERHEAD + int(_INT32.unpack_from(view, BATCH_LENGTH_AT)[0])
    if not len(view) < size <= left_bytes:
        raise CorruptFile(path, position, f"a batch of {size} bytes, but {left_bytes} are left")
    return size
