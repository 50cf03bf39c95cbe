"""The contract of a table that follows a topic. Pure.

A target keeps, in the same transaction as its rows, how far in each partition it has come. That
is the only truth about progress: whatever dies, a run goes on from there, so a change is applied
once. One process at a time writes; the runner holds a lock.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from ledgerstone.dataclasses import dataclass
from ledgerstone.pipeline.layout import DELETED

Positions = dict[int, int]  # partition: next offset


class Followed(NamedTuple):
    """Which topic the positions of a table are of. A topic that was deleted and created again has
    the same name and another id."""

    topic: str
    topic_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """One set of changes that is in the table. Counted as changes, the same in every target: a
    tombstone is a delete whether or not there was a row, which not every database tells."""

    upserts: int
    deletes: int
    version: int | None = None  # of the table, where it has versions


def applied(changes: pa.Table, version: int | None = None) -> Applied:
    deletes = int(pc.sum(changes.column(DELETED)).as_py() or 0)
    return Applied(upserts=changes.num_rows - deletes, deletes=deletes, version=version)


class TableTarget(Protocol):
    def prepare(self) -> None:
        """Makes what is missing; refuses a table that has other columns.

        A table that has to be made has come nowhere, whatever is noted about an earlier one."""

    def positions(self) -> Positions:
        """Behind the last record applied, per partition of the topic; empty if none was, also where
        nothing was prepared yet."""

    def followed(self) -> Followed | None:
        """As recorded by `follow`; None if it was not."""

    def follow(self, followed: Followed) -> None:
        """Records the topic, for good, before anything of it is applied."""

    def unfit(self, changes: pa.Table) -> dict[int, str]:
        """Rows of the changes that this target cannot hold, with the reason."""

    def apply(self, changes: pa.Table, positions: Mapping[int, int]) -> Applied:
        """Changes as `changes` makes them, decoded and one per key unless it is a history.

        `positions` are the new ones; all of it happens, or nothing."""

    def repair(self, changes: pa.Table) -> Applied:
        """Changes that win whatever the row's offset; positions do not change."""

    def rows(self) -> Iterator[pa.Table]:
        """Every row, with the columns of the layout, in pieces."""

    def close(self) -> None: ...
