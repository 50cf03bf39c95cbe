"""When an erasure will be done, and whether that is in time; so alarms come before the date.

Grade P. An estimate from the gates that are known: passes and scans are given a minute together,
everything else is settings and horizons. Contract: README.md, "Deadlines".
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from ledgerstone.erasure.erasure import Erasure, Stage
from ledgerstone.erasure.facts import Facts, PartitionFacts, has_leftovers, has_lost
from ledgerstone.erasure.life import standing_objection
from ledgerstone.time_text import MAX_TIME_MS, iso_time

# For the search, the passes and the scan.
WORK_MS: Final = 60_000
# What has no end that is known alarms when this share of the time is left, or this much of it.
_LEAD_SHARE: Final = 10
_LONGEST_LEAD_MS: Final = 86_400_000
# It alarms long before that, too: once it has lasted for that share, or this long.
LONGEST_PATIENCE_MS: Final = 3_600_000
_MINUTE_MS: Final = 60_000

_BEFORE_FIRST_PASS: Final = (
    Stage.SCHEDULED,
    Stage.REQUESTED,
    Stage.SEARCHED,
    Stage.TOMBSTONED,
)


_SEARCHING: Final = (Stage.REQUESTED, Stage.SEARCHED)


class Forecast(NamedTuple):
    expected_done_ms: int | None  # None: over, or never as things are
    will_miss: bool  # the deadline; stays set once it is past
    is_overdue: bool
    because: str  # what takes the longest, or has no end that is known; "" where nothing does
    blocked_by: str | None = None  # what waiting does not end, or not in time


class _Delay(NamedTuple):
    """Something that keeps the erasure until a time; without a time nobody knows how long."""

    until_ms: int | None
    because: str
    is_obstacle: bool = False  # somebody could clear it away


def forecast(erasure: Erasure, facts: Facts, *, now_ms: int) -> Forecast:
    if erasure.is_over or erasure.stage is Stage.VERIFIED:
        # What counts for the deadline has happened; a receipt may still wait for evidence.
        return Forecast(None, False, False, "")
    start_ms = max(now_ms, erasure.due_ms)
    delays = list(_delays(erasure, facts, start_ms))
    known = [
        (delay.until_ms, delay.because, delay.is_obstacle)
        for delay in delays
        if delay.until_ms is not None
    ]
    done_ms, because, is_obstacle = max([(start_ms, "", False), *known])
    if erasure.stage is not Stage.UNLINKED and erasure.stage is not Stage.REMOVED:
        done_ms += facts.file_delete_delay_ms
    done_ms += WORK_MS
    endless = next((delay.because for delay in delays if delay.until_ms is None), None)
    never = done_ms > MAX_TIME_MS
    will_miss = _will_miss(erasure, facts, done_ms, now_ms, is_endless=endless is not None)
    return Forecast(
        expected_done_ms=None if never or endless is not None else done_ms,
        will_miss=will_miss,
        is_overdue=erasure.deadline_ms is not None and now_ms > erasure.deadline_ms,
        because=endless or because,
        blocked_by=endless or (because if is_obstacle and will_miss else None),
    )


def _will_miss(
    erasure: Erasure, facts: Facts, done_ms: int, now_ms: int, *, is_endless: bool
) -> bool:
    if erasure.deadline_ms is None:
        return False
    if done_ms > erasure.deadline_ms:
        return True
    if not is_endless:
        return False
    share_ms = (erasure.deadline_ms - erasure.requested_ms) // _LEAD_SHARE
    if done_ms + min(share_ms, _LONGEST_LEAD_MS) > erasure.deadline_ms:
        return True
    since_ms = facts.blocked_since_ms
    return since_ms is not None and now_ms - since_ms >= min(share_ms, LONGEST_PATIENCE_MS)


def why_not_in_time(erasure: Erasure, facts: Facts, *, now_ms: int) -> str | None:
    """For who has just asked: that the deadline cannot be met, why, and what would help."""
    found = forecast(erasure, facts, now_ms=now_ms)
    if not found.will_miss or erasure.deadline_ms is None:
        return None
    delay_ms = facts.file_delete_delay_ms
    room_ms = erasure.deadline_ms - max(now_ms, erasure.due_ms) - delay_ms - WORK_MS
    done_ms = found.expected_done_ms
    when = "never" if done_ms is None else f"not before {iso_time(done_ms)}"
    advice = []
    if room_ms >= 0 and facts.delete_retention_ms > room_ms:
        advice.append(f"set delete.retention.ms of {erasure.topic} to at most {room_ms}")
    if done_ms is not None:
        minutes = -(-(done_ms - now_ms) // _MINUTE_MS)
        advice.append(f"give it at least {minutes} minutes")
    return (
        f"the deadline {iso_time(erasure.deadline_ms)} cannot be met: it will be done {when}. "
        f"{found.because or 'The work'}; file.delete.delay.ms={delay_ms} and about {WORK_MS} ms of "
        f"work come on top. To meet it, {', or '.join(advice) or 'ask without a delay'}"
    )


def _delays(erasure: Erasure, facts: Facts, start_ms: int) -> Iterator[_Delay]:
    if facts.trouble is not None:
        yield _Delay(None, facts.trouble)
    objection = standing_objection(erasure, facts)
    if objection is not None:
        yield _Delay(None, objection)
    if erasure.stage in _SEARCHING and facts.search is not None and facts.search.trouble:
        yield _Delay(None, f"the search is incomplete: {facts.search.trouble}")
    elif erasure.stage is Stage.REQUESTED and facts.search is not None and facts.search.unseen:
        yield _Delay(None, f"the search is incomplete: {facts.search.unseen}")
    if erasure.stage is Stage.SCHEDULED:
        yield _Delay(erasure.due_ms, f"it is scheduled for {iso_time(erasure.due_ms)}")
    if erasure.stage in _BEFORE_FIRST_PASS:
        yield from _until_horizon(erasure, facts, start_ms)
    elif erasure.stage is Stage.STAMPED:
        yield from _until_second_pass(erasure, facts)
    elif erasure.stage is Stage.REMOVED:
        for partition, about in facts.every_replica():
            name = f"{erasure.topic}-{partition}{about.on_node}"
            if about.is_unknown:
                yield _Delay(None, f"{name}: {about.waits_for}", is_obstacle=True)
            elif has_leftovers(erasure, about) and about.leftovers_go_at_ms is not None:
                text = f"{name}: replaced files wait to be unlinked"
                yield _Delay(about.leftovers_go_at_ms, text)


def _until_horizon(erasure: Erasure, facts: Facts, start_ms: int) -> Iterator[_Delay]:
    retention_ms = facts.delete_retention_ms
    retention = f"delete.retention.ms={retention_ms} counts from the first pass"
    yield _Delay(start_ms + retention_ms, retention)
    replicas = (
        (each, about) for each in erasure.tombstones for about in facts.replicas_of(each.partition)
    )
    for tombstone, about in replicas:
        if about.first_dirty_offset > tombstone.offset:
            continue
        gate = _gate(erasure, tombstone.partition, about)
        if gate is not None and gate.until_ms is not None:
            text = f"{gate.because}; then {retention}"
            yield _Delay(max(gate.until_ms, start_ms) + retention_ms, text, is_obstacle=True)
        elif gate is not None:
            yield gate


def _until_second_pass(erasure: Erasure, facts: Facts) -> Iterator[_Delay]:
    replicas = (
        (each, about) for each in erasure.tombstones for about in facts.replicas_of(each.partition)
    )
    for tombstone, about in replicas:
        if has_lost(tombstone, about):
            continue
        if about.horizon_ms is not None:
            text = f"{erasure.topic}-{tombstone.partition}{about.on_node}: the tombstone's horizon"
            yield _Delay(about.horizon_ms, text)
        gate = _gate(erasure, tombstone.partition, about)
        if gate is not None:
            yield gate


def _gate(erasure: Erasure, partition: int, about: PartitionFacts) -> _Delay | None:
    if about.waits_for is None:
        return None
    text = f"{erasure.topic}-{partition}{about.on_node}: {about.waits_for}"
    return _Delay(about.opens_at_ms, text, is_obstacle=True)
