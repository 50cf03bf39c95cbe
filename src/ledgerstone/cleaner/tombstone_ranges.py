"""Where tombstones wait for their horizon: a few ranges instead of a row for each. Pure.

A pass sets one horizon for everything it stamps, so the tombstones of a log have few different
ones, and neighbours with the same horizon form one range. Above `MAX_RANGES`, the ranges with the
nearest horizons are merged, and the merged range has the earlier one: it errs on the safe side.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from ledgerstone.cleaner.holds import Holds
from ledgerstone.cleaner.plan import OffsetSpan, TombstoneRange, TombstoneTraces
from ledgerstone.dataclasses import dataclass, field

MAX_RANGES: Final = 256
# How long a collector's list may grow before it is shortened.
_SLACK: Final = 4 * MAX_RANGES


def joined(ranges: Iterable[TombstoneRange]) -> list[TombstoneRange]:
    """Merges neighbours with the same horizon; `ranges` are in log order."""
    found: list[TombstoneRange] = []
    for each in ranges:
        if found and found[-1].earliest_horizon_ms == each.earliest_horizon_ms:
            found[-1] = _merged(found[-1], each)
        else:
            found.append(each)
    return found


def bounded(ranges: Sequence[TombstoneRange]) -> tuple[TombstoneRange, ...]:
    """At most MAX_RANGES of them, covering the same tombstones."""
    ranges = joined(ranges)
    surplus = len(ranges) - MAX_RANGES
    if surplus <= 0:
        return tuple(ranges)
    gaps = [
        abs(ranges[at].earliest_horizon_ms - ranges[at - 1].earliest_horizon_ms)
        for at in range(1, len(ranges))
    ]
    nearest = sorted(range(1, len(ranges)), key=lambda at: (gaps[at - 1], at))[:surplus]
    closed = [False] * len(ranges)
    for at in nearest:
        closed[at] = True
    found: list[TombstoneRange] = []
    for at, each in enumerate(ranges):
        if closed[at]:
            found[-1] = _merged(found[-1], each)
        else:
            found.append(each)
    return tuple(found)


def _merged(left: TombstoneRange, right: TombstoneRange) -> TombstoneRange:
    return TombstoneRange(
        min(left.first_offset, right.first_offset),
        max(left.last_offset, right.last_offset),
        min(left.earliest_horizon_ms, right.earliest_horizon_ms),
    )


@dataclass(slots=True)
class TraceCollector:
    """Collects the traces of a pass's windows, in log order."""

    _pending: list[TombstoneRange] = field(default_factory=list)
    _removed: OffsetSpan | None = None

    def add(self, ranges: Iterable[TombstoneRange], removed: OffsetSpan | None) -> None:
        self._pending += ranges
        if len(self._pending) > _SLACK:
            self._pending = list(bounded(self._pending))
        if removed is not None:
            self._removed = removed if self._removed is None else self._removed.over(removed)

    @property
    def traces(self) -> TombstoneTraces:
        # Markers come before the tombstones of their window.
        return TombstoneTraces(pending=bounded(sorted(self._pending)), removed=self._removed)


def released_ms(tombstones: TombstoneRange, holds: Holds) -> int:
    """When a pass could remove the first of them."""
    held_from, horizon_ms = holds.held_from_offset, tombstones.earliest_horizon_ms
    if held_from is not None and tombstones.first_offset >= held_from:
        horizon_ms = holds.ends_at_ms(horizon_ms)
    if tombstones.first_offset >= holds.removable_to:
        # Other replicas say when; no time is known for most of them.
        return max(horizon_ms, holds.replicas_end_ms)
    return horizon_ms


def expired(ranges: Iterable[TombstoneRange], holds: Holds, *, now_ms: int) -> list[TombstoneRange]:
    """The ranges that a pass at `now_ms` may remove tombstones from."""
    found = []
    held_from = holds.held_from_offset
    for each in ranges:
        if now_ms < each.earliest_horizon_ms or each.first_offset >= holds.removable_to:
            continue
        each = each._replace(last_offset=min(each.last_offset, holds.removable_to - 1))
        if held_from is None or now_ms >= holds.ends_at_ms(each.earliest_horizon_ms):
            found.append(each)
        elif each.first_offset < held_from:
            found.append(each._replace(last_offset=min(each.last_offset, held_from - 1)))
    return found
