"""The receipt: evidence of an erasure, signed, without personal data. Grade P.

Owns the fields, the one form of bytes a receipt may have, and the check. The form is canonical
JSON: ASCII, sorted keys, two spaces of indentation, one newline at the end; the signature (Ed25519)
is over the same form without the field `signature`. Contract: README.md, "Receipts".
"""

import hmac
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ledgerstone.erasure.audit_headers import iso_time
from ledgerstone.erasure.erasure import Erasure, Evidence, Outcome, RecordSpan, Stage
from ledgerstone.erasure.key_print import hmac_of
from ledgerstone.erasure.receipt_shape import odd_fields
from ledgerstone.erasure.scan_plan import why_not_raw
from ledgerstone.erasure.sealing import is_signed_by, public_key_of, sign
from ledgerstone.errors import InvariantViolation
from ledgerstone.uuid_text import uuid_to_text

VERSION: Final = 1
MAX_BYTES: Final = 4 << 20
STATEMENT: Final = (
    "This is evidence of technical deletion from the files named here at the times named here. "
    "It is not legal advice."
)
MENTIONS_ARE: Final = (
    "places where the key's bytes occur inside records of other keys; such records are not the "
    "erased ones and were left as they are"
)
NOT_COVERED: Final = (
    "copies outside the log directories: backups, snapshots of disks, mirrors, exports",
    "blocks that the operating system or the drive has freed but not overwritten",
    "the memory of running processes and of consumers that read the records before",
)
_FIELDS: Final = (
    "version", "id", "cluster_id", "topic", "topic_id", "key", "reason", "requested_by",
    "requested_at", "deadline", "met_deadline", "issued_at", "stages", "tombstones", "replicas",
    "recreated", "other_topics", "downstream", "not_covered", "statement", "public_key",
    "signature",
)  # fmt: skip


class ReceiptRefused(ValueError):
    """These bytes are no good receipt; the text says why."""


class Verdict(NamedTuple):
    ok: bool
    reasons: tuple[str, ...]  # why not; empty where ok
    notes: tuple[str, ...] = ()  # what was, and what was not, checked
    # Signed by whom the caller trusts. Without this, ok only says that the bytes hold together.
    is_trusted: bool = False


# -- issuing ------------------------------------------------------------------------------------


def issue(
    erasure: Erasure,
    *,
    cluster_id: str,
    signing_seed: bytes,
    now_ms: int,
    not_covered: Sequence[str] = (),
) -> bytes:
    """The receipt of a verified erasure. The same facts give the same bytes."""
    if erasure.stage is not Stage.VERIFIED:
        raise InvariantViolation(f"{erasure.id} is {erasure.stage.value}, not verified: no receipt")
    content = {
        **_request_fields(erasure),
        "version": VERSION,
        "cluster_id": cluster_id,
        "issued_at": iso_time(now_ms),
        "stages": {stage.value: iso_time(at_ms) for stage, at_ms in erasure.stage_times},
        "tombstones": [
            {"partition": each.partition, "offset": each.offset, "at": iso_time(each.written_ms)}
            for each in erasure.tombstones
        ],
        "replicas": list(_replicas(erasure)),
        "recreated": [_span_json(each) for each in erasure.recreated],
        "other_topics": [_span_json(each) for each in erasure.elsewhere],
        "downstream": [_evidence_json(each) for each in erasure.evidence],
        "not_covered": [*NOT_COVERED, *_not_covered(erasure), *not_covered],
        "statement": STATEMENT,
        "public_key": public_key_of(signing_seed).hex(),
    }
    return canonical({**content, "signature": sign(signing_seed, canonical(content)).hex()})


def canonical(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, indent=2, allow_nan=False).encode("ascii") + b"\n"


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


def _replicas(erasure: Erasure) -> Iterator[dict[str, Any]]:
    for scan in erasure.scans:
        yield {
            "node_id": scan.node_id,
            "scan_started_at": iso_time(scan.started_ms),
            "scan_ended_at": iso_time(scan.ended_ms),
            "files": scan.files,
            "bytes": scan.scanned_bytes,
            "digest": scan.digest,
            "records": 0,
            "residue": scan.residue,
            "mentions": scan.mentions,
            "mentions_are": MENTIONS_ARE,
        }


def _not_covered(erasure: Erasure) -> Iterator[str]:
    unsearched = why_not_raw(erasure.key_print)
    if unsearched is not None:
        yield (
            "the key's bytes outside of keys of records; it was looked for as the key of records "
            f"only, since {unsearched}"
        )
    if erasure.recreated:
        yield "records of the key written after the erasure, listed under recreated"
    if erasure.elsewhere:
        yield "records with the same key in other topics, listed under other_topics"
    for each in erasure.evidence:
        if each.outcome is Outcome.UNKNOWN:
            yield f"{each.output}: verifier {each.verifier} could not tell"
    if erasure.evidence:
        yield "downstream systems other than those listed under downstream"
    else:
        yield "downstream systems: no verifier gave evidence"


