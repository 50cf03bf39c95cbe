"""The bytes of a producer snapshot, and every way a file can fail to be one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.errors import CorruptFile
from ledgerstone.storage.producer_snapshot import SnapshotEntry, decode_snapshot, encode_snapshot

EMPTY = bytes.fromhex("000148674bc700000000")
ONE = bytes.fromhex(
    "0001a43b4fa700000001000000000000002a000100000007000000000000000c000000020000018bcfe56800"
    "00000009ffffffffffffffff"
)
ONE_ENTRY = SnapshotEntry(
    producer_id=42,
    producer_epoch=1,
    last_sequence=7,
    last_offset=12,
    offset_delta=2,
    timestamp=1_700_000_000_000,
    coordinator_epoch=9,
    current_txn_first_offset=-1,
)


def test_no_producers_have_kafkas_ten_bytes() -> None:
    assert encode_snapshot([]) == EMPTY
    assert decode_snapshot(EMPTY) == []


def test_one_producer_has_kafkas_56_bytes() -> None:
    assert encode_snapshot([ONE_ENTRY]) == ONE
    assert decode_snapshot(ONE) == [ONE_ENTRY]


_INT64 = st.integers(-(2**63), 2**63 - 1)
_INT32 = st.integers(-(2**31), 2**31 - 1)
_ENTRIES = st.builds(
    SnapshotEntry,
    _INT64,
    st.integers(-(2**15), 2**15 - 1),
    _INT32,
    _INT64,
    _INT32,
    _INT64,
    _INT32,
    _INT64,
)


@given(st.lists(_ENTRIES, max_size=5))
def test_every_snapshot_reads_back(entries: list[SnapshotEntry]) -> None:
    assert decode_snapshot(encode_snapshot(entries)) == entries


@pytest.mark.parametrize("size", range(len(ONE)))
def test_a_snapshot_cut_short_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptFile):
        decode_snapshot(ONE[:size])


@pytest.mark.parametrize("position", range(len(ONE)))
def test_a_flipped_bit_anywhere_is_corrupt(position: int) -> None:
    damaged = bytearray(ONE)
    damaged[position] ^= 0x10

    with pytest.raises(CorruptFile):
        decode_snapshot(bytes(damaged))


def test_bytes_after_the_last_producer_are_corrupt() -> None:
    with pytest.raises(CorruptFile):
        decode_snapshot(ONE + b"\0")


def test_a_count_the_bytes_cannot_hold_is_not_believed() -> None:
    # A valid CRC over a count of 2**31 - 1: only the length gives it away.
    damaged = bytes.fromhex("000100000000") + b"\x7f\xff\xff\xff"
    with pytest.raises(CorruptFile) as raised:
        decode_snapshot(damaged)
    crc = int(raised.value.reason.split()[1], 16)
    sealed = damaged[:2] + crc.to_bytes(4) + damaged[6:]

    with pytest.raises(CorruptFile, match="2147483647 producers announced in 0 bytes"):
        decode_snapshot(sealed)


def test_an_unknown_version_is_corrupt_and_names_the_file() -> None:
    with pytest.raises(CorruptFile, match=r"some\.snapshot at 0: version 2"):
        decode_snapshot(b"\0\2" + ONE[2:], "some.snapshot")
