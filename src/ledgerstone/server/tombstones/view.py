"""What people and monitors are shown of tombstones: pending, held, missed, near. Grade D."""

from collections.abc import Iterator
from typing import Any

from ledgerstone.cleaner.holds import Holds
from ledgerstone.cleaner.plan import TombstoneRange
from ledgerstone.cleaner.tombstone_ledger import MissedDeletes
from ledgerstone.cleaner.tombstone_ranges import released_ms
from ledgerstone.replication.partition import Partition
from ledgerstone.replication.partition_removal import PartitionRemoval, RemovalStanding
from ledgerstone.server.cleaning.work import CleaningWork
from ledgerstone.server.metrics import Labels, MetricSample
from ledgerstone.server.tombstones.guard import Margin
from ledgerstone.server.tombstones.near import NearTombstoneWatch


def partition_json(
    cleaning: CleaningWork, near: NearTombstoneWatch, partition: Partition
) -> dict[str, Any]:
    cleaning.guard.forget_settled(partition)
    log, tp, now_ms = partition.log, partition.topic_partition, cleaning.clock.now_ms()
    pending, ledger = cleaning.pending.get(tp), cleaning.files.ledger(log)
    holds = cleaning.holds_of(log)
    ranges = (pending.ranges if pending else None) or ()
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        "now_ms": now_ms,
        "log_start_offset": log.log_start_offset,
        "log_end_offset": log.log_end_offset,
        "removed_below_offset": ledger.removed_below_offset,
        "removed_at_ms": ledger.removed_at_ms,
        "removed_to_offset": _removed_to(partition),
        "fresh_tombstones": pending.fresh_tombstones if pending else 0,
        "pending": [_range_json(each, holds, now_ms) for each in ranges],
        "hold_max_ms": holds.max_ms if holds.groups else None,
        "holds": [
            {"group": each.group_id, "committed_offset": each.committed_offset}
            for each in holds.groups
        ],
        "replica_hold": holds.replica.to_json() if holds.replica else None,
        "margins": [_margin_json(each) for each in cleaning.guard.margins(partition)],
        "missed": [missed_json(each) for each in ledger.told],
        "near": near.of(tp).to_json(),
    }


def _removed_to(partition: Partition) -> int | None:
    """Of a log with several replicas: what it lacks lay below, also after a kill in a pass."""
    removal = partition.removal
    return removal.removed_to if removal is not None and removal.is_coordinated else None


def _range_json(each: TombstoneRange, holds: Holds, now_ms: int) -> dict[str, Any]:
    return {
        **each._asdict(),
        "is_held": each.earliest_horizon_ms <= now_ms
        and holds.holds(each.last_offset, each.earliest_horizon_ms, now_ms=now_ms),
        "is_held_for_replicas": each.last_offset >= holds.removable_to,
        "goes_at_ms": released_ms(each, holds),
    }


def _margin_json(margin: Margin) -> dict[str, Any]:
    return {
        "group": margin.group_id,
        "committed_offset": margin.committed_offset,
        "margin_ms": margin.margin_ms,
    }


def missed_json(missed: MissedDeletes) -> dict[str, Any]:
    return {
        "group": missed.group_id,
        "committed_offset": missed.committed_offset,
        "first_offset": missed.first_offset,
        "last_offset": missed.last_offset,
        "at_ms": missed.at_ms,
    }


def group_json(cleaning: CleaningWork, group_id: str) -> dict[str, Any]:
    """Where one group reads compacted partitions here, and where it may have missed deletes."""
    rows = []
    for partition in _compacted(cleaning):
        cleaning.guard.forget_settled(partition)
        margins = cleaning.guard.margins(partition)
        margin = next((each for each in margins if each.group_id == group_id), None)
        ledger = cleaning.files.ledger(partition.log)
        missed = next((each for each in ledger.told if each.group_id == group_id), None)
        if margin is None and missed is None:
            continue
        topic, number = partition.topic_partition
        rows.append(
            {
                "topic": topic,
                "partition": number,
                "committed_offset": margin.committed_offset if margin else None,
                "margin_ms": margin.margin_ms if margin else None,
                "missed": missed_json(missed) if missed else None,
            }
        )
    return {"group": group_id, "partitions": rows}


def _compacted(cleaning: CleaningWork) -> list[Partition]:
    found = [each for each in cleaning.partitions if each.log.config.compacts]
    return sorted(found, key=lambda each: each.topic_partition)


def samples(near: NearTombstoneWatch) -> Iterator[MetricSample]:
    yield from near.samples()
    strays = near.strays
    for name, value, text in (
        ("searches", strays.searches, "Searches for tombstones in the wrong partition."),
        ("failures", strays.failures, "Such searches that failed."),
    ):
        yield MetricSample(f"ledgerstone_stray_tombstone_{name}_total", "counter", text, value)


def partition_samples(cleaning: CleaningWork, partition: Partition) -> Iterator[MetricSample]:
    if not partition.log.config.compacts:
        return
    topic, number = partition.topic_partition
    labels: Labels = (("topic", topic), ("partition", str(number)))
    text = "Time until a tombstone may go that the group has not read."
    for margin in cleaning.guard.margins(partition):
        if margin.margin_ms is not None:
            yield MetricSample(
                "ledgerstone_group_tombstone_margin_seconds", "gauge", text,
                margin.margin_ms / 1000, (("group", margin.group_id), *labels),
            )  # fmt: skip
    text = "1: tombstones went that the group had not read."
    for missed in cleaning.files.ledger(partition.log).told:
        group: Labels = (("group", missed.group_id), *labels)
        yield MetricSample("ledgerstone_group_missed_deletes", "gauge", text, 1, group)
    standing = None if partition.removal is None else partition.removal.standing()
    if partition.removal is not None and standing is not None:
        yield from _replica_samples(partition.removal, standing, labels)
    last = cleaning.files.last_cleaned(partition.log)
    has_groups = bool(partition.log.config.ledgerstone_tombstone_hold_groups)
    if last is not None and (has_groups or standing is not None):
        text = (
            "Tombstones that the last pass kept because a group had not read them, or another "
            "replica may need them."
        )
        held = last.stats.tombstones_held
        yield MetricSample("ledgerstone_tombstones_held", "gauge", text, held, labels)


def _replica_samples(
    removal: PartitionRemoval, standing: RemovalStanding, labels: Labels
) -> Iterator[MetricSample]:
    for name, value, text in (
        ("clean_to_offset", removal.clean_to, "Passes have been through what lies below."),
        ("removable_to_offset", standing.removable_to,
         "Tombstones below may go: every replica has been through them."),
        ("replicas_given_up", len(standing.given_up),
         "Silent replicas that removal does not wait for any more."),
    ):  # fmt: skip
        yield MetricSample(f"ledgerstone_{name}", "gauge", text, value, labels)
    text = "Times this replica was copied again because its leader had removed deletes it needed."
    yield MetricSample("ledgerstone_log_rebuilds_total", "counter", text, removal.rebuilds, labels)
