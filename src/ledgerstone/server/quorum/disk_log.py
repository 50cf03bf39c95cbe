"""The metadata log on disk, as the quorum uses it. Grade D. Contract: `raft.log.ReplicatedLog`.

`__cluster_metadata-0` is a log like any other, so `storage` does the work. What is added: batches
arrive with their offsets and epochs, the log may start over at a snapshot, and damage in it stops
the start. A broker that went on without a part of the metadata would take data for strangers'.
"""

from collections.abc import Iterable
from typing import Final

from ledgerstone.errors import DamagedLog, InvariantViolation, LogStorageError, StorageError
from ledgerstone.fs import join
from ledgerstone.raft.replica import NO_SNAPSHOT, OffsetAndEpoch
from ledgerstone.raft.wire.partition import PARTITION, TOPIC, TOPIC_ID
from ledgerstone.records.batch import read_header
from ledgerstone.storage.filenames import Kind
from ledgerstone.storage.log import FlushPlan, PartitionLog
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_dir import LogDir
from ledgerstone.storage.log_reader import read
from ledgerstone.storage.log_shrink import delete_old_segments
from ledgerstone.types import Buffer, TopicPartition

METADATA_PARTITION: Final = TopicPartition(TOPIC, PARTITION)
METADATA_TOPIC_ID: Final = TOPIC_ID
# Kafka's own limit; one batch must fit a segment.
MAX_BATCH_BYTES: Final = 8 << 20
# Nothing goes by age or size: snapshots decide which records are not needed any more.
LOG_CONFIG: Final = LogConfig(
    max_message_bytes=MAX_BATCH_BYTES, retention_ms=-1, retention_bytes=-1
)


class DiskLog:
    def __init__(self, log_dir: LogDir, log: PartitionLog) -> None:
        self.log = log
        self._log_dir = log_dir
        # Of the record before the first; asked for while the log is empty.
        self._epoch_before = 0

    def remember_snapshots(self, ids: Iterable[OffsetAndEpoch]) -> None:
        """At a start: an empty log that starts over at a snapshot does not know its epoch."""
        for each in ids:
            if each.offset == self.start_offset and each != NO_SNAPSHOT:
                self._epoch_before = each.epoch

    # -- the contract -------------------------------------------------------------------------

    @property
    def start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def last_epoch(self) -> int:
        log = self.log
        if log.log_end_offset == log.log_start_offset:
            return self._epoch_before
        epoch = log.epochs.epoch_for_offset(log.log_end_offset - 1)
        if epoch is None:
            raise InvariantViolation(f"{log.topic_partition}: no epoch holds the last record")
        return epoch

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch | None:
        end = self.log.epochs.end_offset_for(epoch, self.end_offset)
        return None if end.epoch < 0 else OffsetAndEpoch(end.end_offset, end.epoch)

    def epoch_of(self, offset: int) -> int | None:
        if not self.start_offset <= offset < self.end_offset:
            return None
        return self.log.epochs.epoch_for_offset(offset)

    def read(self, offset: int, max_bytes: int) -> bytes:
        found = read(self.log, offset, max_bytes=max_bytes).slice
        return b"" if found is None else found.read()

    def append(self, batch: Buffer) -> None:
        base_offset = read_header(batch).base_offset
        if base_offset != self.end_offset:
            raise InvariantViolation(f"a batch at {base_offset} follows {self.end_offset}")
        self.log.append_as_follower(batch)

    def truncate_to(self, end_offset: int) -> None:
        if end_offset <= self.start_offset:
            # All of it goes, and the start stays.
            self.start_over(OffsetAndEpoch(self.start_offset, self._epoch_before))
        else:
            self._log_dir.truncate_to(METADATA_PARTITION, end_offset)

    def start_over(self, at: OffsetAndEpoch) -> None:
        self._log_dir.truncate_fully_and_start_at(METADATA_PARTITION, at.offset)
        self._epoch_before = at.epoch

    def raise_start_offset(self, offset: int) -> None:
        if offset <= self.start_offset:
            return
        epoch = self.epoch_of(offset - 1)
        self.committed(offset)
        self.log.raise_log_start_offset(offset)
        if epoch is not None:
            self._epoch_before = epoch
        try:
            # Before files go: their names would no longer say where the log begins.
            self._log_dir.checkpoint_log_start_offsets()
        except OSError as error:
            raise LogStorageError(f"{METADATA_PARTITION}: start not recorded: {error}") from error
        delete_old_segments(self.log)

    # -- durability ---------------------------------------------------------------------------

    def flush(self) -> None:
        self.log.flush()

    def plan_flush(self) -> FlushPlan | None:
        """May be synced off the loop; then `flush_done`."""
        return self.log.plan_flush()

    def flush_done(self, plan: FlushPlan) -> None:
        self.log.flush_done(plan)

    def committed(self, high_watermark: int) -> None:
        self.log.advance_high_watermark(high_watermark)

    # -- damage -------------------------------------------------------------------------------

    def where(self, offset: int) -> str:
        segment = self.log.segments.floor(offset) or self.log.segments.first
        return f"{segment.path(Kind.LOG)}, the batch at offset {offset}"


def open_disk_log(
    log_dir: LogDir, *, is_synced_in_order: bool, config: LogConfig = LOG_CONFIG
) -> DiskLog:
    """Makes it if it is new. `is_synced_in_order`: each append is synced before the next one, as a
    sole voter does it; then damage in the middle is no work of a power loss."""
    _check_it_is_there(log_dir)
    try:
        log = log_dir.create(
            METADATA_PARTITION,
            config,
            topic_id=METADATA_TOPIC_ID,
            is_synced_in_order=is_synced_in_order,
        )
    except DamagedLog as error:
        raise refusal(str(error)) from error
    return DiskLog(log_dir, log)


def _check_it_is_there(log_dir: LogDir) -> None:
    directory = join(log_dir.path, str(METADATA_PARTITION))
    others = log_dir.live_partitions()
    if others and METADATA_PARTITION not in others:
        raise refusal(f"{directory} is missing, but {join(log_dir.path, str(others[0]))} is there")


def refusal(what: str) -> StorageError:
    return StorageError(
        f"the metadata log is damaged: {what}. Without it nobody knows which topics there are, so "
        f"the broker does not start, and nothing was changed. Restore {METADATA_PARTITION} from a "
        "backup of this directory. Without one, cut the log file before the damage with "
        "truncate(1), and move the directories aside whose topics were made after it"
    )
