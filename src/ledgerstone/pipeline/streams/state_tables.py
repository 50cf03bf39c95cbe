"""The files of a state: a table is a set of Parquet files, each with the keys of one leaf. Shell.

The same leaves as those of the tables that follow a topic: a change rewrites the files that hold
its keys and no others. All of it runs in tasks; nothing is part of the state before the driver's
manifest names it.
"""

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ledgerstone.dataclasses import dataclass
from ledgerstone.pipeline.canonical import cell_hashes, cells_of
from ledgerstone.pipeline.streams.state_shares import MOST_LEAVES, SLOTS
from ledgerstone.pipeline.tables.file_area import STAGING, FileArea
from ledgerstone.pipeline.tables.group_merging import read_files, write_leaf
from ledgerstone.pipeline.tables.leaves import Branch, LeafFile, holds, leaves_below
from ledgerstone.pipeline.tables.shards import HASH, ShardFiles, parts, read_group

Hashes = NDArray[np.uint64]
Merge = Callable[[pa.Table, pa.Table], pa.Table]
SeeRewritten = Callable[[Branch, Sequence[pa.Table], Sequence[LeafFile]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTable:
    """Picklable. `by` are the columns whose hash says which file a row is in."""

    name: str
    schema: pa.Schema
    by: tuple[str, ...]

    def read(self, area: FileArea, branch: Branch) -> pa.Table:
        rows = read_files(area, branch.held, self.schema)
        if not branch.is_part:
            return rows
        return rows.filter(pa.array(holds(branch.top, hashes_of(rows, *self.by))))

    def write(self, area: FileArea, rows: pa.Table, top: int) -> list[LeafFile]:
        leaves = leaves_below(top, rows.num_rows, rows.nbytes, most_leaves=MOST_LEAVES)
        if len(leaves) == 1:
            return write_leaf(area, rows, top, f"{self.name}/")
        hashes = hashes_of(rows, *self.by)
        found = []
        for leaf in leaves:
            some = rows.filter(pa.array(holds(leaf, hashes)))
            found += write_leaf(area, some, leaf, f"{self.name}/")
        return found


class SwappedLeaves(NamedTuple):
    """What a commit swaps out of one table, and what it swaps in."""

    replaced: tuple[LeafFile, ...] = ()
    written: tuple[LeafFile, ...] = ()


def hashes_of(rows: pa.Table, *by: str) -> Hashes:
    if not rows.num_rows:
        return np.zeros(0, np.uint64)
    return cell_hashes(cells_of(rows, by))


def rewritten(
    area: FileArea,
    table: StateTable,
    branches: Iterable[Branch],
    changes: pa.Table,
    hashes: Hashes,
    merge: Merge,
    see: SeeRewritten | None = None,
) -> SwappedLeaves:
    """`merge` is given the rows of a branch and the changes that fall into it; `see` these, what
    became of them, and the files that were written."""
    replaced: list[LeafFile] = []
    written: list[LeafFile] = []
    for branch in branches:
        mine = holds(branch.top, hashes)
        if not mine.any() and not branch.is_part:
            continue
        some = changes if mine.all() else changes.filter(pa.array(mine))
        held = table.read(area, branch)
        rows = merge(held, some)
        files = table.write(area, rows, branch.top)
        if see is not None:
            see(branch, (held, some, rows), files)
        replaced += branch.held
        written += files
    return SwappedLeaves(tuple(replaced), tuple(written))


def visited(
    area: FileArea,
    table: StateTable,
    branches: Iterable[Branch],
    touched: Hashes,
    changes: pa.Table,
    merge: Merge,
    see: Callable[[int, pa.Table], None],
) -> SwappedLeaves:
    """As `rewritten`; and `see` is shown the rows of every branch with something touched, before
    (0) and after (1). Only branches with a change are written."""
    replaced: list[LeafFile] = []
    written: list[LeafFile] = []
    hashes = hashes_of(changes, *table.by)
    for branch in branches:
        if not holds(branch.top, touched).any() and not branch.is_part:
            continue
        rows = table.read(area, branch)
        see(0, rows)
        mine = holds(branch.top, hashes)
        if mine.any() or branch.is_part:
            rows = merge(rows, changes.filter(pa.array(mine)))
            replaced += branch.held
            written += table.write(area, rows, branch.top)
        see(1, rows)
    return SwappedLeaves(tuple(replaced), tuple(written))


# -- rows on their way from one step to the next -----------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotFiles:
    """Picklable: where the rows of one step of a batch go."""

    area: FileArea
    step: str
    row_schema: pa.Schema

    @property
    def directory(self) -> str:
        return f"{STAGING}/{self.step}"

    @property
    def schema(self) -> pa.Schema:
        return self.row_schema.append(pa.field(HASH, pa.uint64()))

    def path(self, name: str, group: int) -> str:
        return f"{self.directory}/{group:05d}-{name}.arrow"

    def read(self, names: Mapping[int, Sequence[str]], slots: Iterable[int]) -> pa.Table:
        """With the hash of each row."""
        found = [self.schema.empty_table()]
        found += [read_group(self, names[slot], slot) for slot in slots if slot in names]
        return pa.concat_tables(found)


class SlotRows(NamedTuple):
    """What one attempt has put down: the rows of each slot. Names and counts, never a row."""

    name: str
    counts: tuple[tuple[int, int], ...]


class SlotSink:
    """Of one attempt of a task."""

    def __init__(self, files: SlotFiles) -> None:
        self._place = files
        self._files: ShardFiles | None = None
        self._counts: dict[int, int] = {}

    def add(self, rows: pa.Table, hashes: Hashes) -> None:
        if not rows.num_rows:
            return
        if self._files is None:
            self._files = ShardFiles(self._place)
        hashed = rows.append_column(self._place.schema.field(HASH), pa.array(hashes))
        for slot, some in parts(hashed, (hashes & np.uint64(SLOTS - 1)).astype(np.int64)):
            self._files.write(slot, some)
            self._counts[slot] = self._counts.get(slot, 0) + some.num_rows

    def finish(self) -> SlotRows:
        if self._files is None:
            return SlotRows("", ())
        self._files.close()
        return SlotRows(self._files.name, tuple(sorted(self._counts.items())))


class PutDown(NamedTuple):
    """What all tasks of a step have put down."""

    files: SlotFiles
    names: dict[int, tuple[str, ...]]
    counts: dict[int, int]


def put_down(files: SlotFiles, done: Iterable[SlotRows]) -> PutDown:
    names: dict[int, list[str]] = {}
    counts: dict[int, int] = {}
    for each in done:
        for slot, count in each.counts:
            names.setdefault(slot, []).append(each.name)
            counts[slot] = counts.get(slot, 0) + count
    return PutDown(files, {slot: tuple(some) for slot, some in names.items()}, counts)


def counted_together(one: PutDown, other: PutDown) -> dict[int, int]:
    found = dict(one.counts)
    for slot, count in other.counts.items():
        found[slot] = found.get(slot, 0) + count
    return found


def new_step(area: FileArea, name: str, schema: pa.Schema) -> SlotFiles:
    return SlotFiles(area=area, step=f"{name}-{uuid.uuid4().hex[:12]}", row_schema=schema)


# -- records on their way to a topic -----------------------------------------------------------

OUTBOX: Final = "outbox"
RECORDS: Final = pa.schema([("key", pa.binary()), ("value", pa.binary())])


def write_outbox(area: FileArea, rows: pa.Table) -> str | None:
    """None if there is nothing to tell."""
    if not rows.num_rows:
        return None
    return write_leaf(area, rows, 1, f"{OUTBOX}/")[0].path
