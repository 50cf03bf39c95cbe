"""What the logs of a broker say about erasures: the facts their next step is chosen by. Grade D.

Made anew for each look at all erasures: what belongs to a partition is found out once a look, what
belongs to a tombstone once for each file that it is in. Contract: erasure/facts.py.
"""

from typing import Final, NamedTuple

from ledgerstone.cleaner.open_txn import OpenTxn
from ledgerstone.cleaner.selection import CleaningReason
from ledgerstone.clock import Clock
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.erasure.erasure import Erasure, Stage, Tombstone
from ledgerstone.erasure.facts import BlockingTxn, PartitionFacts
from ledgerstone.erasure.hosting import unknown_replica
from ledgerstone.erasure.life import REST_MS
from ledgerstone.fs import join, name_of
from ledgerstone.records.batch import read_header
from ledgerstone.records.record import iter_records
from ledgerstone.replication.hosted_partitions import HostedPartitions
from ledgerstone.replication.partition import Partition
from ledgerstone.server.cleaning.parts import Appraisal, PassTicket
from ledgerstone.server.cleaning.work import CleaningWork
from ledgerstone.server.erasing.needs import Committed, GroupOffsets
from ledgerstone.storage.filenames import (
    CLEANED,
    DELETED,
    MAX_NAME_LENGTH,
    SWAP,
    DirState,
    parse_file_name,
    parse_partition_dir,
)
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_dirs import LogDirs
from ledgerstone.storage.segment import Segment
from ledgerstone.types import INT64_MAX, TopicPartition

_LEFTOVERS: Final = (DELETED, CLEANED, SWAP)
_SHOWN_GROUPS: Final = 3


class Obstacle(NamedTuple):
    """What keeps even a pass that is asked for from helping."""

    text: str
    opens_at_ms: int | None = None


class About(NamedTuple):
    """What is asked about a tombstone: where it is, and for which stage of its erasure."""

    topic: str
    partition: int
    offset: int
    stage: Stage
    since_ms: int  # when the stage was reached


class Leftover(NamedTuple):
    """A file that is no longer part of the log. `since_ms` is 0 where nobody knows."""

    since_ms: int
    goes_at_ms: int | None


class _Seen(NamedTuple):
    """A tombstone as it lies in one segment. Segments are replaced, never changed in the middle."""

    segment: Segment
    is_there: bool
    horizon_ms: int | None


@dataclass(slots=True)
class TombstoneSights:
    """What was read of tombstones, until the segment is another one."""

    _seen: dict[tuple[TopicPartition, int], _Seen] = field(default_factory=dict)

    def look(self, log: PartitionLog, offset: int) -> tuple[bool, int | None]:
        """Whether the record is in the log, and the horizon of its batch."""
        segment = log.segments.floor(offset)
        if segment is None or offset < log.log_start_offset:
            return False, None
        key = (log.topic_partition, offset)
        known = self._seen.get(key)
        if known is None or known.segment is not segment:
            known = self._seen[key] = _Seen(segment, *_read(segment, offset))
        return known.is_there, known.horizon_ms

    def forget(self, topic: str, tombstones: tuple[Tombstone, ...]) -> None:
        for each in tombstones:
            self._seen.pop((TopicPartition(topic, each.partition), each.offset), None)


def _read(segment: Segment, offset: int) -> tuple[bool, int | None]:
    found = segment.find(offset)
    if found is None:
        return False, None
    batch = segment.file.pread(found.size, found.position)
    header = read_header(batch)
    if not header.base_offset <= offset <= header.last_offset:
        return False, None
    is_there = any(record.offset == offset for record in iter_records(batch))
    return is_there, header.delete_horizon_ms


