"""The latest record of each key: a topic as if it were fully compacted. Grade D.

Folded by compiled kernels in a thread, over the end of the log. Every key is shown with its newest
committed record; if the log is larger than the part that was read, the page says so.
"""

from collections.abc import Generator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from ledgerstone.errors import KafkaError, StorageError
from ledgerstone.fs import FileSlice
from ledgerstone.server.broker import Broker
from ledgerstone.server.http.server import HttpRequest, Job
from ledgerstone.state.content import bytes_of
from ledgerstone.state.fold import Fold
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_reader import FetchIsolation, read
from ledgerstone.types import INT64_MAX, AbortedTxn
from ledgerstone.web.forms import whole_number
from ledgerstone.web.hosting import partition_of, topic_facts, topic_of
from ledgerstone.web.record_pages import LARGEST_PAYLOAD
from ledgerstone.web.router import Answer, NotShown, Rendered

LOOKED_AT_BYTES: Final = 32 << 20
SHOWN_KEYS: Final = 100
SLICE_BYTES: Final = 2 << 20
_SEED_BYTES: Final = 16


class LatestRow(NamedTuple):
    offset: int
    timestamp_ms: int
    key: bytes
    value: bytes | None


def latest_view(
    broker: Broker, request: HttpRequest, parts: Mapping[str, str]
) -> Generator[Job | None, Any, Answer]:
    topic, query = topic_of(broker, parts), dict(request.query)
    log = partition_of(broker, topic, request).log
    before = whole_number(query, "before", at_most=INT64_MAX)
    with_deleted = query.get("deleted") != "no"
    start_offset = tail_start(log)
    fold = Fold(
        seed=broker.dice.random_bytes(_SEED_BYTES), start_offset=start_offset, with_contents=False
    )
    try:
        pieces = yield from _folded(log, fold)
        rows: list[LatestRow] = []
        for piece in reversed(pieces):
            wanted = SHOWN_KEYS + 1 - len(rows)
            if wanted > 0:
                limit = INT64_MAX if before is None else before
                rows += yield partial(
                    _survivors, fold, piece, start_offset, limit, wanted, with_deleted
                )
    except (KafkaError, StorageError, OSError) as error:
        raise NotShown(503, f"{log.topic_partition} cannot be read: {error}") from None
    shown = rows[:SHOWN_KEYS]
    return Rendered(
        "latest.html",
        {
            **topic_facts(broker, topic),
            "partition": log.topic_partition.partition,
            "rows": shown,
            "live_keys": fold.live_keys,
            "deleted_keys": fold.deleted_keys,
            "records": fold.counts.records,
            "start_offset": start_offset,
            "is_whole": start_offset <= log.log_start_offset,
            "looked_at_bytes": sum(piece.size for piece in pieces),
            "with_deleted": with_deleted,
            "earlier": shown[-1].offset if len(rows) > SHOWN_KEYS else None,
        },
    )


def tail_start(log: PartitionLog) -> int:
    """The offset from which the rest of the log is small enough to read."""
    left, start_offset = LOOKED_AT_BYTES, log.log_end_offset
    for segment in reversed(list(log.segments)):
        if segment.size > left:
            return min(start_offset, _within(log, segment.base_offset, start_offset, left))
        left -= segment.size
        start_offset = segment.base_offset
    return max(start_offset, log.log_start_offset)


def _within(log: PartitionLog, base_offset: int, end_offset: int, left: int) -> int:
    """Binary search: where in one large segment the last `left` bytes begin."""
    segment = log.segments.floor(base_offset)
    assert segment is not None
    low, high = base_offset, end_offset
    while low < high:
        middle = (low + high) // 2
        found = segment.find(middle)
        if found is not None and segment.size - found.position > left:
            low = middle + 1
        else:
            high = middle
    return max(low, log.log_start_offset)


def _folded(log: PartitionLog, fold: Fold) -> Generator[Job | None, Any, list[FileSlice]]:
    """Feeds the log up to its last stable offset; returns the slices for a second pass."""
    slices: list[FileSlice] = []
    end_offset = log.last_stable_offset
    while fold.next_offset < end_offset:
        result = read(
            log, fold.next_offset, max_bytes=SLICE_BYTES, isolation=FetchIsolation.TXN_COMMITTED
        )
        if result.slice is None:
            break
        if result.slice.size > LARGEST_PAYLOAD:
            what = f"The batch at offset {fold.next_offset} has {result.slice.size} bytes."
            raise NotShown(413, what)
        slices.append(result.slice)
        yield partial(_feed, fold, result.slice, result.aborted, end_offset)
    return slices


def _feed(fold: Fold, piece: FileSlice, aborted: tuple[AbortedTxn, ...], end_offset: int) -> None:
    fold.feed(piece.read(), end_offset=end_offset, aborted=aborted)


def _survivors(
    fold: Fold, piece: FileSlice, start_offset: int, before: int, wanted: int, with_deleted: bool
) -> list[LatestRow]:
    """The last `wanted` rows of a slice, newest first."""
    rows: list[LatestRow] = []
    data = piece.read()
    for columns in fold.survivors(data, start_offset=start_offset, tombstones=with_deleted):
        for index in np.flatnonzero(columns.offset < before)[-wanted:].tolist():
            key = bytes_of(columns, int(columns.key_start[index]), int(columns.key_length[index]))
            length = int(columns.value_length[index])
            start = int(columns.value_start[index])
            value = None if length < 0 else bytes_of(columns, start, length)
            rows.append(
                LatestRow(int(columns.offset[index]), int(columns.timestamp[index]), key, value)
            )
    return rows[::-1][:wanted]
