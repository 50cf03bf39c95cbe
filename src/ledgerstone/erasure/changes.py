"""Every way in which an erasure becomes another one. Grade P.

Each function takes an `Erasure` and returns its successor, for the journal. A transition that is
not in the table is our own mistake, an InvariantViolation, except where a user asked for it.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from ledgerstone.dataclasses import replace
from ledgerstone.erasure.audit_headers import MIN_TELLING_KEY_BYTES, check_text
from ledgerstone.erasure.erasure import (
    NEEDS_KEY,
    TRANSITIONS,
    Acceptance,
    AskedAbort,
    Erasure,
    Evidence,
    FileTrouble,
    HostDisk,
    LostBroker,
    PartitionEnd,
    RecordSpan,
    ReplicaScan,
    SearchedFiles,
    Stage,
    Tombstone,
)
from ledgerstone.erasure.key_print import hmac_of
from ledgerstone.erasure.outputs import KnownOutput
from ledgerstone.erasure.readings import shown_name
from ledgerstone.errors import InvalidRequest, InvariantViolation

MAX_EVIDENCE: Final = 256
MAX_EXCEPTIONS: Final = 100
MAX_ASKED_ABORTS: Final = 256
# Of spans of records that are kept; their records are counted all the same.
MAX_SPANS: Final = 1000
MAX_EVIDENCE_BYTES: Final = 4096
_MAX_TROUBLE: Final = 500
_HOSTED: Final = (
    Stage.SEARCHED, Stage.TOMBSTONED, Stage.STAMPED, Stage.REMOVED, Stage.UNLINKED,
)  # fmt: skip
_HIDDEN: Final = "…".encode()


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


def not_found(
    erasure: Erasure,
    *,
    note: str,
    now_ms: int,
    looked_at: SearchedFiles | None = None,
    ends: Iterable[PartitionEnd] = (),
) -> Erasure:
    """`looked_at` is what proves it; without it nothing is signed."""
    kept = replace(erasure, note=note, searched=looked_at, searched_ends=tuple(sorted(ends)))
    return _moved(kept, Stage.NOT_FOUND, now_ms)


def with_statement(erasure: Erasure, receipt: str) -> Erasure:
    """The signed word that a key is nowhere."""
    if erasure.stage is not Stage.NOT_FOUND:
        raise InvariantViolation(f"{erasure.id} is {erasure.stage.value}, not not_found")
    return replace(erasure, receipt=receipt)


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


def aborting(erasure: Erasure, txns: Iterable[AskedAbort]) -> Erasure:
    """Written down before anybody is asked to abort, so that no abort is unaccounted for. One that
    is asked for again stands in it once."""
    known = {each[:3]: None for each in erasure.asked_aborts}
    fresh = [each for each in txns if each[:3] not in known]
    kept = (*erasure.asked_aborts, *fresh)[:MAX_ASKED_ABORTS]
    return replace(erasure, asked_aborts=kept)


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
    """What the scans found of other lives and other topics is told apart once and kept so.

    Each scan comes with the counts of what it found."""
    ordered = sorted(scans, key=lambda scan: scan.node_id)
    if not ordered or not all(_is_clean(scan, erasure.exceptions) for scan in ordered):
        raise InvariantViolation(f"{erasure.id}: {len(ordered)} scans, not all complete and clean")
    proven = replace(
        erasure,
        scans=tuple(replace(scan, records=(), hidden_topics=()) for scan in ordered),
        recreated=tuple(sorted(dict.fromkeys(recreated))[:MAX_SPANS]),
        elsewhere=tuple(sorted(dict.fromkeys(elsewhere))[:MAX_SPANS]),
    )
    return _moved(proven, Stage.VERIFIED, now_ms)


def _is_clean(scan: ReplicaScan, exceptions: Sequence[Acceptance]) -> bool:
    return (
        scan.counts is not None
        and scan.counts.older == 0
        and scan.trouble is None
        and not unaccepted_troubles(scan, exceptions)
        and scan.residue == accepted_hits(scan, exceptions)
    )


def accepted_hits(scan: ReplicaScan, exceptions: Sequence[Acceptance]) -> int:
    """Residue in files that an operator accepted. More than was accepted is not accepted at all:
    it is something else by then."""
    allowed = {each.file: each.hits for each in exceptions if _is_of(each, scan)}
    return sum(each.hits for each in scan.residue_files if each.hits <= allowed.get(each.file, -1))


def _is_of(exception: Acceptance, scan: ReplicaScan) -> bool:
    return exception.node_id in (None, scan.node_id)


def unaccepted_troubles(
    scan: ReplicaScan, exceptions: Sequence[Acceptance]
) -> tuple[FileTrouble, ...]:
    accepted = [each.file for each in exceptions if each.trouble and _is_of(each, scan)]
    return tuple(each for each in scan.troubles if each.file not in accepted)


def to_scan_again(erasure: Erasure, *, now_ms: int) -> Erasure:
    """Its scan is from before records and names were counted, or a broker that was given up is back
    and owes one: it cannot be signed."""
    return _moved(replace(erasure, scans=()), Stage.UNLINKED, now_ms)


def receipted(
    erasure: Erasure, receipt: str, *, now_ms: int, outputs: Iterable[KnownOutput] = ()
) -> Erasure:
    """`outputs` are those that the receipt names."""
    # How each group stood to each tombstone has been summed up in them.
    signed = replace(erasure, receipt=receipt, outputs=tuple(outputs), readings=())
    return _moved(signed, Stage.RECEIPTED, now_ms)


# -- asked for by users -----------------------------------------------------------------------


def cancelled(erasure: Erasure, *, by: str, salt: bytes, now_ms: int) -> Erasure:
    """Possible until tombstones are about to be written."""
    check_text("cancelled by", by)
    _check_keeps_secret("cancelled by", by, erasure, salt)
    if Stage.CANCELLED not in TRANSITIONS[erasure.stage]:
        hint = "; it can be abandoned" if Stage.ABANDONED in TRANSITIONS[erasure.stage] else ""
        raise InvalidRequest(
            f"{erasure.id} is {erasure.stage.value} and can no longer be cancelled{hint}"
        )
    return _moved(replace(erasure, note=f"cancelled by {by}"), Stage.CANCELLED, now_ms)


def abandoned(erasure: Erasure, *, by: str, reason: str, salt: bytes, now_ms: int) -> Erasure:
    """Given up where cancelling no longer helps: what was written stays, and nothing is proven."""
    check_text("abandoned by", by)
    check_text("reason", reason)
    for what, text in (("abandoned by", by), ("reason", reason)):
        _check_keeps_secret(what, text, erasure, salt)
    if not reason.strip():
        raise InvalidRequest(f"{erasure.id}: a reason is needed to abandon it")
    if Stage.ABANDONED not in TRANSITIONS[erasure.stage]:
        hint = "; it can be cancelled" if Stage.CANCELLED in TRANSITIONS[erasure.stage] else ""
        raise InvalidRequest(f"{erasure.id} is {erasure.stage.value}, nothing to abandon{hint}")
    note = f"abandoned in stage {erasure.stage.value} by {by}: {reason}"
    return _moved(replace(erasure, note=note), Stage.ABANDONED, now_ms)


def with_exception(
    erasure: Erasure,
    scan: ReplicaScan | None,
    *,
    file: str,
    reason: str,
    by: str,
    salt: bytes,
    now_ms: int,
) -> Erasure:
    """An operator accepts what the last scan found in one file; the receipt tells it."""
    if erasure.stage is not Stage.UNLINKED or scan is None:
        raise InvalidRequest(
            f"{erasure.id} is {erasure.stage.value}: no scan has found anything to accept yet"
        )
    for what, text in (("reason", reason), ("accepted by", by)):
        check_text(what, text)
        _check_keeps_secret(what, text, erasure, salt)
    if not reason.strip() or not by.strip():
        raise InvalidRequest(f"{erasure.id}: an exception needs a reason and a name")
    hits = next((each.hits for each in scan.residue_files if each.file == file), 0)
    trouble = next((each.why for each in scan.troubles if each.file == file), "")
    if not hits and not trouble:
        raise InvalidRequest(f"{erasure.id}: the last scan found nothing to accept in {file[:200]}")
    known = {(each.file, each.node_id or 0): each for each in erasure.exceptions}
    # One that an older broker took counts for every node; this one takes its place.
    known.pop((file, 0), None)
    known[file, scan.node_id] = Acceptance(
        file=file,
        hits=hits,
        trouble=trouble[:_MAX_TROUBLE],
        reason=reason,
        by=by,
        at_ms=now_ms,
        node_id=scan.node_id,
    )
    if len(known) > MAX_EXCEPTIONS:
        raise InvalidRequest(f"{erasure.id} has {MAX_EXCEPTIONS} exceptions, the most it may")
    return replace(erasure, exceptions=tuple(known[name] for name in sorted(known)))


def with_lost_broker(
    erasure: Erasure, *, broker_id: int, reason: str, by: str, salt: bytes, now_ms: int
) -> Erasure:
    """An operator says that a broker's disks will never be scanned; the receipt names it."""
    if Stage.CANCELLED in TRANSITIONS[erasure.stage] or erasure.is_over:
        hint = "; cancel it instead" if not erasure.is_over else ""
        raise InvalidRequest(f"{erasure.id} is {erasure.stage.value}: no scan is due{hint}")
    for what, text in (("reason", reason), ("accepted by", by)):
        check_text(what, text)
        _check_keeps_secret(what, text, erasure, salt)
    if not reason.strip() or not by.strip():
        raise InvalidRequest(f"{erasure.id}: an exception needs a reason and a name")
    known = {each.broker_id: each for each in erasure.lost_brokers}
    known[broker_id] = LostBroker(broker_id=broker_id, reason=reason, by=by, at_ms=now_ms)
    if len(known) > MAX_EXCEPTIONS:
        raise InvalidRequest(f"{erasure.id} has {MAX_EXCEPTIONS} exceptions, the most it may")
    return replace(erasure, lost_brokers=tuple(known[each] for each in sorted(known)))


