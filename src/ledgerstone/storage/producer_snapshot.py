"""The format of a `.snapshot` file: a partition's producer state. Pure.

Contract and byte table in README.md. Memory holds the last five batches of a producer, a snapshot
only the newest; `producer_replay` finds the others in the log if they are still there.
"""

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from ledgerstone.errors import CorruptFile
from ledgerstone.records.crc import crc32c

VERSION: Final = 1
# version int16, CRC-32C of everything after it uint32, count int32
HEADER: Final = struct.Struct(">hIi")
# producer id, epoch int16, last sequence int32, last offset, offset delta int32, timestamp,
# coordinator epoch int32, first offset of the open transaction; int64 unless noted
ENTRY: Final = struct.Struct(">qhiqiqiq")
_COUNT: Final = struct.Struct(">i")
_CRC_END: Final = HEADER.size - _COUNT.size


class SnapshotEntry(NamedTuple):
    """One producer. The sequence and offsets are -1 if only its markers are known."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int  # last offset minus first offset of the newest batch
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int  # -1 without an open transaction


def encode_snapshot(entries: Iterable[SnapshotEntry]) -> bytes:
    packed = [ENTRY.pack(*entry) for entry in entries]
    content = b"".join([_COUNT.pack(len(packed)), *packed])
    return HEADER.pack(VERSION, crc32c(content), len(packed)) + content[_COUNT.size :]


def decode_snapshot(data: bytes, path: str = "snapshot") -> list[SnapshotEntry]:
    if len(data) < HEADER.size:
        raise CorruptFile(path, 0, f"{len(data)} bytes, the header alone has {HEADER.size}")
    version, stored_crc, count = HEADER.unpack_from(data)
    if version != VERSION:
        raise CorruptFile(path, 0, f"version {version}, only {VERSION} is known")
    found_crc = crc32c(memoryview(data)[_CRC_END:])
    if found_crc != stored_crc:
        raise CorruptFile(path, 2, f"crc {found_crc:#010x} != {stored_crc:#010x} stored")
    content = memoryview(data)[HEADER.size :]
    if count < 0 or len(content) != count * ENTRY.size:
        raise CorruptFile(path, _CRC_END, f"{count} producers announced in {len(content)} bytes")
    return [SnapshotEntry._make(fields) for fields in ENTRY.iter_unpack(content)]
