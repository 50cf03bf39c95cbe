"""Which file of a table a key belongs to, and how files split as a table grows. Pure.

A leaf is a part of all hashes: those that end in the same bits. Its number is these bits with a one
in front, so 1 is all hashes, 2 and 3 are the even and the odd ones, and the leaves of a table need
no other description than their numbers. A leaf that grows is split into its two halves, when it is
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
    """A part of the table that is rewritten as a whole: the files it has, its leaves afterwards."""

    held: tuple[LeafFile, ...]
    leaves: tuple[int, ...]


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


def branches_of(files: Iterable[LeafFile], incoming: Incoming, *, most_leaves: int) -> list[Branch]:
    """All of the hashes; a branch has one leaf unless it is to be split."""
    held: dict[int, list[LeafFile]] = {}
    for file in files:
        held.setdefault(file.leaf, []).append(file)
    limit = depth_limit(most_leaves)
    return [
        Branch(tuple(held.get(leaf, ())), tuple(_split(leaf, held.get(leaf, ()), incoming, limit)))
        for leaf in _cover(ROOT, held, _split_before(held))
    ]


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


def _split(leaf: int, files: Sequence[LeafFile], incoming: Incoming, limit: int) -> Iterator[int]:
    share = 1 / (1 << depth_of(leaf))
    rows = sum(each.rows for each in files) + incoming.rows * share
    size = sum(each.size_bytes for each in files) + incoming.size_bytes * share
    # Only one that is twice as large as it should be: its halves then are as they should.
    times = max(rows / (2 * LEAF_ROWS), size / (2 * LEAF_BYTES))
    level = 0
    while times > 1 << level and depth_of(leaf) + level < limit:
        level += 1
    yield from _below(leaf, level)


def _below(leaf: int, level: int) -> Iterator[int]:
    if not level:
        yield leaf
        return
    for half in halves(leaf):
        yield from _below(half, level - 1)


def slots_of(branches: Sequence[Branch], groups: Sequence[int]) -> NDArray[np.int32]:
    """The group of every hash, by its last bits; `groups` has one for each branch."""
    depth = max(depth_of(_top(each)) for each in branches)
    found = np.zeros(1 << depth, np.int32)
    endings = np.arange(1 << depth, dtype=np.uint64)
    for branch, group in zip(branches, groups, strict=True):
        found[holds(_top(branch), endings)] = group
    return found


def _top(branch: Branch) -> int:
    """The leaf that the branch is now."""
    if branch.held:
        return branch.held[0].leaf
    first = branch.leaves[0]
    for _ in range(len(branch.leaves).bit_length() - 1):
        first = whole_of(first)
    return first
