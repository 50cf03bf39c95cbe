"""The kernels of a cleaning as plain Python over pointers that check each access."""

from collections.abc import Sequence
from typing import NamedTuple

from ledgerstone.records.kernels.abi import LANE_WORDS
from ledgerstone.records.kernels.descriptors import CleaningCall
from ledgerstone.records.kernels.source import (
    checking,
    cleaning,
    key_offsets,
    newest,
    rewrite,
    walk,
)
from ledgerstone.types import INT64_MAX
from tests.oracles.checked_pointer import CheckedPointer, int32s, int64s, uint64s
from tests.oracles.uncompiled import scan_uncompiled

SEED = (3, 4)
ROOM = 4
SLOTS = 16
BITS = 64

_P = CheckedPointer


class CleanedUncompiled(NamedTuple):
    map_status: int
    clean_status: int
    data: bytes
    counts: list[int]
    table: list[int]
    bits_hold: bool


def _columns(room: int) -> dict[str, _P]:
    zeros = [0] * room
    wide = ("offset", "timestamp", "record_end", "key_start")
    narrow = ("key_length", "value_length", "batch_index")
    return {
        **{name: int64s(zeros) for name in wide},
        **{name: int32s(zeros) for name in narrow},
        "low": uint64s(zeros),
        "high": uint64s(zeros),
        "lanes": uint64s([0] * LANE_WORDS),
    }


def check_uncompiled(
    window: bytes, previous_last: int = -1, end_offset: int = INT64_MAX, *, capacity: int = 8
) -> tuple[int, list[int]]:
    """(status, report)"""
    rows = int64s([0] * (walk.ROW_FIELDS * capacity))
    report = int64s([0] * checking.REPORT_FIELDS)
    status = checking.check_batches(
        CheckedPointer(window), len(window), rows, capacity, previous_last, end_offset, report
    )
    return status, report.numbers


def clean_uncompiled(
    window: bytes, rules: Sequence[int], *, room: int = ROOM, limit: int = SLOTS
) -> CleanedUncompiled | None:
    """Puts the records of a window into a table and cleans it by that; where the bits hold, by them
    as well, which must leave the same."""
    status, rows, count = scan_uncompiled(window)
    if status != 0:
        return None
    columns, table = _columns(room), uint64s([0] * (SLOTS * key_offsets.SLOT_WORDS))
    bits, state = uint64s([0] * (BITS // 64)), int64s([0, 0, 0, 0, -1, 0, 1, -1])

    def call(bit_count: int, actions: _P, counts: _P, report: _P, out: _P) -> CleaningCall:
        return CleaningCall(
            buffer=CheckedPointer(window),
            split=len(window),
            arena=CheckedPointer(b""),
            rows=rows,
            capacity=count,
            batch_start=0,
            batch_end=count,
            actions=actions,
            min_offset=-(2**63),
            k0=SEED[0],
            k1=SEED[1],
            table=table,
            slots=SLOTS,
            limit=limit,
            newest=bits,
            first_offset=0,
            bits=bit_count,
            **columns,
            keep=CheckedPointer([0] * room),
            room=room,
            state=state,
            rules=int64s(rules),
            horizon=rules[3],
            out=out,
            out_room=len(out.numbers),
            outcomes=int64s([0] * (rewrite.OUTCOME_FIELDS * count)),
            counts=counts,
            report=report,
        )

    nothing = CheckedPointer(b"")
    map_status = cleaning.map_batches(
        call(BITS, CheckedPointer([0] * count), nothing, int64s([0] * 5), nothing)
    )

    def clean(bit_count: int, actions: _P) -> tuple[int, bytes, list[int]]:
        out = CheckedPointer(bytes(len(window) + 10 * room * count))
        counts, report = int64s([0] * 7 + [INT64_MAX, INT64_MAX, -1] + [0] * 97), int64s([0] * 5)
        status = cleaning.clean_batches(call(bit_count, actions, counts, report, out))
        return status, bytes(out.numbers[: report.numbers[0]]), counts.numbers

    cleaned = clean(0, CheckedPointer([0] * count))
    bits_hold = map_status == 0 and state.numbers[cleaning.BITS_HOLD] != 0
    if bits_hold:
        actions = CheckedPointer([0] * count)
        discarded = newest.discard_superseded(rows, count, count, bits, 0, BITS, rules[0], actions)
        status, data, counts = clean(BITS, actions)
        counts[key_offsets.SUPERSEDED] += discarded
        assert (status, data, counts) == cleaned
    return CleanedUncompiled(map_status, *cleaned, table=table.numbers, bits_hold=bits_hold)
