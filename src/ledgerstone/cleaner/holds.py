"""Groups that tombstones are held for past their delete horizon, and how long. Pure.

A group that has not committed past a tombstone has not seen the delete. If a topic names groups
(`ledgerstone.tombstone.hold.groups`), no pass removes a tombstone that one of them has not seen,
until `ledgerstone.tombstone.hold.max.ms` past its horizon. The contract is rule R7 of README.md.
"""

from typing import Any, Final, NamedTuple

from ledgerstone.cleaner.plan import LAST_HORIZON_MS
from ledgerstone.dataclasses import dataclass
from ledgerstone.types import INT64_MAX

EVERY_GROUP: Final = "*"


class GroupHold(NamedTuple):
    """One group's progress in one partition."""

    group_id: str
    committed_offset: int | None  # None: it has committed nothing here

    @property
    def held_from_offset(self) -> int:
        return 0 if self.committed_offset is None else self.committed_offset

    def __str__(self) -> str:
        if self.committed_offset is None:
            return f"group {self.group_id} has committed nothing"
        return f"group {self.group_id} has committed offset {self.committed_offset}"


class ReplicaHold(NamedTuple):
    """Another replica of the partition may hold values older than tombstones from here on."""

    removable_to: int
    holder: str  # what is known of the replica that the others wait for
    ends_at_ms: int | None = None  # when it is waited for no longer; None: not known

    def to_json(self) -> dict[str, Any]:
        return self._asdict()


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """Everything that holds the tombstones of one partition at one moment."""

    groups: tuple[GroupHold, ...] = ()
    max_ms: int = INT64_MAX
    replica: ReplicaHold | None = None  # None: no other replica matters
    # Where a follower's leader knows the groups, it tells the first offset instead of `groups`.
    told_held_from_offset: int | None = None

    @property
    def removable_to(self) -> int:
        """Tombstones and emptied markers from here on are held for other replicas."""
        return INT64_MAX if self.replica is None else self.replica.removable_to

    @property
    def replicas_end_ms(self) -> int:
        """When a silent replica is waited for no longer, as far as that is known."""
        known_ms = None if self.replica is None else self.replica.ends_at_ms
        return LAST_HORIZON_MS if known_ms is None else known_ms

    @property
    def slowest(self) -> GroupHold | None:
        return min(
            self.groups, key=lambda each: (each.held_from_offset, each.group_id), default=None
        )

    @property
    def held_from_offset(self) -> int | None:
        """Tombstones from here on are held; None if no group holds any."""
        slowest = self.slowest
        return self.told_held_from_offset if slowest is None else slowest.held_from_offset

    def ends_at_ms(self, horizon_ms: int) -> int:
        """When a tombstone may be removed even if groups have not read it."""
        return min(horizon_ms + self.max_ms, LAST_HORIZON_MS)

    def holding(self, offset: int) -> list[GroupHold]:
        """The groups that have not read the record at `offset`, slowest first."""
        found = [each for each in self.groups if each.held_from_offset <= offset]
        return sorted(found, key=lambda each: (each.held_from_offset, each.group_id))

    def holds(self, offset: int, horizon_ms: int, *, now_ms: int) -> bool:
        """Whether a tombstone past its horizon is held for a group."""
        held_from = self.held_from_offset
        is_unread = held_from is not None and offset >= held_from
        return is_unread and now_ms < self.ends_at_ms(horizon_ms)


NO_HOLDS: Final = Holds()
