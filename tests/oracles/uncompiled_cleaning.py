"""The kernels of a cleaning as plain Python over pointers that check each access."""

from collections.abc import Sequence
from typing import NamedTuple

from ledgerstone.records.kernels.abi import LANE_WORDS
from ledgerstone.records.kernels.source import checking, cleaning, key_offsets, rewrite, walk
from ledgerstone.types import INT64_MAX
from tests.oracles.checked_pointer import CheckedPointer, int32s, int64s, uint64s
from tests.oracles.uncompiled import scan_uncompiled

SEED = (3, 4)
ROOM = 4
SLOTS = 16

_P = CheckedPointer


class CleanedUncompiled(NamedTuple):
    map_status: int
    clean_status: int
    data: bytes
    table: list[int]
    counts: list[int]


def _columns(room: int) -> tuple[_P, _P, _P, _P, _P, _P, _P, _P, _P, _P]:
    zeros = [0] * room
    wide = int64s(zeros), int64s(zeros), int64s(zeros), int64s(zeros)
    narrow = int32s(zeros), int32s(zeros), int32s(zeros)
    return *wide, *narrow, uint64s(zeros), uint64s(zeros), uint64s([0] * LANE_WORDS)


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
    """Puts the records of a window into a table and cleans it by that."""
    status, rows, count = scan_uncompiled(window)
    if status != 0:
        return None
    columns, table = _columns(room), uint64s([0] * (SLOTS * key_offsets.SLOT_WORDS))
    source, arena, actions = (
        CheckedPointer(window),
        CheckedPointer(b""),
        CheckedPointer([0] * count),
    )
    opening = (source, len(window), arena, rows, count)
    map_status = cleaning.map_batches(
        *opening, count, actions, -(2**63), *SEED, table, SLOTS, limit, *columns, room,
        int64s([0, 0, 0, 0, -1, 0]), int64s([0] * 5),
    )  # fmt: skip
    out, keep = CheckedPointer(bytes(len(window) + 10 * room * count)), CheckedPointer([0] * room)
    outcomes = int64s([0] * (rewrite.OUTCOME_FIELDS * count))
    counts, report = int64s([0] * 7 + [INT64_MAX, INT64_MAX, -1] + [0] * 97), int64s([0] * 5)
    clean_status = cleaning.clean_batches(
        *opening, 0, count, actions, *SEED, table, SLOTS, int64s(rules), rules[3], *columns,
        keep, room, out, len(out.numbers), outcomes, counts, report,
    )  # fmt: skip
    data = bytes(out.numbers[: report.numbers[0]])
    return CleanedUncompiled(map_status, clean_status, data, table.numbers, counts.numbers)
