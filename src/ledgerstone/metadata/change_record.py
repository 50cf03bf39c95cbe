"""The one way to change a partition: what it should become goes in, a PartitionChangeRecord or
nothing comes out. Pure.

Every event and every request ends here, so that one set of rules decides who leads, who is in sync
and which epochs rise. The steps have a fixed order, numbered in README.md.
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ledgerstone.dataclasses import dataclass
from ledgerstone.metadata.image import MIGRATING, NO_LEADER, PartitionImage
from ledgerstone.protocol.messages.metadata_records import PartitionChangeRecord

LEADER_UNCHANGED: Final = -2
_RECOVERY_UNCHANGED: Final = -1


class LeaderRecoveryState(enum.IntEnum):
    """Whether a leader may lack records that were acknowledged before it led."""

    RECOVERED = 0
    RECOVERING = 1


class Election(enum.Enum):
    ONLINE = "online"  # Keep a leader that is still good, else the first replica that is.
    PREFERRED = "preferred"  # As online, but the first replica before the present leader.
    UNCLEAN = "unclean"  # As online, and out of sync rather than no leader at all.


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTarget:
    """What a partition should become. None keeps what there is."""

    isr: Sequence[int] | None = None
    replicas: Sequence[int] | None = None
    adding: Sequence[int] | None = None
    removing: Sequence[int] | None = None
    directories: Mapping[int, bytes] | None = None  # Of the brokers whose directory changes.
    recovery_state: int | None = None
    lost: int | None = None  # A broker whose log may have lost its end: never eligible again.


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the cluster and the topic demand of a change."""

    is_acceptable: Callable[[int], bool]  # Active, on a directory that is online.
    default_directory: Callable[[int], bytes]
    min_isr: int  # Never more than the replication factor.
    elr: bool  # Whether eligible leader replicas are kept.
    has_directories: bool = True  # Whether records may name directories.
    bumps_on_shrink: bool = False  # Old brokers need a new leader epoch when the ISR shrinks.
    election: Election = Election.ONLINE


def change_record(
    topic_id: bytes, number: int, partition: PartitionImage, target: PartitionTarget, rules: Rules
) -> PartitionChangeRecord | None:
    """None where nothing changes."""
    change = _Change(partition, target, rules)
    change.complete_reassignment()
    change.collect_eligible()
    record = PartitionChangeRecord(partition_id=number, topic_id=topic_id)
    change.elect(record)
    change.write(record)
    return None if _is_empty(record) else record


def _or(given: Sequence[int] | None, before: tuple[int, ...]) -> tuple[int, ...]:
    return before if given is None else tuple(given)


