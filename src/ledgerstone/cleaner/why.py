"""Why records are still on disk: every gate a pass must get through. Pure.

A gate is open or shut. A shut gate says what shuts it, with numbers, and when it will open if that
is known. The first shut gate answers "why was this not compacted yet". For a key, the same is
explained for each of its records.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ledgerstone.cleaner.deadlines import Due
from ledgerstone.cleaner.holds import NO_HOLDS, Holds
from ledgerstone.cleaner.open_txn import OpenTxn
from ledgerstone.cleaner.plan import TombstoneRange
from ledgerstone.cleaner.selection import LogFacts, LogToClean, first_protected_segment
from ledgerstone.dataclasses import dataclass

HORIZON: Final = "horizon"
HOLD: Final = "hold"
REPLICAS: Final = "replicas"
# Gates that only delay the removal of tombstones.
FOR_TOMBSTONES: Final = (HORIZON, HOLD, REPLICAS)
_SHOWN_GROUPS: Final = 3


class Gate(NamedTuple):
    name: str
    is_open: bool
    text: str
    opens_at_ms: int | None = None
    # A shut gate affects records from here on.
    from_offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Everything known about one partition at one moment."""

    now_ms: int
    facts: LogFacts
    log: LogToClean
    dues: Sequence[Due]
    compacts: bool
    is_enabled: bool
    finishes_deletes: bool
    segment_bytes: int
    segment_ms: int
    delete_retention_ms: int
    high_watermark: int
    state: str  # free, in progress, aborted, paused
    trouble: str | None = None
    retry_at_ms: int | None = None
    worker_failure: str | None = None
    open_txn: OpenTxn | None = None  # the first
    earliest_horizon_ms: int | None = None
    fresh_tombstones: int = 0
    log_failure: str | None = None
    holds: Holds = NO_HOLDS
    ranges: Sequence[TombstoneRange] = ()


def gates(situation: Situation) -> list[Gate]:
    """In the order in which a pass meets them."""
    return [
        *_whether_at_all(situation),
        *_how_far(situation),
        _dirty_enough(situation),
        _horizon(situation),
        *_held(situation),
        *_held_for_replicas(situation),
    ]


def first_shut(found: Sequence[Gate]) -> Gate | None:
    return next((gate for gate in found if not gate.is_open), None)


def _whether_at_all(about: Situation) -> Iterator[Gate]:
    if about.compacts:
        yield Gate("policy", True, "cleanup.policy contains compact")
    else:
        yield Gate("policy", False, "cleanup.policy does not contain compact: nothing is compacted")
    if not about.is_enabled:
        yield Gate(
            "cleaner", False, "the cleaner is off: see log.cleaner.enable and log.cleaner.threads"
        )
    elif about.worker_failure is not None:
        yield Gate("cleaner", False, f"no worker: {about.worker_failure}")
    else:
        yield Gate("cleaner", True, "the cleaner runs")
    if about.log_failure is not None:
        yield Gate("health", False, f"the log takes no writes: {about.log_failure}")
    elif about.trouble is not None:
        again = "it will be retried" if about.retry_at_ms is not None else "it needs a restart"
        text = f"the last pass failed: {about.trouble}; {again}"
        yield Gate("health", False, text, about.retry_at_ms)
    else:
        yield Gate("health", True, "the last pass did not fail")
    if about.state != "free":
        yield Gate("state", False, f"cleaning is {about.state}")


def _how_far(about: Situation) -> Iterator[Gate]:
    yield _active_segment(about)
    yield _undecided(about)
    yield _too_young(about)


def _active_segment(about: Situation) -> Gate:
    active = about.facts.segments[-1]
    if active.size_bytes == 0:
        return Gate("active segment", True, "the active segment is empty")
    text = (
        f"{active.size_bytes} bytes from offset {active.base_offset} on are in the active segment, "
        f"which no pass touches; an append rolls it once it reaches segment.bytes="
        f"{about.segment_bytes} or is older than segment.ms={about.segment_ms}"
    )
    own = [due.at_ms for due in about.dues if due.segment_base == active.base_offset]
    if not own or not about.finishes_deletes:
        return Gate("active segment", False, text, from_offset=active.base_offset)
    text = f"{text}, or by itself when a pass is due"
    return Gate("active segment", False, text, min(own), active.base_offset)


def _undecided(about: Situation) -> Gate:
    facts = about.facts
    if facts.last_stable_offset >= facts.log_end_offset:
        return Gate("undecided", True, "no transaction is open and everything is replicated")
    if about.open_txn is not None:
        return Gate(
            "undecided",
            False,
            f"{about.open_txn}; nothing from there on is cleaned until it ends",
            from_offset=facts.last_stable_offset,
        )
    return Gate(
        "undecided",
        False,
        f"offsets from {facts.last_stable_offset} on are not replicated yet; the high watermark "
        f"is {about.high_watermark}",
        from_offset=facts.last_stable_offset,
    )


def _too_young(about: Situation) -> Gate:
    facts, lag_ms = about.facts, about.facts.min_compaction_lag_ms
    protected = first_protected_segment(facts, about.log.first_dirty_offset, now_ms=about.now_ms)
    if protected is None:
        return Gate("age", True, f"nothing is younger than min.compaction.lag.ms={lag_ms}")
    return Gate(
        "age",
        False,
        f"the segment at offset {protected.base_offset} is younger than "
        f"min.compaction.lag.ms={lag_ms}",
        protected.largest_timestamp + lag_ms,
        protected.base_offset,
    )


