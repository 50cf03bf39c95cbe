"""The metadata log of a quorum with one voter: append, sync, and it is decided. Grade D.

`__cluster_metadata-0` is a log like any other; each record's value is a metadata record, its key is
null. A quorum of several will put its replication between append and decision, through this door.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from ledgerstone.errors import CorruptRecord, DamagedLog, KafkaError, StorageError
from ledgerstone.fs import join
from ledgerstone.metadata.records import decode_record, encode_record
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.metadata_records import TopicRecord
from ledgerstone.protocol.wire import ProtocolViolation
from ledgerstone.records.batch import BatchHeader, iter_headers, verify_crc
from ledgerstone.records.builder import build_batch
from ledgerstone.records.record import iter_records
from ledgerstone.records.validation import Origin
from ledgerstone.storage.filenames import Kind
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_dir import LogDir
from ledgerstone.storage.log_reader import read
from ledgerstone.types import TopicPartition

METADATA_PARTITION: Final = TopicPartition("__cluster_metadata", 0)
METADATA_TOPIC_ID: Final = bytes(15) + b"\x01"
# Kafka's own limit; one batch must fit a segment.
_READ_BYTES: Final = 8 << 20
_CONFIG: Final = LogConfig(max_message_bytes=_READ_BYTES, retention_ms=-1)


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
        latest = self.log.epochs.latest_epoch
        self.leader_epoch = 1 if latest is None else latest + 1
        self.log.note_leader_epoch(self.leader_epoch, self.log.log_end_offset)
        self.log.advance_high_watermark(self.log.log_end_offset)

    def commit(self, records: Sequence[MetadataRecord]) -> int:
        """Makes the records durable, all or none; returns the offset of the first."""
        now_ms = self.log.clock.now_ms()
        batch = build_batch([(now_ms, None, encode_record(record), ()) for record in records])
        result = self.log.append_as_leader(
            batch, leader_epoch=self.leader_epoch, origin=Origin.COORDINATOR
        )
        self.log.flush()
        self.log.advance_high_watermark(self.log.log_end_offset)
        return result.first_offset

    def replay(self) -> Iterator[tuple[int, MetadataRecord]]:
        """Every committed record from the beginning, with its offset."""
        offset = self.log.log_start_offset
        try:
            while (piece := read(self.log, offset, max_bytes=_READ_BYTES).slice) is not None:
                batches = piece.read()
                for position, header in iter_headers(batches):
                    for found in self._records(batches, position, header, offset):
                        if isinstance(found[1], TopicRecord):
                            self.topic_ids.add(found[1].topic_id)
                        yield found
                    offset = header.next_offset
        except (KafkaError, StorageError, ProtocolViolation, ValueError) as error:
            segment = self.log.segments.floor(offset) or self.log.segments.first
            where = f"{segment.path(Kind.LOG)}, the batch at offset {offset}"
            raise _refusal(f"{where}: {error}") from error

    def _records(
        self, batches: bytes, position: int, header: BatchHeader, due: int
    ) -> Iterator[tuple[int, MetadataRecord]]:
        """Of one batch, which must be the next one and whole: this log is never compacted."""
        verify_crc(batches, position, header)
        if header.base_offset != due:
            raise CorruptRecord(f"offset {header.base_offset} follows {due - 1}")
        if header.is_control:
            return
        for record in iter_records(batches, position):
            if record.value is not None:
                yield record.offset, decode_record(record.value)


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
