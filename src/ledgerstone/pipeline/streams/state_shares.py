"""Which task rewrites which files of a state. Pure.

Changes are put down by the last bits of their hash, in slots. When all of them are there it is
known how many there are, and the files they fall into: then tasks are made. A task takes whole
slots, and of each table the branches that are inside of them, so two tables over the same hashes
can be rewritten by one task.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ledgerstone.pipeline.tables.leaves import (
    LEAF_ROWS,
    Branch,
    LeafFile,
    branches_of,
    depth_of,
)

SLOT_BITS: Final = 6
SLOTS: Final = 1 << SLOT_BITS
MOST_LEAVES: Final = 4096
_TASK_ROWS: Final = 200_000
# Estimated, not measured: about what one task rewrites in the time that further jobs would take.
_ONE_TASK_FILES: Final = 16


class Share(NamedTuple):
    """What one task does: the slots it reads and, for each table, the branches it rewrites."""

    slots: tuple[int, ...]
    branches: tuple[tuple[Branch, ...], ...]


def fits_one_task(rows: int | None, tables: Iterable[Sequence[LeafFile]]) -> bool:
    """Whether a batch of at most so many rows is done sooner by one task than by several jobs."""
    if rows is None or rows > LEAF_ROWS:
        return False
    return min(rows, max(map(len, tables), default=0)) <= _ONE_TASK_FILES


def shares_of(
    tables: Sequence[Iterable[LeafFile]],
    counts: Mapping[int, int],
    *,
    parallelism: int,
    everything: bool = False,
) -> list[Share]:
    """`counts` has the rows of each slot that has some; `everything` is for reading all files."""
    total = sum(counts.values())
    tasks = max(parallelism, -(-total // _TASK_ROWS))
    wanted = min(tasks, SLOTS) if total > LEAF_ROWS else 1
    branches = [branches_of(files, wanted=wanted, most_leaves=MOST_LEAVES) for files in tables]
    units = _units(each.top for some in branches for each in some)
    # Of a file that is divided every part has to be written.
    divided = any(each.is_part for some in branches for each in some)
    busy = [
        unit
        for unit in units
        if everything or divided or any(slot in counts for slot in slots_within(unit))
    ]
    count = min(len(busy), tasks)
    return [
        Share(
            tuple(slot for unit in some for slot in slots_within(unit) if slot in counts),
            tuple(_inside(each, some) for each in branches),
        )
        for some in (busy[at::count] for at in range(count))
    ]


def slots_within(unit: int) -> list[int]:
    bit = 1 << depth_of(unit)
    return list(range(unit ^ bit, SLOTS, bit))


def is_within(top: int, unit: int) -> bool:
    bit = 1 << depth_of(unit)
    return depth_of(top) >= depth_of(unit) and top & (bit - 1) == unit ^ bit


def _units(tops: Iterable[int]) -> list[int]:
    """Parts of all hashes, none inside another, and none smaller than a slot."""
    whole = 1 << SLOT_BITS
    cut = sorted({top if depth_of(top) <= SLOT_BITS else top & (whole - 1) | whole for top in tops})
    return [
        unit for unit in cut if not any(other != unit and is_within(unit, other) for other in cut)
    ]


def _inside(branches: Sequence[Branch], units: Sequence[int]) -> tuple[Branch, ...]:
    return tuple(each for each in branches if any(is_within(each.top, unit) for unit in units))
