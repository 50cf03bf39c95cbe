"""Committed batches, read back from the log and checked. Grade D, through the disk."""

from collections.abc import Callable, Iterator
from typing import Final

from ledgerstone.errors import CorruptRecord
from ledgerstone.metadata.records import decode_record
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.raft.log import ReplicatedLog
from ledgerstone.records.batch import BatchHeader, iter_headers, verify_crc
from ledgerstone.records.values import record_values
from ledgerstone.server.quorum.door import CommittedBatch

# Read at a time: a fetch has as much.
_CHUNK_BYTES: Final = 1 << 20


def committed_batches(log: ReplicatedLog, offset: int, end: int) -> Iterator[CommittedBatch]:
    """Every batch in [offset, end). This log is never compacted: a batch must begin where the one
    before it ended. CorruptRecord where one does not, or is damaged."""
    while offset < end:
        chunk = log.read(offset, _CHUNK_BYTES)
        if not chunk:
            raise CorruptRecord(f"no batch can be read at offset {offset}")
        for position, header in iter_headers(chunk):
            if offset >= end:
                return
            if header.base_offset != offset:
                raise CorruptRecord(f"offset {header.base_offset} follows {offset - 1}")
            verify_crc(chunk, position, header)
            yield CommittedBatch(
                base_offset=offset,
                next_offset=header.next_offset,
                epoch=header.leader_epoch,
                timestamp=header.max_timestamp,
                size=header.size,
                records=_no_records if header.is_control else _decoding(chunk, position, header),
            )
            offset = header.next_offset


def _no_records() -> list[MetadataRecord]:
    return []


def _decoding(
    chunk: bytes, position: int, header: BatchHeader
) -> Callable[[], list[MetadataRecord]]:
    batch = memoryview(chunk)[position : position + header.size]

    def decode() -> list[MetadataRecord]:
        return [decode_record(value) for value in record_values(batch) if value is not None]

    return decode
