"""The 61-byte header of a record batch, magic 2: read it, check its CRC, stamp it in place.

Grade P. The byte table, the CRC range and the reader rules are in README.md. Nothing here looks at
records: with most batches, a broker reads the header, changes twelve bytes and passes them on.
"""

from collections.abc import Callable, Iterator
from enum import IntEnum
from functools import partial
from struct import Struct
from typing import Final, NamedTuple, NoReturn

from ledgerstone.errors import (
    CorruptRecord,
    UnsupportedCompressionType,
    UnsupportedForMessageFormat,
)
from ledgerstone.records.crc import crc32c
from ledgerstone.types import INT32_MAX, NO_PRODUCER_ID, NO_SEQUENCE, Buffer, WritableBuffer

MAGIC: Final = 2

BASE_OFFSET_AT: Final = 0
BATCH_LENGTH_AT: Final = 8
LEADER_EPOCH_AT: Final = 12
MAGIC_AT: Final = 16
CRC_AT: Final = 17
MAGIC_POSITION: Final = 16
ATTRIBUTES_AT: Final = 21
LAST_OFFSET_DELTA_AT: Final = 23
BASE_TIMESTAMP_AT: Final = 27
MAX_TIMESTAMP_AT: Final = 35
PRODUCER_ID_AT: Final = 43
PRODUCER_EPOCH_AT: Final = 51
BASE_SEQUENCE_AT: Final = 53
RECORD_COUNT_AT: Final = 57
HEADER_SIZE: Final = 61

# The bytes batch_length does not count: base_offset and batch_length itself.
LOG_OVERHEAD: Final = 12
# The first byte after the magic byte, which lies at the same place in every message format.
MAGIC_END: Final = 17
MIN_BATCH_LENGTH: Final = HEADER_SIZE - LOG_OVERHEAD
# The least that magic 0 needs; below it the size field is noise, whatever the magic byte says.
MIN_LEGACY_LENGTH: Final = 14

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40
KNOWN_ATTRIBUTES: Final = 0x7F

_HEADER: Final = Struct(">qiibIhiqqqhii")
_PREFIX: Final = Struct(">qiib")
_INT64: Final = Struct(">q")
_INT32: Final = Struct(">i")
_UINT32: Final = Struct(">I")
_INT16: Final = Struct(">h")


class Codec(IntEnum):
    """How the records after the header are compressed."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def config_name(self) -> str:
        """The word `compression.type` uses."""
        return "uncompressed" if self is Codec.NONE else self.name.lower()


# Indexing a tuple is three times as fast as asking the enum for a member.
_CODECS: Final = tuple(Codec)


class TimestampType(IntEnum):
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The header's fields in byte order, and values derived from them."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch, header included."""
        return LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Where a reader continues. Compaction may remove the last record, never this."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> Codec:
        number = self.attributes & CODEC_MASK
        if number >= len(_CODECS):
            raise UnsupportedCompressionType(
                f"batch at offset {self.base_offset}: codec {number} is not one of 0 to 4"
            )
        return _CODECS[number]

    @property
    def timestamp_type(self) -> TimestampType:
        if self.attributes & LOG_APPEND_TIME_FLAG:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def is_compressed(self) -> bool:
        return self.attributes & CODEC_MASK != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_FLAG != 0

    @property
    def has_delete_horizon(self) -> bool:
        return self.attributes & DELETE_HORIZON_FLAG != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones and markers of this batch may be removed. None until a pass sets it."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)


# As `_make`, without its layer of Python: headers are read by the million.
_new_header: Final[Callable[[tuple[int, ...]], BatchHeader]] = partial(tuple.__new__, BatchHeader)


def increment_sequence(sequence: int, by: int) -> int:
    """Sequence numbers wrap from 2**31 - 1 to 0."""
    return (sequence + by) & INT32_MAX