def with_hosts(erasure: Erasure, disks: Iterable[HostDisk]) -> Erasure:
    """Disks that may hold the key, from the search on until the scans."""
    if erasure.stage not in _HOSTED:
        return erasure
    known = dict.fromkeys((*erasure.hosts, *disks))
    if len(known) == len(erasure.hosts):
        return erasure
    return replace(erasure, hosts=tuple(sorted(known)))


def with_evidence(erasure: Erasure, evidence: Evidence, *, salt: bytes) -> Erasure:
    """A verifier's newer word about an output replaces its older one."""
    if erasure.is_over:
        raise InvalidRequest(f"{erasure.id} is {erasure.stage.value} and takes no more evidence")
    evidence = checked_evidence(erasure, evidence, salt=salt)
    words = {(each.verifier, each.output, each.group): each for each in erasure.evidence}
    words[evidence.verifier, evidence.output, evidence.group] = evidence
    if len(words) > MAX_EVIDENCE:
        raise InvalidRequest(f"{erasure.id} has {MAX_EVIDENCE} pieces of evidence, the most it may")
    return replace(erasure, evidence=tuple(words[name] for name in sorted(words)))


def checked_evidence(erasure: Erasure, evidence: Evidence, *, salt: bytes) -> Evidence:
    """Its texts are short and do not give the key away; a group goes by the name it is listed
    under, since nobody chose that name for the evidence."""
    check_text("verifier", evidence.verifier)
    check_text("output", evidence.output)
    check_text("evidence", evidence.evidence, max_bytes=MAX_EVIDENCE_BYTES)
    for what in ("verifier", "output", "evidence"):
        _check_keeps_secret(what, getattr(evidence, what), erasure, salt)
    return replace(evidence, group=group_name(evidence.group, erasure, salt))


def group_name(group_id: str, erasure: Erasure, salt: bytes) -> str:
    """As journal and receipt have it: cut where it is long, and without the key."""
    data, length = shown_name(group_id).encode(), erasure.key_print.length
    if length < MIN_TELLING_KEY_BYTES:
        return data.decode()
    start = 0
    while start <= len(data) - length:
        if _is_key(data[start : start + length], erasure, salt):
            data = data[:start] + _HIDDEN + data[start + length :]
            start += len(_HIDDEN)
        else:
            start += 1
    return data.decode(errors="replace")


def _is_key(data: bytes, erasure: Erasure, salt: bytes) -> bool:
    return hmac_of(salt, erasure.topic, data) == erasure.key_print.hmac


def _check_keeps_secret(what: str, text: str, erasure: Erasure, salt: bytes) -> None:
    """The key is known by its print alone, so every part of its length is printed and compared."""
    data, length = text.encode(), erasure.key_print.length
    if length < MIN_TELLING_KEY_BYTES:
        return
    for start in range(len(data) - length + 1):
        if _is_key(data[start : start + length], erasure, salt):
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
