"""Applies one set of changes in memory to the table: skips old ones, sorts out bad ones. Pure.

For what no task has read, such as a snapshot. The order makes it restart-safe: dead letters first,
then the table with its positions in one transaction. What dies before that transaction has changed
nothing; after it, the next attempt finds the changes applied and skips them.
"""

from collections.abc import Mapping

import pyarrow as pa

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.pipeline.bad_records import SendLetters, bad_records, settle, sorted_out
from ledgerstone.pipeline.changes import not_yet_applied, one_per_key, positions_after
from ledgerstone.pipeline.definition import Deletes, Pipeline
from ledgerstone.pipeline.tables.leaves import Incoming
from ledgerstone.pipeline.tables.target import Positions, TableTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    changes: int
    already_applied: int
    bad: int
    upserts: int
    deletes: int
    positions: Positions = field(default_factory=dict)
    topic: str | None = None


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
        stage = self._target.stage(Incoming(fresh.num_rows, fresh.nbytes))
        good, bad = sorted_out(fresh, stage.unfit)
        settle(self._pipeline, list(bad_records(self._pipeline.source.topic, bad)), self._send)
        if self._pipeline.target.deletes is not Deletes.HISTORY:
            good = one_per_key(good, self._pipeline.key_names)
        moved = moved_positions(self.positions, {**positions_after(fresh), **end_offsets})
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
            topic=self._pipeline.source.topic,
        )


def moved_positions(positions: Mapping[int, int], offsets: Mapping[int, int]) -> Positions:
    """Forward only: positions that are already further stay."""
    return {
        partition: offset
        for partition, offset in sorted(offsets.items())
        if offset > positions.get(partition, -1)
    }