class _Change:
    """One change in the making: the target, step by step brought to what will be written."""

    __slots__ = (
        "_adding",
        "_before",
        "_elr",
        "_isr",
        "_removing",
        "_replicas",
        "_rules",
        "_target",
        "_was_unclean",
    )

    def __init__(self, partition: PartitionImage, target: PartitionTarget, rules: Rules) -> None:
        self._before = partition
        self._target = target
        self._rules = rules
        self._isr = _or(target.isr, partition.isr)
        self._replicas = _or(target.replicas, partition.replicas)
        self._adding = _or(target.adding, partition.adding_replicas)
        self._removing = _or(target.removing, partition.removing_replicas)
        self._elr = partition.eligible_leader_replicas
        self._was_unclean = False

    def complete_reassignment(self) -> None:
        """As soon as the replicas that stay can carry the partition alone."""
        removing, adding = self._removing, self._adding
        if not removing and not adding:
            return
        isr = tuple(each for each in self._isr if each not in removing)
        replicas = tuple(each for each in self._replicas if each not in removing)
        if not isr or not replicas or not all(each in isr for each in adding):
            return
        # A smaller replica set must be wholly in sync, or completing would shrink the ISR.
        if len(adding) < len(removing) and not all(each in isr for each in replicas):
            return
        self._isr, self._replicas = isr, replicas
        self._adding = self._removing = ()

    def collect_eligible(self) -> None:
        """Nothing commits while the ISR is below the minimum, so a replica that leaves it then
        still has every committed record."""
        if not self._rules.elr:
            return
        if len(self._isr) >= self._rules.min_isr:
            self._elr = ()
            return
        eligible = {*self._elr, *self._before.isr} & set(self._replicas)
        self._elr = tuple(sorted(eligible - set(self._isr) - {self._target.lost}))

    def elect(self, record: PartitionChangeRecord) -> None:
        leader, is_unclean = self._elected()
        if leader == self._before.leader:
            return
        record.leader = leader
        if is_unclean:
            self._was_unclean = True
            self._isr, self._elr = (leader,), ()
        elif leader in self._elr:
            self._isr = (leader,)
            self._elr = tuple(each for each in self._elr if each != leader)

    def _elected(self) -> tuple[int, bool]:
        """The leader, and whether committed records may be lost by it."""
        rules, present = self._rules, self._before.leader
        order = [present, *self._replicas]
        if rules.election is Election.PREFERRED:
            order.insert(0, self._replicas[0])
        for broker_id in order:
            if self._may_lead(broker_id):
                return broker_id, False
        if self._may_last_leader_lead():
            return self._before.last_known_elr[0], True
        if rules.election is Election.UNCLEAN:
            for broker_id in self._replicas:
                if rules.is_acceptable(broker_id):
                    return broker_id, True
        return NO_LEADER, False

    def _may_last_leader_lead(self) -> bool:
        """Where every replica was lost once: the last leader had more than the others."""
        last_known = self._before.last_known_elr
        if not self._rules.elr or self._isr or self._elr or len(last_known) != 1:
            return False
        return self._rules.is_acceptable(last_known[0])

    def _may_lead(self, broker_id: int) -> bool:
        has_all = broker_id in self._isr or (not self._isr and broker_id in self._elr)
        return has_all and self._rules.is_acceptable(broker_id)

    def write(self, record: PartitionChangeRecord) -> None:
        before = self._before
        if record.leader == LEADER_UNCHANGED and not set(before.replicas) <= set(self._replicas):
            # Fetchers of a replica that is gone must be refused by their epoch.
            record.leader = before.leader
        elr = self._elr if self._rules.elr else ()
        if elr != before.eligible_leader_replicas:
            record.eligible_leader_replicas = list(elr)
        # Without eligible leader replicas the last member stays, though it cannot lead: it alone
        # is known to have everything.
        if self._isr != before.isr and (self._isr or self._rules.elr):
            record.isr = list(self._isr)
            is_smaller = not set(before.isr) <= set(self._isr)
            if self._rules.bumps_on_shrink and is_smaller and record.leader == LEADER_UNCHANGED:
                record.leader = before.leader
        self._write_last_known_leader(record)
        self._write_assignment(record)
        self._write_recovery_state(record)

    def _write_last_known_leader(self, record: PartitionChangeRecord) -> None:
        last_known = self._before.last_known_elr
        if not self._rules.elr:
            return
        if record.leader == NO_LEADER and self._before.leader >= 0 and not last_known:
            record.last_known_elr = [self._before.leader]
        elif record.leader >= 0 and last_known:
            record.last_known_elr = []

    def _write_assignment(self, record: PartitionChangeRecord) -> None:
        before = self._before
        directories = self._directories()
        if directories != before.directories and self._rules.has_directories:
            record.directories = list(directories)
        if self._replicas != before.replicas:
            record.replicas = list(self._replicas)
        if self._removing != before.removing_replicas:
            record.removing_replicas = list(self._removing)
        if self._adding != before.adding_replicas:
            record.adding_replicas = list(self._adding)

    def _directories(self) -> tuple[bytes, ...]:
        before, changed = self._before, self._target.directories
        if changed is None and self._replicas == before.replicas:
            return before.directories
        # Records from before directories were known name none.
        present = before.directories or (MIGRATING,) * len(before.replicas)
        known = dict(zip(before.replicas, present, strict=True)) | dict(changed or {})
        default = self._rules.default_directory
        return tuple(known[each] if each in known else default(each) for each in self._replicas)

    def _write_recovery_state(self, record: PartitionChangeRecord) -> None:
        present = self._before.leader_recovery_state
        wanted = self._target.recovery_state
        if self._was_unclean:
            wanted = LeaderRecoveryState.RECOVERING
        if wanted is not None and wanted != present:
            record.leader_recovery_state = wanted


def _is_empty(record: PartitionChangeRecord) -> bool:
    return (
        record.leader == LEADER_UNCHANGED
        and record.leader_recovery_state == _RECOVERY_UNCHANGED
        and record.isr is None
        and record.replicas is None
        and record.removing_replicas is None
        and record.adding_replicas is None
        and record.directories is None
        and record.eligible_leader_replicas is None
        and record.last_known_elr is None
    )
