"""`bootstrap.checkpoint`: the first records of a cluster, in a file shaped like a snapshot. Pure.

A header, one batch of records, a footer. The first leader with an empty log writes them into it.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from ledgerstone.errors import CorruptFile, KafkaError
from ledgerstone.metadata.records import decode_record, encode_record
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.raft.control_batches import snapshot_foot, snapshot_head
from ledgerstone.records.batch import iter_headers, verify_crc
from ledgerstone.records.builder import build_batch
from ledgerstone.records.record import iter_records

_EPOCH: Final = 0


def bootstrap_file(records: Sequence[MetadataRecord], *, wall_ms: int) -> bytes:
    """Byte for byte what Kafka's `kafka-storage format` writes."""
    head = snapshot_head(epoch=_EPOCH, wall_ms=wall_ms, last_timestamp=0, version=0, voters=None)
    parts = [(wall_ms, None, encode_record(record), ()) for record in records]
    batch = build_batch(parts, base_offset=1, leader_epoch=_EPOCH)
    foot = snapshot_foot(base_offset=1 + len(parts), epoch=_EPOCH, wall_ms=wall_ms)
    return bytes(head) + bytes(batch) + bytes(foot)


def read_bootstrap_file(path: str, data: bytes) -> list[MetadataRecord]:
    """The records in it. CorruptFile if it is no such file; it is never guessed at."""
    try:
        return list(_records(data))
    except (KafkaError, ValueError) as error:
        raise CorruptFile(path, 0, str(error)) from error


def _records(data: bytes) -> Iterator[MetadataRecord]:
    end = 0
    for position, header in iter_headers(data):
        end = position + header.size
        verify_crc(data, position, header)
        if header.is_control:
            continue
        for record in iter_records(memoryview(data)[position:end]):
            if record.value is None:
                raise ValueError(f"record {record.offset} has no value")
            yield decode_record(record.value)
    if end != len(data) or not data:
        raise ValueError(f"ends at byte {end}, within a batch")
