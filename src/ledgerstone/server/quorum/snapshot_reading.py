"""The records of a snapshot file, a batch at a time. Grade D, through the file.

A snapshot may have come from another node, so nothing in it is believed before it is checked: sizes
are bounded, checksums verified, and a file without its last record is no snapshot.
"""

from collections.abc import Iterator
from typing import Final

from ledgerstone.errors import CorruptFile, CorruptRecord, UnsupportedForMessageFormat
from ledgerstone.fs import File
from ledgerstone.metadata.records import decode_record
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.control_records import (
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
)
from ledgerstone.raft.control_batches import records_of
from ledgerstone.records.batch import HEADER_SIZE, BatchHeader, read_header, verify_crc
from ledgerstone.records.values import record_values

# Kafka writes batches of up to 8 MiB, and a larger one only for a record that is larger itself.
_MAX_BATCH_BYTES: Final = 64 << 20


def snapshot_records(file: File, path: str) -> Iterator[MetadataRecord]:
    """In their order. CorruptFile if the file is not a whole snapshot."""
    for position, batch in _data_batches(file, path):
        try:
            values = record_values(batch)
        except CorruptRecord as error:
            raise CorruptFile(path, position, str(error)) from error
        for value in values:
            if value is not None:
                yield decode_record(value)


def check_snapshot(file: File, path: str) -> None:
    """CorruptFile if the file is not a whole snapshot. Its records are not looked at."""
    for _ in _data_batches(file, path):
        pass


def _data_batches(file: File, path: str) -> Iterator[tuple[int, bytes]]:
    """Those between beginning and end."""
    is_begun, is_ended = False, False
    for position, header, batch in _batches(file, path):
        if is_ended:
            raise CorruptFile(path, position, "more follows the end of the snapshot")
        try:
            if header.is_control:
                for found in records_of(batch, 0, header):
                    is_begun |= isinstance(found.record, SnapshotHeaderRecord)
                    is_ended |= isinstance(found.record, SnapshotFooterRecord)
                continue
            if not is_begun:
                raise CorruptFile(path, position, "the snapshot has no beginning")
        except CorruptRecord as error:
            raise CorruptFile(path, position, str(error)) from error
        yield position, batch
    if not is_ended:
        raise CorruptFile(path, file.size(), "the snapshot has no end")


def _batches(file: File, path: str) -> Iterator[tuple[int, BatchHeader, bytes]]:
    position, end = 0, file.size()
    while position < end:
        try:
            header = read_header(file.pread(HEADER_SIZE, position))
            if not HEADER_SIZE <= header.size <= min(_MAX_BATCH_BYTES, end - position):
                raise CorruptFile(path, position, f"a batch of {header.size} bytes")
            batch = file.pread(header.size, position)
            verify_crc(batch, 0, header)
        except (CorruptRecord, UnsupportedForMessageFormat) as error:
            raise CorruptFile(path, position, str(error)) from error
        yield position, header, batch
        position += header.size
