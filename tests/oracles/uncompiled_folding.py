"""The folding kernel run as plain Python over exact-size checked pointers. An oracle for tests."""

from typing import Any, NamedTuple

from ledgerstone.records.kernels.descriptors import FoldCall, fields_of
from ledgerstone.records.kernels.source import folding, key_facts
from ledgerstone.records.kernels.source.contents import PIECE_LANE_WORDS
from ledgerstone.records.kernels.source.walk import ATTRIBUTES, HEADER_SIZE, RECORD_COUNT, SIZE
from tests.oracles.checked_pointer import CheckedPointer, int32s, int64s, uint64s
from tests.oracles.uncompiled import scan_uncompiled


class FoldedUncompiled(NamedTuple):
    status: int
    facts: list[list[int]]  # a row for each key
    counts: list[int]
    last_seen: int


def fold_call(**given: CheckedPointer | int) -> FoldCall:
    """A descriptor for a part of the kernel that asks for the given fields only; the others are
    zeros, and memory of no bytes."""
    fields: dict[str, Any] = {
        name: CheckedPointer(b"") if kind.endswith("*") else 0 for name, kind in fields_of(FoldCall)
    }
    return FoldCall(**{**fields, **given})


def _columns(room: int) -> dict[str, CheckedPointer]:
    zeros = [0] * room
    wide = ("offset", "key_start", "content_start", "number")
    return {
        **{name: int64s(zeros) for name in wide},
        **{name: int32s(zeros) for name in ("key_length", "content_length")},
        **{name: uint64s(zeros) for name in ("low", "high")},
        "lanes": uint64s([0] * PIECE_LANE_WORDS),
    }


def fold_uncompiled(
    window: bytes,
    seed: bytes,
    content_seed: bytes,
    *,
    stride: int = 5,
    room: int = 4,
    checks_crc: int = 0,
    start_offset: int = 0,
    end_offset: int = 2**63 - 1,
) -> FoldedUncompiled | None:
    """None where the glue would refuse the window before it calls the kernel. Tables are as small
    as they may be and grow by one, so that the kernel stops at every new key."""
    status, rows, count = scan_uncompiled(window)
    if status != 0:
        return None
    for batch in range(count):
        size = rows.numbers[SIZE * count + batch] - HEADER_SIZE
        codec = rows.numbers[ATTRIBUTES * count + batch] & 7
        if codec or rows.numbers[RECORD_COUNT * count + batch] * 7 > size:
            return None
    k0, k1, c0, c1 = (
        int.from_bytes(each[at : at + 8], "little")
        for each in (seed, content_seed)
        for at in (0, 8)
    )
    columns = _columns(room)
    state, report = int64s([0] * folding.STATE_FIELDS), int64s([0] * folding.REPORT_FIELDS)
    state[folding.LAST_SEEN] = -1
    table, facts = uint64s([0] * 2), uint64s([])
    status = folding.KEYS_FULL
    while status == folding.KEYS_FULL:
        keys = len(facts.numbers) // stride
        status = folding.fold_batches(
            FoldCall(
                buffer=CheckedPointer(window),
                split=len(window),
                arena=CheckedPointer(b""),
                end=len(window),
                rows=rows,
                capacity=count,
                batch_end=count,
                skip=CheckedPointer([0] * count),
                checks_crc=checks_crc,
                start_offset=start_offset,
                end_offset=end_offset,
                k0=k0,
                k1=k1,
                c0=c0,
                c1=c1,
                table=table,
                slots=len(table.numbers),
                facts=facts,
                limit=keys,
                stride=stride,
                **columns,
                room=room,
                state=state,
                report=report,
            )
        )
        if status == folding.KEYS_FULL:
            facts = uint64s([*facts.numbers, *[0] * stride])
            larger = uint64s([0] * (len(table.numbers) + 1))
            assert key_facts.move_keys(table, keys + 2, larger, keys + 3) == 0
            table = larger
    known = state.numbers[folding.KEYS]
    found = [facts.numbers[at * stride : (at + 1) * stride] for at in range(known)]
    counts = state.numbers[folding.RECORDS :]
    return FoldedUncompiled(status, found, counts, state.numbers[folding.LAST_SEEN])
