"""Whether groups have read an erasure's tombstones before these were removed. Grade P.

Looked at again and again while tombstones exist: what a group had read when they went is known only
if it was noted before, or if the partition's ledger says that the group missed deletes. Once a
tombstone is gone nothing makes up for it but evidence. Contract: README.md, "Known outputs".
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from ledgerstone.dataclasses import replace
from ledgerstone.erasure.erasure import Erasure, Stage, Tombstone
from ledgerstone.erasure.facts import Facts, GroupPosition, is_readable
from ledgerstone.erasure.outputs import GroupReading, Reading

# Of groups that can answer, and as many of others; more of them are counted.
MAX_GROUPS: Final = 256
_MAX_NAME_BYTES: Final = 255
_NAME_START: Final = 120
_WATCHED: Final = (
    Stage.TOMBSTONED, Stage.STAMPED, Stage.REMOVED, Stage.UNLINKED, Stage.VERIFIED,
)  # fmt: skip


def observed(erasure: Erasure, facts: Facts) -> Erasure:
    """The erasure with what can be said of its groups at this moment."""
    if erasure.stage not in _WATCHED or not facts.groups_are_known:
        return erasure
    known = {(each.group, each.partition): each for each in erasure.readings}
    now = {(each.group, each.partition): each for each in facts.groups}
    names, unlisted = _admitted(erasure.readings, facts.groups)
    found = []
    for tombstone in erasure.tombstones:
        is_there = is_readable(tombstone, facts)
        if is_there is None:
            # Nothing is concluded before every replica has spoken.
            found += [each for each in erasure.readings if each.partition == tombstone.partition]
            continue
        for name in names:
            place = (name, tombstone.partition)
            before = known.get(place)
            if before is not None and before.reading is Reading.READ and before.can_answer:
                # Nothing can change it; most looks find most groups so.
                found.append(before)
            elif before is not None or place in now or place in facts.missed:
                one = now.get(place)
                found.append(_read(tombstone, name, before, one, facts, is_there=is_there))
    readings = tuple(sorted(found, key=lambda each: (each.group, each.partition)))
    unlisted = max(erasure.unlisted_groups, unlisted + facts.more_groups)
    if readings == erasure.readings and unlisted == erasure.unlisted_groups:
        return erasure
    return replace(erasure, readings=readings, unlisted_groups=unlisted)


def _admitted(
    readings: Iterable[GroupReading], groups: Iterable[GroupPosition]
) -> tuple[list[str], int]:
    """Names that are listed, and how many are not. Whoever was listed stays."""
    kinds = {each.group: each.can_answer for each in readings}
    names = list(kinds)
    room = {
        kind: MAX_GROUPS - sum(each is kind for each in kinds.values()) for kind in (False, True)
    }
    new: dict[str, bool] = {}
    for each in groups:
        new[each.group] = each.can_answer or new.get(each.group, False)
    unlisted = 0
    for name, kind in sorted(new.items()):
        if name in kinds:
            continue
        if room[kind] > 0:
            room[kind] -= 1
            names.append(name)
        else:
            unlisted += 1
    return names, unlisted


def _read(
    tombstone: Tombstone,
    name: str,
    before: GroupReading | None,
    now: GroupPosition | None,
    facts: Facts,
    *,
    is_there: bool,
) -> GroupReading:
    can_answer = bool((before and before.can_answer) or (now and now.can_answer))
    committed = None if now is None else now.committed_offset
    if before is not None and before.reading is Reading.READ:
        return before._replace(can_answer=can_answer)
    if is_there:
        if committed is None:
            reading, committed = Reading.GONE, before.committed_offset if before else None
        else:
            reading = Reading.READ if committed > tombstone.offset else Reading.UNREAD
    elif before is not None and before.reading is not Reading.UNREAD:
        return before._replace(can_answer=can_answer)
    else:
        reading, committed = _after_removal(tombstone, name, before, now, facts)
    return GroupReading(name, tombstone.partition, tombstone.offset, reading, committed, can_answer)


def _after_removal(
    tombstone: Tombstone,
    name: str,
    before: GroupReading | None,
    now: GroupPosition | None,
    facts: Facts,
) -> tuple[Reading, int | None]:
    """The first look after the tombstone went. Passes write down who is behind before they remove
    anything, so a group that is not in the ledger and has not committed since had moved on before;
    unless the ledger was full."""
    committed = None if now is None else now.committed_offset
    missed_at = facts.missed.get((name, tombstone.partition))
    if missed_at is not None and missed_at <= tombstone.offset:
        return Reading.MISSED, missed_at
    if before is None:
        return Reading.LATE, committed
    if now is None:
        return Reading.GONE, before.committed_offset
    if now.committed_offset <= tombstone.offset:
        return Reading.MISSED, now.committed_offset
    removed_ms = facts.removed_ms.get(tombstone.partition, -1)
    is_certain = tombstone.partition not in facts.full_ledgers
    if is_certain and 0 <= now.committed_ms <= removed_ms:
        return Reading.READ, now.committed_offset
    return Reading.MISSED, before.committed_offset


def shown_name(group_id: str) -> str:
    """Names of groups may have 32 kilobytes; a receipt lists many."""
    data = group_id.encode("utf-8", "replace")
    if len(data) <= _MAX_NAME_BYTES:
        return data.decode()
    start = group_id[:_NAME_START].encode("utf-8", "replace").decode()
    return f"{start}…{sha256(data).hexdigest()[:16]}"
