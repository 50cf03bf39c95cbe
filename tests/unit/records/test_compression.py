"""The codecs: framing that Kafka reads and writes, and a bound on what a stream may become."""

import gzip
import tracemalloc
import zlib
from collections.abc import Callable
from struct import pack

import lz4.frame
import pytest
import zstandard
from cramjam import snappy

from ledgerstone.errors import CorruptRecord, MessageTooLarge
from ledgerstone.records.batch import Codec
from ledgerstone.records.compression import (
    DEFAULT_DECOMPRESSION_LIMIT,
    Codecs,
    compress,
    decompress,
    decompression_limit,
)

COMPRESSED = [codec for codec in Codec if codec is not Codec.NONE]
LIMIT = DEFAULT_DECOMPRESSION_LIMIT
TEXT = b"".join(b'{"id":%d,"name":"user-%d"}' % (i, i * 7919 % 1000) for i in range(8000))
MIB = 2**20


def packed(codec: Codec, payload: bytes, level: int | None = None) -> bytes:
    return bytes(compress(codec, payload, level))


def unpacked(codec: Codec, payload: bytes, limit: int = LIMIT) -> bytes:
    return bytes(decompress(codec, payload, limit=limit))


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("size", [0, 1, 100, 32 * 1024, 32 * 1024 + 1, len(TEXT)])
def test_payload_comes_back(codec: Codec, size: int) -> None:
    payload = TEXT[:size]

    assert unpacked(codec, packed(codec, payload)) == payload


@pytest.mark.parametrize("codec", list(Codec))
def test_views_of_larger_buffers_are_read(codec: Codec) -> None:
    stream = packed(codec, TEXT)
    buffer = memoryview(bytearray(b"before" + stream + b"after"))

    assert decompress(codec, buffer[6 : 6 + len(stream)], limit=LIMIT) == TEXT
    assert packed(codec, bytes(memoryview(b"x" + TEXT)[1:])) == stream


def test_no_codec_means_no_copy() -> None:
    payload = bytearray(TEXT)

    assert compress(Codec.NONE, payload) is payload
    assert decompress(Codec.NONE, payload, limit=1) is payload


@pytest.mark.parametrize(
    ("codec", "levels"),
    [
        (Codec.GZIP, [-1, *range(1, 10)]),
        (Codec.SNAPPY, [None]),
        (Codec.LZ4, range(1, 18)),
        (Codec.ZSTD, [-131072, -1, 1, 3, 19]),
    ],
)
def test_every_level_of_kafka_is_accepted(codec: Codec, levels: list[int | None]) -> None:
    for level in levels:
        assert unpacked(codec, packed(codec, TEXT[:20_000], level)) == TEXT[:20_000]


def test_gzip_is_one_member_that_the_standard_library_reads() -> None:
    stream = packed(Codec.GZIP, TEXT)

    assert stream[:8].hex() == "1f8b080000000000"
    assert gzip.decompress(stream) == TEXT
    assert unpacked(Codec.GZIP, gzip.compress(TEXT)) == TEXT


def test_snappy_is_a_xerial_stream_of_32_kib_blocks() -> None:
    stream = packed(Codec.SNAPPY, TEXT[: 70 * 1024])

    assert stream[:16].hex() == "82534e4150505900" + "00000001" * 2
    sizes = []
    position = 16
    while position < len(stream):
        length = int.from_bytes(stream[position : position + 4], "big")
        block = stream[position + 4 : position + 4 + length]
        sizes.append(len(bytes(snappy.decompress_raw(block))))
        position += 4 + length
    assert sizes == [32 * 1024, 32 * 1024, 6 * 1024]


def test_bare_snappy_block_is_read() -> None:
    assert unpacked(Codec.SNAPPY, bytes(snappy.compress_raw(TEXT))) == TEXT


def test_lz4_frame_is_the_one_kafka_writes() -> None:
    for level in (None, 9, 5):
        stream = packed(Codec.LZ4, TEXT, level)

        assert stream[:7].hex() == "04224d18" + "60" + "40" + "82"
        assert stream[-4:] == bytes(4)
        assert lz4.frame.decompress(stream) == TEXT


def test_lz4_frames_with_sizes_checksums_and_large_blocks_are_read() -> None:
    stream = lz4.frame.compress(
        TEXT,
        block_size=lz4.frame.BLOCKSIZE_MAX4MB,
        block_linked=False,
        content_checksum=True,
        block_checksum=True,
        store_size=True,
    )

    assert unpacked(Codec.LZ4, stream) == TEXT


def test_lz4_level_nine_is_the_fast_one() -> None:
    assert packed(Codec.LZ4, TEXT, 9) == packed(Codec.LZ4, TEXT)
    assert len(packed(Codec.LZ4, TEXT, 8)) < len(packed(Codec.LZ4, TEXT, 9))


def test_zstd_frame_says_neither_size_nor_checksum() -> None:
    parameters = zstandard.get_frame_parameters(packed(Codec.ZSTD, TEXT))

    assert parameters.content_size == 2**64 - 1
    assert not parameters.has_checksum


