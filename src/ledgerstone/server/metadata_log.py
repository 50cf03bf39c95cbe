"""The metadata log of a quorum with one voter: append, sync, and it is committed. Grade D.

`__cluster_metadata-0` is a log like any other; each record's value is a metadata record, its key is
null. It is the `door.MetadataQuorum` of a node that is alone.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from ledgerstone.errors import CorruptRecord, DamagedLog, KafkaError, NotController, StorageError
from ledgerstone.fs import join
from ledgerstone.metadata.records import decode_record
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.metadata_records import TopicRecord
from ledgerstone.protocol.wire import ProtocolViolation
from ledgerstone.raft.events import Leadership
from ledgerstone.raft.replica import Peer
from ledgerstone.records.builder import RecordParts, build_batch
from ledgerstone.records.validation import Origin
from ledgerstone.replication.replay_reader import ReplayedBatch, replay_batches
from ledgerstone.server.quorum.door import CommittedBatch, MetadataStateMachine
from ledgerstone.storage.filenames import Kind
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_dir import LogDir
from ledgerstone.types import TopicPartition

METADATA_PARTITION: Final = TopicPartition("__cluster_metadata", 0)
METADATA_TOPIC_ID: Final = bytes(15) + b"\x01"
# Kafka's own limit; one batch must fit a segment.
_MAX_BATCH_BYTES: Final = 8 << 20
_CONFIG: Final = LogConfig(max_message_bytes=_MAX_BATCH_BYTES, retention_ms=-1)


class MetadataLog:
    """Damage in it stops the start: whoever goes on without a part of the metadata takes data for
    nobody's. `topic_ids` are those of every topic there ever was."""

    def __init__(self, log_dir: LogDir) -> None:
        _check_it_is_there(log_dir)
        try:
            self.log: PartitionLog = log_dir.create(
                METADATA_PARTITION, _CONFIG, topic_id=METADATA_TOPIC_ID, is_synced_in_order=True
            )
        except DamagedLog as error:
            raise _refusal(str(error)) from error
        self.topic_ids: set[bytes] = set()
        self._machine: MetadataStateMachine | None = None
        # Proposed and not committed.
        self._pending: deque[CommittedBatch] = deque()
        self._is_advancing = False
        # With one voter every start is an election that it wins.
        self.leader_id: int | None = log_dir.meta.node_id
        self._node_id = log_dir.meta.node_id
        self.voters = (log_dir.meta.node_id,)
        latest = self.log.epochs.latest_epoch
        self.leader_epoch = 1 if latest is None else latest + 1
        self.log.note_leader_epoch(self.leader_epoch, self.log.log_end_offset)
        self.log.advance_high_watermark(self.log.log_end_offset)

    def start(self, machine: MetadataStateMachine) -> None:
        """Hands over what is in the log, and the lead."""
        self._machine = machine
        for batch in self._replay():
            machine.committed(batch)
        machine.leadership(Leadership(self.leader_epoch, self._node_id, True))

    # -- `door.MetadataQuorum` ----------------------------------------------------------------

    @property
    def epoch(self) -> int:
        return self.leader_epoch

    @property
    def leader(self) -> Peer | None:
        return None

    @property
    def end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    def propose(self, epoch: int, records: Sequence[RecordParts]) -> int:
        if self.leader_id != self._node_id or epoch != self.leader_epoch:
            raise NotController(f"node {self._node_id} does not lead epoch {epoch}")
        batch = build_batch(records)
        size, now_ms = len(batch), self.log.clock.now_ms()
        appended = self.log.append_as_leader(batch, leader_epoch=epoch, origin=Origin.COORDINATOR)
        values = [record[2] for record in records]
        self._pending.append(
            CommittedBatch(
                appended.first_offset,
                appended.last_offset + 1,
                epoch,
                now_ms,
                size,
                lambda: [decode_record(value) for value in values if value is not None],
            )
        )
        return appended.last_offset + 1

    def advance(self) -> None:
        """Own records count towards the high watermark once they are on disk, not before."""
        if self._is_advancing:
            return
        self._is_advancing = True
        try:
            while self._pending:
                self._commit()
        finally:
            self._is_advancing = False

    def _commit(self) -> None:
        assert self._machine is not None
        self.log.flush()
        self.log.advance_high_watermark(self.log.log_end_offset)
        while self._pending and self._pending[0].next_offset <= self.log.high_watermark:
            self._machine.committed(self._pending.popleft())

    def resign(self, epoch: int) -> None:
        """With one voter it is elected again, once everything before is committed. A log that has
        failed takes no more records, and its node decides nothing."""
        if epoch != self.leader_epoch or self.leader_id != self._node_id:
            return
        assert self._machine is not None
        self._machine.leadership(Leadership(epoch, None, False))
        self.leader_id = None
        if self.log.failure is None:
            self.advance()
            self.leader_epoch += 1
            self.leader_id = self._node_id
            self._machine.leadership(Leadership(self.leader_epoch, self._node_id, True))

    @property
    def committed_offset(self) -> int:
        """Of the last committed record."""
        return self.log.high_watermark - 1

    def _replay(self) -> Iterator[CommittedBatch]:
        """Every batch from the beginning. This log is never compacted: a batch must begin where
        the one before it ended."""
        due = self.log.log_start_offset
        try:
            for batch in replay_batches(self.log, max_bytes=_MAX_BATCH_BYTES):
                header = batch.header
                if header.base_offset != due:
                    raise CorruptRecord(f"offset {header.base_offset} follows {due - 1}")
                records = self._decoded(batch)
                yield CommittedBatch(
                    header.base_offset,
                    header.next_offset,
                    header.leader_epoch,
                    header.max_timestamp,
                    header.batch_length,
                    lambda records=records: records,  # type: ignore[misc]
                )
                due = header.next_offset
        except (KafkaError, StorageError, ProtocolViolation, ValueError) as error:
            segment = self.log.segments.floor(due) or self.log.segments.first
            where = f"{segment.path(Kind.LOG)}, the batch at offset {due}"
            raise _refusal(f"{where}: {error}") from error

    def _decoded(self, batch: ReplayedBatch) -> list[MetadataRecord]:
        found = [decode_record(each.value) for each in batch.records if each.value is not None]
        self.topic_ids.update(each.topic_id for each in found if isinstance(each, TopicRecord))
        return found


def _check_it_is_there(log_dir: LogDir) -> None:
    directory = join(log_dir.path, str(METADATA_PARTITION))
    others = log_dir.live_partitions()
    if others and METADATA_PARTITION not in others:
        raise _refusal(f"{directory} is missing, but {join(log_dir.path, str(others[0]))} is there")


def _refusal(what: str) -> StorageError:
    return StorageError(
        f"the metadata log is damaged: {what}. Without it nobody knows which topics there are, so "
        f"the broker does not start, and nothing was changed. Restore {METADATA_PARTITION} from a "
        "backup of this directory. Without one, cut the log file before the damage with "
        "truncate(1), and move the directories aside whose topics were made after it"
    )
