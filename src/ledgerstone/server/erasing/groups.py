"""What the committed offsets of groups say about erasures: who is known to read a topic. Grade D.

A look at a topic is made once and serves all its erasures. Names are shown without the key of the
erasure, and what that takes is remembered. Contract: erasure/README.md, "Known outputs".
"""

import json
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from ledgerstone.cleaner.tombstone_ledger import MAX_MISSED, TombstoneLedger
from ledgerstone.coordinator.offsets import CommittedOffset
from ledgerstone.dataclasses import dataclass, field, replace
from ledgerstone.erasure.changes import group_name
from ledgerstone.erasure.erasure import Erasure, Tombstone
from ledgerstone.erasure.facts import GroupPosition
from ledgerstone.erasure.outputs import GroupReading
from ledgerstone.server.erasing.facts import Look
from ledgerstone.server.erasing.needs import Committed
from ledgerstone.types import TopicPartition

# Whoever can connect can make groups; those that are known already and pipelines come first.
MAX_LOOKED_AT: Final = 1024


class LedgerFacts(NamedTuple):
    """What passes over a partition wrote down of groups that missed a tombstone."""

    missed: tuple[tuple[str, int], ...] = ()
    removed_ms: int | None = None
    is_full: bool = False  # its silence proves nothing


Ledgers = Callable[[Tombstone], LedgerFacts | None]


class GroupsSeen(NamedTuple):
    """As `erasure.facts` has them."""

    are_known: bool
    groups: tuple[GroupPosition, ...] = ()
    missed: Mapping[tuple[str, int], int] = MappingProxyType({})
    removed_ms: Mapping[int, int] = MappingProxyType({})
    full_ledgers: tuple[int, ...] = ()
    more: int = 0  # groups that were only counted


@dataclass(slots=True)
class GroupWatch:
    """What looks have noted of groups since each erasure was last written down."""

    _readings: dict[str, tuple[tuple[GroupReading, ...], int]] = field(default_factory=dict)
    # By erasure and group: the name without the erasure's key.
    _names: dict[str, dict[str, str]] = field(default_factory=dict)

    def seen(
        self,
        look: Look,
        ledgers: Ledgers,
        erasure: Erasure,
        salt: bytes | None,
        *,
        topic_exists: bool,
    ) -> GroupsSeen:
        """Of a topic that came back under its name nothing is said: those are other offsets."""
        if salt is None or not look.offsets.are_loaded():
            return GroupsSeen(are_known=False)
        if not topic_exists or not erasure.tombstones:
            return GroupsSeen(are_known=True)
        names = Names(erasure, salt, self._names.setdefault(erasure.id, {}))
        listed = self._readings.get(erasure.id, (erasure.readings, 0))[0]
        committed = look.committed_on(erasure.topic)
        return groups_seen(ledgers, erasure, committed, names, {each.group for each in listed})

    def noted(self, erasure: Erasure) -> Erasure:
        self._readings[erasure.id] = _readings_of(erasure)
        return erasure

    def remembered(self, erasure: Erasure) -> Erasure:
        """With what was noted of its groups since it was written down."""
        known = self._readings.get(erasure.id)
        if known is None or erasure.is_over or known == _readings_of(erasure):
            return erasure
        return replace(erasure, readings=known[0], unlisted_groups=known[1])

    def forget(self, erasure_id: str) -> None:
        self._readings.pop(erasure_id, None)
        self._names.pop(erasure_id, None)


def _readings_of(erasure: Erasure) -> tuple[tuple[GroupReading, ...], int]:
    return erasure.readings, erasure.unlisted_groups


class Names(NamedTuple):
    """How one erasure shows names of groups."""

    erasure: Erasure
    salt: bytes
    known: dict[str, str]

    def of(self, group_id: str) -> str:
        if group_id not in self.known:
            shown = group_name(group_id, self.erasure, self.salt)
            # Most names are as they were, and there may be many erasures.
            self.known[group_id] = group_id if shown == group_id else shown
        return self.known[group_id]


def groups_seen(
    ledgers: Ledgers, erasure: Erasure, committed: Committed, names: Names, known: Collection[str]
) -> GroupsSeen:
    """`committed` is what groups have committed on the erasure's topic, under its own id; `known`
    are those that looks before have listed."""
    numbers = [each.partition for each in erasure.tombstones]
    readers = [
        group_id
        for group_id, partitions in committed.items()
        if any(number in partitions for number in numbers)
    ]
    if len(readers) > MAX_LOOKED_AT:
        readers.sort(key=lambda one: (one not in known, not _can_answer(committed[one]), one))
    looked_at = readers[:MAX_LOOKED_AT]
    found, full = [], []
    missed: dict[tuple[str, int], int] = {}
    removed_ms: dict[int, int] = {}
    for tombstone in erasure.tombstones:
        number = tombstone.partition
        for group_id in looked_at:
            at = committed[group_id].get(number)
            if at is not None:
                name = names.of(group_id)
                answers, at_ms = is_pipeline(at.metadata), at.commit_timestamp_ms
                found.append(GroupPosition(name, number, at.offset, answers, at_ms))
        ledger = ledgers(tombstone)
        if ledger is None:
            continue
        for group_id, offset in ledger.missed:
            missed[names.of(group_id), number] = offset
        if ledger.removed_ms is not None:
            removed_ms[number] = ledger.removed_ms
        if ledger.is_full:
            full.append(number)
    more = len(readers) - len(looked_at)
    return GroupsSeen(True, _merged(found), missed, removed_ms, tuple(full), more)


def _can_answer(partitions: Mapping[int, CommittedOffset]) -> bool:
    return any(is_pipeline(each.metadata) for each in partitions.values())


def _merged(found: list[GroupPosition]) -> tuple[GroupPosition, ...]:
    """Two groups whose names differ by the key alone look the same: the slower one counts."""
    slowest: dict[tuple[str, int], GroupPosition] = {}
    for each in found:
        place = (each.group, each.partition)
        known = slowest.get(place)
        if known is None or each.committed_offset < known.committed_offset:
            slowest[place] = each
    return tuple(slowest.values())


def own_ledger(look: Look, topic: str, tombstone: Tombstone) -> LedgerFacts | None:
    """Of a partition that is hosted here."""
    partition = look.partitions.find(TopicPartition(topic, tombstone.partition))
    if partition is None:
        return None
    ledger = look.cleaning.files.ledger(partition.log)
    is_full = len(ledger.missed) >= MAX_MISSED
    return LedgerFacts(missed_in(ledger, tombstone.offset), ledger.removed_at_ms, is_full)


def missed_in(ledger: TombstoneLedger, offset: int) -> tuple[tuple[str, int], ...]:
    """Groups that had not read what passes removed around `offset`. Those that a pass has only
    announced are among them: where it died, nobody knows whether it came so far."""
    return tuple(
        (each.group_id, each.committed_offset)
        for each in ledger.missed
        if each.first_offset <= offset <= each.last_offset
    )


def is_pipeline(metadata: str) -> bool:
    """A pipeline or a query of ours notes in its commits when it made them: it can give evidence
    by a command, which plain consumers cannot."""
    if not metadata.startswith("{"):
        return False
    try:
        content: Any = json.loads(metadata)
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict) and type(content.get("at_ms")) is int