def test_every_change_of_a_zstd_byte_is_read_as_the_stream_reads_it() -> None:
    frame = compress(Codec.ZSTD, b"some records, some records, and then some more records " * 9)
    read = 0

    for position, byte in enumerate(bytes(frame)):
        for other in (byte ^ 0x01, byte ^ 0x08, byte ^ 0x80, 0x00, 0xFF):
            changed = bytearray(frame)
            changed[position] = other
            try:
                ours = decompress(Codec.ZSTD, changed, limit=LIMIT)
            except (CorruptRecord, MessageTooLarge):
                continue
            with zstandard.ZstdDecompressor().stream_reader(changed) as reader:
                assert bytes(ours) == reader.read()
            read += 1

    # Literals have no checksum.
    assert read > 50


def test_several_zstd_frames_are_read_as_one_stream() -> None:
    plain = zstandard.ZstdCompressor(write_checksum=True).compress(TEXT[:5000])
    skippable = pack("<II", 0x184D2A50, 3) + b"abc"

    assert unpacked(Codec.ZSTD, plain + packed(Codec.ZSTD, TEXT[5000:])) == TEXT
    with pytest.raises(CorruptRecord, match="zstd"):
        unpacked(Codec.ZSTD, plain + skippable[:-1])


@pytest.mark.parametrize("codec", COMPRESSED)
def test_every_truncation_is_corrupt(codec: Codec) -> None:
    stream = packed(codec, TEXT[:40_000])
    # A xerial stream may end after any block, so cutting exactly there goes unseen by the codec.
    whole_blocks = {16, len(packed(codec, TEXT[: 32 * 1024]))} if codec is Codec.SNAPPY else set()

    for size in sorted(set(range(0, len(stream), 7)) - whole_blocks):
        with pytest.raises(CorruptRecord):
            unpacked(codec, stream[:size])


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("tail", [b"\x00", b"tail", bytes(4), b"\x1f\x8b\x08\x00"])
def test_bytes_after_the_stream_are_corrupt(codec: Codec, tail: bytes) -> None:
    with pytest.raises(CorruptRecord):
        unpacked(codec, packed(codec, TEXT) + tail)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_noise_is_corrupt(codec: Codec) -> None:
    for noise in (b"\x05", b"\xff" * 64, bytes(64), b"not a stream at all"):
        with pytest.raises(CorruptRecord):
            unpacked(codec, noise)


def test_second_gzip_member_is_corrupt() -> None:
    member = packed(Codec.GZIP, TEXT)

    with pytest.raises(CorruptRecord, match="bytes after the stream"):
        unpacked(Codec.GZIP, member + member)


def test_gzip_checksum_is_verified() -> None:
    stream = bytearray(packed(Codec.GZIP, TEXT))
    stream[-5] ^= 1

    with pytest.raises(CorruptRecord, match="gzip"):
        unpacked(Codec.GZIP, bytes(stream))


@pytest.mark.parametrize("position", [15, 19])
def test_xerial_header_and_lengths_are_checked(position: int) -> None:
    stream = bytearray(packed(Codec.SNAPPY, TEXT[:100]))
    stream[position] = 0

    with pytest.raises(CorruptRecord, match="snappy"):
        unpacked(Codec.SNAPPY, bytes(stream))


def test_xerial_stream_of_countless_blocks_is_refused() -> None:
    block = bytes(snappy.compress_raw(b""))
    stream = packed(Codec.SNAPPY, b"") + (pack(">i", len(block)) + block) * 20_000

    with pytest.raises(CorruptRecord, match="more than 16384 blocks"):
        unpacked(Codec.SNAPPY, stream)


def test_zstd_frame_of_countless_blocks_is_refused() -> None:
    stream = bytes.fromhex("28b52ffd0050") + bytes(3) * 20_000 + b"\x01\x00\x00"

    with pytest.raises(CorruptRecord, match="block 16385"):
        unpacked(Codec.ZSTD, stream)


def test_smallest_lz4_frame_is_empty() -> None:
    assert unpacked(Codec.LZ4, bytes.fromhex("04224d18 60 40 82 00000000")) == b""


@pytest.mark.parametrize(
    ("flags", "descriptor"),
    [
        (0x40, 0x40),
        (0xA0, 0x40),
        (0x62, 0x40),
        (0x61, 0x40),
        (0x60, 0x30),
        (0x60, 0xC0),
        (0x60, 0x41),
    ],
)
def test_lz4_header_kafka_would_refuse_is_corrupt(flags: int, descriptor: int) -> None:
    with pytest.raises(CorruptRecord, match=r"lz4: (flags|block descriptor)"):
        unpacked(Codec.LZ4, b"\x04\x22\x4d\x18" + bytes([flags, descriptor, 0x82]) + bytes(8))


