"""How each known output of an erasure stands, and which of them hold its receipt back. Grade P.

A receipt names every output with its status; supplements change the status afterwards. A group that
committed past the tombstones is `read`, which is less than `verified`: nobody looked at what it
wrote. Contract: README.md, "Known outputs".
"""

from collections.abc import Iterable, Mapping
from typing import Final

from ledgerstone.erasure.erasure import Erasure, Evidence, ScanOutcome, Stage
from ledgerstone.erasure.outputs import (
    GROUP,
    VERIFIER,
    GroupReading,
    KnownOutput,
    Reading,
    Status,
    UnverifiedReason,
)

# How long a pipeline that missed a tombstone holds the receipt, where the request does not say.
GROUPS_WAIT_MS: Final = 86_400_000

_WORST_FIRST: Final = (
    Reading.MISSED, Reading.GONE, Reading.LATE, Reading.UNREAD, Reading.READ,
)  # fmt: skip
_REASONS: Final = {
    Reading.MISSED: UnverifiedReason.MISSED_TOMBSTONE,
    Reading.GONE: UnverifiedReason.OFFSETS_DELETED,
    Reading.LATE: UnverifiedReason.FIRST_SEEN_LATER,
    Reading.UNREAD: UnverifiedReason.NOT_READ,
}
_OUTCOMES_WORST_FIRST: Final = (ScanOutcome.RESIDUE, ScanOutcome.UNKNOWN, ScanOutcome.CLEAN)


def known_outputs(
    erasure: Erasure, refusals: Mapping[str, str] | None = None
) -> tuple[KnownOutput, ...]:
    """Before the receipt; `refusals` says what verifiers gave instead of evidence."""
    heard = dict.fromkeys(each.verifier for each in erasure.evidence)
    verifiers = [
        _verifier(erasure, name, (refusals or {}).get(name))
        for name in sorted({*erasure.awaited_verifiers, *heard})
    ]
    groups: dict[str, list[GroupReading]] = {}
    for each in erasure.readings:
        groups.setdefault(each.group, []).append(each)
    for evidence in erasure.evidence:
        if evidence.group:
            groups.setdefault(evidence.group, [])
    return (*verifiers, *(_group(erasure, name, groups[name]) for name in sorted(groups)))


def _verifier(erasure: Erasure, name: str, refusal: str | None) -> KnownOutput:
    worst = worst_of(each.outcome for each in erasure.evidence if each.verifier == name)
    if worst is not None:
        return _by_outcome(VERIFIER, name, worst)
    reason = UnverifiedReason.NEVER_ANSWERED if refusal is None else UnverifiedReason.REFUSED
    return KnownOutput(VERIFIER, name, Status.NOT_VERIFIED, reason, refusal or "")


def _group(erasure: Erasure, name: str, readings: list[GroupReading]) -> KnownOutput:
    worst = worst_of(each.outcome for each in evidence_of_group(erasure, name))
    reading = min(readings, key=lambda each: _WORST_FIRST.index(each.reading), default=None)
    if worst is not None:
        output = _by_outcome(GROUP, name, worst)
    elif reading is None:
        output = KnownOutput(GROUP, name, Status.NOT_VERIFIED, UnverifiedReason.FIRST_SEEN_LATER)
    elif reading.reading is Reading.READ:
        output = KnownOutput(GROUP, name, Status.READ)
    else:
        output = KnownOutput(GROUP, name, Status.NOT_VERIFIED, _REASONS[reading.reading])
    if reading is None:
        return output
    return output._replace(
        partition=reading.partition,
        tombstone_offset=reading.offset,
        committed_offset=reading.committed_offset,
    )


def evidence_of_group(erasure: Erasure, group: str) -> list[Evidence]:
    """What was said before the first pass was over does not count for a group: older values were
    still there to be read, and could be written again."""
    stamped_ms = erasure.reached_ms(Stage.STAMPED)
    if stamped_ms is None:
        return []
    return [
        each for each in erasure.evidence if each.group == group and each.given_ms >= stamped_ms
    ]


def worst_of(outcomes: Iterable[ScanOutcome]) -> ScanOutcome | None:
    """None where nothing was said."""
    return min(outcomes, key=_OUTCOMES_WORST_FIRST.index, default=None)


def _by_outcome(kind: str, name: str, worst: ScanOutcome) -> KnownOutput:
    match worst:
        case ScanOutcome.CLEAN:
            return KnownOutput(kind, name, Status.VERIFIED)
        case ScanOutcome.UNKNOWN:
            return KnownOutput(kind, name, Status.NOT_VERIFIED, UnverifiedReason.COULD_NOT_TELL)
        case ScanOutcome.RESIDUE:
            return KnownOutput(kind, name, Status.NOT_VERIFIED, UnverifiedReason.RESIDUE)


# -- what holds the receipt -----------------------------------------------------------------------


def missing_verifiers(erasure: Erasure) -> tuple[str, ...]:
    heard = [each.verifier for each in erasure.evidence]
    return tuple(name for name in erasure.awaited_verifiers if name not in heard)


def missing_groups(erasure: Erasure) -> list[KnownOutput]:
    """Those that could give evidence, and did not read the tombstone."""
    answering = dict.fromkeys(each.group for each in erasure.readings if each.can_answer)
    return [
        each
        for each in known_outputs(erasure)
        if each.kind == GROUP
        and each.name in answering
        and each.status is Status.NOT_VERIFIED
        and not evidence_of_group(erasure, each.name)
    ]


def verifiers_wait_until_ms(erasure: Erasure) -> int | None:
    """None: for ever, since nobody set a bound."""
    if erasure.outputs_wait_ms is None:
        return None
    return _verified_ms(erasure) + erasure.outputs_wait_ms


def groups_wait_until_ms(erasure: Erasure) -> int:
    wait_ms = erasure.outputs_wait_ms
    return _verified_ms(erasure) + (GROUPS_WAIT_MS if wait_ms is None else wait_ms)


def _verified_ms(erasure: Erasure) -> int:
    verified_ms = erasure.reached_ms(Stage.VERIFIED)
    return erasure.stage_ms if verified_ms is None else verified_ms


# -- after the receipt ----------------------------------------------------------------------------


def standing_outputs(erasure: Erasure) -> tuple[KnownOutput, ...]:
    """As the receipt has them, and as supplements have changed that since."""
    known = {(each.kind, each.name): each for each in erasure.outputs}
    for each in erasure.supplements:
        for kind, name in covered(each.verifier, each.group):
            before = known.get((kind, name))
            now = _by_outcome(kind, name, ScanOutcome(each.verdict))
            if before is not None:
                now = now._replace(
                    partition=before.partition,
                    tombstone_offset=before.tombstone_offset,
                    committed_offset=before.committed_offset,
                )
            known[kind, name] = now
    return tuple(known.values())


def not_verified(erasure: Erasure) -> int:
    """How many outputs stand as not verified; those that the receipt only counts among them."""
    listed = sum(each.status is Status.NOT_VERIFIED for each in standing_outputs(erasure))
    return listed + (erasure.unlisted_groups if erasure.receipt is not None else 0)


def covered(verifier: str, group: str) -> tuple[tuple[str, str], ...]:
    """Which outputs a piece of evidence speaks for."""
    return ((GROUP, group), (VERIFIER, verifier)) if group else ((VERIFIER, verifier),)
