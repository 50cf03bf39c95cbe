"""What people and monitors are shown of cleaning: gates, history, health, metrics. Grade D."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, Final, Protocol

from ledgerstone.cleaner.deadlines import Due
from ledgerstone.cleaner.history import last_cleaned
from ledgerstone.cleaner.holds import Holds
from ledgerstone.cleaner.open_txn import OpenTxn
from ledgerstone.cleaner.selection import LogToClean
from ledgerstone.cleaner.why import Gate, Situation, gates
from ledgerstone.dataclasses import replace
from ledgerstone.errors import KafkaError, StorageError
from ledgerstone.replication.partition import Partition
from ledgerstone.server.cleaning.agent import Cleaning
from ledgerstone.server.cleaning.parts import Appraisal, PassTicket
from ledgerstone.server.cleaning.work import CleaningWork
from ledgerstone.server.metrics import Labels, MetricSample
from ledgerstone.types import TopicPartition

_UNNAMED: Final = "(not shown)"


class Sees(Protocol):
    """Who is told. Gates name groups and transactional ids, which have rights of their own."""

    def sees_group(self, name: str) -> bool: ...

    def sees_transactions_of(self, name: str) -> bool: ...


def situation_of(
    cleaning: CleaningWork, partition: Partition, sees: Sees | None = None
) -> Situation:
    """`sees` of None: for who may see everything."""
    about = _situation_of(cleaning, partition)
    if sees is None:
        return about
    open_txn = None if about.open_txn is None else _seen_txn(about.open_txn, sees)
    return replace(about, open_txn=open_txn, holds=_seen_holds(about.holds, sees))


def _seen_txn(open_txn: OpenTxn, sees: Sees) -> OpenTxn:
    owner = open_txn.owner
    if owner is None or sees.sees_transactions_of(owner.transactional_id):
        return open_txn
    return open_txn._replace(owner=owner._replace(transactional_id=_UNNAMED))


def _seen_holds(holds: Holds, sees: Sees) -> Holds:
    groups = (
        each if sees.sees_group(each.group_id) else each._replace(group_id=_UNNAMED)
        for each in holds.groups
    )
    return replace(holds, groups=tuple(groups))


def _situation_of(cleaning: CleaningWork, partition: Partition) -> Situation:
    log, tp = partition.log, partition.topic_partition
    appraisal = cleaning.appraise(log)
    trouble, pending = cleaning.troubles.get(tp), cleaning.pending.get(tp)
    return Situation(
        now_ms=cleaning.clock.now_ms(),
        facts=appraisal.facts,
        log=appraisal.log,
        dues=appraisal.dues,
        compacts=log.config.compacts,
        is_enabled=cleaning.settings.enable and cleaning.settings.threads > 0,
        finishes_deletes=cleaning.settings.finish_deletes,
        segment_bytes=log.config.segment_bytes,
        segment_ms=log.config.max_segment_ms,
        delete_retention_ms=log.config.delete_retention_ms,
        high_watermark=log.high_watermark,
        state=cleaning.states.of(tp).state.value,
        trouble=trouble.detail if trouble else None,
        retry_at_ms=_wall_ms(cleaning, trouble.retry_at_ms) if trouble else None,
        worker_failure=cleaning.worker_failure,
        open_txn=next(iter(cleaning.open_txns(log)), None),
        earliest_horizon_ms=pending.earliest_horizon_ms if pending else None,
        fresh_tombstones=pending.fresh_tombstones if pending else 0,
        log_failure=log.failure,
        holds=cleaning.holds_of(log),
        ranges=(pending.ranges if pending else None) or (),
    )


def _wall_ms(cleaning: CleaningWork, monotonic_ms: int | None) -> int | None:
    if monotonic_ms is None:
        return None
    return cleaning.clock.now_ms() + monotonic_ms - cleaning.clock.monotonic_ms()


def partition_status(
    cleaning: CleaningWork, partition: Partition, sees: Sees | None = None
) -> dict[str, Any]:
    about = situation_of(cleaning, partition, sees)
    last = last_cleaned(cleaning.files.runs(partition.log))
    pending = cleaning.pending.get(partition.topic_partition)
    oldest_ms = (
        pending.oldest_tombstone_ms(about.facts, about.log.first_dirty_offset) if pending else None
    )
    return {
        "topic": partition.topic_partition.topic,
        "partition": partition.topic_partition.partition,
        "now_ms": about.now_ms,
        "log_start_offset": about.facts.log_start_offset,
        "first_dirty_offset": about.log.first_dirty_offset,
        "first_uncleanable_offset": about.log.first_uncleanable_offset,
        "active_base_offset": about.facts.active_base_offset,
        "last_stable_offset": about.facts.last_stable_offset,
        "log_end_offset": about.facts.log_end_offset,
        "clean_bytes": about.log.clean_bytes,
        "cleanable_bytes": about.log.cleanable_bytes,
        "dirty_ratio": round(about.log.dirty_ratio, 6),
        "state": about.state,
        "fresh_tombstones": about.fresh_tombstones,
        "oldest_tombstone_ms": oldest_ms,
        "earliest_horizon_ms": about.earliest_horizon_ms,
        "due": [
            {"reason": due.reason.value, "at_ms": due.at_ms}
            for due in sorted(about.dues, key=lambda due: due.at_ms)
        ],
        "hold_max_ms": about.holds.max_ms if about.holds.groups else None,
        "holds": [
            {"group": each.group_id, "committed_offset": each.committed_offset}
            for each in about.holds.groups
        ],
        "replica_hold": about.holds.replica.to_json() if about.holds.replica else None,
        "open_transactions": [
            _open_txn_json(each if sees is None else _seen_txn(each, sees))
            for each in cleaning.open_txns(partition.log)
        ],
        "gates": [_gate_json(gate) for gate in gates(about)],
        "last_run": last.to_json() if last else None,
    }


def _gate_json(gate: Gate) -> dict[str, Any]:
    return gate._asdict()


def _open_txn_json(open_txn: OpenTxn) -> dict[str, Any]:
    owner = open_txn.owner
    return {
        "producer_id": open_txn.producer_id,
        "first_offset": open_txn.first_offset,
        "transactional_id": owner.transactional_id if owner else None,
        "since_ms": owner.since_ms if owner else None,
    }


def ticket_json(ticket: PassTicket) -> dict[str, Any]:
    return {
        "ticket": ticket.number,
        "topic": ticket.topic_partition.topic,
        "partition": ticket.topic_partition.partition,
        "done": ticket.is_done,
        "refusal": ticket.refusal,
        "run": ticket.run.to_json() if ticket.run else None,
    }


def history_json(cleaning: CleaningWork, partition: Partition) -> list[dict[str, Any]]:
    """The newest first."""
    topic, number = partition.topic_partition
    runs = cleaning.files.runs(partition.log)
    return [{"topic": topic, "partition": number, **run.to_json()} for run in reversed(runs)]


# -- health -------------------------------------------------------------------------------------


def complaints(cleaning: CleaningWork) -> Iterator[str]:
    """Why the broker should not be called ready: each is a delete that may not happen."""
    if cleaning.worker_failure is not None:
        yield f"cleaner: {cleaning.worker_failure}"
    if cleaning.files.failure is not None:
        yield f"cleaner: not written down: {cleaning.files.failure}"
    for tp, trouble in cleaning.troubles.items():
        yield f"{tp}: uncleanable after {trouble.failures} attempts: {trouble.detail}"
    if cleaning.settings.overdue_ms == 0:
        return
    for partition, appraisal in _appraised(cleaning, cleaning.partitions):
        overdue_ms = overdue(cleaning, appraisal.dues)
        if overdue_ms > cleaning.settings.overdue_ms:
            yield f"{partition.topic_partition}: a delete is overdue by {overdue_ms // 1000} s"


def overdue(cleaning: CleaningWork, dues: Iterable[Due]) -> int:
    """How long a pass has been due; a time of 0 stands for "now", not for 1970."""
    now_ms = cleaning.clock.now_ms()
    return max((now_ms - due.at_ms for due in dues if 0 < due.at_ms <= now_ms), default=0)


def _appraised(
    cleaning: CleaningWork, partitions: Iterable[Partition]
) -> list[tuple[Partition, Appraisal]]:
    """Compacted logs that can be looked at; what is wrong with the others is reported elsewhere."""
    found = []
    for partition in partitions:
        if partition.log.config.compacts and partition.log.failure is None:
            with contextlib.suppress(OSError, StorageError, KafkaError):
                found.append((partition, cleaning.appraise(partition.log)))
    return found


# -- metrics ------------------------------------------------------------------------------------


def partition_samples(
    cleaning: CleaningWork, partitions: Iterable[Partition], looked_at: list[LogToClean]
) -> Iterator[MetricSample]:
    """Of some partitions; what was found is added to `looked_at`, for the `samples` of all."""
    for partition, appraisal in _appraised(cleaning, partitions):
        looked_at.append(appraisal.log)
        yield from _partition_gauges(cleaning, partition, appraisal)


def samples(cleaning: Cleaning, looked_at: list[LogToClean]) -> Iterator[MetricSample]:
    yield from _kafka_gauges(cleaning, looked_at)
    yield from _totals(cleaning)


def _kafka_gauges(cleaning: Cleaning, logs: list[LogToClean]) -> Iterator[MetricSample]:
    broken = [log for log in logs if log.topic_partition in cleaning.troubles]
    last = cleaning.totals.last
    stats = last.stats if last else None
    directory: Labels = (("logDirectory", cleaning.log_dirs.metadata.path),)
    waited_ms = (
        max(cleaning.clock.now_ms() - cleaning.last_look_ms, 0) if cleaning.last_look_ms else 0
    )
    manager, cleaner = "kafka_log_logcleanermanager_", "kafka_log_logcleaner_"
    recopied = 100 * stats.bytes_written / stats.bytes_read if stats and stats.bytes_read else 0
    filled = 100 * stats.map_entries / stats.map_slots if stats and stats.map_slots else 0
    for name, value, text, labels in (
        (manager + "uncleanable_partitions_count", len(broken), "Partitions whose pass failed.",
         directory),
        (manager + "uncleanable_bytes", sum(log.cleanable_bytes for log in broken),
         "Dirty bytes of partitions whose pass failed.", directory),
        (manager + "max_dirty_percent", max((100 * log.dirty_ratio for log in logs), default=0),
         "Dirty share of the dirtiest log.", ()),
        (manager + "time_since_last_run_ms", waited_ms,
         "Since the cleaner last looked for work.", ()),
        (cleaner + "deadthreadcount", int(cleaning.worker_failure is not None),
         "Workers that died and were not replaced yet.", ()),
        (cleaner + "max_clean_time_secs", last.duration_ms / 1000 if last else 0,
         "Duration of the last pass.", ()),
        (cleaner + "cleaner_recopy_percent", recopied, "Share of bytes the last pass kept.", ()),
        (cleaner + "max_buffer_utilization_percent", filled,
         "How full the offset map of the last pass was.", ()),
        (cleaner + "max_compaction_delay_secs",
         max((log.compaction_delay_ms for log in logs), default=0) / 1000,
         "Longest time max.compaction.lag.ms is exceeded by.", ()),
    ):  # fmt: skip
        yield MetricSample(name, "gauge", text, value, labels)


def _totals(cleaning: CleaningWork) -> Iterator[MetricSample]:
    totals = cleaning.totals
    for name, value, text in (
        ("passes", totals.passes, "Cleaning passes that succeeded."),
        ("failed_passes", totals.failed_passes, "Cleaning passes that failed."),
        ("worker_deaths", totals.worker_deaths, "Cleaning workers that died."),
        ("silent_workers", totals.silent_workers, "Cleaning workers killed because they hung."),
        ("replicas_given_up", totals.given_up,
         "Replicas that were silent for so long that deletes are removed without them."),
    ):  # fmt: skip
        yield MetricSample(f"ledgerstone_cleaner_{name}_total", "counter", text, value)
    for tp, removed in sorted(totals.tombstones_removed.items()):
        text = "Tombstones that passes have removed."
        yield MetricSample(
            "ledgerstone_tombstones_removed_total", "counter", text, removed, labels_of(tp)
        )


def labels_of(tp: TopicPartition) -> Labels:
    return (("topic", tp.topic), ("partition", str(tp.partition)))


def _partition_gauges(
    cleaning: CleaningWork, partition: Partition, appraisal: Appraisal
) -> Iterator[MetricSample]:
    tp = partition.topic_partition
    pending = cleaning.pending[tp]
    last = last_cleaned(cleaning.files.runs(partition.log))
    rows: list[tuple[str, float, str]] = [
        ("log_dirty_bytes", appraisal.log.cleanable_bytes, "Bytes a pass could clean now."),
        ("log_clean_bytes", appraisal.log.clean_bytes, "Bytes that passes have been through."),
        ("log_dirty_ratio", appraisal.log.dirty_ratio, "Dirty share of the sealed segments."),
        ("tombstones_fresh", pending.fresh_tombstones, "Tombstones no pass has seen yet."),
        ("delete_overdue_seconds", overdue(cleaning, appraisal.dues) / 1000,
         "How long a pass has been due."),
    ]  # fmt: skip
    if pending.earliest_horizon_ms is not None:
        text = "When the next tombstone may go, in seconds since the epoch."
        rows.append(("earliest_horizon_seconds", pending.earliest_horizon_ms / 1000, text))
    if last is not None:
        text = "When the last pass ended, in seconds since the epoch."
        rows.append(("last_cleaned_seconds", last.ended_ms / 1000, text))
    for name, value, text in rows:
        yield MetricSample(f"ledgerstone_{name}", "gauge", text, value, labels_of(tp))
    if last is not None:
        for reason in ("superseded", "tombstones", "aborted", "keyless", "markers"):
            yield MetricSample(
                "ledgerstone_last_pass_dropped_records",
                "gauge",
                "Records the last pass dropped, by reason.",
                getattr(last.stats, f"dropped_{reason}"),
                (*labels_of(tp), ("reason", reason)),
            )
