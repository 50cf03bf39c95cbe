"""What a broker does for a partition that another one leads, or that has no leader.

Grade D, through the log. Which bytes to fetch is decided in `fetching`; here they enter the log.
"""

from typing import Protocol

from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import OffsetOutOfRange
from ledgerstone.metadata.image import NO_LEADER, PartitionImage
from ledgerstone.records.batch import HEADER_SIZE, read_header
from ledgerstone.replication.fetching.replica import FollowerAppend
from ledgerstone.storage.log import PartitionLog
from ledgerstone.types import NO_LEADER_EPOCH, Buffer, TopicPartition


class TruncatesLogs(Protocol):
    """The log directory: it lowers checkpoints, and tells the cleaner, before it cuts."""

    def truncate_to(self, topic_partition: TopicPartition, offset: int) -> bool: ...

    def truncate_fully_and_start_at(self, topic_partition: TopicPartition, offset: int) -> None: ...


@dataclass(slots=True, kw_only=True)
class Follower:
    leader_id: int = NO_LEADER
    leader_epoch: int = NO_LEADER_EPOCH
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()

    def assume(self, state: PartitionImage) -> None:
        self.leader_id, self.leader_epoch = state.leader, state.leader_epoch
        self.replicas, self.isr = state.replicas, state.isr


def append_fetched(
    log: PartitionLog,
    truncates: TruncatesLogs | None,
    records: Buffer,
    *,
    leader_epoch: int,
    high_watermark: int,
    log_start_offset: int,
) -> FollowerAppend:
    """Batches as the leader has them, then its high watermark and log start, as far as this log
    reaches."""
    end_offset = log.log_end_offset
    if records:
        try:
            log.append_as_follower(records, leader_epoch=leader_epoch)
        except OffsetOutOfRange:
            if truncates is None or not _begins_inside(log, records):
                raise
            # DeleteRecords cut the leader's log inside this batch, and this log is empty there.
            first = read_header(records).base_offset
            truncates.truncate_fully_and_start_at(log.topic_partition, first)
            log.append_as_follower(records, leader_epoch=leader_epoch)
    has_committed = log.advance_high_watermark(high_watermark)
    has_new_start = log.raise_log_start_offset(min(log_start_offset, log.high_watermark))
    return FollowerAppend(log.log_end_offset != end_offset, has_committed, has_new_start)


def _begins_inside(log: PartitionLog, records: Buffer) -> bool:
    """Whether the log is empty, and the first batch holds its end."""
    if log.log_start_offset != log.log_end_offset or len(records) < HEADER_SIZE:
        return False
    first = read_header(records)
    return first.base_offset < log.log_end_offset <= first.last_offset
