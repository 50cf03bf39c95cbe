"""From an open log to facts and plans, and how plans travel."""

import json

import pytest

from ledgerstone.cleaner.history import Run, decode_runs, encode_runs, last_cleaned
from ledgerstone.cleaner.messages import (
    group_message,
    group_of,
    plan_message,
    plan_of,
    report_message,
    report_of,
)
from ledgerstone.cleaner.plan import (
    CleanedGroup,
    CleaningPlan,
    LastBatch,
    OffsetSpan,
    PassReport,
    PassStats,
    TombstoneRange,
    TombstoneTraces,
)
from ledgerstone.cleaner.planning import CleanerSettings, facts_of, make_plan, needs_times
from ledgerstone.cleaner.selection import measure
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.types import INT64_MAX
from ledgerstone.workers.frames import Message
from tests.kit.logs import T0, TP, World, batch

DAY_MS = 86_400_000


def log_of_segments(count: int, **config: int) -> PartitionLog:
    """Segments of one batch each, the last one active and empty."""
    log = World().open(LogConfig(cleanup_policy=("compact",), **config))  # type: ignore[arg-type]
    for number in range(count):
        log.append_as_leader(batch(("key", str(number)), timestamp=T0 + number), leader_epoch=0)
        log.roll()
    log.advance_high_watermark(log.log_end_offset)
    return log


def plan_for(log: PartitionLog, checkpoint: int | None = None) -> CleaningPlan | None:
    measured = measure(facts_of(log, times_from=None), checkpoint, now_ms=T0)
    return make_plan(log, measured, CleanerSettings.from_values({}), now_ms=T0)


def test_facts_are_those_of_the_log() -> None:
    log = log_of_segments(2)

    facts = facts_of(log, times_from=0)

    assert [each.base_offset for each in facts.segments] == [0, 1, 2]
    assert [each.first_timestamp for each in facts.segments] == [T0, T0 + 1, 0]
    assert facts.segments[0].size_bytes == log.segments.first.size
    assert facts.last_stable_offset == 2


def test_timestamps_are_read_only_where_they_are_asked_for() -> None:
    log = log_of_segments(3)

    assert [each.first_timestamp for each in facts_of(log, times_from=None).segments] == [0] * 4
    assert [each.first_timestamp > 0 for each in facts_of(log, times_from=1).segments] == [
        False,
        True,
        True,
        False,
    ]


def test_stock_settings_without_lags_need_no_timestamps() -> None:
    log = log_of_segments(1)
    stock = CleanerSettings.from_values({"ledgerstone.cleaner.finish.deletes": "false"})

    log_with_lag = log_of_segments(1, max_compaction_lag_ms=DAY_MS)

    assert not needs_times(log, stock)
    assert needs_times(log, CleanerSettings.from_values({}))
    assert needs_times(log_with_lag, stock)


def test_plan_has_every_sealed_segment_and_never_the_active_one() -> None:
    log = log_of_segments(3)

    plan = plan_for(log)

    assert plan is not None
    assert [(each.base_offset, each.end_offset) for each in plan.segments] == [
        (0, 1),
        (1, 2),
        (2, 3),
    ]
    assert (plan.first_dirty_offset, plan.first_uncleanable_offset) == (0, 3)
    assert plan.segments[0].size_bytes == log.segments.first.size
    assert plan.segments[0].time_index_bytes == 12


def test_there_is_no_plan_for_a_log_with_nothing_but_its_active_segment() -> None:
    assert plan_for(log_of_segments(0)) is None


def test_plan_for_a_clean_log_has_an_empty_range() -> None:
    plan = plan_for(log_of_segments(2), checkpoint=2)

    assert plan is not None
    assert (plan.first_dirty_offset, plan.first_uncleanable_offset) == (2, 2)
    assert len(plan.segments) == 2


