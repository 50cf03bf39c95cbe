"""Making a receipt: what is known of an erasure that is proven, signed. Grade P.

Every number in it was counted by a scan or a search; what was not looked at is listed under
`not_covered`. The form, and its check, are in `receipt`. Contract: README.md, "Receipts".
"""

from collections.abc import Iterator, Sequence
from typing import Any

from ledgerstone.erasure.changes import accepted_hits
from ledgerstone.erasure.erasure import (
    Erasure,
    Evidence,
    HostDisk,
    KindCount,
    PartitionScan,
    RecordSpan,
    ReplicaScan,
    ScanOutcome,
    ScanProof,
    Stage,
)
from ledgerstone.erasure.outputs import KnownOutput, Status
from ledgerstone.erasure.receipt import VERSION, canonical
from ledgerstone.erasure.receipt_words import (
    ACCEPTED,
    ELSEWHERE,
    FORMER,
    KIND_ERASURE,
    KIND_NOT_FOUND,
    LOST,
    MENTIONS_ARE,
    NAMES_ARE,
    NO_VERIFIER,
    NOT_COVERED,
    NOT_SEARCHED,
    NOT_VERIFIED,
    NUMBERS,
    OTHER_SYSTEMS,
    OUTPUTS_ARE,
    RECORDS_ARE,
    RECREATED,
    STATEMENT,
    STATEMENT_NOT_FOUND,
    SYSTEM_CLOCK,
    VIRTUAL_CLOCK,
    VIRTUAL_TIMES,
)
from ledgerstone.erasure.scan_plan import why_not_raw
from ledgerstone.erasure.sealing import public_key_of, sign
from ledgerstone.errors import InvariantViolation
from ledgerstone.time_text import iso_time
from ledgerstone.uuid_text import uuid_to_text


def issue(
    erasure: Erasure,
    *,
    cluster_id: str,
    signing_seed: bytes,
    now_ms: int,
    not_covered: Sequence[str] = (),
    outputs: Sequence[KnownOutput] = (),
) -> bytes:
    """The receipt of a verified erasure, or of one whose key is nowhere.

    `outputs` are those of `standing.known_outputs`. The same facts give the same bytes."""
    unverified = erasure.unlisted_groups + sum(
        each.status is Status.NOT_VERIFIED for each in outputs
    )
    if erasure.stage is Stage.VERIFIED:
        kind, statement = KIND_ERASURE, STATEMENT
        limits = [*NOT_COVERED, NUMBERS, *_not_covered(erasure), *not_covered]
        if unverified:
            limits.append(NOT_VERIFIED)
    elif erasure.stage is Stage.NOT_FOUND and erasure.searched is not None:
        kind, statement = KIND_NOT_FOUND, STATEMENT_NOT_FOUND
        limits = [*NOT_COVERED, NOT_SEARCHED, *_clock_limits(erasure), *not_covered]
    else:
        raise InvariantViolation(f"{erasure.id} is {erasure.stage.value}, not verified: no receipt")
    content = {
        **_request_fields(erasure),
        "version": VERSION,
        "kind": kind,
        "clock": VIRTUAL_CLOCK if erasure.on_virtual_clock else SYSTEM_CLOCK,
        "cluster_id": cluster_id,
        "issued_at": iso_time(now_ms),
        "stages": {stage.value: iso_time(at_ms) for stage, at_ms in erasure.stage_times},
        "tombstones": [
            {"partition": each.partition, "offset": each.offset, "at": iso_time(each.written_ms)}
            for each in erasure.tombstones
        ],
        "searched": _searched(erasure),
        "replicas": [_replica(erasure, scan) for scan in erasure.scans],
        "recreated": [_span_json(each) for each in erasure.recreated],
        "other_topics": [_span_json(each) for each in erasure.elsewhere],
        "exceptions": list(_exceptions(erasure)),
        "lost_brokers": list(_lost_brokers(erasure)),
        "downstream": [_evidence_json(each) for each in erasure.evidence],
        "outputs": [_output_json(each) for each in outputs],
        "outputs_are": OUTPUTS_ARE,
        "outputs_in_all": len(outputs) + erasure.unlisted_groups,
        "outputs_not_verified": unverified,
        "not_covered": limits,
        "statement": statement,
        "public_key": public_key_of(signing_seed).hex(),
    }
    return canonical({**content, "signature": sign(signing_seed, canonical(content)).hex()})


def _request_fields(erasure: Erasure) -> dict[str, Any]:
    deadline_ms = erasure.deadline_ms
    return {
        "id": erasure.id,
        "topic": erasure.topic,
        "topic_id": uuid_to_text(erasure.topic_id),
        # Not its length: among few keys that alone may name one.
        "key": {"hmac_sha256": erasure.key_print.hmac.hex()},
        "reason": erasure.reason,
        "requested_by": erasure.requested_by,
        "requested_at": iso_time(erasure.requested_ms),
        "deadline": None if deadline_ms is None else iso_time(deadline_ms),
        "met_deadline": erasure.met_deadline,
    }