def _span_json(span: RecordSpan) -> dict[str, Any]:
    return span._asdict()


def _evidence_json(evidence: Evidence) -> dict[str, Any]:
    return {
        "verifier": evidence.verifier,
        "output": evidence.output,
        "verdict": evidence.outcome.value,
        "evidence": evidence.evidence,
        "at": iso_time(evidence.given_ms),
    }


# -- checking -----------------------------------------------------------------------------------


def verify(
    data: bytes,
    *,
    public_key: bytes | None = None,
    key: bytes | None = None,
    salt: bytes | None = None,
) -> Verdict:
    """Whether these are the very bytes that were signed; with key and salt, whether for that key.

    Without `public_key` the one inside is believed: the bytes hold together, but anybody could
    have signed them.
    """
    try:
        content = parse(data)
        _check_signature(content, public_key)
        _check_statements(content)
        _check_kinds(content)
        note = _check_key(content, key, salt)
    except ReceiptRefused as refusal:
        return Verdict(False, (str(refusal),))
    signer = "the public key given" if public_key is not None else "the public key inside it"
    signed = f"signed with {signer}, {content['public_key']}"
    return Verdict(True, (), (signed, note), is_trusted=public_key is not None)


def parse(data: bytes) -> dict[str, Any]:
    """The fields of a receipt, if the bytes are exactly the canonical form of them."""
    if len(data) > MAX_BYTES:
        raise ReceiptRefused(f"{len(data)} bytes, a receipt has at most {MAX_BYTES}")
    try:
        content = json.loads(data)
        if not isinstance(content, dict):
            raise ReceiptRefused("not a JSON object")
        is_canonical = canonical(content) == data
    except (ValueError, RecursionError) as error:
        raise ReceiptRefused(f"not JSON: {type(error).__name__}") from None
    if not is_canonical:
        raise ReceiptRefused("the bytes are not the canonical form: something was changed")
    if content.get("version") != VERSION:
        raise ReceiptRefused(f"version {content.get('version')!r}, only {VERSION} is known")
    odd = sorted(name for name in {*_FIELDS} ^ {*content})
    if odd:
        raise ReceiptRefused(f"fields that are missing or unknown: {', '.join(odd)[:200]}")
    return content


def _check_signature(content: Mapping[str, Any], public_key: bytes | None) -> None:
    inside, signature = _hex(content, "public_key"), _hex(content, "signature")
    if public_key is not None and public_key != inside:
        raise ReceiptRefused(f"signed by {inside.hex()}, not by {public_key.hex()}")
    unsigned = {name: value for name, value in content.items() if name != "signature"}
    if not is_signed_by(inside, signature, canonical(unsigned)):
        raise ReceiptRefused("the signature does not fit: something was changed")


def _check_statements(content: Mapping[str, Any]) -> None:
    """A signature says who; these say that what was signed is a proof at all."""
    replicas = content["replicas"]
    if not isinstance(replicas, list) or not replicas:
        raise ReceiptRefused("no replica was scanned")
    for each in replicas:
        counts = (each.get("records"), each.get("residue")) if isinstance(each, dict) else ()
        if counts != (0, 0):
            raise ReceiptRefused(f"a replica is not clean: {counts}")


def _check_kinds(content: Mapping[str, Any]) -> None:
    """Whoever shows it may rely on these."""
    if odd := odd_fields(content):
        raise ReceiptRefused(f"not what a receipt holds: {'; '.join(odd)[:200]}")


def _check_key(content: Mapping[str, Any], key: bytes | None, salt: bytes | None) -> str:
    if key is None or salt is None:
        return "not checked against a key: that takes the key and the operator's salt"
    expected = hmac_of(salt, str(content["topic"]), key).hex()
    found = content["key"].get("hmac_sha256") if isinstance(content["key"], dict) else None
    if not isinstance(found, str) or not hmac.compare_digest(expected, found):
        raise ReceiptRefused("it is about another key, or was made with another salt")
    return "it is about the key given"


def _hex(content: Mapping[str, Any], name: str) -> bytes:
    """Only lower case counts: the signature does not cover its own spelling."""
    text = content[name]
    try:
        data = bytes.fromhex(text)
    except (TypeError, ValueError):
        raise ReceiptRefused(f"{name} is not hexadecimal") from None
    if data.hex() != text:
        raise ReceiptRefused(f"{name} is not spelled as it was signed")
    return data
