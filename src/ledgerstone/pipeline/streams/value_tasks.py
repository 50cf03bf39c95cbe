"""What tasks do with the values of groups, for `min` and `max`: count them, tell the ends. Shell.

The step between keys and groups. Its changes come by value; what they do to the ends of a group in
a file goes on by group.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ledgerstone.pipeline.canonical import whole
from ledgerstone.pipeline.streams.group_values import (
    EXTREMES_SCHEMA,
    GROUP,
    VALUE_ID,
    VALUES_SCHEMA,
    extremes_gone,
    extremes_in,
    with_values,
)
from ledgerstone.pipeline.streams.state_shares import Share
from ledgerstone.pipeline.streams.state_tables import (
    PutDown,
    SlotFiles,
    SlotRows,
    SlotSink,
    StateTable,
    SwappedLeaves,
    hashes_of,
    rewritten,
)
from ledgerstone.pipeline.tables.leaves import Branch, LeafFile, holds
from ledgerstone.pipeline.tables.shards import HASH

VALUES: Final = StateTable(name="values", schema=VALUES_SCHEMA, by=VALUE_ID)
EXTREMES: Final = StateTable(name="extremes", schema=EXTREMES_SCHEMA, by=(GROUP,))


class ValuesJob(NamedTuple):
    """Picklable."""

    deltas: PutDown
    share: Share
    out: SlotFiles


class ValuesDone(NamedTuple):
    swapped: SwappedLeaves
    extremes: SlotRows


def count_values(job: ValuesJob) -> ValuesDone:
    place = job.deltas.files
    deltas = place.read(job.deltas.names, job.share.slots)
    hashes = deltas.column(HASH).to_numpy()
    sink = SlotSink(job.out)

    def see(branch: Branch, rows: Sequence[pa.Table], written: Sequence[LeafFile]) -> None:
        held, some, now = rows
        for changes in _moved_ends(branch, held, some, now, written):
            sink.add(changes, hashes_of(changes, GROUP))

    swapped = rewritten(
        place.area,
        VALUES,
        job.share.branches[0],
        deltas.drop_columns(HASH),
        hashes,
        with_values,
        see,
    )
    return ValuesDone(swapped, sink.finish())


def _moved_ends(
    branch: Branch,
    held: pa.Table,
    some: pa.Table,
    now: pa.Table,
    written: Sequence[LeafFile],
) -> Iterator[pa.Table]:
    """Changes of `extremes`. Where the file stays one, only groups that change are looked at; one
    that is split or divided has other names afterwards, for all of its groups."""
    before = {file.leaf for file in branch.held}
    after = [file.leaf for file in written]
    groups = None
    if before | set(after) == {branch.top}:
        groups = whole(pc.unique(some.column(GROUP)))
    for leaf in sorted(before):
        yield extremes_gone(leaf, held, groups)
    if len(after) == 1:
        yield extremes_in(after[0], now, groups)
        return
    hashes = hashes_of(now, *VALUE_ID)
    for leaf in after:
        yield extremes_in(leaf, now.filter(pa.array(holds(leaf, hashes))))
