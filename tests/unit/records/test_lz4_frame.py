"""LZ4 frames taken apart by hand: held against the library, which reads the same ones."""

import random
import tracemalloc
from struct import pack

import lz4.block
import lz4.frame
import pytest

from ledgerstone.errors import CorruptRecord, MessageTooLarge
from ledgerstone.records.batch import Codec
from ledgerstone.records.compression import Codecs
from ledgerstone.records.lz4_frame import Lz4FrameReader

KIB, MIB = 2**10, 2**20
LIMIT = 48 * MIB
TEXT = b"".join(b'{"id":%d,"name":"user-%d"}' % (i, i * 7919 % 1000) for i in range(8000))
NOISE = random.Random(7).randbytes(200 * KIB)
BLOCK_SIZES = {4: 64 * KIB, 5: 256 * KIB, 6: MIB, 7: 4 * MIB}
PLAIN = bytes.fromhex("04224d18 60 40 82")
END = bytes(4)


def frame(payload: bytes, block_size: int = 4) -> bytes:
    stream: bytes = lz4.frame.compress(
        payload, block_size=block_size, block_linked=False, store_size=False
    )
    return stream


def block(payload: bytes) -> bytes:
    body: bytes = lz4.block.compress(payload, store_size=False)
    return pack("<I", len(body)) + body


def stored(payload: bytes) -> bytes:
    return pack("<I", len(payload) | 1 << 31) + payload


def read(stream: bytes, limit: int = LIMIT) -> bytes:
    return bytes(Lz4FrameReader().read(memoryview(stream), limit))


@pytest.mark.parametrize("block_size", BLOCK_SIZES)
@pytest.mark.parametrize("payload", [TEXT, NOISE, TEXT[:50] + NOISE + TEXT, bytes(9 * MIB)])
def test_blocks_of_every_size_are_read(block_size: int, payload: bytes) -> None:
    assert read(frame(payload, block_size)) == payload


@pytest.mark.parametrize("size", [1, 64 * KIB - 1, 64 * KIB, 64 * KIB + 1])
def test_one_block_holds_up_to_64_kib(size: int) -> None:
    assert read(frame(TEXT[:size])) == TEXT[:size]


def test_short_stored_and_compressed_blocks_mix() -> None:
    stream = PLAIN + block(b"a" * 70) + stored(b"b") + block(b"") + block(b"c" * 70) + END

    assert read(stream) == b"a" * 70 + b"b" + b"c" * 70


def test_every_change_of_a_byte_is_read_as_the_library_reads_it() -> None:
    random_ = random.Random(7)
    streams = [
        frame(TEXT[:300]),
        frame(TEXT[:300], 7),
        PLAIN + block(TEXT[:100]) + stored(TEXT[:40]) + END,
    ]

    for stream in streams:
        for position in range(7, len(stream)):
            changed = bytearray(stream)
            changed[position] ^= 1 << random_.randrange(8)
            assert _outcome(bytes(changed)) == _library_outcome(bytes(changed)), changed.hex()


def _outcome(stream: bytes) -> bytes | None:
    try:
        return read(stream)
    except CorruptRecord:
        return None


def _library_outcome(stream: bytes) -> bytes | None:
    try:
        payload, taken = lz4.frame.decompress(stream, return_bytes_read=True)
    except RuntimeError:
        return None
    return payload if taken == len(stream) else None


@pytest.mark.parametrize("descriptor", [0x40, 0x50, 0x60, 0x70])
def test_checksum_of_the_header_is_verified(descriptor: int) -> None:
    for checksum in range(256):
        stream = PLAIN[:5] + bytes([descriptor, checksum]) + stored(b"abc") + END

        assert _outcome(stream) == _library_outcome(stream)


@pytest.mark.parametrize(
    "blocks",
    [
        stored(b""),
        stored(bytes(64 * KIB + 1)),
        block(bytes(64 * KIB + 1)),
        block(TEXT[:100]) + block(bytes(64 * KIB + 1)),
        pack("<I", 0x7FFFFFFF),
        pack("<I", 0xFFFFFFFF),
    ],
)
def test_block_that_cannot_be_is_corrupt(blocks: bytes) -> None:
    reader = Lz4FrameReader()

    # The second time its memory would have room for more than one block.
    for _ in range(2):
        with pytest.raises(CorruptRecord, match="lz4: block"):
            reader.read(memoryview(PLAIN + blocks + END), LIMIT)
        assert len(reader.read(memoryview(frame(TEXT)), LIMIT)) == len(TEXT)


def test_more_blocks_than_are_walked_are_left_to_the_library() -> None:
    assert read(PLAIN + stored(b"x") * 20_000 + END) == b"x" * 20_000


@pytest.mark.parametrize("limit", [0, 10, 64 * KIB, 100 * KIB])
def test_limit_holds_within_a_block_and_between_them(limit: int) -> None:
    stream = frame(TEXT)

    with pytest.raises(MessageTooLarge, match=f"lz4 records decompress to more than {limit} bytes"):
        read(stream, limit)
    assert read(frame(TEXT[:limit]), limit) == TEXT[:limit]


def test_memory_is_asked_for_by_what_blocks_can_become() -> None:
    stream = bytes.fromhex("04224d18 60 70 73") + stored(b"x") * 10_000 + END

    tracemalloc.start()
    try:
        assert read(stream) == b"x" * 10_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 6 * MIB


def test_memory_is_kept_up_to_the_largest_block() -> None:
    reader = Lz4FrameReader()
    streams = [memoryview(frame(bytes(size), 7)) for size in (20 * MIB, 4 * MIB)]

    tracemalloc.start()
    try:
        for stream in streams:
            assert len(reader.read(stream, LIMIT)) in (4 * MIB, 20 * MIB)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert kept < 5 * MIB


def test_peek_uses_its_memory_again_and_decompress_does_not() -> None:
    codecs = Codecs()
    first, second = frame(b"first " * 20), frame(b"other " * 20)

    peeked = codecs.peek(Codec.LZ4, first, limit=LIMIT)
    owned = codecs.decompress(Codec.LZ4, first, limit=LIMIT)
    codecs.peek(Codec.LZ4, second, limit=LIMIT)

    assert owned == b"first " * 20
    assert peeked == b"other " * 20


def test_reader_goes_on_after_a_frame_it_refused() -> None:
    reader = Lz4FrameReader()
    stream = frame(TEXT)

    for bad in (stream[:-4], stream[:-100] + bytes(100), b"none"):
        with pytest.raises(CorruptRecord):
            reader.read(memoryview(bad), LIMIT)
    with pytest.raises(MessageTooLarge):
        reader.read(memoryview(stream), 1000)

    assert reader.read(memoryview(stream), LIMIT) == TEXT
