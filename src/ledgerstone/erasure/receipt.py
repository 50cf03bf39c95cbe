"""The receipt: evidence of an erasure, signed, without personal data. Grade P.

Owns the one form of bytes a receipt may have, and the check; `receipt_issue` makes them. The form
is canonical JSON: ASCII, sorted keys, two spaces of indentation, one newline at the end; the
signature (Ed25519) is over the same form without the field `signature`. Contract: README.md,
"Receipts".
"""

import hmac
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ledgerstone.erasure.changes import MAX_SPANS
from ledgerstone.erasure.key_print import hmac_of
from ledgerstone.erasure.outputs import GROUP, VERIFIER, Status, UnverifiedReason
from ledgerstone.erasure.receipt_shape import odd_fields
from ledgerstone.erasure.receipt_words import (
    FIELDS_1,
    FIELDS_2,
    FIELDS_3,
    FIELDS_4,
    KIND_ERASURE,
    KIND_NOT_FOUND,
    LOST_BROKER_FIELDS,
    OUTPUT_FIELDS,
    REPLICA_FIELDS_2,
    REPLICA_FIELDS_4,
    SYSTEM_CLOCK,
    VIRTUAL_CLOCK,
)
from ledgerstone.erasure.sealing import is_signed_by

VERSION: Final = 4
MAX_BYTES: Final = 4 << 20
_FIELDS: Final = {1: FIELDS_1, 2: FIELDS_2, 3: FIELDS_3, 4: FIELDS_4}
# What a receipt of the first version did not say, or said without having counted it.
_VERSION_1: Final = (
    "version 1: its records: 0 was concluded and not counted, mentions in compressed batches may "
    "be missing, names of files and directories were not searched, and it does not say whether "
    "the clock was a virtual one"
)
_STATUSES: Final = tuple(each.value for each in Status)
_REASONS: Final = tuple(each.value for each in UnverifiedReason)
_VERSION_2: Final = (
    "version 2: it does not say which outputs of the topic were known, nor which of them had "
    "missed the tombstone"
)
_VERSION_3: Final = (
    "version 3: it does not say which life of a node made its scan, nor on which disks, and speaks "
    "of one node"
)


class ReceiptRefused(ValueError):
    """These bytes are no good receipt; the text says why."""


class ReceiptVerdict(NamedTuple):
    ok: bool
    reasons: tuple[str, ...]  # why not; empty where ok
    notes: tuple[str, ...] = ()  # what was, and what was not, checked
    # Signed by whom the caller trusts. Without this, ok only says that the bytes hold together.
    is_trusted: bool = False


def canonical(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, indent=2, allow_nan=False).encode("ascii") + b"\n"


def verify(
    data: bytes,
    *,
    public_key: bytes | None = None,
    key: bytes | None = None,
    salt: bytes | None = None,
) -> ReceiptVerdict:
    """Whether these are the very bytes that were signed; with key and salt, whether for that key.

    Without `public_key` the one inside is believed: the bytes hold together, but anybody could
    have signed them.
    """
    try:
        content = parse(data)
        check_signature(content, public_key)
        _check_kinds(content)
        _check_statements(content)
        note = _check_key(content, key, salt)
    except ReceiptRefused as refusal:
        return ReceiptVerdict(False, (str(refusal),))
    signer = "the public key given" if public_key is not None else "the public key inside it"
    notes = (f"signed with {signer}, {content['public_key']}", note, *_version_notes(content))
    return ReceiptVerdict(True, (), notes, is_trusted=public_key is not None)


def parse(data: bytes) -> dict[str, Any]:
    """The fields of a receipt, if the bytes are exactly the canonical form of them."""
    content = parse_canonical(data, max_bytes=MAX_BYTES, what="a receipt")
    version = content.get("version")
    if type(version) is not int or version not in _FIELDS:
        raise ReceiptRefused(f"version {str(version)[:20]!r}, only 1 to {VERSION} are known")
    odd = sorted(name for name in {*_FIELDS[version]} ^ {*content})
    if odd:
        raise ReceiptRefused(f"fields that are missing or unknown: {', '.join(odd)[:200]}")
    return content


def parse_canonical(data: bytes, *, max_bytes: int, what: str) -> dict[str, Any]:
    """A JSON object whose bytes are the canonical form of it."""
    if len(data) > max_bytes:
        raise ReceiptRefused(f"{len(data)} bytes, {what} has at most {max_bytes}")
    try:
        content = json.loads(data)
        if not isinstance(content, dict):
            raise ReceiptRefused("not a JSON object")
        is_canonical = canonical(content) == data
    except (ValueError, RecursionError) as error:
        raise ReceiptRefused(f"not JSON: {type(error).__name__}") from None
    if not is_canonical:
        raise ReceiptRefused("the bytes are not the canonical form: something was changed")
    return content


def check_signature(content: Mapping[str, Any], public_key: bytes | None) -> None:
    inside, signature = _hex(content, "public_key"), _hex(content, "signature")
    if public_key is not None and public_key != inside:
        raise ReceiptRefused(f"signed by {inside.hex()}, not by {public_key.hex()}")
    unsigned = {name: value for name, value in content.items() if name != "signature"}
    if not is_signed_by(inside, signature, canonical(unsigned)):
        raise ReceiptRefused("the signature does not fit: something was changed")


