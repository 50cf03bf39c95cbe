"""Markers: the known bytes, and what a reader makes of strange ones."""

import pytest

from ledgerstone.errors import CorruptRecord
from ledgerstone.records import control
from ledgerstone.records.batch import HEADER_SIZE
from ledgerstone.records.builder import build_batch
from ledgerstone.records.control import (
    MARKER_SIZE,
    ControlRecord,
    ControlType,
    end_txn_marker,
    read_control_record,
)
from tests.unit.records import vectors
from tests.unit.records.vectors import T


def control_batch(key: str | None, value: str | None = "0000 00000009") -> bytearray:
    return build_batch(
        [
            (
                T,
                None if key is None else bytes.fromhex(key),
                None if value is None else bytes.fromhex(value),
                (),
            )
        ],
        producer_id=42,
        producer_epoch=1,
        transactional=True,
        control=True,
    )


@pytest.mark.parametrize(
    ("commit", "base_offset", "expected"),
    [(True, 13, vectors.COMMIT), (False, 14, vectors.ABORT)],
)
def test_marker_has_the_known_bytes(commit: bool, base_offset: int, expected: bytes) -> None:
    marker = end_txn_marker(
        commit=commit,
        producer_id=42,
        producer_epoch=1,
        coordinator_epoch=9,
        timestamp=T,
        base_offset=base_offset,
        leader_epoch=3,
    )

    assert marker == expected


def test_marker_reads_back() -> None:
    assert read_control_record(vectors.COMMIT) == ControlRecord(ControlType.COMMIT, 0, 9)
    assert read_control_record(b"x" + vectors.ABORT, 1) == ControlRecord(ControlType.ABORT, 0, 9)


@pytest.mark.parametrize("control_type", [ControlType(number) for number in range(2, 7)])
def test_types_of_the_metadata_log_carry_no_coordinator_epoch(control_type: ControlType) -> None:
    batch = control_batch(f"0000 {control_type:04x}", None)

    assert read_control_record(batch) == ControlRecord(control_type, 0, -1)


@pytest.mark.parametrize("number", ["0007", "7fff", "ffff", "8000"])
def test_type_from_the_future_is_unknown(number: str) -> None:
    batch = control_batch(f"0001 {number}", None)

    assert read_control_record(batch) == ControlRecord(ControlType.UNKNOWN, 1, -1)


def test_longer_key_and_value_are_read_by_their_first_bytes() -> None:
    batch = control_batch("0003 0001 ffff", "0001 00000005 ffff")

    assert read_control_record(batch) == ControlRecord(ControlType.COMMIT, 3, 5)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (None, "0000 00000009", "key None is too short"),
        ("", "0000 00000009", "too short"),
        ("0000 00", "0000 00000009", "too short"),
        ("ffff 0001", "0000 00000009", "key version -1"),
        ("0000 0000", None, "marker value None is too short"),
        ("0000 0001", "0000 000000", "too short"),
        ("0000 0001", "8000 00000009", "marker version -32768"),
    ],
)
def test_malformed_control_record_is_corrupt(
    key: str | None, value: str | None, reason: str
) -> None:
    with pytest.raises(CorruptRecord, match=reason):
        read_control_record(control_batch(key, value))


def test_data_batch_is_not_read_as_a_marker() -> None:
    with pytest.raises(CorruptRecord, match="not a control batch"):
        read_control_record(vectors.K1_V1)


def test_emptied_control_batch_has_nothing_to_say() -> None:
    batch = bytearray(vectors.EMPTY)
    batch[22] = 0x30

    with pytest.raises(CorruptRecord, match="has no record"):
        read_control_record(batch)


def test_marker_that_is_read_in_one_piece_is_read_step_by_step_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every byte of the record changed, one after the other."""
    batches = []
    for position in range(HEADER_SIZE, MARKER_SIZE):
        for value in (0x00, 0x01, 0x02, 0x0C, 0x10, 0xFF):
            batch = bytearray(vectors.COMMIT)
            batch[position] = value
            batches.append(batch)

    def outcomes() -> list[object]:
        found: list[object] = []
        for batch in batches:
            try:
                found.append(read_control_record(batch))
            except CorruptRecord as error:
                found.append(str(error))
        return found

    in_one_piece = outcomes()
    monkeypatch.setattr(control, "_usual_marker", lambda *_: None)

    assert in_one_piece == outcomes()
    assert ControlRecord(ControlType.COMMIT, 0, 9) in in_one_piece
