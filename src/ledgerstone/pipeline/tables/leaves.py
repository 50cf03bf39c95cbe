"""Which file of a table a key belongs to, and how files split as a table grows. Pure.

A leaf is a part of all hashes: those that end in the same bits. Its number is these bits with a one
in front, so 1 is all hashes, 2 and 3 are the even and the odd ones, and the leaves of a table need
no other description than their numbers. A leaf that grows is split into its halves, when it is
rewritten anyway. So a table of any size has files of about the same size, and a change rewrites
the files that hold its keys.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

ROOT: Final = 1
# A file of this size takes some tens of milliseconds to rewrite.
LEAF_ROWS: Final = 16_384
LEAF_BYTES: Final = 4 << 20
_MAX_DEPTH: Final = 12


class LeafFile(NamedTuple):
    """One file of a table."""

    leaf: int
    path: str
    rows: int
    size_bytes: int
    digest: str = ""


class Branch(NamedTuple):
    """Keys that one task rewrites: those of a leaf or, where many changes come, of a part."""

    top: int
    held: tuple[LeafFile, ...]  # the files that have its keys now
    is_part: bool = False  # they have keys of others too


class Incoming(NamedTuple):
    """About how much a batch has, at most."""

    rows: int
    size_bytes: int


def depth_of(leaf: int) -> int:
    return leaf.bit_length() - 1


def halves(leaf: int) -> tuple[int, int]:
    bit = 1 << depth_of(leaf)
    ending = leaf ^ bit
    return ending | bit << 1, ending | bit | bit << 1


def holds(leaf: int, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
    bit = 1 << depth_of(leaf)
    found: NDArray[np.bool_] = (hashes & np.uint64(bit - 1)) == np.uint64(leaf ^ bit)
    return found


def depth_limit(most_leaves: int) -> int:
    return min(max(most_leaves, 1).bit_length() - 1, _MAX_DEPTH)


def branches_of(files: Iterable[LeafFile], *, wanted: int = 1, most_leaves: int) -> list[Branch]:
    """All of the hashes, in at least `wanted` branches if the limit of leaves allows it."""
    held: dict[int, list[LeafFile]] = {}
    for file in files:
        held.setdefault(file.leaf, []).append(file)
    tops = list(_cover(ROOT, held, _split_before(held)))
    level = (-(-wanted // len(tops)) - 1).bit_length()
    found = []
    for top in tops:
        mine = tuple(held.get(top, ()))
        parts = list(_below(top, min(level, depth_limit(most_leaves) - depth_of(top))))
        found += [Branch(part, mine, is_part=bool(mine) and len(parts) > 1) for part in parts]
    return found


def leaves_below(top: int, rows: int, size_bytes: int, *, most_leaves: int) -> list[int]:
    """The leaves of so many rows, which take `size_bytes` in memory.

    Only what is twice as large as it should be is split: then the halves are as they should."""
    times = max(rows / (2 * LEAF_ROWS), size_bytes / (4 * LEAF_BYTES))
    level = 0
    while times > 1 << level and depth_of(top) + level < depth_limit(most_leaves):
        level += 1
    return list(_below(top, level))


def whole_of(half: int) -> int:
    """The leaf that was split."""
    bit = 1 << (depth_of(half) - 1)
    return half & (bit - 1) | bit


def _split_before(leaves: Iterable[int]) -> set[int]:
    found: set[int] = set()
    for leaf in leaves:
        each = leaf
        while each != ROOT and (each := whole_of(each)) not in found:
            found.add(each)
    return found


def _cover(node: int, held: Mapping[int, object], split: set[int]) -> Iterator[int]:
    """The leaves of a table, also those that have no file because they have no row."""
    if node in held or node not in split:
        yield node
        return
    for half in halves(node):
        yield from _cover(half, held, split)


def _below(leaf: int, level: int) -> Iterator[int]:
    if level <= 0:
        yield leaf
        return
    for half in halves(leaf):
        yield from _below(half, level - 1)


def slots_of(branches: Sequence[Branch], groups: Sequence[int]) -> NDArray[np.int32]:
    """The group of every hash, by its last bits; `groups` has one for each branch."""
    depth = max(depth_of(each.top) for each in branches)
    found = np.zeros(1 << depth, np.int32)
    endings = np.arange(1 << depth, dtype=np.uint64)
    for branch, group in zip(branches, groups, strict=True):
        found[holds(branch.top, endings)] = group
    return found
