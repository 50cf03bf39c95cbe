"""What `ledgerstone state` prints: totals, rows, one key, and a line of progress. Shell."""

import sys
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from ledgerstone.cli.output import (
    bytes_field,
    flush,
    printable,
    show_bytes,
    show_time,
    write_json,
    write_line,
    write_rows,
)
from ledgerstone.clock import Clock
from ledgerstone.dataclasses import asdict
from ledgerstone.state.content import checksum_text
from ledgerstone.state.fold import KeyStatus
from ledgerstone.state.rebuild import Progress
from ledgerstone.state.rows import Row
from ledgerstone.state.topic_state import TopicState
from ledgerstone.uuid_text import uuid_to_text

_MB: Final = 1_000_000
_PROGRESS_EVERY_MS: Final = 200
_COLUMNS: Final = (
    "partition",
    "log_start_offset",
    "start_offset",
    "end_offset",
    "high_watermark",
    "last_stable_offset",
    "live_keys",
    "deleted_keys",
    "checksum",
)


class ProgressLine:
    """One line on a terminal, overwritten in place; silent if stderr is not a terminal."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started_ms = clock.monotonic_ms()
        self._next_ms = self._started_ms + _PROGRESS_EVERY_MS
        self._is_shown = False
        self.bytes = 0

    @property
    def seconds(self) -> float:
        return (self._clock.monotonic_ms() - self._started_ms) / 1000

    def __call__(self, progress: Progress) -> None:
        self.bytes = progress.bytes
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._next_ms or not sys.stderr.isatty():
            return
        self._next_ms = now_ms + _PROGRESS_EVERY_MS
        self._is_shown = True
        rate = progress.bytes / _MB / max(self.seconds, 1e-3)
        where = f"{printable(str(progress.partition))} {progress.next_offset}/{progress.end_offset}"
        sys.stderr.write(f"\r\x1b[K{where}  {progress.bytes / _MB:.0f} MB  {rate:.0f} MB/s")
        sys.stderr.flush()

    def end(self) -> None:
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


class Work(NamedTuple):
    """The work of this run; the counts of a state may span many runs."""

    bytes_read: int
    seconds: float
    snapshot: str | None
    snapshot_bytes: int | None

    @property
    def mb_per_s(self) -> float:
        return self.bytes_read / _MB / max(self.seconds, 1e-3)


def show_summary(state: TopicState, work: Work, *, as_json: bool) -> None:
    if as_json:
        write_json(_summary(state, work))
    else:
        _write_summary(state, work)
    flush()


def _partition_rows(state: TopicState) -> list[dict[str, Any]]:
    return [
        {
            "partition": each.partition,
            "log_start_offset": each.log_start_offset,
            "start_offset": each.start_offset,
            "end_offset": each.end_offset,
            "high_watermark": each.high_watermark,
            "last_stable_offset": each.last_stable_offset,
            "live_keys": each.fold.live_keys,
            "deleted_keys": each.fold.deleted_keys,
            "checksum": checksum_text(each.fold.checksum),
        }
        for each in state.partitions
    ]


def _summary(state: TopicState, work: Work) -> dict[str, Any]:
    return {
        "topic": state.topic,
        "topic_id": uuid_to_text(state.topic_id),
        "cluster_id": state.cluster_id,
        "isolation": state.isolation.value,
        "complete": state.is_complete,
        "because": state.because,
        **state.totals()._asdict(),
        "checksum": checksum_text(state.checksum),
        "counts": asdict(state.counts),
        "partitions": _partition_rows(state),
        "bytes_read": work.bytes_read,
        "seconds": round(work.seconds, 3),
        "mb_per_s": round(work.mb_per_s, 1),
        "snapshot": work.snapshot,
        "snapshot_bytes": work.snapshot_bytes,
    }


def _write_summary(state: TopicState, work: Work) -> None:
    totals, counts = state.totals(), state.counts
    write_line(f"{printable(state.topic)}: {totals.live_keys} live keys, {state.isolation.value}")
    write_line(f"checksum {checksum_text(state.checksum)}")
    several = totals.keys_in_several_partitions
    if several:
        write_line(
            f"{totals.distinct_keys} distinct keys: {several} are live in several partitions, "
            "where a tombstone in one deletes nothing in the others"
        )
    write_line(
        f"{totals.deleted_keys} keys known deleted; {counts.tombstones} tombstones, "
        f"{counts.deletes_applied} of them deleted a live key; {counts.recreated} recreated"
    )
    hidden = f", {counts.aborted_batches} aborted" if counts.aborted_batches else ""
    write_line(
        f"{counts.records} records in {counts.batches} batches{hidden}, "
        f"{counts.records_without_key} without a key, {counts.bytes} bytes"
    )
    if not state.is_complete:
        write_line(f"may be incomplete: {printable(str(state.because))}")
    cells = [tuple(each.values()) for each in _partition_rows(state)]
    write_rows(_COLUMNS, cells, as_json=False)
    write_line(
        f"read {work.bytes_read / _MB:.1f} MB in {work.seconds:.2f} s, {work.mb_per_s:.0f} MB/s"
    )
    if work.snapshot is not None:
        write_line(f"wrote {printable(work.snapshot)}, {work.snapshot_bytes} bytes")


def show_rows(rows: Iterator[Row], *, limit: int | None, as_json: bool, full: bool) -> None:
    left = limit
    for row in rows:
        if left == 0:
            break
        left = None if left is None else left - 1
        write_json(row_fields(row)) if as_json else write_line(_row_line(row, full=full))
    flush()


def row_fields(row: Row) -> dict[str, Any]:
    return {
        "partition": row.partition,
        "offset": row.offset,
        "timestamp_ms": row.timestamp_ms,
        **bytes_field("key", row.key),
        **bytes_field("value", row.value),
    }


def _row_line(row: Row, *, full: bool) -> str:
    value = "DELETED" if row.value is None else show_bytes(row.value, full=full)
    return (
        f"{row.partition}:{row.offset} {show_time(row.timestamp_ms)} "
        f"{show_bytes(row.key, full=full)} {value}"
    )


def show_key(key: bytes, found: list[Row], *, as_json: bool, full: bool) -> None:
    """`found` has the key's latest record in each partition that has one."""
    live = any(row.value is not None for row in found)
    status = KeyStatus.LIVE if live else KeyStatus.DELETED if found else KeyStatus.NEVER_SEEN
    if as_json:
        where = [
            {
                "status": (KeyStatus.DELETED if row.value is None else KeyStatus.LIVE).value,
                **row_fields(row),
            }
            for row in found
        ]
        write_json({**bytes_field("key", key), "status": status.value, "partitions": where})
    elif not found:
        write_line(f"{show_bytes(key, full=full)} never seen: not written, or compacted away")
    for row in () if as_json else found:
        what = "deleted" if row.value is None else "live"
        value = "" if row.value is None else f": {show_bytes(row.value, full=full)}"
        write_line(
            f"{show_bytes(key, full=full)} {what} in partition {row.partition} at offset "
            f"{row.offset}, {show_time(row.timestamp_ms)}{value}"
        )
    flush()
