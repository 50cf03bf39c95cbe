"""Turns an open log into the facts for selection and the plan for a worker. Grade D.

Reads sizes and timestamps through the log's segments, which cache them.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

from ledgerstone.cleaner.holds import NO_HOLDS, Holds
from ledgerstone.cleaner.plan import CleaningPlan, LastBatch, SourceSegment
from ledgerstone.cleaner.selection import DirtySegment, LogFacts, LogToClean
from ledgerstone.config.broker_keys import BROKER_KEYS
from ledgerstone.dataclasses import dataclass
from ledgerstone.records.compression import stored_limit
from ledgerstone.storage.filenames import Kind
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.segment import Segment
from ledgerstone.types import INT32_MAX, INT64_MAX

# The window a pass reads through unless log.cleaner.io.buffer.size is set.
DEFAULT_WINDOW_BYTES: Final = 1 << 20
SMALLEST_WINDOW_BYTES: Final = 1 << 16
_UNLIMITED: Final = 1e300
_PREFIX: Final = "log.cleaner."
_OWN_PREFIX: Final = "ledgerstone.cleaner."


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerSettings:
    """The cleaner's broker keys, typed. All but `enable` may change while the broker runs."""

    enable: bool
    threads: int
    dedupe_buffer_bytes: int  # of one pass, as is bytes_per_second
    load_factor: float
    window_bytes: int
    bytes_per_second: float | None
    backoff_ms: int
    finish_deletes: bool
    tombstone_lag_ms: int
    retry_ms: int  # 0: a partition that failed stays uncleanable until the next start
    history_runs: int
    overdue_ms: int
    worker_timeout_ms: int  # 0: forever
    check_near_tombstones: bool

    @classmethod
    def from_values(cls, values: Mapping[str, str]) -> "CleanerSettings":
        """`values` are the broker's settings as text, including dynamic ones."""

        def value(name: str) -> Any:  # noqa: ANN401
            key = BROKER_KEYS[name]
            return key.parse(values[name]) if name in values else key.default

        threads = value(_PREFIX + "threads")
        per_pass = max(threads, 1)
        rate = value(_PREFIX + "io.max.bytes.per.second")
        window_bytes = DEFAULT_WINDOW_BYTES
        if _PREFIX + "io.buffer.size" in values:
            # Half for reading and half for writing, as in Kafka.
            share = value(_PREFIX + "io.buffer.size") // per_pass // 2
            window_bytes = max(share, SMALLEST_WINDOW_BYTES)
        return cls(
            enable=value(_PREFIX + "enable"),
            threads=threads,
            dedupe_buffer_bytes=min(value(_PREFIX + "dedupe.buffer.size") // per_pass, INT32_MAX),
            load_factor=value(_PREFIX + "io.buffer.load.factor"),
            window_bytes=window_bytes,
            bytes_per_second=max(rate / per_pass, 1.0) if rate < _UNLIMITED else None,
            backoff_ms=value(_PREFIX + "backoff.ms"),
            finish_deletes=value(_OWN_PREFIX + "finish.deletes"),
            tombstone_lag_ms=value(_OWN_PREFIX + "tombstone.lag.ms"),
            retry_ms=value(_OWN_PREFIX + "retry.ms"),
            history_runs=value(_OWN_PREFIX + "history.runs"),
            overdue_ms=value(_OWN_PREFIX + "overdue.ms"),
            worker_timeout_ms=value(_OWN_PREFIX + "worker.timeout.ms"),
            check_near_tombstones=value("ledgerstone.near.tombstones.check"),
        )


def facts_of(log: PartitionLog, *, times_from: int | None) -> LogFacts:
    """Timestamps are read only for segments with offsets from `times_from` on: each may be a
    disk read."""
    config = log.config
    segments = list(log.segments)
    with_times: frozenset[int] = frozenset()
    if times_from is not None:
        with_times = frozenset(
            each.base_offset for each in log.segments.holding_from(times_from) if each.size > 0
        )
    return LogFacts(
        topic_partition=log.topic_partition,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        last_stable_offset=log.last_stable_offset,
        segments=[_segment_facts(each, each.base_offset in with_times) for each in segments],
        min_compaction_lag_ms=config.min_compaction_lag_ms,
        max_compaction_lag_ms=config.max_compaction_lag_ms,
        min_cleanable_dirty_ratio=config.min_cleanable_dirty_ratio,
    )


def needs_times(log: PartitionLog, settings: CleanerSettings) -> bool:
    """Whether anything about this log depends on how old its records are."""
    config = log.config
    has_lag = config.min_compaction_lag_ms > 0 or config.max_compaction_lag_ms < INT64_MAX
    return has_lag or settings.finish_deletes


def _segment_facts(segment: Segment, with_times: bool) -> DirtySegment:
    if not with_times:
        return DirtySegment(segment.base_offset, segment.size)
    return DirtySegment(
        segment.base_offset, segment.size, segment.first_timestamp or 0, segment.largest_timestamp
    )


def make_plan(
    log: PartitionLog,
    to_clean: LogToClean,
    settings: CleanerSettings,
    *,
    now_ms: int,
    holds: Holds = NO_HOLDS,
) -> CleaningPlan | None:
    """None if there is no sealed segment to rewrite."""
    sources = [
        segment
        for segment in log.segments
        if segment.base_offset < to_clean.first_uncleanable_offset
    ]
    if not sources:
        return None
    bases = log.segments.bases()
    ends = dict(pairwise(bases))
    config = log.config
    return CleaningPlan(
        topic_partition=log.topic_partition,
        directory=log.directory,
        segments=tuple(_source(log, each, ends[each.base_offset]) for each in sources),
        # If only a horizon has passed, nothing is dirty and the map stays empty.
        first_dirty_offset=min(to_clean.first_dirty_offset, to_clean.first_uncleanable_offset),
        first_uncleanable_offset=to_clean.first_uncleanable_offset,
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        producers={
            producer_id: LastBatch(last_data_offset=last_data_offset, producer_epoch=epoch)
            for producer_id, (last_data_offset, epoch) in log.producers.active_producers().items()
        },
        held_from_offset=holds.held_from_offset,
        hold_max_ms=holds.max_ms,
        removable_to=holds.removable_to,
        dedupe_buffer_bytes=settings.dedupe_buffer_bytes,
        load_factor=settings.load_factor,
        window_bytes=settings.window_bytes,
        decompression_limit_bytes=stored_limit(config.max_message_bytes),
        bytes_per_second=settings.bytes_per_second,
    )


def _source(log: PartitionLog, segment: Segment, end_offset: int) -> SourceSegment:
    return SourceSegment(
        base_offset=segment.base_offset,
        end_offset=end_offset,
        size_bytes=segment.size,
        offset_index_bytes=segment.offset_index.size_bytes,
        time_index_bytes=segment.time_index.size_bytes,
        mtime_ms=log.fs.mtime_ms(segment.path(Kind.LOG)),
    )