def _version_notes(content: Mapping[str, Any]) -> Iterator[str]:
    if content["version"] == 1:
        yield _VERSION_1
        return
    if content["version"] == 2:
        yield _VERSION_2
    if content["version"] == 3:
        yield _VERSION_3
    if content["clock"] == VIRTUAL_CLOCK:
        yield "made on a virtual clock: its times were set by hand"


def _check_statements(content: Mapping[str, Any]) -> None:
    """A signature says who; these say that what was signed is a proof at all."""
    if content["version"] == 1:
        _check_clean(content["replicas"], ("records", "residue"))
    elif content["clock"] not in (SYSTEM_CLOCK, VIRTUAL_CLOCK):
        raise ReceiptRefused("it does not say by which clock it was made")
    elif content["kind"] == KIND_NOT_FOUND:
        _check_not_found(content)
    elif content["kind"] == KIND_ERASURE:
        _check_erasure(content)
    else:
        raise ReceiptRefused("it is neither of an erasure nor of a key that was not found")
    if content["version"] >= 3:
        _check_outputs(content)


def _check_outputs(content: Mapping[str, Any]) -> None:
    """The counts are those of the list; what it counts and does not name is not verified."""
    listed = content["outputs"]
    for each in listed:
        if {*each} != {*OUTPUT_FIELDS} or each["kind"] not in (VERIFIER, GROUP):
            raise ReceiptRefused("an output with fields that are missing or unknown")
        if each["status"] not in _STATUSES or each["reason"] not in _REASONS:
            raise ReceiptRefused(f"an output that is {each['status'][:20]}: {each['reason'][:20]}")
        is_open = each["status"] == Status.NOT_VERIFIED.value
        if is_open != bool(each["reason"]):
            raise ReceiptRefused("an output is not verified without a reason, or verified with one")
    names = [(each["kind"], each["name"]) for each in listed]
    if len({*names}) != len(names):
        raise ReceiptRefused("an output is listed twice")
    more = content["outputs_in_all"] - len(listed)
    unverified = sum(each["status"] == Status.NOT_VERIFIED.value for each in listed)
    if more < 0 or content["outputs_not_verified"] != unverified + more:
        raise ReceiptRefused("the outputs that are not verified are not those that are listed")


def _check_clean(replicas: object, names: Sequence[str]) -> None:
    if not isinstance(replicas, list) or not replicas:
        raise ReceiptRefused("no replica was scanned")
    for each in replicas:
        counts = tuple(each.get(name) for name in names) if isinstance(each, dict) else ()
        if len(counts) != len(names) or any(type(count) is not int or count for count in counts):
            raise ReceiptRefused(f"a replica is not clean: {str(counts)[:80]}")


def _check_erasure(content: Mapping[str, Any]) -> None:
    replicas, exceptions = content["replicas"], content["exceptions"]
    _check_clean(replicas, ("records",))
    accepted = _total(exceptions, "hits")
    fields = REPLICA_FIELDS_4 if content["version"] >= 4 else REPLICA_FIELDS_2
    for each in replicas:
        if {*each} != {*fields}:
            raise ReceiptRefused("a replica with fields that are missing or unknown")
        if any(_whole(each[name]) is None for name in ("residue", "accepted", "mentions")):
            raise ReceiptRefused("a replica without counts")
        if each["residue"] != each["accepted"]:
            raise ReceiptRefused(f"a replica is not clean: {each['residue']} times residue")
        for count, listed in (
            ("recreated_records", "recreated"),
            ("other_topic_records", "other_topics"),
        ):
            _check_listed(each[count], content[listed], len(replicas))
    if accepted != sum(each["accepted"] for each in replicas):
        raise ReceiptRefused("what was accepted is not what is listed under exceptions")
    if content["version"] >= 4:
        _check_brokers(content)


def _check_brokers(content: Mapping[str, Any]) -> None:
    """Each broker stands in it once, as one life with its disks; and whoever was given up."""
    nodes = [each["node_id"] for each in content["replicas"]]
    if len({*nodes}) != len(nodes):
        raise ReceiptRefused("a broker is listed twice")
    if len(nodes) > 1 and not all(
        each["incarnation_id"] and each["directory_ids"] for each in content["replicas"]
    ):
        raise ReceiptRefused("a broker without its incarnation and its disks")
    lost = content["lost_brokers"]
    if any({*each} != {*LOST_BROKER_FIELDS} for each in lost):
        raise ReceiptRefused("a lost broker with fields that are missing or unknown")
    if len({each["broker_id"] for each in lost}) != len(lost):
        raise ReceiptRefused("a lost broker is listed twice")


def _check_listed(count: object, listed: object, replicas: int) -> None:
    """Every record that was counted is in a span that is listed, unless there are too many."""
    whole, total = _whole(count), _total(listed, "records")
    is_whole_list = isinstance(listed, list) and len(listed) < MAX_SPANS
    if whole is None or (whole != total and replicas == 1 and is_whole_list):
        raise ReceiptRefused("records of the key were found that are not listed")


def _check_not_found(content: Mapping[str, Any]) -> None:
    searched = content["searched"]
    if not isinstance(searched, dict) or searched.get("records") != 0:
        raise ReceiptRefused("nothing was searched, or the key was found")
    if content["tombstones"] or content["replicas"]:
        raise ReceiptRefused("a key that was not found has neither tombstones nor scans")


def _total(listed: object, name: str) -> int:
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise ReceiptRefused("a list is missing")
    counts = [_whole(each.get(name)) for each in listed]
    if None in counts:
        raise ReceiptRefused(f"a list without {name}")
    return sum(count for count in counts if count is not None)


def _whole(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None


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