def test_plan_names_live_producers() -> None:
    log = World().open(LogConfig(cleanup_policy=("compact",)))
    records = batch(("key", "1"), producer_id=9, producer_epoch=3, base_sequence=0)
    log.append_as_leader(records, leader_epoch=0)
    log.roll()
    log.advance_high_watermark(1)

    plan = plan_for(log)

    assert plan is not None
    assert plan.producers == {9: LastBatch(last_data_offset=0, producer_epoch=3)}


def test_settings_share_buffers_and_rate_between_threads() -> None:
    settings = CleanerSettings.from_values(
        {
            "log.cleaner.threads": "4",
            "log.cleaner.dedupe.buffer.size": "8388608",
            "log.cleaner.io.buffer.size": "4194304",
            "log.cleaner.io.max.bytes.per.second": "1000",
        }
    )

    assert settings.dedupe_buffer_bytes == 2 << 20
    assert settings.window_bytes == 512 << 10
    assert settings.bytes_per_second == 250.0


def test_settings_have_the_declared_defaults() -> None:
    settings = CleanerSettings.from_values({})

    assert settings.dedupe_buffer_bytes == 128 << 20
    assert settings.tombstone_lag_ms == 86_400_000
    assert settings.bytes_per_second is None


def test_tiny_io_buffer_is_raised_to_one_that_works() -> None:
    """With one byte Kafka does not clean."""
    settings = CleanerSettings.from_values({"log.cleaner.io.buffer.size": "1"})

    assert settings.window_bytes == 1 << 16


# -- how they travel ----------------------------------------------------------------------------


def test_plan_group_and_report_survive_the_way_to_the_worker_and_back() -> None:
    plan = plan_for(log_of_segments(2))
    assert plan is not None
    plan_with_producer = CleaningPlan(
        **{
            field: getattr(plan, field)
            for field in plan.__dataclass_fields__
            if field != "producers"
        },
        producers={2**40: LastBatch(last_data_offset=None, producer_epoch=1)},
    )
    group = CleanedGroup(source_bases=(0, 1), base_offset=0, size_bytes=70)
    stats = PassStats(bytes_read=140, earliest_horizon_ms=INT64_MAX)
    traces = TombstoneTraces(
        pending=(TombstoneRange(0, 1, INT64_MAX), TombstoneRange(3, 3, 5)), removed=OffsetSpan(2, 2)
    )
    report = PassReport(
        topic_partition=TP, end_offset=2, groups=(group,), stats=stats, tombstones=traces
    )

    def sent(content: Message) -> Message:
        message: Message = json.loads(json.dumps(content))
        return message

    assert plan_of(sent(plan_message(plan_with_producer))) == plan_with_producer
    assert group_of(sent(group_message(group))) == group
    assert report_of(sent(report_message(report))) == report


# -- history ------------------------------------------------------------------------------------


def run(outcome: str = "cleaned", end_offset: int = 2) -> Run:
    return Run(
        started_ms=T0,
        ended_ms=T0 + 5,
        duration_ms=5,
        reason="because",
        outcome=outcome,  # type: ignore[arg-type]
        detail="",
        first_dirty_offset=0,
        end_offset=end_offset,
        segments_before=2,
        segments_after=1,
        stats=PassStats(bytes_read=10, bytes_written=4, earliest_horizon_ms=T0 + 9),
    )


def test_history_reads_back_as_it_was_written() -> None:
    runs = [run(), run("failed", 3)]

    found = decode_runs(encode_runs(runs))

    assert found == runs
    assert last_cleaned(found) == runs[0]
    assert runs[0].bytes_dropped == 6


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b'{"version":2,"runs":[]}',
        b'{"version":1,"runs":[{}]}',
        b'{"version":1,"runs":7}',
        b"[" * 100_000,
        encode_runs([run()]).replace(b'"bytes_read":10', b'"bytes_read":"10"'),
        encode_runs([run()]).replace(b'"end_offset":2', b'"end_offset":true'),
    ],
)
def test_broken_history_is_refused_with_one_kind_of_error(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        decode_runs(data)