@pytest.mark.parametrize("codec", COMPRESSED)
def test_limit_is_the_largest_size_that_passes(codec: Codec) -> None:
    stream = packed(codec, TEXT)

    assert unpacked(codec, stream, limit=len(TEXT)) == TEXT
    with pytest.raises(MessageTooLarge, match=f"more than {len(TEXT) - 1} bytes"):
        unpacked(codec, stream, limit=len(TEXT) - 1)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_limit_of_nothing_lets_only_an_empty_stream_pass(codec: Codec) -> None:
    assert unpacked(codec, packed(codec, b""), limit=0) == b""
    with pytest.raises(MessageTooLarge, match="more than 0 bytes"):
        unpacked(codec, packed(codec, b"x"), limit=0)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_dense_stream_comes_back(codec: Codec) -> None:
    payload = b"dense" * 300_000

    assert unpacked(codec, packed(codec, payload)) == payload


def gzip_bomb() -> bytes:
    stream = zlib.compressobj(9, zlib.DEFLATED, 31)
    zeros = bytes(MIB)
    return b"".join(stream.compress(zeros) for _ in range(256)) + stream.flush()


def lz4_bomb() -> bytes:
    # One block of 4 MiB, repeated: each needs only its own bytes.
    frame: bytes = lz4.frame.compress(
        bytes(4 * MIB), block_size=lz4.frame.BLOCKSIZE_MAX4MB, block_linked=False, store_size=False
    )
    return frame[:7] + frame[7:-4] * 64 + frame[-4:]


def snappy_bomb() -> bytes:
    block = bytes(snappy.compress_raw(bytes(MIB)))
    return packed(Codec.SNAPPY, b"") + (pack(">i", len(block)) + block) * 256


def zstd_bomb(window_descriptor: int = 0x50, size: int = 256 * MIB) -> bytes:
    head = bytes.fromhex("28b52ffd00") + bytes([window_descriptor])
    block = pack("<I", 128 * 1024 << 3 | 1 << 1)[:3] + b"x"
    return head + block * (size // (128 * 1024)) + b"\x01\x00\x00"


def zstd_bomb_with_a_large_window() -> bytes:
    return zstd_bomb(0x88)


@pytest.mark.parametrize(
    ("codec", "bomb"),
    [
        (Codec.GZIP, gzip_bomb),
        (Codec.LZ4, lz4_bomb),
        (Codec.SNAPPY, snappy_bomb),
        (Codec.ZSTD, zstd_bomb),
        (Codec.ZSTD, zstd_bomb_with_a_large_window),
    ],
)
def test_bomb_of_256_mib_is_given_up_within_64_mib(codec: Codec, bomb: Callable[[], bytes]) -> None:
    stream = bomb()

    tracemalloc.start()
    try:
        with pytest.raises(MessageTooLarge, match=codec.config_name):
            decompress(codec, stream, limit=LIMIT)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 56 * MIB


def test_large_zstd_window_leaves_room_for_half_the_output() -> None:
    assert len(unpacked(Codec.ZSTD, zstd_bomb(0x50, 30 * MIB))) == 30 * MIB
    assert len(unpacked(Codec.ZSTD, zstd_bomb(0x88, 20 * MIB))) == 20 * MIB
    with pytest.raises(MessageTooLarge, match=f"more than {24 * MIB} bytes"):
        unpacked(Codec.ZSTD, zstd_bomb(0x88, 30 * MIB))


@pytest.mark.parametrize("codec", COMPRESSED)
def test_codecs_go_on_after_a_stream_they_refused(codec: Codec) -> None:
    codecs = Codecs()
    stream = packed(codec, TEXT)

    with pytest.raises(CorruptRecord):
        codecs.decompress(codec, stream[:-10], limit=LIMIT)
    with pytest.raises(MessageTooLarge):
        codecs.decompress(codec, stream, limit=len(TEXT) - 1)

    assert codecs.decompress(codec, stream, limit=LIMIT) == TEXT


def test_codecs_compress_at_the_level_of_each_call() -> None:
    codecs = Codecs()
    levels = [None, 19, 1, None]

    streams = [codecs.compress(Codec.ZSTD, TEXT, level) for level in levels]

    assert streams == [packed(Codec.ZSTD, TEXT, level) for level in levels]
    assert len({bytes(stream) for stream in streams}) == 3


def test_declared_sizes_are_not_believed() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(CorruptRecord, match="declares"):
            unpacked(Codec.SNAPPY, bytes.fromhex("80808010") + b"\x00abc")
        with pytest.raises(MessageTooLarge):
            unpacked(Codec.ZSTD, bytes.fromhex("28b52ffde0") + pack("<Q", 2**40) + b"\x01\x00\x00")
        with pytest.raises(CorruptRecord):
            unpacked(Codec.ZSTD, bytes.fromhex("28b52ffde0") + pack("<Q", 2**25) + b"\x09\x00\x00x")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < MIB


def test_limit_grows_with_the_topics_largest_batch() -> None:
    assert decompression_limit(1_048_588) == 48 * MIB
    assert decompression_limit(100 * MIB) == 400 * MIB