def is_transactional_batch(data: Buffer) -> bool:
    """Whether the first batch says so, without believing anything else of it. Every produced batch
    is asked, so only two bytes are looked at."""
    return (
        len(data) >= HEADER_SIZE
        and data[MAGIC_POSITION] == MAGIC
        and data[ATTRIBUTES_AT + 1] & TRANSACTIONAL_FLAG != 0
    )


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`; does not check that the records after it are there."""
    available = len(buffer) - position
    if available < HEADER_SIZE:
        _refuse_short(buffer, position, available)
    return _read_header(buffer, position)


def iter_headers(
    buffer: Buffer, start: int = 0, end: int | None = None
) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each complete batch in [start, end).

    A fetch and a crash both cut the last batch short, so an incomplete tail ends the iteration
    silently; an impossible size or magic byte raises.
    """
    stop = len(buffer) if end is None else end
    position = start
    while stop - position >= MAGIC_END:
        available = stop - position
        if available < HEADER_SIZE:
            _, batch_length, _, magic = _PREFIX.unpack_from(buffer, position)
            _check_prefix(position, batch_length, magic)
            return
        header = _read_header(buffer, position)
        size = LOG_OVERHEAD + header.batch_length
        if size > available:
            return
        yield position, header
        position += size


def _refuse_short(buffer: Buffer, position: int, available: int) -> NoReturn:
    if available >= MAGIC_END:
        _, batch_length, _, magic = _PREFIX.unpack_from(buffer, position)
        _check_prefix(position, batch_length, magic)
    raise CorruptRecord(
        f"batch at position {position}: {available} bytes, a header has {HEADER_SIZE}"
    )


def _read_header(buffer: Buffer, position: int) -> BatchHeader:
    """For at least HEADER_SIZE bytes."""
    header = _new_header(_HEADER.unpack_from(buffer, position))
    if header.magic != MAGIC or header.batch_length < MIN_BATCH_LENGTH:
        _check_prefix(position, header.batch_length, header.magic)
    return header


def _check_prefix(position: int, batch_length: int, magic: int) -> None:
    if magic in (0, 1) and batch_length >= MIN_LEGACY_LENGTH:
        raise UnsupportedForMessageFormat(
            f"batch at position {position}: magic {magic}, a message format written before "
            f"Kafka 0.11; only magic {MAGIC} is read"
        )
    if magic != MAGIC:
        raise CorruptRecord(
            f"batch at position {position}: magic {magic} with batch length {batch_length}"
        )
    if batch_length < MIN_BATCH_LENGTH:
        raise CorruptRecord(
            f"batch at position {position}: batch length {batch_length} is below "
            f"{MIN_BATCH_LENGTH}, the rest of a header"
        )


def compute_crc(buffer: Buffer, position: int, size: int) -> int:
    """CRC-32C from the attributes to the end of a batch of `size` bytes."""
    return crc32c(memoryview(buffer)[position + ATTRIBUTES_AT : position + size])


def verify_crc(buffer: Buffer, position: int, header: BatchHeader) -> None:
    available = len(buffer) - position
    size = LOG_OVERHEAD + header.batch_length
    if available < size:
        raise CorruptRecord(f"batch at offset {header.base_offset}: {available} bytes of {size}")
    found = crc32c(memoryview(buffer)[position + ATTRIBUTES_AT : position + size])
    if found != header.crc:
        raise CorruptRecord(
            f"batch at offset {header.base_offset}: crc {found:#010x}, stored {header.crc:#010x}"
        )


def write_header(buffer: WritableBuffer, position: int, header: BatchHeader) -> None:
    """All 61 bytes of `header`, including its CRC."""
    _HEADER.pack_into(buffer, position, *header)


def seal(batch: bytearray, header: BatchHeader) -> None:
    """Writes the header of a batch whose records are in their place; length and CRC are computed
    here."""
    write_header(batch, 0, header)
    _INT32.pack_into(batch, BATCH_LENGTH_AT, len(batch) - LOG_OVERHEAD)
    write_crc(batch, 0, len(batch))


def write_crc(buffer: WritableBuffer, position: int, size: int) -> int:
    """Seals a batch whose other bytes are final."""
    crc = compute_crc(buffer, position, size)
    _UINT32.pack_into(buffer, position + CRC_AT, crc)
    return crc


def stamp_offset_and_epoch(
    buffer: WritableBuffer, position: int, *, base_offset: int, leader_epoch: int
) -> None:
    """The fields every append changes. The CRC covers neither, so it stays as it was sent."""
    _INT64.pack_into(buffer, position + BASE_OFFSET_AT, base_offset)
    _INT32.pack_into(buffer, position + LEADER_EPOCH_AT, leader_epoch)


def placed(header: BatchHeader, *, base_offset: int, leader_epoch: int) -> BatchHeader:
    """The header of a batch after `stamp_offset_and_epoch`."""
    return _new_header((base_offset, header.batch_length, leader_epoch, *header[3:]))


def stamp_max_timestamp(
    buffer: WritableBuffer, position: int, *, timestamp_type: TimestampType, max_timestamp: int
) -> None:
    """Sets type and maximum and reseals the batch, unless both are already set."""
    header = read_header(buffer, position)
    if header.timestamp_type is timestamp_type and header.max_timestamp == max_timestamp:
        return
    # Attribute bits without a meaning do not survive a rewrite; Kafka drops them too.
    attributes = header.attributes & KNOWN_ATTRIBUTES & ~LOG_APPEND_TIME_FLAG
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes |= LOG_APPEND_TIME_FLAG
    _INT16.pack_into(buffer, position + ATTRIBUTES_AT, attributes)
    _INT64.pack_into(buffer, position + MAX_TIMESTAMP_AT, max_timestamp)
    write_crc(buffer, position, header.size)
