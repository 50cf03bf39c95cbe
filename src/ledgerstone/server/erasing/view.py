"""What people and monitors are shown of erasures: as JSON, as metrics, as complaints. Grade D.

Nothing here knows a key: an erasure is shown by its id and the keyed hash that its receipt has.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ledgerstone.dataclasses import asdict
from ledgerstone.erasure.changes import accepted_hits
from ledgerstone.erasure.erasure import TRANSITIONS, Erasure, ReplicaScan, ScanOutcome, Stage
from ledgerstone.erasure.facts import Facts, sort_findings
from ledgerstone.erasure.journal import ERASURES_TOPIC
from ledgerstone.erasure.outputs import KnownOutput
from ledgerstone.erasure.standing import known_outputs, not_verified, standing_outputs
from ledgerstone.server.erasing.work import ErasingWork
from ledgerstone.server.metrics import MetricSample
from ledgerstone.time_text import iso_time

RESIDUE_FOUND: Final = "residue found"
_SHOWN_COMPLAINTS: Final = 20


def status_of(erasing: ErasingWork, erasure: Erasure) -> str:
    """The stage in one word, except where what was found keeps the receipt away."""
    is_found = False
    if erasure.stage is Stage.UNLINKED:
        scans = list(erasing.replica_scans.get(erasure.id, {}).values())
        is_found = bool(sort_findings(erasure, scans, Facts()).older) or any(
            scan.residue > accepted_hits(scan, erasure.exceptions) for scan in scans
        )
    elif erasure.stage is Stage.VERIFIED:
        is_found = any(each.outcome is ScanOutcome.RESIDUE for each in erasure.evidence)
    return RESIDUE_FOUND if is_found else erasure.stage.value


def erasure_json(erasing: ErasingWork, erasure: Erasure) -> dict[str, Any]:
    outlook = erasing.outlooks.get(erasure.id)
    expected = outlook.forecast if outlook else None
    stopped = erasing.trouble if not erasure.is_over else None
    return {
        "id": erasure.id,
        "topic": erasure.topic,
        "key_hmac_sha256": erasure.key_print.hmac.hex(),
        "reason": erasure.reason,
        "requested_by": erasure.requested_by,
        "requested_ms": erasure.requested_ms,
        "due_ms": erasure.due_ms,
        "deadline_ms": erasure.deadline_ms,
        "stage": erasure.stage.value,
        "status": status_of(erasing, erasure),
        "stages": [{"stage": stage.value, "at_ms": at_ms} for stage, at_ms in erasure.stage_times],
        "is_over": erasure.is_over,
        "waits_for": stopped or (outlook.waits_for if outlook else None),
        "waits_until_ms": outlook.until_ms if outlook else None,
        "expected_done_ms": expected.expected_done_ms if expected else None,
        "will_miss": bool(expected and expected.will_miss),
        "is_overdue": is_overdue(erasing, erasure),
        "because": expected.because if expected else "",
        "blocked_by": expected.blocked_by if expected else None,
        "blocked_since_ms": erasing.blocked_since.get(erasure.id),
        "met_deadline": erasure.met_deadline,
        "tombstones": [each._asdict() for each in erasure.tombstones],
        "abort_open": erasure.abort_open,
        "aborted_transactions": [each._asdict() for each in erasure.asked_aborts],
        "recreated": [each._asdict() for each in erasure.recreated],
        "elsewhere": [each._asdict() for each in erasure.elsewhere],
        "awaited_verifiers": list(erasure.awaited_verifiers),
        "evidence": [
            {
                "verifier": each.verifier,
                "group": each.group,
                "output": each.output,
                "verdict": each.outcome.value,
            }
            for each in erasure.evidence
        ],
        "outputs": [_output_json(each) for each in _outputs(erasing, erasure)],
        "outputs_not_verified": not_verified(erasure),
        "supplements": [
            {name: value for name, value in each._asdict().items() if name != "document"}
            for each in erasure.supplements
        ],
        "found": _found_json(erasing.replica_scans.get(erasure.id)),
        "exceptions": [asdict(each) for each in erasure.exceptions],
        "lost_brokers": [asdict(each) for each in erasure.lost_brokers],
        "brokers": _brokers_json(erasing, erasure),
        "coordinator": erasing.config.node_id,
        "on_virtual_clock": erasure.on_virtual_clock,
        "note": erasure.note,
        "has_receipt": erasure.receipt is not None,
        "is_cancellable": stopped is None and Stage.CANCELLED in TRANSITIONS[erasure.stage],
    }


def _outputs(erasing: ErasingWork, erasure: Erasure) -> tuple[KnownOutput, ...]:
    """As receipt and supplements have them; before, as they stand by now."""
    if erasure.receipt is not None:
        return standing_outputs(erasure)
    return known_outputs(erasing.watch.remembered(erasure))


def _output_json(output: KnownOutput) -> dict[str, Any]:
    return {**output._asdict(), "status": output.status.value, "reason": output.reason.value}


def _found_json(scans: Mapping[int, ReplicaScan] | None) -> dict[str, Any] | None:
    """What the last scans found that may stand in the way: file by file, as it can be accepted."""
    if not scans:
        return None
    every = [scans[each] for each in sorted(scans)]
    return {
        "residue": sum(scan.residue for scan in every),
        "residue_files": [
            {**each._asdict(), "node_id": scan.node_id}
            for scan in every
            for each in scan.residue_files
        ],
        "troubles": [
            {**each._asdict(), "node_id": scan.node_id} for scan in every for each in scan.troubles
        ],
        "mentions": sum(scan.mentions for scan in every),
        "names": [each._asdict() for scan in every for each in scan.names],
    }


def _brokers_json(erasing: ErasingWork, erasure: Erasure) -> list[dict[str, Any]]:
    """Every broker that was scanned, or will be, and why one was not yet."""
    scans = {scan.node_id: scan for scan in erasure.scans}
    scans |= erasing.replica_scans.get(erasure.id, {})
    known = {each.broker_id for each in erasure.hosts} | scans.keys()
    return [
        {
            "broker": each,
            "is_scanned": each in scans and scans[each].trouble is None,
            "trouble": scans[each].trouble if each in scans else erasing.others.why_silent(each),
        }
        for each in sorted(known)
    ]


def is_overdue(erasing: ErasingWork, erasure: Erasure) -> bool:
    """What counts for a deadline is `verified`; a receipt may come later."""
    if erasure.is_over or erasure.stage is Stage.VERIFIED or erasure.deadline_ms is None:
        return False
    return erasing.clock.now_ms() > erasure.deadline_ms


def complaints(erasing: ErasingWork) -> Iterator[str]:
    """Why the broker should not be called ready."""
    if erasing.trouble is not None and not erasing.is_elsewhere:
        yield f"erasures: {erasing.trouble}"
    if erasing.journal.mark_trouble is not None:
        yield f"erasures: {erasing.journal.mark_trouble}"
    yield from _breaks(erasing)
    unfinished = [erasing.journal.get(each) for each in erasing.journal.unfinished]
    overdue = [each for each in unfinished if is_overdue(erasing, each)]
    for each in overdue[:_SHOWN_COMPLAINTS]:
        assert each.deadline_ms is not None
        outlook = erasing.outlooks.get(each.id)
        why = outlook.reason if outlook else "it goes on"
        due = iso_time(each.deadline_ms)
        yield f"{each.id}: {status_of(erasing, each)}, was due {due}: {why}"
    if len(overdue) > _SHOWN_COMPLAINTS:
        yield f"erasures: {len(overdue) - _SHOWN_COMPLAINTS} more are overdue"
    yield from _blocked(erasing, [each for each in unfinished if not is_overdue(erasing, each)])


def _blocked(erasing: ErasingWork, erasures: list[Erasure]) -> Iterator[str]:
    """Those that waiting does not help. One that only takes longer than was asked for is counted
    in the metrics: whoever asked was told."""
    outlooks = erasing.outlooks
    found = []
    for each in erasures:
        outlook = outlooks.get(each.id)
        if outlook is not None and outlook.forecast.will_miss and outlook.forecast.blocked_by:
            found.append((each, outlook.forecast.blocked_by))
    for each, reason in found[:_SHOWN_COMPLAINTS]:
        assert each.deadline_ms is not None
        due = iso_time(each.deadline_ms)
        yield f"{each.id}: {status_of(erasing, each)}, at risk, is due {due}: {reason}"
    if len(found) > _SHOWN_COMPLAINTS:
        yield f"erasures: {len(found) - _SHOWN_COMPLAINTS} more are at risk"


def _breaks(erasing: ErasingWork) -> Iterator[str]:
    found = [each for each in erasing.journal.breaks if each.is_open]
    for each in found[:_SHOWN_COMPLAINTS]:
        yield f"the journal of erasures, {ERASURES_TOPIC}: {each.reason}"
    if found:
        yield (
            f"the journal of erasures: {len(found)} of such, evidence may be missing; "
            "`ledgerstone erasures journal --acknowledge` once you know why"
        )


def journal_json(erasing: ErasingWork) -> dict[str, Any]:
    """How far the journal has gone, and what was ever wrong with it."""
    journal = erasing.journal
    return {
        "now_ms": erasing.clock.now_ms(),
        "sequence": None if journal.chain is None else journal.chain.sequence,
        "erasures": len(journal.book),
        "trouble": erasing.trouble or journal.mark_trouble,
        "breaks": [asdict(each) for each in journal.breaks],
    }


def samples(erasing: ErasingWork) -> Iterator[MetricSample]:
    erasures = list(erasing.journal.book)
    counts = dict.fromkeys(Stage, 0)
    for each in erasures:
        counts[each.stage] += 1
    for stage, count in counts.items():
        labels = (("stage", stage.value),)
        yield MetricSample("ledgerstone_erasures", "gauge", "Erasures, by stage.", count, labels)
    for name, value, text in (
        ("overdue", _count(is_overdue(erasing, each) for each in erasures),
         "Erasures past their deadline that are not done."),
        ("at_risk", _count(each.forecast.will_miss for each in erasing.outlooks.values()),
         "Erasures that miss their deadline as things are, overdue ones included."),
        ("blocked", len(erasing.blocked_since),
         "Erasures that wait for something that does not end by waiting."),
        ("residue_found", _count(status_of(erasing, each) == RESIDUE_FOUND for each in erasures),
         "Erasures that get no receipt because the key was found again."),
        ("stopped", int(erasing.trouble is not None and not erasing.is_elsewhere),
         "1 while no erasure can go on, as without the secrets file."),
        ("journal_breaks", _count(each.is_open for each in erasing.journal.breaks),
         "What was found wrong with the journal of erasures and nobody has acknowledged."),
    ):  # fmt: skip
        yield MetricSample(f"ledgerstone_erasures_{name}", "gauge", text, value)
    deadlines = [each.deadline_ms for each in erasures if not each.is_over]
    next_ms = min((each for each in deadlines if each is not None), default=None)
    if next_ms is not None:
        text = "The earliest deadline of an erasure that is not done, in seconds since the epoch."
        yield MetricSample(
            "ledgerstone_erasures_next_deadline_seconds", "gauge", text, next_ms / 1000
        )


def _count(answers: Iterable[bool]) -> int:
    return sum(1 for each in answers if each)
