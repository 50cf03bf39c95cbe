"""The metadata log of a quorum with one voter: append, sync, and it is committed. Grade D.

`__cluster_metadata-0` is a log like any other; each record's value is a metadata record, its key is
null. A quorum of several will put its replication between append and commit: in `sync`, and in
whatever moves the high watermark after it.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from ledgerstone.errors import CorruptRecord, DamagedLog, KafkaError, StorageError
from ledgerstone.fs import join
from ledgerstone.metadata.records import decode_record, encode_record
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.metadata_records import TopicRecord
from ledgerstone.protocol.wire import ProtocolViolation
from ledgerstone.records.builder import RecordParts
from ledgerstone.records.validation import Origin
from ledgerstone.replication.replay_reader import replay_batches
from ledgerstone.storage.filenames import Kind
from ledgerstone.storage.log import AppendResult, PartitionLog
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_dir import LogDir
from ledgerstone.types import TopicPartition, WritableBuffer

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
        # With one voter every start is an election that it wins.
        self.leader_id: int | None = log_dir.meta.node_id
        self._node_id = log_dir.meta.node_id
        self.voters = (log_dir.meta.node_id,)
        latest = self.log.epochs.latest_epoch
        self.leader_epoch = 1 if latest is None else latest + 1
        self.log.note_leader_epoch(self.leader_epoch, self.log.log_end_offset)
        self.log.advance_high_watermark(self.log.log_end_offset)

    @property
    def is_leader(self) -> bool:
        return self.leader_id == self._node_id

    @property
    def committed_offset(self) -> int:
        """Of the last committed record."""
        return self.log.high_watermark - 1

    def append(self, batch: WritableBuffer) -> AppendResult:
        return self.log.append_as_leader(
            batch, leader_epoch=self.leader_epoch, origin=Origin.COORDINATOR
        )

    def sync(self) -> None:
        """Own records count towards the high watermark once they are on disk, not before."""
        self.log.flush()
        self.log.advance_high_watermark(self.log.log_end_offset)

    def replay(self) -> Iterator[tuple[int, MetadataRecord]]:
        """Every record from the beginning, with its offset. This log is never compacted: a batch
        must begin where the one before it ended."""
        due = self.log.log_start_offset
        try:
            for batch in replay_batches(self.log, max_bytes=_MAX_BATCH_BYTES):
                if batch.header.base_offset != due:
                    raise CorruptRecord(f"offset {batch.header.base_offset} follows {due - 1}")
                for record in batch.records:
                    if record.value is None:
                        continue
                    found = decode_record(record.value)
                    if isinstance(found, TopicRecord):
                        self.topic_ids.add(found.topic_id)
                    yield record.offset, found
                due = batch.header.next_offset
        except (KafkaError, StorageError, ProtocolViolation, ValueError) as error:
            segment = self.log.segments.floor(due) or self.log.segments.first
            where = f"{segment.path(Kind.LOG)}, the batch at offset {due}"
            raise _refusal(f"{where}: {error}") from error


def record_parts(now_ms: int, records: Sequence[MetadataRecord]) -> list[RecordParts]:
    return [(now_ms, None, encode_record(record), ()) for record in records]


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
