"""One group of keys merged into the files of a table: the second step of a batch. Shell.

It runs wherever `Executors` sends it. It reads what the first step wrote for the group, then, for
each branch with a change, the files the branch has now, and writes new ones. Nothing is part of the
table before the driver's commit names it.
"""

import uuid
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ledgerstone.pipeline.changes import one_per_key
from ledgerstone.pipeline.definition import Deletes
from ledgerstone.pipeline.layout import Layout
from ledgerstone.pipeline.tables import leaves as sizes
from ledgerstone.pipeline.tables.file_area import FileArea
from ledgerstone.pipeline.tables.leaves import (
    Branch,
    Incoming,
    LeafFile,
    branches_of,
    holds,
    leaves_below,
    slots_of,
)
from ledgerstone.pipeline.tables.merging import key_hashes, merged
from ledgerstone.pipeline.tables.shards import (
    HASH,
    ShardStage,
    new_stage,
    read_group,
    shard_names,
)
from ledgerstone.pipeline.tables.target import Applied, Executors, Staged, counted

# What a group's changes may take, about, before they are decoded.
GROUP_BYTES = 32 << 20
_MOST_GROUPS = 256


class GroupJob(NamedTuple):
    """Picklable."""

    stage: ShardStage
    group: int
    names: tuple[str, ...]
    branches: tuple[Branch, ...]
    forced: bool
    directory: str  # of a leaf's files, with {leaf}
    most_leaves: int


class GroupDone(NamedTuple):
    replaced: tuple[LeafFile, ...]
    written: tuple[LeafFile, ...]
    upserts: int
    deletes: int


class SwappedFiles(NamedTuple):
    """What a commit swaps in, and what it swaps out."""

    replaced: tuple[LeafFile, ...]
    written: tuple[LeafFile, ...]
    applied: Applied


class LeafRows(NamedTuple):
    """The rows of some files; picklable."""

    area: FileArea
    files: tuple[LeafFile, ...]
    layout: Layout

    def pieces(self) -> Iterator[pa.Table]:
        for file in self.files:
            yield read_leaf(self.area, [file], self.layout)


def leaf_sources(
    area: FileArea, files: Sequence[LeafFile], layout: Layout, wanted: int
) -> list[LeafRows]:
    shares = (tuple(files[at::wanted]) for at in range(min(wanted, len(files))))
    return [LeafRows(area, share, layout) for share in shares]


class LeafBatch:
    """One batch into a table of leaves, on the driver."""

    def __init__(
        self,
        area: FileArea,
        layout: Layout,
        files: Sequence[LeafFile],
        incoming: Incoming,
        executors: Executors,
        *,
        most_leaves: int,
    ) -> None:
        wanted = group_count(incoming, executors, _MOST_GROUPS)
        # A leaf is divided among tasks only for more than it should hold.
        parts = wanted if incoming.rows > sizes.LEAF_ROWS else 1
        self._branches = branches_of(files, wanted=parts, most_leaves=most_leaves)
        self._groups = min(wanted, len(self._branches))
        self._most_leaves = most_leaves
        numbers = [at % self._groups for at in range(len(self._branches))]
        self.stage = new_stage(area, layout, slots_of(self._branches, numbers))
        self._executors = executors

    def rewrite(self, staged: Sequence[Staged], *, forced: bool, directory: str) -> SwappedFiles:
        names = shard_names(staged)
        jobs = []
        for group in range(self._groups):
            branches = tuple(self._branches[group :: self._groups])
            # Of a file that is divided, every part has to be written.
            if group in names or (names and any(each.is_part for each in branches)):
                some = names.get(group, ())
                jobs.append(
                    GroupJob(
                        self.stage, group, some, branches, forced, directory, self._most_leaves
                    )
                )
        done = self._executors.run(merge_group, jobs)
        return SwappedFiles(
            tuple(sorted({file for each in done for file in each.replaced})),
            tuple(file for each in done for file in each.written),
            Applied(
                upserts=sum(each.upserts for each in done),
                deletes=sum(each.deletes for each in done),
            ),
        )


def group_count(incoming: Incoming, executors: Executors, most: int) -> int:
    wanted = max(executors.parallelism, -(-incoming.size_bytes // GROUP_BYTES))
    return max(1, min(wanted, most, _MOST_GROUPS))


def merge_group(job: GroupJob) -> GroupDone:
    stage, layout = job.stage, job.stage.layout
    changes = settled(read_group(stage, job.names, job.group), layout)
    upserts, deletes = counted(changes)
    hashes = changes.column(HASH).to_numpy()
    changes = changes.drop_columns(HASH)
    replaced: list[LeafFile] = []
    written: list[LeafFile] = []
    for branch in job.branches:
        mine = holds(branch.top, hashes)
        if not mine.any() and not branch.is_part:
            continue
        some = changes if mine.all() else changes.filter(pa.array(mine))
        held = read_leaf(stage.area, branch.held, layout)
        if branch.is_part:
            held = held.filter(pa.array(holds(branch.top, key_hashes(held, layout))))
        rows = merged(held, some, layout, forced=job.forced)
        replaced += branch.held
        written += _write(rows, branch.top, job)
    return GroupDone(tuple(replaced), tuple(written), upserts, deletes)


def settled(changes: pa.Table, layout: Layout) -> pa.Table:
    """One change per key, unless it is a history. Keys with different hashes are different."""
    if layout.deletes is Deletes.HISTORY:
        return changes
    hashes = np.sort(changes.column(HASH).to_numpy())
    if not (hashes[1:] == hashes[:-1]).any():
        return changes
    return one_per_key(changes, layout.key_names)


def read_leaf(area: FileArea, held: Sequence[LeafFile], layout: Layout) -> pa.Table:
    return read_files(area, held, layout.table_schema)


def read_files(area: FileArea, held: Sequence[LeafFile], schema: pa.Schema) -> pa.Table:
    tables = [schema.empty_table()]
    for file in held:
        source = pa.BufferReader(area.read(file.path, file.digest))
        tables.append(as_table(pq.read_table(source), schema))
    return pa.concat_tables(tables)


def as_table(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows that were written when the table had fewer columns, or narrower ones."""
    for name in schema.names:
        if name not in rows.column_names:
            rows = rows.append_column(name, pa.nulls(rows.num_rows, schema.field(name).type))
    return rows.select(schema.names).cast(schema)


def _write(rows: pa.Table, top: int, job: GroupJob) -> list[LeafFile]:
    leaves = leaves_below(top, rows.num_rows, rows.nbytes, most_leaves=job.most_leaves)
    if len(leaves) == 1:
        return write_leaf(job.stage.area, rows, leaves[0], job.directory)
    hashes = key_hashes(rows, job.stage.layout)
    found = []
    for leaf in leaves:
        some = rows.filter(pa.array(holds(leaf, hashes)))
        found += write_leaf(job.stage.area, some, leaf, job.directory)
    return found


def write_leaf(area: FileArea, rows: pa.Table, leaf: int, directory: str) -> list[LeafFile]:
    """No file if there are no rows."""
    if not rows.num_rows:
        return []
    whole = pa.BufferOutputStream()
    pq.write_table(rows, whole, compression="zstd")
    content = whole.getvalue()
    path = f"{directory.format(leaf=leaf)}part-{leaf:05d}-{uuid.uuid4().hex}.parquet"
    digest = area.write(path, content)
    return [LeafFile(leaf, path, rows.num_rows, content.size, digest)]
