"""Bytes no friend would send: every reader answers with a KafkaError or an answer, nothing else.

Each sample is cut at every byte and has every byte changed, once with the CRC left wrong and once
with a CRC that fits, so that the parsers behind it are reached.
"""

import random
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.errors import KafkaError
from ledgerstone.records.batch import (
    ATTRIBUTES_AT,
    HEADER_SIZE,
    Codec,
    TimestampType,
    iter_headers,
    read_header,
    verify_crc,
    write_crc,
)
from ledgerstone.records.builder import build_batch, rebuild_with_codec, seal_batch
from ledgerstone.records.compression import decompress
from ledgerstone.records.control import end_txn_marker, read_control_record
from ledgerstone.records.kernels import inspect_records
from ledgerstone.records.record import iter_records, plain_inspect_records
from ledgerstone.records.validation import AppendRules, Origin, check_replicated, validate_produced
from ledgerstone.types import INT64_MAX

T = 1_700_000_000_000
PARTS = [
    (T, b"key", b"value" * 5, (("header", b"x"), ("none", None))),
    (T + 1, b"key", None, ()),
    (T - 9, None, b"", (("", b""),)),
]
SAMPLES = {
    **{codec.config_name: build_batch(PARTS, codec=codec) for codec in Codec},
    "transactional": build_batch(
        PARTS, producer_id=42, producer_epoch=1, base_sequence=0, transactional=True
    ),
    "horizon": build_batch(PARTS, delete_horizon_ms=T + 86_400_000),
    "append time": build_batch(PARTS, timestamp_type=TimestampType.LOG_APPEND_TIME),
    "control": end_txn_marker(
        commit=True, producer_id=42, producer_epoch=1, coordinator_epoch=9, timestamp=T
    ),
}
RULES = [
    AppendRules(
        compacted=compacted,
        max_message_bytes=1_048_588,
        timestamp_type=timestamp_type,
        timestamp_before_max_ms=INT64_MAX,
        timestamp_after_max_ms=3_600_000,
        codec=codec,
        level=None,
    )
    for compacted, timestamp_type, codec in [
        (False, TimestampType.CREATE_TIME, None),
        (True, TimestampType.LOG_APPEND_TIME, Codec.LZ4),
    ]
]


def validate_as_leader(batch: bytearray) -> None:
    for rules in RULES:
        for origin in Origin:
            validated = validate_produced(
                bytearray(batch), rules, now_ms=T, origin=origin, inspect=plain_inspect_records
            )
            # What passes must be whole: this is what goes to disk.
            header = read_header(validated.data)
            verify_crc(validated.data, 0, header)
            assert header == validated.header
            assert header.size == len(validated.data)
            assert header.record_count == header.last_offset_delta + 1 == validated.record_count
            facts = plain_inspect_records(
                decompress(header.codec, validated.data[HEADER_SIZE:], limit=2**26),
                record_count=header.record_count,
            )
            assert facts.status == 0
            assert facts.sequential


def check_crc(batch: bytearray) -> None:
    verify_crc(batch, 0, read_header(batch))


READERS: list[Callable[[bytearray], object]] = [
    read_header,
    lambda batch: list(iter_headers(batch)),
    check_crc,
    lambda batch: list(iter_records(batch)),
    read_control_record,
    lambda batch: rebuild_with_codec(batch, Codec.NONE),
    check_replicated,
    validate_as_leader,
]


def outcomes(batch: bytearray) -> Iterator[KafkaError | None]:
    """What each reader says; anything but a KafkaError escapes and fails the test."""
    for reader in READERS:
        try:
            reader(batch)
        except KafkaError as error:
            yield error
        else:
            yield None


def sealed(batch: bytearray) -> bytearray:
    out = bytearray(batch)
    if len(out) >= HEADER_SIZE:
        write_crc(out, 0, len(out))
    return out


@pytest.mark.parametrize("name", SAMPLES)
def test_sample_itself_is_read(name: str) -> None:
    said = list(outcomes(SAMPLES[name]))

    assert said[:4] == [None] * 4


@pytest.mark.parametrize("name", SAMPLES)
def test_every_truncation_is_answered(name: str) -> None:
    sample = SAMPLES[name]

    for size in range(len(sample)):
        said = list(outcomes(sample[:size]))
        assert all(said[position] is not None for position in (2, 3, 4, 5, 7))
        assert said[1] is None
        assert said[6] is None


@pytest.mark.parametrize("name", SAMPLES)
def test_every_truncation_of_the_payload_is_answered(name: str) -> None:
    sample = SAMPLES[name]
    header = read_header(sample)

    for size in range(HEADER_SIZE, len(sample)):
        said = list(outcomes(seal_batch(header, sample[HEADER_SIZE:size])))
        assert said[2] is None
        assert said[3] is not None
        assert said[7] is not None


@pytest.mark.parametrize("name", SAMPLES)
def test_every_changed_byte_is_answered(name: str) -> None:
    sample = SAMPLES[name]
    dice = random.Random(name)

    for position in range(len(sample)):
        values = {0x00, 0x01, 0x7F, 0x80, 0xFF, dice.randrange(256)} - {sample[position]}
        for value in sorted(values):
            batch = bytearray(sample)
            batch[position] = value
            unsealed = list(outcomes(batch))
            assert position < ATTRIBUTES_AT or unsealed[2] is not None
            list(outcomes(sealed(batch)))


@given(st.sampled_from(list(SAMPLES)), st.data())
def test_several_changes_at_once_are_answered(name: str, data: st.DataObject) -> None:
    batch = bytearray(SAMPLES[name])
    for _ in range(data.draw(st.integers(2, 6))):
        position = data.draw(st.integers(ATTRIBUTES_AT, len(batch) - 1))
        batch[position] = data.draw(st.integers(0, 255))

    said = list(outcomes(sealed(batch)))

    assert len(said) == len(READERS)


@given(st.binary(max_size=200))
def test_noise_is_answered(noise: bytes) -> None:
    assert len(list(outcomes(bytearray(noise)))) == len(READERS)


@given(st.sampled_from(list(Codec)), st.integers(-1, 5), st.binary(max_size=120))
def test_noise_behind_a_good_header_is_answered(codec: Codec, count: int, noise: bytes) -> None:
    header = read_header(SAMPLES["uncompressed"])._replace(
        attributes=int(codec), record_count=count, last_offset_delta=count - 1
    )

    said = list(outcomes(seal_batch(header, noise)))

    assert said[2] is None


@given(st.integers(-1, 6), st.binary(max_size=60) | st.just(bytes(SAMPLES["uncompressed"][61:])))
def test_kernel_and_plain_twin_find_the_same_facts(record_count: int, payload: bytes) -> None:
    kernel = inspect_records(payload, record_count=record_count)

    assert kernel == plain_inspect_records(payload, record_count=record_count)


def test_kernel_and_plain_twin_find_the_same_fault_in_every_changed_byte() -> None:
    payload = bytes(SAMPLES["uncompressed"][HEADER_SIZE:])

    for position in range(len(payload)):
        for value in range(0, 256, 3):
            changed = payload[:position] + bytes([value]) + payload[position + 1 :]
            assert inspect_records(changed, record_count=3) == plain_inspect_records(
                changed, record_count=3
            )
