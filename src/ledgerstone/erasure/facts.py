"""What the world says about an erasure at one moment, as `life` and `forecast` need it. Grade P.

The owner of the logs fills these in; nothing here is kept over a restart, so every fact must be one
that can be found out again. What the scans found is sorted here into lives of the key.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ledgerstone.dataclasses import dataclass, field, replace
from ledgerstone.erasure.erasure import (
    Erasure,
    PartitionEnd,
    RecordCounts,
    RecordSpan,
    ReplicaScan,
    SearchedFiles,
    Stage,
    Tombstone,
)


class SearchOutcome(NamedTuple):
    """What a search of every partition of the topic found, while this process runs."""

    home_partition: int  # where a producer with Kafka's own partitioner would write the key
    ends: tuple[PartitionEnd, ...]
    found: tuple[RecordSpan, ...] = ()
    # Tombstones with this very erasure's id: written before a crash, not written down after it.
    own_tombstones: tuple[Tombstone, ...] = ()
    ended_ms: int = 0
    looked_at: SearchedFiles | None = None
    trouble: str | None = None  # why it may have missed something; then it is repeated
    unseen: str | None = None  # replicas that were not searched: a key not found may be there


class BlockingTxn(NamedTuple):
    """An open transaction below a tombstone, of a producer whose coordinator can abort it."""

    producer_id: int
    first_offset: int


class PartitionFacts(NamedTuple):
    """One partition that got a tombstone. Without these facts a partition counts as gone.

    Of a deleted topic only the leftovers count; its log starts at INT64_MAX.
    """

    log_start_offset: int
    first_dirty_offset: int
    tombstone_is_there: bool  # in the live log; an emptied or missing batch is not there
    horizon_ms: int | None = None  # of the tombstone's batch
    last_pass_started_ms: int | None = None
    pass_is_pending: bool = False  # asked for, or running
    # What keeps even a pass that is asked for from helping: policy, cleaner, health, an open
    # transaction, min.compaction.lag.ms, past the horizon a hold. Not the active segment and not
    # the dirty ratio.
    waits_for: str | None = None
    opens_at_ms: int | None = None
    abortable_txns: tuple[BlockingTxn, ...] = ()  # that nobody was just asked to abort
    # When the oldest file under .deleted, .cleaned or .swap left the log, and when the last goes.
    leftovers_since_ms: int | None = None
    leftovers_go_at_ms: int | None = None
    node_id: int | None = None  # whose replica it is; None where there is one node
    is_unknown: bool = False  # the broker did not say; `waits_for` says why

    @property
    def on_node(self) -> str:
        return "" if self.node_id is None else f" on broker {self.node_id}"


class GroupPosition(NamedTuple):
    """Where a group stands in a partition that got a tombstone."""

    group: str  # as `readings.shown_name` has it, without the key
    partition: int
    committed_offset: int
    can_answer: bool = False  # a pipeline of ours committed it
    committed_ms: int = -1  # when; -1 where nobody knows


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    topic_exists: bool = True  # under the erasure's topic id
    partitions: Mapping[int, PartitionFacts] = field(default_factory=dict)
    # With several brokers: every replica that is assigned, instead of `partitions`.
    replicas: Mapping[int, Sequence[PartitionFacts]] = field(default_factory=dict)
    search: SearchOutcome | None = None
    scans: Sequence[ReplicaScan] = ()  # the newest of each node
    node_ids: Sequence[int] = ()  # every node that may hold the key
    in_flight: str | None = None  # a search, a write or a scan for this erasure is under way
    trouble: str | None = None  # why the broker cannot search, write or scan now
    blocked_since_ms: int | None = None  # since when it was seen to wait for what has no end
    groups_are_known: bool = True  # committed offsets are loaded
    groups: Sequence[GroupPosition] = ()  # of the erasure's topic, not of a later one of its name
    # By group and partition: the offset it had committed when tombstones went that it had not read.
    missed: Mapping[tuple[str, int], int] = field(default_factory=dict)
    removed_ms: Mapping[int, int] = field(
        default_factory=dict
    )  # by partition: the last time some went
    full_ledgers: Sequence[int] = ()  # partitions that may have forgotten who missed something
    more_groups: int = 0  # there were too many to look at
    sealed_copies_left: bool = False  # the journal still has records from before the tombstone
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000

    def replicas_of(self, partition: int) -> Sequence[PartitionFacts]:
        """None for a partition that is gone."""
        if partition in self.partitions:
            return (self.partitions[partition],)
        return self.replicas.get(partition, ())

    def every_replica(self) -> Iterator[tuple[int, PartitionFacts]]:
        for partition in sorted({*self.partitions, *self.replicas}):
            for about in self.replicas_of(partition):
                yield partition, about


class Findings(NamedTuple):
    """Records of the key that a scan found, by what they mean for the erasure."""

    older: list[RecordSpan]  # the life that is to be erased
    recreated: list[RecordSpan]
    elsewhere: list[RecordSpan]


def sort_findings(erasure: Erasure, scans: Sequence[ReplicaScan], facts: Facts) -> Findings:
    findings = Findings([], [], [])
    shown = {name: other for scan in scans for name, other in scan.hidden_topics}
    for scan in scans:
        for span in scan.records:
            if span.topic != erasure.topic or not facts.topic_exists:
                # A topic that came back under the old name is another topic.
                findings.elsewhere.append(span._replace(topic=shown.get(span.topic, span.topic)))
            elif span.partition not in scan.without_tombstone and is_later(erasure, span):
                findings.recreated.append(span)
            else:
                findings.older.append(span)
    return findings


def with_counts(erasure: Erasure, scan: ReplicaScan, facts: Facts) -> ReplicaScan:
    found = sort_findings(erasure, [scan], facts)
    counts = RecordCounts(*(sum(span.records for span in spans) for spans in found))
    return replace(scan, counts=counts)


def is_later(erasure: Erasure, span: RecordSpan) -> bool:
    """Whether records are of the key's next life. That begins after its tombstone, or where the
    search ended. After an unclean election records of an older leader may lie behind it as well."""
    begins = _next_life(erasure, span.partition)
    return span.first_offset >= begins.end_offset and span.leader_epoch >= begins.leader_epoch


def _next_life(erasure: Erasure, partition: int) -> PartitionEnd:
    for tombstone in erasure.tombstones:
        if tombstone.partition == partition:
            return PartitionEnd(partition, tombstone.offset + 1, tombstone.leader_epoch)
    ends = (each for each in erasure.searched_ends if each.partition == partition)
    return next(ends, PartitionEnd(partition, 0))


def has_passed_once(tombstone: Tombstone, about: PartitionFacts) -> bool:
    """Whether a pass has seen the tombstone, so that nothing older is in the live log."""
    if about.log_start_offset > tombstone.offset:
        return True
    if about.first_dirty_offset <= tombstone.offset:
        return False
    return not about.tombstone_is_there or about.horizon_ms is not None


def has_lost(tombstone: Tombstone, about: PartitionFacts) -> bool:
    """Whether one replica no longer has the tombstone."""
    return about.log_start_offset > tombstone.offset or not about.tombstone_is_there


def is_removed(tombstone: Tombstone, facts: Facts) -> bool:
    """From every replica."""
    return all(has_lost(tombstone, each) for each in facts.replicas_of(tombstone.partition))


def is_readable(tombstone: Tombstone, facts: Facts) -> bool | None:
    """Whether every replica still has it, so that whoever reads past it has met it; None where a
    replica did not say."""
    replicas = facts.replicas_of(tombstone.partition)
    if any(each.is_unknown for each in replicas):
        return None
    return bool(replicas) and not any(has_lost(tombstone, each) for each in replicas)


def has_leftovers(erasure: Erasure, about: PartitionFacts) -> bool:
    """Files that later passes leave behind never held this life of the key."""
    removed_ms = erasure.reached_ms(Stage.REMOVED)
    since_ms = about.leftovers_since_ms
    return since_ms is not None and (removed_ms is None or since_ms <= removed_ms)
