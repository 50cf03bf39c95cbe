"""Copies topics from one cluster to another: data, deletes, erasures, group offsets. Shell.

A round copies the available records, one Spark task per partition, and records its positions;
repeated rounds follow the source. Keys stay in their partitions. Afterwards the round looks whether
deletes may have passed it by (`deletes`), repairs the copy if so (`repairing`), and carries
erasures (`erasures`). A broker that fails costs a round, which the next one makes up for.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ledgerstone.client.blocking import Client
from ledgerstone.client.offsets import (
    EARLIEST,
    LATEST,
    CommittedOffset,
    commit_offsets,
    committed_offsets,
    list_offsets,
)
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.pipeline.connecting import connect_to
from ledgerstone.pipeline.errors import DeletesMissed, PipelineError
from ledgerstone.pipeline.mirror.api import ClusterApi
from ledgerstone.pipeline.mirror.deletes import (
    RemovedDeletes,
    Suspect,
    begin_checks,
    settle,
    suspects,
)
from ledgerstone.pipeline.mirror.notes import (
    ErasureState,
    MirrorNotes,
    Noted,
    NotedErasure,
    Pair,
)
from ledgerstone.pipeline.mirror.offsets import translate
from ledgerstone.pipeline.mirror.topics import (
    ANEW,
    check_pair,
    pair_of,
    prepare_topic,
    source_id,
)
from ledgerstone.pipeline.state.erasures import UNTOLD, erasures_of
from ledgerstone.pipeline.status import waited_for
from ledgerstone.spark.progress import publish
from ledgerstone.types import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ledgerstone.pipeline.mirror.copying import Copied, CopyTask, TaskFailed
    from ledgerstone.pipeline.mirror.erasures import ErasureCarrier
    from ledgerstone.pipeline.mirror.repairing import Repaired, RepairTask

_READ_COMMITTED: Final = 1


class OnMissed(Enum):
    """What to do about deletes that were removed before they were read."""

    REPAIR = "repair"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    source: str  # bootstrap
    target: str
    topics: Mapping[str, str]  # of the original to that of the copy
    work: str
    # Its name: the group that is told at the source how far the copy is, and a name in receipts.
    group: str = "ledgerstone-mirror"
    groups: Sequence[str] = ()  # whose places are translated
    max_offsets: int = 1_000_000  # of a partition in a round
    compression: str = "none"
    on_missed: OnMissed = OnMissed.REPAIR
    # Of the HTTP APIs, where these are open to more than their machine.
    source_token: str | None = field(default=None, repr=False)
    target_token: str | None = field(default=None, repr=False)
    # Files with the client's properties for each, by Kafka's names.
    source_config: str | None = None
    target_config: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundReport:
    copied: "list[Copied]" = field(default_factory=list)
    repaired: "list[Repaired]" = field(default_factory=list)
    erasures: list[str] = field(default_factory=list)  # what became of them, in words
    failed: "list[TaskFailed]" = field(default_factory=list)  # the next round tries again


def mirror_round(spark: "SparkSession", mirror: Mirror) -> RoundReport:
    """Copies the available records. What fails for one partition does not stop the others. Two
    rounds at a time would both write the same records: one waits for the other."""
    with (
        waited_for(Path(mirror.work)),
        MirrorNotes(Path(mirror.work) / "mirror.sqlite") as notes,
        connect_to(mirror.source, mirror.source_config) as source,
        connect_to(mirror.target, mirror.target_config) as target,
    ):
        return _Round(spark, mirror, notes, source, target).run()


@dataclass(frozen=True, slots=True)
class _Round:
    spark: "SparkSession"
    mirror: Mirror
    notes: MirrorNotes
    source: Client
    target: Client
    report: RoundReport = field(default_factory=RoundReport)
    # Topics of brokers that do not say which tombstones they have removed.
    wordless: list[str] = field(default_factory=list)

    def run(self) -> RoundReport:
        for topic, copy in self.mirror.topics.items():
            check_pair(self.source, self.target, self.notes, topic, copy)
            prepare_topic(self.source, self.target, topic, copy)
            self.notes.note_pair(topic, pair_of(self.source, self.target, topic, copy))
            self._begin_checks(topic)
        self._copy()
        for topic in self.mirror.topics:
            self._check_deletes(topic)
        self._publish()
        _translate_groups(self.source, self.target, self.mirror, self.notes)
        self.report.erasures.extend(
            erasure_carrier(self.mirror, self.notes, self.source, self.target).carry()
        )
        return self.report

    def _copy(self) -> None:
        from ledgerstone.pipeline.mirror.copying import Copied, copy_partition

        tasks = [self._task(*each) for each in _ranges(self.source, self.mirror, self.notes)]
        if not tasks:
            return
        context = self.spark.sparkContext
        for each in context.parallelize(tasks, len(tasks)).map(copy_partition).collect():
            if isinstance(each, Copied):
                noted = Noted(each.next_offset, each.target_next)
                self.notes.note(each.partition, noted, each.runs, each.erasures)
                self.report.copied.append(each)
            else:
                self.report.failed.append(each)

    def _task(self, partition: TopicPartition, start: int, end: int) -> "CopyTask":
        from ledgerstone.pipeline.mirror.copying import CopyTask

        noted, pair = self.notes.position(partition), self._pair(partition.topic)
        return CopyTask(
            source=self.mirror.source,
            target=self.mirror.target,
            source_config=self.mirror.source_config,
            target_config=self.mirror.target_config,
            partition=partition,
            target_topic=pair.copy,
            start_offset=start,
            end_offset=end,
            target_next=0 if noted is None else noted.target_next,
            copy_id=pair.copy_id,
            topic_id=source_id(pair),
            compression=self.mirror.compression,
        )

    def _pair(self, topic: str) -> Pair:
        """As recorded when the round began."""
        pair = self.notes.pair(topic)
        assert pair is not None, topic
        return pair

    # -- deletes --------------------------------------------------------------------------------

    def _begin_checks(self, topic: str) -> None:
        numbers = self.source.topic(topic).partitions
        if any(self.notes.position(TopicPartition(topic, each)) is None for each in numbers):
            before = RemovedDeletes.of(self.source, topic)
            if before is not None:
                begin_checks(before, self.notes)

    def _check_deletes(self, topic: str) -> None:
        """Crash in between: the same suspects are found again."""
        after = RemovedDeletes.of(self.source, topic)
        if after is None:
            return
        if not after.has_api:
            self.wordless.append(topic)
        found = suspects(after, self.notes, self.source, self.mirror.group)
        if found and self.mirror.on_missed is OnMissed.STOP:
            raise DeletesMissed(
                f"{'; '.join(map(str, found))}: deletes may be missing in {self._pair(topic).copy}"
            )
        failed = self._repair(found) if found else []
        if found:
            self._note_missed_erasures(topic, found)
        self.report.failed.extend(failed)
        settle(after, self.notes, [each.partition for each in failed])

    def _repair(self, found: list[Suspect]) -> "list[TaskFailed]":
        from ledgerstone.pipeline.mirror.repairing import Repaired, repair_partition

        tasks = [self._repair_task(each) for each in found]
        context, failed = self.spark.sparkContext, []
        for each in context.parallelize(tasks, len(tasks)).map(repair_partition).collect():
            if isinstance(each, Repaired):
                self.report.repaired.append(each)
            else:
                failed.append(each)
        return failed

    def _repair_task(self, suspect: Suspect) -> "RepairTask":
        from ledgerstone.pipeline.mirror.repairing import RepairTask

        pair = self._pair(suspect.partition.topic)
        return RepairTask(
            source=self.mirror.source,
            target=self.mirror.target,
            source_config=self.mirror.source_config,
            target_config=self.mirror.target_config,
            partition=suspect.partition,
            target_topic=pair.copy,
            copy_id=pair.copy_id,
            topic_id=source_id(pair),
            reason=suspect.reason,
        )

    def _note_missed_erasures(self, topic: str, found: list[Suspect]) -> None:
        """Erasures whose tombstones were gone before they were read."""
        spans = {each.partition.partition: each for each in found}
        for erasure_id, number, offset in erasures_of(self.source, topic):
            span = spans.get(number)
            if erasure_id == UNTOLD or span is None or self.notes.erasure(erasure_id):
                continue
            if span.first_offset <= offset < span.end_offset:
                self.notes.note_erasure(
                    NotedErasure(erasure_id, topic, number, offset, None, ErasureState.MISSED)
                )

    def _publish(self) -> None:
        """After the check, which goes by the time of the last commit for topics without a word:
        there a round counts that found nothing new."""
        offsets = {each.partition: each.next_offset for each in self.report.copied}
        for topic in self.wordless:
            for number in self.source.topic(topic).partitions:
                noted = self.notes.position(TopicPartition(topic, number))
                if noted is not None:
                    offsets[TopicPartition(topic, number)] = noted.next_offset
        if offsets:
            publish(self.source, self.mirror.group, offsets)


def erasure_carrier(
    mirror: Mirror, notes: MirrorNotes, source: Client, target: Client
) -> "ErasureCarrier":
    from ledgerstone.pipeline.mirror.erasures import ErasureCarrier

    return ErasureCarrier(
        name=mirror.group,
        topics=dict(mirror.topics),
        notes=notes,
        source=source,
        target=target,
        source_api=ClusterApi.of(source, mirror.source_token),
        target_api=ClusterApi.of(target, mirror.target_token),
    )


def erase_missed(mirror: Mirror, erasure_id: str, topic: str, key: bytes) -> str:
    """Carries an erasure whose tombstone the mirror never read, for who still knows the key."""
    from ledgerstone.pipeline.mirror.erasures import carry_key

    with (
        MirrorNotes(Path(mirror.work) / "mirror.sqlite") as notes,
        connect_to(mirror.source, mirror.source_config) as source,
        connect_to(mirror.target, mirror.target_config) as target,
    ):
        carrier = erasure_carrier(mirror, notes, source, target)
        return carry_key(carrier, erasure_id, topic, key)


def _ranges(
    source: Client, mirror: Mirror, notes: MirrorNotes
) -> Iterator[tuple[TopicPartition, int, int]]:
    for topic in mirror.topics:
        partitions = [TopicPartition(topic, n) for n in sorted(source.topic(topic).partitions)]
        starts = list_offsets(source, dict.fromkeys(partitions, EARLIEST))
        ends = list_offsets(
            source, dict.fromkeys(partitions, LATEST), isolation_level=_READ_COMMITTED
        )
        for each in partitions:
            noted = notes.position(each)
            if noted is not None and ends[each].offset < noted.next_offset:
                raise PipelineError(
                    f"{each} ends at {ends[each].offset} and was copied up to {noted.next_offset}: "
                    f"the log was truncated; {ANEW}"
                )
            start = max(0 if noted is None else noted.next_offset, starts[each].offset)
            end = min(ends[each].offset, start + mirror.max_offsets)
            if start < end:
                yield each, start, end


def _translate_groups(source: Client, target: Client, mirror: Mirror, notes: MirrorNotes) -> None:
    """Forward only: a group that already reads the copy is not moved back."""
    for group in mirror.groups:
        present = committed_offsets(target, group)
        places = {}
        for partition, committed in committed_offsets(source, group).items():
            if partition.topic not in mirror.topics:
                continue
            place = translate(notes.runs(partition), committed.offset)
            copy = TopicPartition(mirror.topics[partition.topic], partition.partition)
            known = present.get(copy)
            if place is not None and (known is None or known.offset < place):
                places[copy] = CommittedOffset(place, metadata=committed.metadata)
        if places:
            commit_offsets(target, group, places)
