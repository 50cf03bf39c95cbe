"""Every way in which an erasure becomes another one. Grade P.

Each function takes an `Erasure` and returns its successor, for the journal. A transition that is
not in the table is our own mistake, an InvariantViolation, except where a user asked for it.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from ledgerstone.erasure.audit_headers import MIN_TELLING_KEY_BYTES, check_text
from ledgerstone.erasure.erasure import (
    NEEDS_KEY,
    TRANSITIONS,
    Erasure,
    Evidence,
    PartitionEnd,
    RecordSpan,
    ReplicaScan,
    Stage,
    Tombstone,
)
from ledgerstone.erasure.key_print import hmac_of
from ledgerstone.errors import InvalidRequest, InvariantViolation

MAX_EVIDENCE: Final = 256
MAX_EVIDENCE_BYTES: Final = 4096


def due(erasure: Erasure, *, now_ms: int) -> Erasure:
    return _moved(erasure, Stage.REQUESTED, now_ms)


def searched(
    erasure: Erasure, *, targets: Iterable[int], ends: Iterable[PartitionEnd], now_ms: int
) -> Erasure:
    """Written down before the first tombstone, so that a crash between the two is known."""
    partitions = tuple(sorted(dict.fromkeys(targets)))
    if not partitions:
        raise InvariantViolation(f"{erasure.id}: searched, but no partition gets a tombstone")
    found = replace(erasure, target_partitions=partitions, searched_ends=tuple(sorted(ends)))
    return _moved(found, Stage.SEARCHED, now_ms)


def not_found(erasure: Erasure, *, note: str, now_ms: int) -> Erasure:
    return _moved(replace(erasure, note=note), Stage.NOT_FOUND, now_ms)


def tombstoned(erasure: Erasure, tombstones: Iterable[Tombstone], *, now_ms: int) -> Erasure:
    """From here on nobody knows the key in clear."""
    written = tuple(sorted(tombstones))
    partitions = tuple(tombstone.partition for tombstone in written)
    if partitions != erasure.target_partitions:
        raise InvariantViolation(
            f"{erasure.id}: tombstones in {partitions}, due in {erasure.target_partitions}"
        )
    return _moved(replace(erasure, tombstones=written), Stage.TOMBSTONED, now_ms)


def topic_gone(erasure: Erasure, *, now_ms: int) -> Erasure:
    """The topic went between the search and the tombstones: nothing is left to write them to."""
    return _moved(replace(erasure, target_partitions=()), Stage.TOMBSTONED, now_ms)


def stamped(erasure: Erasure, *, now_ms: int) -> Erasure:
    return _moved(erasure, Stage.STAMPED, now_ms)


def removed(erasure: Erasure, *, now_ms: int) -> Erasure:
    return _moved(erasure, Stage.REMOVED, now_ms)


def unlinked(erasure: Erasure, *, now_ms: int) -> Erasure:
    return _moved(erasure, Stage.UNLINKED, now_ms)


def verified(
    erasure: Erasure,
    scans: Iterable[ReplicaScan],
    *,
    recreated: Iterable[RecordSpan],
    elsewhere: Iterable[RecordSpan],
    now_ms: int,
) -> Erasure:
    """What the scans found of other lives and other topics is told apart once and kept so."""
    ordered = sorted(scans, key=lambda scan: scan.node_id)
    if not ordered or any(scan.residue or scan.trouble for scan in ordered):
        raise InvariantViolation(f"{erasure.id}: {len(ordered)} scans, not all complete and clean")
    proven = replace(
        erasure,
        scans=tuple(replace(scan, records=()) for scan in ordered),
        recreated=tuple(sorted(dict.fromkeys(recreated))),
        elsewhere=tuple(sorted(dict.fromkeys(elsewhere))),
    )
    return _moved(proven, Stage.VERIFIED, now_ms)


def receipted(erasure: Erasure, receipt: str, *, now_ms: int) -> Erasure:
    return _moved(replace(erasure, receipt=receipt), Stage.RECEIPTED, now_ms)


# -- asked for by users -----------------------------------------------------------------------


def cancelled(erasure: Erasure, *, by: str, salt: bytes, now_ms: int) -> Erasure:
    """Possible until tombstones are about to be written."""
    check_text("cancelled by", by)
    _check_keeps_secret("cancelled by", by, erasure, salt)
    if Stage.CANCELLED not in TRANSITIONS[erasure.stage]:
        raise InvalidRequest(
            f"{erasure.id} is {erasure.stage.value} and can no longer be cancelled"
        )
    return _moved(replace(erasure, note=f"cancelled by {by}"), Stage.CANCELLED, now_ms)


def with_evidence(erasure: Erasure, evidence: Evidence, *, salt: bytes) -> Erasure:
    """A verifier's newer word about an output replaces its older one."""
    if erasure.is_over:
        raise InvalidRequest(f"{erasure.id} is {erasure.stage.value} and takes no more evidence")
    check_text("verifier", evidence.verifier)
    check_text("output", evidence.output)
    check_text("evidence", evidence.evidence, max_bytes=MAX_EVIDENCE_BYTES)
    for what in ("verifier", "output", "evidence"):
        _check_keeps_secret(what, getattr(evidence, what), erasure, salt)
    words = {(each.verifier, each.output): each for each in erasure.evidence}
    words[evidence.verifier, evidence.output] = evidence
    if len(words) > MAX_EVIDENCE:
        raise InvalidRequest(f"{erasure.id} has {MAX_EVIDENCE} pieces of evidence, the most it may")
    return replace(erasure, evidence=tuple(words[name] for name in sorted(words)))


def _check_keeps_secret(what: str, text: str, erasure: Erasure, salt: bytes) -> None:
    """The key is known by its print alone, so every part of its length is printed and compared."""
    data, length = text.encode(), erasure.key_print.length
    if length < MIN_TELLING_KEY_BYTES:
        return
    for start in range(len(data) - length + 1):
        if hmac_of(salt, erasure.topic, data[start : start + length]) == erasure.key_print.hmac:
            raise InvalidRequest(
                f"{erasure.id}: {what} contains the key, at byte {start}, and would be kept"
            )


def _moved(erasure: Erasure, stage: Stage, now_ms: int) -> Erasure:
    if stage not in TRANSITIONS[erasure.stage]:
        raise InvariantViolation(
            f"{erasure.id}: from {erasure.stage.value} no way leads to {stage.value}"
        )
    # The clock may have been set back; the order of the stages is what the receipt shows.
    at_ms = max(now_ms, erasure.stage_ms)
    return replace(
        erasure,
        stage=stage,
        stage_times=(*erasure.stage_times, (stage, at_ms)),
        sealed_key=erasure.sealed_key if stage in NEEDS_KEY else None,
    )
