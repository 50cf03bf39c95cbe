"""Tombstones of erasures written to partitions that this broker leads. Grade D.

One counts once the high watermark has passed it under the same leader: then no replica that may
lead lacks it. Where the lead is lost before, nobody knows; the next search finds it, or it is
written again. Contract: erasure/README.md, rule 3.
"""

from collections.abc import Callable, Sequence
from typing import Final

from ledgerstone.clock import Clock
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.erasure.host_messages import TombstoneWrite, WrittenTombstone
from ledgerstone.errors import KafkaError, LogStorageError, MessageTooLarge, StorageError
from ledgerstone.records.builder import RecordHeaders, build_batch
from ledgerstone.records.validation import Origin
from ledgerstone.replication.hosted_partitions import HostedPartitions
from ledgerstone.replication.partition import Partition
from ledgerstone.server.cleaning.work import CleaningWork
from ledgerstone.server.erasing.needs import Appends
from ledgerstone.types import TopicPartition
from ledgerstone.uuid_text import uuid_to_text

_REFUSED: Final = (OSError, StorageError, KafkaError)
# How long replicas may take; then the erasure looks again.
_COMMIT_MS: Final = 20_000
_NOWHERE: Final = -1

OnWritten = Callable[[list[WrittenTombstone]], None]


@dataclass(slots=True, eq=False)
class _Batch:
    """Tombstones that were asked for together; `left` are not settled yet."""

    written: list[WrittenTombstone | None]
    on_end: OnWritten
    left: int


@dataclass(frozen=True, slots=True, eq=False)
class _Uncommitted:
    batch: _Batch
    index: int
    offset: int
    written_ms: int
    leader_epoch: int
    deadline_ms: int


@dataclass(slots=True, kw_only=True)
class TombstoneWriter:
    clock: Clock
    partitions: HostedPartitions
    cleaning: CleaningWork
    appends: Appends
    _waiting: dict[TopicPartition, list[_Uncommitted]] = field(default_factory=dict)

    def write(self, writes: Sequence[TombstoneWrite], on_end: OnWritten) -> None:
        """`on_end` is called once, in this turn where nothing has to be replicated."""
        batch = _Batch([None] * len(writes), on_end, len(writes))
        touched: dict[TopicPartition, Partition] = {}
        for index, write in enumerate(writes):
            try:
                self._append(batch, index, write, touched)
            except _REFUSED as error:
                self._settle(batch, index, WrittenTombstone(_NOWHERE, 0, str(error)))
        for tp, partition in touched.items():
            try:
                # Crash here: the next search finds them by the erasure's id.
                partition.log.flush()
            except _REFUSED as error:
                self._give_up(tp, str(error))
        for tp in touched:
            self.moved(tp)
        if not writes:
            on_end([])

    def _append(
        self,
        batch: _Batch,
        index: int,
        write: TombstoneWrite,
        touched: dict[TopicPartition, Partition],
    ) -> None:
        partition = self.partitions.get(TopicPartition(write.topic, write.partition))
        partition.check_leader()
        if uuid_to_text(partition.topic_id) != write.topic_id:
            raise LogStorageError(f"{partition.topic_partition} is of another topic by now")
        if len(partition.role.replicas) > 1 and len(partition.isr) < 2:
            # Whatever min.insync.replicas says: a delete that one disk knows is none yet.
            raise LogStorageError(
                f"{partition.topic_partition}: only broker {partition.node_id} is in sync, a "
                "tombstone would be on one disk alone"
            )
        now_ms = self.clock.now_ms()
        try:
            offset = self._append_record(partition, write.key, list(write.headers), now_ms)
        except MessageTooLarge:
            # A key that just fits its topic leaves no room for reasons; the id must be there.
            offset = self._append_record(partition, write.key, list(write.short_headers), now_ms)
        touched[partition.topic_partition] = partition
        deadline_ms = self.clock.monotonic_ms() + _COMMIT_MS
        self._waiting.setdefault(partition.topic_partition, []).append(
            _Uncommitted(batch, index, offset, now_ms, partition.leader_epoch, deadline_ms)
        )

    def _append_record(
        self, partition: Partition, key: bytes, headers: RecordHeaders, now_ms: int
    ) -> int:
        data = build_batch([(now_ms, key, None, headers)])
        result = partition.append(data, acks=-1, origin=Origin.COORDINATOR)
        self.appends.appended(partition.topic_partition, len(data))
        self.cleaning.appended(partition.log, result.tombstone_count)
        return result.first_offset

    # -- committed, or not ----------------------------------------------------------------------

    def moved(self, tp: TopicPartition) -> None:
        """The high watermark or the lead of a partition may have changed."""
        waiting = self._waiting.get(tp)
        if waiting is None:
            return
        partition, now_ms = self.partitions.find(tp), self.clock.monotonic_ms()
        left = []
        for each in waiting:
            if partition is None or not partition.is_leader:
                self._refuse(each, f"{tp} is led elsewhere by now")
            elif partition.leader_epoch != each.leader_epoch:
                self._refuse(each, f"{tp} has a new leader epoch")
            elif partition.log.high_watermark > each.offset:
                written = WrittenTombstone(each.offset, each.written_ms, "", each.leader_epoch)
                self._settle(each.batch, each.index, written)
            elif now_ms >= each.deadline_ms:
                self._refuse(each, f"{tp}: replicas have not copied offset {each.offset} in time")
            else:
                left.append(each)
        if left:
            self._waiting[tp] = left
        else:
            self._waiting.pop(tp, None)

    def _give_up(self, tp: TopicPartition, reason: str) -> None:
        for each in self._waiting.pop(tp, ()):
            self._refuse(each, reason)

    def _refuse(self, each: _Uncommitted, reason: str) -> None:
        self._settle(each.batch, each.index, WrittenTombstone(_NOWHERE, 0, reason))

    def _settle(self, batch: _Batch, index: int, written: WrittenTombstone) -> None:
        batch.written[index] = written
        batch.left -= 1
        if batch.left == 0:
            batch.on_end([each for each in batch.written if each is not None])

    @property
    def next_deadline_ms(self) -> int | None:
        due = [each.deadline_ms for waiting in self._waiting.values() for each in waiting]
        return min(due, default=None)

    def tick(self) -> None:
        due_ms = self.next_deadline_ms
        if due_ms is not None and self.clock.monotonic_ms() >= due_ms:
            for tp in list(self._waiting):
                self.moved(tp)
