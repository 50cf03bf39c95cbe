"""The metadata log of a quorum with one voter: append, sync, and it is decided. Grade D.

`__cluster_metadata-0` is a log like any other; each record's value is a metadata record, its key is
null. A quorum of several will put its replication between append and decision, through this door.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from ledgerstone.metadata.records import decode_record, encode_record
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.records.batch import iter_headers
from ledgerstone.records.builder import build_batch
from ledgerstone.records.record import iter_records
from ledgerstone.records.validation import Origin
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
    def __init__(self, log_dir: LogDir) -> None:
        self.log: PartitionLog = log_dir.create(
            METADATA_PARTITION, _CONFIG, topic_id=METADATA_TOPIC_ID
        )
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
        while (piece := read(self.log, offset, max_bytes=_READ_BYTES).slice) is not None:
            batches = piece.read()
            for position, header in iter_headers(batches):
                if not header.is_control:
                    for record in iter_records(batches, position):
                        if record.value is not None:
                            yield record.offset, decode_record(record.value)
                offset = header.next_offset
