"""What an erasure needs next. Grade P; the contract is README.md, "Life cycle".

`next_step` looks at an erasure, at facts and at the time, and names one step. It decides the same
whether or not the last step's result was lost in a crash: every step may be taken twice. Who drives
it writes down what `Advance` holds before asking again.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, assert_never

from ledgerstone.erasure import changes
from ledgerstone.erasure.erasure import Erasure, ReplicaScan, ScanOutcome, Stage, Tombstone
from ledgerstone.erasure.facts import (
    BlockingTxn,
    Facts,
    PartitionFacts,
    has_leftovers,
    has_lost,
    has_passed_once,
    sort_findings,
    with_counts,
)
from ledgerstone.erasure.hosting import unproven_disks
from ledgerstone.erasure.outputs import UnverifiedReason
from ledgerstone.erasure.standing import (
    groups_wait_until_ms,
    missing_groups,
    missing_verifiers,
    verifiers_wait_until_ms,
)
from ledgerstone.erasure.steps import (
    AbortOpen,
    Advance,
    Ask,
    AskVerifiers,
    Issue,
    Nothing,
    ScanStep,
    Search,
    Step,
    WaitStep,
    WriteTombstones,
)
from ledgerstone.time_text import MAX_TIME_MS, iso_time

# A pass that did not do what it was asked for is not asked for again at once, nor a search.
REST_MS: Final = 15_000
# So with a scan that found something; a long one rests longer.
RESCAN_REST_MS: Final = 60_000
_RESCAN_SHARE: Final = 10
# Nor longer than that: the clock may have been set forward during the scan.
_MAX_RESCAN_REST_MS: Final = 86_400_000
_SHOWN: Final = 3
_LOADING: Final = "committed offsets are being loaded: which groups read the topic is not known yet"
_WHY_HELD: Final = {
    UnverifiedReason.MISSED_TOMBSTONE: "missed the tombstone",
    UnverifiedReason.OFFSETS_DELETED: "was deleted before it had read the tombstone",
    UnverifiedReason.FIRST_SEEN_LATER: "was first seen after the tombstone had been removed",
    UnverifiedReason.NOT_READ: "has not read the tombstone",
}


def next_step(erasure: Erasure, facts: Facts, *, now_ms: int) -> Step:
    match erasure.stage:
        case Stage.SCHEDULED:
            return _scheduled(erasure, now_ms)
        case Stage.REQUESTED:
            return _requested(erasure, facts, now_ms)
        case Stage.SEARCHED:
            return _searched(erasure, facts, now_ms)
        case Stage.TOMBSTONED:
            return _tombstoned(erasure, facts, now_ms)
        case Stage.STAMPED:
            return _stamped(erasure, facts, now_ms)
        case Stage.REMOVED:
            return _removed(erasure, facts, now_ms)
        case Stage.UNLINKED:
            return _unlinked(erasure, facts, now_ms)
        case Stage.VERIFIED:
            return _verified(erasure, facts, now_ms)
        case Stage.RECEIPTED | Stage.CANCELLED | Stage.ABANDONED | Stage.NOT_FOUND:
            return Nothing()
        case never:
            assert_never(never)


# -- up to the tombstone ------------------------------------------------------------------------


def _scheduled(erasure: Erasure, now_ms: int) -> Step:
    if now_ms < erasure.due_ms:
        return WaitStep(erasure.due_ms, f"it is scheduled for {iso_time(erasure.due_ms)}")
    return Advance(changes.due(erasure, now_ms=now_ms))


def _requested(erasure: Erasure, facts: Facts, now_ms: int) -> Step:
    if not facts.topic_exists:
        note = f"topic {erasure.topic} was deleted before the key was looked for"
        return Advance(changes.not_found(erasure, note=note, now_ms=now_ms))
    if facts.search is None or facts.search.trouble is not None:
        return _search(facts, now_ms)
    if not facts.search.found and facts.search.unseen is not None:
        return _search(facts, now_ms)
    if not facts.search.found:
        note = f"no partition of {erasure.topic} holds the key; nothing was written"
        return Advance(
            changes.not_found(
                erasure,
                note=note,
                now_ms=now_ms,
                looked_at=facts.search.looked_at,
                ends=facts.search.ends,
            )
        )
    holders = [span.partition for span in facts.search.found]
    return Advance(
        changes.searched(
            erasure,
            targets=[facts.search.home_partition, *holders],
            ends=facts.search.ends,
            now_ms=now_ms,
        )
    )


def _searched(erasure: Erasure, facts: Facts, now_ms: int) -> Step:
    if not facts.topic_exists:
        return Advance(changes.topic_gone(erasure, now_ms=now_ms))
    if facts.search is None or facts.search.trouble is not None:
        # A process before this one may have written some of the tombstones.
        return _search(facts, now_ms)
    # The last counts where a crash made two: what lies before it is gone when it goes.
    present = {each.partition: each for each in sorted(facts.search.own_tombstones)}
    wanted = [present[each] for each in erasure.target_partitions if each in present]
    missing = tuple(each for each in erasure.target_partitions if each not in present)
    if missing:
        return _unless_hindered(facts, WriteTombstones(missing, tuple(wanted)))
    return Advance(changes.tombstoned(erasure, wanted, now_ms=now_ms))


def _search(facts: Facts, now_ms: int) -> Step:
    last = facts.search
    if last is not None and _rests(last.ended_ms, REST_MS, now_ms):
        why = last.trouble or last.unseen
        again = WaitStep(last.ended_ms + REST_MS, f"the search is incomplete: {why}")
        return _unless_hindered(facts, again)
    return _unless_hindered(facts, Search())


# -- the passes -----------------------------------------------------------------------------------


def _tombstoned(erasure: Erasure, facts: Facts, now_ms: int) -> Step:
    unseen = [each for each in _replicas(erasure, facts) if not has_passed_once(*each)]
    if not unseen:
        return Advance(changes.stamped(erasure, now_ms=now_ms))
    since_ms = erasure.stage_ms
    return _have_compacted(erasure, [_Due(*each, since_ms) for each in unseen], now_ms)


def _replicas(erasure: Erasure, facts: Facts) -> Iterator[tuple[Tombstone, PartitionFacts]]:
    for tombstone in erasure.tombstones:
        for about in facts.replicas_of(tombstone.partition):
            yield tombstone, about


def _stamped(erasure: Erasure, facts: Facts, now_ms: int) -> Step:
    left = [each for each in _replicas(erasure, facts) if not has_lost(*each)]
    if not left and not facts.groups_are_known:
        return WaitStep(None, _LOADING)
    if not left:
        return Advance(changes.removed(erasure, now_ms=now_ms))
    # A batch that lost its horizon, as by a truncation, needs its first pass again.
    due = [_Due(tombstone, about, about.horizon_ms or 0) for tombstone, about in left]
    passed = [each for each in due if each.since_ms <= now_ms]
    if passed:
        return _have_compacted(erasure, passed, now_ms)
    first_ms = min(each.since_ms for each in due)
    until = "for ever" if first_ms > MAX_TIME_MS else f"until {iso_time(first_ms)}"
    text = (
        f"tombstones stay readable {until}, delete.retention.ms={facts.delete_retention_ms} "
        "after their first pass"
    )
    return WaitStep(first_ms, text)


class _Due(NamedTuple):
    """A replica with a tombstone, and since when a pass could have helped it."""

    tombstone: Tombstone
    about: PartitionFacts
    since_ms: int


def _have_compacted(erasure: Erasure, due: Sequence[_Due], now_ms: int) -> Step:
    waits: list[WaitStep] = []
    askable, replicas = [], []
    to_abort: list[tuple[int, BlockingTxn]] = []
    for tombstone, about, since_ms in due:
        if erasure.abort_open:
            txns = ((tombstone.partition, each) for each in about.abortable_txns)
            to_abort += [each for each in txns if each not in to_abort]
        name = f"{erasure.topic}-{tombstone.partition}{about.on_node}"
        tried_ms = about.last_pass_started_ms
        if about.pass_is_pending:
            waits.append(WaitStep(None, f"{name}: a pass is asked for or running"))
        elif about.waits_for is not None:
            waits.append(WaitStep(about.opens_at_ms, f"{name}: {about.waits_for}"))
        elif tried_ms is not None and tried_ms > since_ms and _rests(tried_ms, REST_MS, now_ms):
            text = f"{name}: the last pass left the tombstone at offset {tombstone.offset}"
            waits.append(WaitStep(tried_ms + REST_MS, text))
        elif about.node_id is None:
            askable.append(tombstone.partition)
        else:
            replicas.append((tombstone.partition, about.node_id))
    if to_abort:
        return AbortOpen(tuple(to_abort))
    if askable or replicas:
        return Ask(tuple(askable), replicas=tuple(replicas))
    return _first_to_end(waits)


# -- the evidence ---------------------------------------------------------------------------------


def _removed(erasure: Erasure, facts: Facts, now_ms: int) -> Step:
    waits = []
    for partition, about in facts.every_replica():
        name = f"{erasure.topic}-{partition}{about.on_node}"
        if about.is_unknown:
            waits.append(WaitStep(None, f"{name}: {about.waits_for}"))
        elif has_leftovers(erasure, about):
            text = f"{name}: replaced files wait for file.delete.delay.ms="
            text += str(facts.file_delete_delay_ms)
            waits.append(WaitStep(about.leftovers_go_at_ms, text))
    return _first_to_end(waits) if waits else Advance(changes.unlinked(erasure, now_ms=now_ms))


def _unlinked(erasure: Erasure, facts: Facts, now_ms: int) -> Step:
    if facts.sealed_copies_left:
        # They open with the operator's secrets, so they are a form of the key.
        return _unless_hindered(facts, Ask((), journal=True))
    since_ms = erasure.stage_ms
    scans = {scan.node_id: scan for scan in facts.scans if scan.started_ms >= since_ms}
    missing = [node_id for node_id in facts.node_ids if node_id not in scans]
    if missing or not facts.node_ids:
        return _unless_hindered(facts, ScanStep(tuple(sorted(missing))))
    current = [scans[node_id] for node_id in sorted(facts.node_ids)]
    dirty = {scan.node_id: _objection(erasure, scan, facts) for scan in current}
    if any(dirty.values()):
        return _unless_hindered(facts, _scan_again(current, dirty, now_ms))
    unproven = unproven_disks(erasure.hosts, current, erasure.lost_brokers)
    if unproven:
        return _unless_hindered(facts, WaitStep(None, _listed(unproven)))
    findings = sort_findings(erasure, current, facts)
    return Advance(
        changes.verified(
            erasure,
            [with_counts(erasure, scan, facts) for scan in current],
            recreated=findings.recreated,
            elsewhere=findings.elsewhere,
            now_ms=now_ms,
        )
    )


def _objection(erasure: Erasure, scan: ReplicaScan, facts: Facts) -> str | None:
    """Why this scan proves nothing; the first reason."""
    if scan.trouble is not None:
        return f"the scan is incomplete: {scan.trouble}"
    troubles = changes.unaccepted_troubles(scan, erasure.exceptions)
    if troubles:
        return f"the scan is incomplete: {_listed([str(each) for each in troubles])}"
    if not facts.topic_exists and scan.proof is not None and scan.proof.hosted_count:
        # Its records would pass for those of another topic.
        return f"the deleted topic {erasure.topic} is hosted there still"
    if facts.topic_exists and scan.has_namesake:
        # Offsets of another topic say nothing about this one. One of the two brokers is behind.
        return f"records of the key are in another topic {erasure.topic}, that is hosted there"
    older = sort_findings(erasure, [scan], facts).older
    if older:
        lost = [f"{erasure.topic}-{each}" for each in scan.without_tombstone]
        places = _listed([str(each) for each in older])
        advice = f"; {_listed(lost)} has lost the tombstone: erase the key again" if lost else ""
        return f"records of the key are still there: {places}{advice}"
    accepted = changes.accepted_hits(scan, erasure.exceptions)
    if scan.residue > accepted:
        besides = f", {accepted} of them accepted" if accepted else ""
        places = _listed(scan.residue_places)
        return f"{scan.residue} times the key outside of records{besides}: {places}"
    return None


def standing_objection(erasure: Erasure, facts: Facts) -> str | None:
    """What the last scans say against a receipt; it stands while the next one is under way."""
    if erasure.stage is not Stage.UNLINKED:
        return None
    for scan in facts.scans:
        objection = _objection(erasure, scan, facts)
        if scan.started_ms >= erasure.stage_ms and objection is not None:
            return f"node {scan.node_id}: {objection}"
    scanned = {scan.node_id for scan in facts.scans if scan.started_ms >= erasure.stage_ms}
    if scanned >= {*facts.node_ids}:
        unproven = unproven_disks(erasure.hosts, facts.scans, erasure.lost_brokers)
        return _listed(unproven) if unproven else None
    return None


def _scan_again(scans: Sequence[ReplicaScan], dirty: dict[int, str | None], now_ms: int) -> Step:
    waits, again = [], []
    for scan in scans:
        objection = dirty[scan.node_id]
        if objection is None:
            continue
        took_ms = scan.ended_ms - scan.started_ms
        rest_ms = min(max(RESCAN_REST_MS, _RESCAN_SHARE * took_ms), _MAX_RESCAN_REST_MS)
        if _rests(scan.ended_ms, rest_ms, now_ms):
            waits.append(WaitStep(scan.ended_ms + rest_ms, f"node {scan.node_id}: {objection}"))
        else:
            again.append(scan.node_id)
    return ScanStep(tuple(again)) if again else _first_to_end(waits)


def _verified(erasure: Erasure, facts: Facts, now_ms: int) -> Step:
    if any(scan.counts is None for scan in erasure.scans) or _is_one_back(erasure, facts):
        return Advance(changes.to_scan_again(erasure, now_ms=now_ms))
    for each in erasure.evidence:
        if each.outcome is ScanOutcome.RESIDUE:
            text = f"verifier {each.verifier} found the key in {each.output}: {each.evidence}"
            return WaitStep(None, text)
    if not facts.groups_are_known:
        return WaitStep(None, _LOADING)
    return _unless_hindered(facts, _hear_outputs(erasure, now_ms))


def _is_one_back(erasure: Erasure, facts: Facts) -> bool:
    """Whether a broker that was given up is alive, and brings disks that no scan has seen. One that
    was not part of the cluster before copied only what was scanned."""
    scanned = {each.node_id for each in erasure.scans}
    lost = {each.broker_id for each in erasure.lost_brokers}
    return any(each in lost and each not in scanned for each in facts.node_ids)


def _hear_outputs(erasure: Erasure, now_ms: int) -> Step:
    """Known outputs hold the receipt back as long as they may; then they stand in it by name."""
    verifiers, until_ms = missing_verifiers(erasure), verifiers_wait_until_ms(erasure)
    if verifiers and (until_ms is None or now_ms < until_ms):
        return AskVerifiers(verifiers, until_ms)
    groups, until_ms = missing_groups(erasure), groups_wait_until_ms(erasure)
    if groups and now_ms < until_ms:
        names = [f"group {each.name} {_WHY_HELD[each.reason]}" for each in groups]
        text = f"{_listed(names)}; `ledgerstone pipeline erase` gives evidence, else the receipt"
        return WaitStep(until_ms, f"{text} names them as not verified")
    return Issue()


def _unless_hindered(facts: Facts, step: Step) -> Step:
    if facts.in_flight is not None:
        return WaitStep(None, facts.in_flight)
    if facts.trouble is not None:
        return WaitStep(None, facts.trouble)
    return step


def _rests(since_ms: int, rest_ms: int, now_ms: int) -> bool:
    """What seems to lie ahead was before the wall clock was set back, and has rested."""
    return since_ms <= now_ms < since_ms + rest_ms


def _first_to_end(waits: Sequence[WaitStep]) -> WaitStep:
    """The one that ends first; those without an end are told only if there is no other."""
    return min(waits, key=lambda wait: MAX_TIME_MS if wait.until_ms is None else wait.until_ms)


def _listed(places: Sequence[str]) -> str:
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    return "; ".join(places[:_SHOWN]) + more