@dataclass(slots=True, kw_only=True)
class Look:
    """One look at the partitions of a self. `asked` are the tickets of passes for erasures."""

    clock: Clock
    log_dirs: LogDirs
    partitions: HostedPartitions
    cleaning: CleaningWork
    offsets: GroupOffsets
    sights: TombstoneSights
    asked: dict[TopicPartition, tuple[int, PassTicket]]
    aborting: dict[tuple[int, int], int]
    # With other brokers, one of them may be the coordinator of a transaction nobody here knows.
    is_alone: bool = True
    _appraisals: dict[TopicPartition, Appraisal] = field(default_factory=dict)
    _leftovers: dict[TopicPartition, list[Leftover]] = field(default_factory=dict)
    _committed: dict[str, Committed] = field(default_factory=dict)

    def committed_on(self, topic: str) -> Committed:
        if topic not in self._committed:
            self._committed[topic] = self.offsets.committed_on(topic)
        return self._committed[topic]

    def forget(self) -> None:
        """Something was written since."""
        self._committed.clear()
        self._appraisals.clear()
        self._leftovers.clear()

    def partitions_of(self, erasure: Erasure) -> dict[int, PartitionFacts]:
        """Of a topic that exists: each partition with a tombstone. One that is offline is not gone,
        and its tombstone is where it was."""
        found = {}
        for tombstone in erasure.tombstones:
            tp = TopicPartition(erasure.topic, tombstone.partition)
            partition = self.partitions.find(tp)
            if partition is None:
                why = self.partitions.offline.get(tp, "it is being created")
                found[tombstone.partition] = unknown_replica(None, f"it is not here: {why}")
            else:
                found[tombstone.partition] = self.about(partition, about_of(erasure, tombstone))
        return found

    def about(self, partition: Partition, asked: About) -> PartitionFacts:
        """A replica that is hosted here."""
        log, tp = partition.log, partition.topic_partition
        first_dirty = self._appraise(log).log.first_dirty_offset
        is_there, horizon_ms = True, None
        if first_dirty > asked.offset:
            is_there, horizon_ms = self.sights.look(log, asked.offset)
        is_compacting = asked.stage in (Stage.TOMBSTONED, Stage.STAMPED)
        if not is_there and is_compacting and self._is_swapping(log):
            is_there = True
        obstacle = None
        if is_compacting and is_there:
            obstacle = self._obstacle(partition, asked.offset, horizon_ms)
        leftovers = []
        if asked.stage is Stage.REMOVED:
            leftovers = [each for each in self.leftovers(log) if each.since_ms <= asked.since_ms]
        elif asked.stage is Stage.UNLINKED:
            # Of the journal: a sealed key may be in whatever is there.
            leftovers = self.leftovers(log)
            obstacle = self.why_no_pass(partition) or self._undecided(log, asked.offset)
        times = [each.goes_at_ms for each in leftovers]
        return PartitionFacts(
            log_start_offset=log.log_start_offset,
            first_dirty_offset=first_dirty,
            tombstone_is_there=is_there,
            horizon_ms=horizon_ms,
            last_pass_started_ms=self._last_try_ms(log, asked.offset),
            pass_is_pending=self.is_pending(tp),
            waits_for=obstacle.text if obstacle else None,
            opens_at_ms=obstacle.opens_at_ms if obstacle else None,
            abortable_txns=self._abortable(log, asked.offset) if obstacle else (),
            leftovers_since_ms=min((each.since_ms for each in leftovers), default=None),
            leftovers_go_at_ms=_latest(times),
        )

    def _is_swapping(self, log: PartitionLog) -> bool:
        """The files that held the tombstone are told when to go only after the swap is synced:
        until then a removal would seem older than what it left behind."""
        return any(each.goes_at_ms is None for each in self.leftovers(log))

    def _last_try_ms(self, log: PartitionLog, offset: int) -> int | None:
        """When the last pass began that could have helped; one that ended below could not."""
        for run in reversed(self.cleaning.files.runs(log)):
            if run.end_offset > offset or run.reason == CleaningReason.ASKED.value:
                return run.started_ms
        return None

    def _appraise(self, log: PartitionLog) -> Appraisal:
        known = self._appraisals.get(log.topic_partition)
        if known is None:
            known = self._appraisals[log.topic_partition] = self.cleaning.appraise(log)
        return known

    def first_dirty_offset(self, log: PartitionLog) -> int:
        return self._appraise(log).log.first_dirty_offset

    def is_pending(self, tp: TopicPartition) -> bool:
        cleaning = self.cleaning
        return tp in cleaning.asked or cleaning.is_busy(tp)

    # -- what hinders passes ------------------------------------------------------------------

    def _obstacle(
        self, partition: Partition, offset: int, horizon_ms: int | None
    ) -> Obstacle | None:
        log = partition.log
        return (
            self.why_no_pass(partition)
            or self._undecided(log, offset)
            or self._too_young(log, offset)
            or self._held(log, offset, horizon_ms)
        )

    def why_no_pass(self, partition: Partition) -> Obstacle | None:
        """What keeps passes from the partition altogether."""
        cleaning, log, tp = self.cleaning, partition.log, partition.topic_partition
        if not log.config.compacts:
            return Obstacle("cleanup.policy does not contain compact: nothing is compacted")
        if not cleaning.settings.enable or cleaning.settings.threads == 0:
            return Obstacle("the cleaner is switched off: log.cleaner.enable or threads")
        if log.failure is not None:
            return Obstacle(f"the log takes no writes: {log.failure}")
        trouble, clock = cleaning.troubles.get(tp), self.clock
        if trouble is not None:
            if trouble.retry_at_ms is None:
                return Obstacle(f"the last pass failed: {trouble.detail}; it needs a restart")
            wait_ms = trouble.retry_at_ms - clock.monotonic_ms()
            if wait_ms > 0:
                return Obstacle(f"the last pass failed: {trouble.detail}", clock.now_ms() + wait_ms)
        asked_ms, ticket = self.asked.get(tp, (0, None))
        # Of the future are those from before the clock was set back.
        is_fresh = asked_ms <= clock.now_ms() < asked_ms + REST_MS
        if ticket is None or ticket.refusal is None or not is_fresh:
            return None
        return Obstacle(f"no pass: {ticket.refusal}", asked_ms + REST_MS)

    def _undecided(self, log: PartitionLog, offset: int) -> Obstacle | None:
        """Only what is open below the tombstone keeps passes from it."""
        if log.last_stable_offset > offset:
            return None
        open_txns = self.cleaning.open_txns(log)
        if not open_txns:
            return Obstacle(
                f"offsets from {log.last_stable_offset} on are not replicated yet, the high "
                f"watermark is {log.high_watermark}"
            )
        text = f"{open_txns[0]}; nothing from there on is cleaned until it ends"
        if self._asked_to_abort_ms(open_txns[0]) is not None:
            text += "; it is being aborted"
        elif open_txns[0].owner is None and self.is_alone:
            text += "; `ledgerstone transactions abort` can end it"
        return Obstacle(text)

    def _abortable(self, log: PartitionLog, offset: int) -> tuple[BlockingTxn, ...]:
        return tuple(
            BlockingTxn(each.producer_id, each.first_offset)
            for each in self.cleaning.open_txns(log)
            if each.first_offset < offset
            and (each.owner is not None or not self.is_alone)
            and self._asked_to_abort_ms(each) is None
        )

    def _asked_to_abort_ms(self, open_txn: OpenTxn) -> int | None:
        """When somebody was asked last; None: never, or so long ago that it may have been lost."""
        txn = BlockingTxn(open_txn.producer_id, open_txn.first_offset)
        return self.aborting[txn] if self.is_aborting(txn) else None

    def is_aborting(self, txn: BlockingTxn) -> bool:
        """Whether somebody was asked just now to abort it."""
        asked_ms = self.aborting.get(txn)
        now_ms = self.clock.now_ms()
        return asked_ms is not None and asked_ms <= now_ms < asked_ms + REST_MS

    def _too_young(self, log: PartitionLog, offset: int) -> Obstacle | None:
        lag_ms, facts = log.config.min_compaction_lag_ms, self._appraise(log).facts
        first_dirty, now_ms = self.first_dirty_offset(log), self.clock.now_ms()
        if lag_ms <= 0 or first_dirty > offset:
            return None
        for segment in facts.segments[facts.floor_index(first_dirty) :]:
            if segment.base_offset > offset:
                break
            if segment.largest_timestamp > now_ms - lag_ms:
                opens_at_ms = segment.largest_timestamp + lag_ms
                return Obstacle(
                    f"records are younger than min.compaction.lag.ms={lag_ms}", opens_at_ms
                )
        return None

    def _held(self, log: PartitionLog, offset: int, horizon_ms: int | None) -> Obstacle | None:
        """Past its horizon a tombstone may still be held for groups that have not read it, or for
        replicas that may need it."""
        now_ms = self.clock.now_ms()
        if horizon_ms is None or now_ms < horizon_ms:
            return None
        holds = self.cleaning.holds_of(log)
        if holds.replica is not None and offset >= holds.replica.removable_to:
            text = f"the tombstone at offset {offset} is past its horizon and held back"
            return Obstacle(f"{text}: {holds.replica.holder}", holds.replica.ends_at_ms)
        if not holds.holds(offset, horizon_ms, now_ms=now_ms):
            return None
        groups = "; ".join(str(each) for each in holds.holding(offset)[:_SHOWN_GROUPS])
        text = f"the tombstone at offset {offset} is past its horizon and held: {groups}"
        return Obstacle(text, holds.ends_at_ms(horizon_ms))

    # -- files that wait for their end --------------------------------------------------------

    def leftovers(self, log: PartitionLog) -> list[Leftover]:
        tp = log.topic_partition
        if tp not in self._leftovers:
            self._leftovers[tp] = self._find_leftovers(log)
        return self._leftovers[tp]

    def _find_leftovers(self, log: PartitionLog) -> list[Leftover]:
        delay_ms = log.config.file_delete_delay_ms
        waiting = dict(log.deleted_files.waiting())
        is_busy = self.cleaning.is_busy(log.topic_partition)
        found = []
        for name in log.fs.list_dir(log.directory):
            parsed = parse_file_name(name)
            if parsed is None or parsed.suffix not in _LEFTOVERS:
                continue
            due_ms = waiting.get(join(log.directory, name))
            if due_ms is not None:
                found.append(Leftover(due_ms - delay_ms, due_ms))
            elif parsed.suffix != CLEANED or not is_busy:
                # Between a swap and its sync, or of a pass that did not end: it goes soon.
                found.append(Leftover(0, None))
        return found

    def deleted_topic(self, topic: str) -> dict[int, PartitionFacts]:
        """Of a topic that is gone: each partition whose files are not."""
        return {number: files_left(due) for number, due in self.left_of(topic).items()}

    def left_of(self, topic: str) -> dict[int, int | None]:
        """Partitions that are not hosted here, and whose files are; until when, if known."""
        found: dict[int, int | None] = {}
        for tp in (log.topic_partition for log in self.log_dirs.logs()):
            if tp.topic == topic and self.partitions.find(tp) is None:
                found[tp.partition] = None
        for path, due_ms in self.log_dirs.doomed.items():
            if (number := _partition_of_doomed(name_of(path), topic)) is not None:
                found[number] = due_ms
        return dict(sorted(found.items()))


def about_of(erasure: Erasure, tombstone: Tombstone) -> About:
    place = (erasure.topic, tombstone.partition, tombstone.offset)
    return About(*place, erasure.stage, erasure.stage_ms)


def files_left(due_ms: int | None, node_id: int | None = None) -> PartitionFacts:
    """Of a partition that is gone: only what is left of its files counts."""
    return PartitionFacts(
        log_start_offset=INT64_MAX,
        first_dirty_offset=INT64_MAX,
        tombstone_is_there=False,
        leftovers_since_ms=0,
        leftovers_go_at_ms=due_ms,
        node_id=node_id,
    )


def _partition_of_doomed(name: str, topic: str) -> int | None:
    parsed = parse_partition_dir(name)
    if parsed is None or parsed.state is not DirState.DELETE:
        return None
    tp = parsed.topic_partition
    # The name of a directory that only waits for its end may have been cut.
    is_cut = len(name) == MAX_NAME_LENGTH and topic.startswith(tp.topic)
    return tp.partition if tp.topic == topic or is_cut else None


def _latest(times: list[int | None]) -> int | None:
    known = [each for each in times if each is not None]
    return max(known) if known and len(known) == len(times) else None
