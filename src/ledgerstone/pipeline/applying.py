"""What came of a batch that is in the table, and how far the table is then. Pure."""

from collections.abc import Mapping

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.pipeline.tables.target import Positions


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    changes: int
    already_applied: int
    bad: int
    upserts: int
    deletes: int
    positions: Positions = field(default_factory=dict)
    topic: str | None = None


def moved_positions(positions: Mapping[int, int], offsets: Mapping[int, int]) -> Positions:
    """Forward only: positions that are already further stay."""
    return {
        partition: offset
        for partition, offset in sorted(offsets.items())
        if offset > positions.get(partition, -1)
    }
