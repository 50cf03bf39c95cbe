"""A partition's record of its deletes: pending tombstones, removed ones, groups that missed some.

Pure. Kept in the partition's cleaning history (`history`), so that it survives restarts. A group is
in `missed` once a tombstone is removed that it had not read, until the group is deleted, starts
over at the log's beginning, or is acknowledged. Bounded: the oldest entries are dropped.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from ledgerstone.cleaner.plan import OffsetSpan, TombstoneRange, TombstoneTraces
from ledgerstone.cleaner.tombstone_ranges import MAX_RANGES, bounded
from ledgerstone.dataclasses import dataclass, replace

# Limit for all group names together, as written; names may be long.
MAX_MISSED_BYTES: Final = 1 << 20
MAX_MISSED: Final = 1000
_ENTRY_BYTES: Final = 100


class MissedDeletes(NamedTuple):
    """A group that may have missed deletes between two offsets, both included."""

    group_id: str
    committed_offset: int  # when they were removed
    first_offset: int
    last_offset: int
    at_ms: int
    # Written before the pass that may remove them; settled when it ends.
    is_announced: bool = False

    def over(self, later: "MissedDeletes") -> "MissedDeletes":
        return later._replace(
            first_offset=min(self.first_offset, later.first_offset),
            last_offset=max(self.last_offset, later.last_offset),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TombstoneLedger:
    """For one partition. Invariant: a group appears at most once announced, once otherwise."""

    pending: tuple[TombstoneRange, ...] | None = None  # None: no pass has reported yet
    removed_below_offset: int | None = None  # every removed tombstone lay below
    removed_at_ms: int | None = None  # when the last ones were removed
    missed: tuple[MissedDeletes, ...] = ()

    def after_pass(
        self, traces: TombstoneTraces | None, *, end_offset: int, now_ms: int
    ) -> "TombstoneLedger":
        """What lies beyond the reach of the pass stays, of a range that it ended in, too."""
        if traces is None:
            return replace(self, pending=None)
        beyond = [
            each._replace(first_offset=max(each.first_offset, end_offset))
            for each in self.pending or ()
            if each.last_offset >= end_offset
        ]
        after = replace(self, pending=bounded([*traces.pending, *beyond]))
        if traces.removed is None:
            return after
        below = max(traces.removed.last_offset + 1, self.removed_below_offset or 0)
        return replace(after, removed_below_offset=below, removed_at_ms=now_ms)

    @property
    def told(self) -> tuple[MissedDeletes, ...]:
        """The entries to show: a running pass has not removed anything yet."""
        return tuple(each for each in self.missed if not each.is_announced)

    def announced(self, expected: Iterable[MissedDeletes]) -> "TombstoneLedger":
        """A pass is about to start that may remove tombstones these groups have not read."""
        new = [each._replace(is_announced=True) for each in expected]
        return self._with_missed([*self.told, *new])

    def settled(self, certain: Iterable[MissedDeletes]) -> "TombstoneLedger":
        """The pass has ended: its report replaces what was expected."""
        kept = {each.group_id: each for each in self.told}
        return self._with_missed(_added(kept, certain))

    def believed(self) -> "TombstoneLedger":
        """A pass ended without a report, so the expected removals may have happened."""
        kept = {each.group_id: each for each in self.told}
        expected = [each._replace(is_announced=False) for each in self.missed if each.is_announced]
        return self._with_missed(_added(kept, expected)) if expected else self

    def without(self, group_ids: Iterable[str]) -> "TombstoneLedger":
        gone = dict.fromkeys(group_ids)
        return replace(
            self, missed=tuple(each for each in self.missed if each.group_id not in gone)
        )

    def truncated(self, end_offset: int) -> "TombstoneLedger":
        if self.pending is None:
            return self
        kept = tuple(
            each._replace(last_offset=min(each.last_offset, end_offset - 1))
            for each in self.pending
            if each.first_offset < end_offset
        )
        return replace(self, pending=kept)

    def _with_missed(self, missed: Iterable[MissedDeletes]) -> "TombstoneLedger":
        kept: list[MissedDeletes] = []
        room = MAX_MISSED_BYTES
        by_age = sorted(missed, key=lambda one: one.at_ms)
        for each in reversed(by_age[-MAX_MISSED:]):
            room -= len(json.dumps(each.group_id)) + _ENTRY_BYTES
            if room < 0:
                break
            kept.append(each)
        return replace(self, missed=tuple(reversed(kept)))

    def to_json(self) -> dict[str, Any]:
        return {
            "pending": None if self.pending is None else [list(each) for each in self.pending],
            "removed_below_offset": self.removed_below_offset,
            "removed_at_ms": self.removed_at_ms,
            "missed": [each._asdict() for each in self.missed],
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "TombstoneLedger":
        """ValueError, KeyError or TypeError if it is not what `to_json` makes."""
        pending, missed = content["pending"], content["missed"]
        if len(pending or ()) > MAX_RANGES or len(missed) > MAX_MISSED:
            raise ValueError(f"{len(pending or ())} ranges and {len(missed)} groups are too many")
        return cls(
            pending=None
            if pending is None
            else tuple(TombstoneRange(*map(_number, each)) for each in pending),
            removed_below_offset=_number_or_none(content["removed_below_offset"]),
            removed_at_ms=_number_or_none(content["removed_at_ms"]),
            missed=tuple(_missed_from(each) for each in missed),
        )


def _added(known: dict[str, MissedDeletes], new: Iterable[MissedDeletes]) -> list[MissedDeletes]:
    for each in new:
        before = known.get(each.group_id)
        known[each.group_id] = each if before is None else before.over(each)
    return list(known.values())


def _missed_from(content: Mapping[str, Any]) -> MissedDeletes:
    group_id, is_announced = content["group_id"], content["is_announced"]
    if type(group_id) is not str or type(is_announced) is not bool:
        raise ValueError(f"a group {group_id!r} that is announced {is_announced!r}")
    return MissedDeletes(
        group_id,
        _number(content["committed_offset"]),
        _number(content["first_offset"]),
        _number(content["last_offset"]),
        _number(content["at_ms"]),
        is_announced,
    )


def _number(value: object) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r} is not a whole number")
    return value


def _number_or_none(value: object) -> int | None:
    return None if value is None else _number(value)


def groups_behind(
    committed: Mapping[str, int], removed: OffsetSpan, *, now_ms: int
) -> list[MissedDeletes]:
    """Every group that has not read all of `removed`. A group at the very beginning has read
    nothing that it would need to delete."""
    return [
        MissedDeletes(
            group_id, offset, max(offset, removed.first_offset), removed.last_offset, now_ms
        )
        for group_id, offset in committed.items()
        if 0 < offset <= removed.last_offset
    ]
