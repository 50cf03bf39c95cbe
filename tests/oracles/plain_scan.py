"""What a scan has to find of a key in one log file, by the plainest means, without our code.

The file format comes from Kafka's documentation of batch version 2, read with `struct`; payloads
are opened by the codecs' own libraries; keys are looked for with `bytes.find`. Files must be whole:
good batches one after the other. A key must not overlap itself, so that hits can be counted.
"""

import gzip
import struct
from collections.abc import Iterator
from typing import NamedTuple

import lz4.frame
import zstandard
from cramjam import snappy

HEADER = struct.Struct(">qiibIhiqqqhii")
CONTROL = 0x20


class PlainCounts(NamedTuple):
    records: int
    mentions: int
    residue: int


class PlainRecord(NamedTuple):
    start: int  # in the payload; with the varint of its length
    end: int
    key: bytes | None


class PlainBatch(NamedTuple):
    position: int
    size: int
    payload: bytes  # decompressed
    is_packed: bool
    is_control: bool
    records: list[PlainRecord]


def plain_scan(content: bytes, key: bytes) -> PlainCounts:
    batches = list(batches_of(content))
    records = mentions = residue = 0
    for batch in batches:
        own = [each for each in batch.records if each.key == key and not batch.is_control]
        records += len(own)
        if not batch.is_packed:
            continue
        for hit in hits_of(batch.payload, key):
            around = _record_around(batch, hit, len(key))
            residue += around is None
            mentions += around is not None and around not in own
    for hit in hits_of(content, key):
        batch = [each for each in batches if each.position <= hit][-1]
        start, end = hit - batch.position - HEADER.size, batch.size - HEADER.size
        is_in_payload = start >= 0 and start + len(key) <= end
        if batch.is_packed and is_in_payload:
            # Compressed bytes stand for what they unpack to.
            residue += key not in batch.payload
            continue
        around = None
        if is_in_payload:
            around = _record_around(batch, start, len(key))
        residue += around is None
        is_own = around is not None and around.key == key and not batch.is_control
        mentions += around is not None and not is_own
    return PlainCounts(records, mentions, residue)


def batches_of(content: bytes) -> Iterator[PlainBatch]:
    position = 0
    while position < len(content):
        fields = HEADER.unpack_from(content, position)
        size, attributes, count = 12 + fields[1], fields[5], fields[12]
        stored = content[position + HEADER.size : position + size]
        is_packed = attributes & 7 != 0 and count > 0
        payload = _opened(attributes & 7, stored) if is_packed else stored
        records = list(_records_of(payload, count))
        yield PlainBatch(position, size, payload, is_packed, attributes & CONTROL != 0, records)
        position += size


def hits_of(data: bytes, key: bytes) -> Iterator[int]:
    at = data.find(key)
    while at >= 0:
        yield at
        at = data.find(key, at + len(key))


def _record_around(batch: PlainBatch, start: int, length: int) -> PlainRecord | None:
    for record in batch.records:
        if record.start <= start and start + length <= record.end:
            return record
    return None


def _records_of(payload: bytes, count: int) -> Iterator[PlainRecord]:
    at = 0
    for _ in range(count):
        start = at
        length, at = _varint(payload, at)
        end = at + length
        at += 1  # attributes
        _, at = _varint(payload, at)
        _, at = _varint(payload, at)
        key_length, at = _varint(payload, at)
        key = None if key_length < 0 else payload[at : at + key_length]
        yield PlainRecord(start, end, key)
        at = end
    assert at == len(payload)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


def _opened(codec: int, stored: bytes) -> bytes:
    if codec == 1:
        return gzip.decompress(stored)
    if codec == 2:
        return _opened_snappy(stored)
    if codec == 3:
        return bytes(lz4.frame.decompress(stored))
    assert codec == 4, codec
    return zstandard.ZstdDecompressor().decompressobj().decompress(stored)


def _opened_snappy(stored: bytes) -> bytes:
    """As snappy-java writes it: a head of 16 bytes, then blocks with their sizes."""
    if not stored.startswith(b"\x82SNAPPY\x00"):
        return bytes(snappy.decompress_raw(stored))
    opened, at = b"", 16
    while at < len(stored):
        (size,) = struct.unpack_from(">i", stored, at)
        opened += bytes(snappy.decompress_raw(stored[at + 4 : at + 4 + size]))
        at += 4 + size
    return opened
