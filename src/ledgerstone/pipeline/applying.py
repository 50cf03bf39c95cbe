"""Applies one set of changes to the table: skips old ones, sorts out bad ones. Pure.

The order makes a run restart-safe: dead letters first, then the table with its positions in one
transaction. A run that dies before that transaction has changed nothing; after one that dies later,
the next run finds the changes applied and skips them.
"""

from collections.abc import Mapping

import pyarrow as pa

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.pipeline.bad_records import SendLetters, bad_records, settle
from ledgerstone.pipeline.changes import (
    not_yet_applied,
    one_per_key,
    positions_after,
    split_bad,
)
from ledgerstone.pipeline.definition import Deletes, Pipeline
from ledgerstone.pipeline.layout import BAD
from ledgerstone.pipeline.tables.target import Positions, TableTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    changes: int
    already_applied: int
    bad: int
    upserts: int
    deletes: int
    positions: Positions = field(default_factory=dict)


class ChangeApplier:
    """Caches the table's positions, so that the table is read only once."""

    def __init__(self, pipeline: Pipeline, target: TableTarget, send: SendLetters) -> None:
        self._pipeline = pipeline
        self._target = target
        self._send = send
        self.positions = target.positions()

    def apply(self, changes: pa.Table, end_offsets: Mapping[int, int]) -> BatchReport:
        """`end_offsets` may be past the last change: markers and gaps count as read."""
        fresh = not_yet_applied(changes, self.positions)
        good, bad = self._sorted_out(fresh)
        settle(self._pipeline, list(bad_records(self._pipeline.source.topic, bad)), self._send)
        if self._pipeline.target.deletes is not Deletes.HISTORY:
            good = one_per_key(good, self._pipeline.key_names)
        moved = self._moved({**positions_after(fresh), **end_offsets})
        if not good.num_rows and not moved:
            return BatchReport(
                changes=0, already_applied=changes.num_rows, bad=0, upserts=0, deletes=0
            )
        applied = self._target.apply(good, moved)
        self.positions |= moved
        return BatchReport(
            changes=fresh.num_rows,
            already_applied=changes.num_rows - fresh.num_rows,
            bad=bad.num_rows,
            upserts=applied.upserts,
            deletes=applied.deletes,
            positions=dict(self.positions),
        )

    def _moved(self, offsets: Mapping[int, int]) -> Positions:
        """Forward only: positions that are already further stay."""
        return {
            partition: offset
            for partition, offset in sorted(offsets.items())
            if offset > self.positions.get(partition, -1)
        }

    def _sorted_out(self, changes: pa.Table) -> tuple[pa.Table, pa.Table]:
        good, bad = split_bad(changes)
        unfit = self._target.unfit(good)
        if not unfit:
            return good, bad
        reasons = pa.array([unfit.get(row) for row in range(good.num_rows)], pa.string())
        at = good.schema.get_field_index(BAD)
        good, more = split_bad(good.set_column(at, good.schema.field(BAD), reasons))
        return good, pa.concat_tables([bad, more])