def _searched(erasure: Erasure) -> dict[str, Any] | None:
    """Of a key that is nowhere: where it was looked for."""
    if erasure.searched is None:
        return None
    return {
        "started_at": iso_time(erasure.searched.started_ms),
        "ended_at": iso_time(erasure.searched.ended_ms),
        "files": erasure.searched.files,
        "bytes": erasure.searched.scanned_bytes,
        "records": erasure.searched.records,
        "partitions": len(erasure.searched_ends),
        "node_ids": list(erasure.searched.node_ids),
    }


def _replica(erasure: Erasure, scan: ReplicaScan) -> dict[str, Any]:
    counts = scan.counts
    if counts is None:
        raise InvariantViolation(f"{erasure.id}: the records that were found are not counted")
    return {
        "node_id": scan.node_id,
        "scan_started_at": iso_time(scan.started_ms),
        "scan_ended_at": iso_time(scan.ended_ms),
        "files": scan.files,
        "bytes": scan.scanned_bytes,
        "digest": scan.digest,
        "kinds": [_counted(each) for each in scan.kinds],
        "partitions": [_counted(each) for each in scan.partitions],
        "partitions_in_all": scan.partition_count,
        "records": counts.older,
        "records_are": RECORDS_ARE,
        "recreated_records": counts.recreated,
        "other_topic_records": counts.elsewhere,
        "mentions": scan.mentions,
        "mentions_are": MENTIONS_ARE,
        "names": [each._asdict() for each in scan.names],
        "names_are": NAMES_ARE,
        "residue": scan.residue,
        "accepted": accepted_hits(scan, erasure.exceptions),
        **_proof(scan.proof),
    }


def _proof(proof: ScanProof | None) -> dict[str, Any]:
    """Which life of the broker this was, and what it hosted when the scan began."""
    return {
        "incarnation_id": None if proof is None else proof.incarnation_id,
        "broker_epoch": None if proof is None else proof.broker_epoch,
        "directory_ids": [] if proof is None else list(proof.directory_ids),
        "hosted": [] if proof is None else [each._asdict() for each in proof.hosted],
        "hosted_in_all": 0 if proof is None else proof.hosted_count,
    }


def _counted(each: KindCount | PartitionScan) -> dict[str, Any]:
    content = each._asdict()
    content["bytes"] = content.pop("scanned_bytes")
    return content


def _exceptions(erasure: Erasure) -> Iterator[dict[str, Any]]:
    for each in erasure.exceptions:
        found = [
            hits
            for scan in erasure.scans
            if each.node_id in (None, scan.node_id)
            for hits in scan.residue_files
        ]
        yield {
            "file": each.file,
            "node_id": each.node_id,
            "hits": sum(hits.hits for hits in found if hits.file == each.file),
            "accepted_hits": each.hits,
            "trouble": each.trouble,
            "reason": each.reason,
            "by": each.by,
            "at": iso_time(each.at_ms),
        }


def _lost_brokers(erasure: Erasure) -> Iterator[dict[str, Any]]:
    """With those of its disks that no scan has seen."""
    scanned = {
        HostDisk(scan.node_id, disk)
        for scan in erasure.scans
        if scan.proof is not None
        for disk in scan.proof.directory_ids
    }
    for each in erasure.lost_brokers:
        disks = [
            disk.directory_id
            for disk in erasure.hosts
            if disk.broker_id == each.broker_id and disk not in scanned
        ]
        yield {
            "broker_id": each.broker_id,
            "directory_ids": disks,
            "reason": each.reason,
            "by": each.by,
            "at": iso_time(each.at_ms),
        }


def _not_covered(erasure: Erasure) -> Iterator[str]:
    unsearched = why_not_raw(erasure.key_print)
    if unsearched is not None:
        yield (
            "the key's bytes outside of keys of records and of whole names; it was looked for as "
            f"the key of records and as a whole name only, since {unsearched}"
        )
    yield from _clock_limits(erasure)
    if erasure.recreated:
        yield RECREATED
    if erasure.elsewhere:
        yield ELSEWHERE
    if erasure.exceptions:
        yield ACCEPTED
    if erasure.lost_brokers:
        yield LOST
    if len(erasure.scans) > 1 or erasure.lost_brokers:
        yield FORMER
    for each in erasure.evidence:
        if each.outcome is ScanOutcome.UNKNOWN:
            yield f"{each.output}: verifier {each.verifier} could not tell"
    yield OTHER_SYSTEMS if erasure.evidence else NO_VERIFIER


def _clock_limits(erasure: Erasure) -> Iterator[str]:
    if erasure.on_virtual_clock:
        yield VIRTUAL_TIMES


def _span_json(span: RecordSpan) -> dict[str, Any]:
    content = span._asdict()
    del content["leader_epoch"]
    return content


def _output_json(output: KnownOutput) -> dict[str, Any]:
    return {**output._asdict(), "status": output.status.value, "reason": output.reason.value}


def _evidence_json(evidence: Evidence) -> dict[str, Any]:
    return {
        "verifier": evidence.verifier,
        "group": evidence.group,
        "output": evidence.output,
        "verdict": evidence.outcome.value,
        "evidence": evidence.evidence,
        "at": iso_time(evidence.given_ms),
    }