def _dirty_enough(about: Situation) -> Gate:
    log = about.log
    sizes = (
        f"{log.cleanable_bytes} of {log.total_bytes} bytes in sealed segments are dirty: a ratio "
        f"of {log.dirty_ratio:.3f}; min.cleanable.dirty.ratio is {log.min_cleanable_dirty_ratio:g}"
    )
    if log.is_eligible:
        return Gate("dirty ratio", True, sizes)
    due = min((due for due in about.dues), key=lambda due: due.at_ms, default=None)
    if due is None:
        return Gate("dirty ratio", False, f"{sizes}, and nothing else makes a pass due")
    if due.at_ms <= about.now_ms:
        return Gate("dirty ratio", True, f"{sizes}, but a pass is due: {due.reason.value}")
    return Gate("dirty ratio", False, f"{sizes}; a pass runs when {due.reason.value}", due.at_ms)


def _horizon(about: Situation) -> Gate:
    horizon_ms = about.earliest_horizon_ms
    if horizon_ms is None:
        waiting = f"{about.fresh_tombstones} tombstones await their first pass"
        return Gate(HORIZON, True, f"no tombstone waits for its horizon; {waiting}")
    if horizon_ms <= about.now_ms:
        return Gate(HORIZON, True, "the earliest delete horizon has passed")
    return Gate(
        HORIZON,
        False,
        f"tombstones stay readable for delete.retention.ms={about.delete_retention_ms} after "
        "their first pass",
        horizon_ms,
    )


def _held(about: Situation) -> Iterator[Gate]:
    """Only for topics that name groups; others are not shown holds."""
    holds = about.holds
    slowest = holds.slowest
    if slowest is None:
        return
    found = [
        each
        for each in about.ranges
        if each.earliest_horizon_ms <= about.now_ms
        and holds.holds(each.last_offset, each.earliest_horizon_ms, now_ms=about.now_ms)
    ]
    if not found:
        yield Gate(HOLD, True, f"no tombstone past its horizon is held; {slowest}")
        return
    first = max(min(each.first_offset for each in found), slowest.held_from_offset)
    last = max(each.last_offset for each in found)
    ends_at_ms = min(holds.ends_at_ms(each.earliest_horizon_ms) for each in found)
    others = len(holds.holding(last)) - 1
    more = f", and {others} more groups hold" if others > 0 else ""
    text = (
        f"tombstones from offset {first} to {last} are past their horizon and held: "
        f"{slowest}{more}; ledgerstone.tombstone.hold.max.ms={holds.max_ms} past the horizon they "
        "are removed anyway"
    )
    yield Gate(HOLD, False, text, ends_at_ms)


def _held_for_replicas(about: Situation) -> Iterator[Gate]:
    """Only for logs with several replicas."""
    hold = about.holds.replica
    if hold is None:
        return
    found = [
        each
        for each in about.ranges
        if each.earliest_horizon_ms <= about.now_ms and each.last_offset >= hold.removable_to
    ]
    if not found:
        yield Gate(REPLICAS, True, "no tombstone past its horizon waits for another replica")
        return
    first = max(min(each.first_offset for each in found), hold.removable_to)
    last = max(each.last_offset for each in found)
    text = (
        f"tombstones from offset {first} to {last} are past their horizon and held back by another "
        f"replica, which may hold older values: {hold.holder}"
    )
    yield Gate(REPLICAS, False, text, hold.ends_at_ms)


class KeyRecord(NamedTuple):
    """One record of a key as it was read from the log."""

    offset: int
    is_tombstone: bool
    delete_horizon_ms: int | None
    next_offset: int | None  # of the key's next record; None: it is the latest

    @property
    def is_latest(self) -> bool:
        return self.next_offset is None

    @property
    def decided_at(self) -> int:
        """The offset a pass must reach to decide about the record."""
        return self.offset if self.next_offset is None else self.next_offset


def explain_record(
    record: KeyRecord, found: Sequence[Gate], *, now_ms: int, holds: Holds = NO_HOLDS
) -> Gate:
    """What keeps one record of a key on disk."""
    if record.is_latest and not record.is_tombstone:
        return Gate("live", False, "it is the key's latest value, which stays")
    shut = first_shut(
        [
            gate
            for gate in found
            if gate.name not in FOR_TOMBSTONES and gate.from_offset <= record.decided_at
        ]
    )
    waits = "the next pass will see it" if shut is None else shut.text
    opens_at_ms = None if shut is None else shut.opens_at_ms
    if not record.is_latest:
        return Gate(
            "superseded", False, f"superseded by a later record of its key; {waits}", opens_at_ms
        )
    if record.delete_horizon_ms is None:
        text = f"a tombstone that no pass has seen; {waits}"
        return Gate("fresh tombstone", False, text, opens_at_ms)
    if now_ms < record.delete_horizon_ms:
        text = "a tombstone, which stays readable until its delete horizon"
        return Gate("retained tombstone", False, text, record.delete_horizon_ms)
    if holds.holds(record.offset, record.delete_horizon_ms, now_ms=now_ms):
        groups = "; ".join(str(each) for each in holds.holding(record.offset)[:_SHOWN_GROUPS])
        text = f"a tombstone past its delete horizon, but held: {groups}"
        return Gate("held tombstone", False, text, holds.ends_at_ms(record.delete_horizon_ms))
    if record.offset >= holds.removable_to:
        assert holds.replica is not None
        text = f"a tombstone past its delete horizon, but held back: {holds.replica.holder}"
        return Gate("held tombstone", False, text, holds.replica.ends_at_ms)
    text = f"a tombstone past its delete horizon: the next pass removes it ({waits})"
    return Gate("due tombstone", False, text, opens_at_ms)
