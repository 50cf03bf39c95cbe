"""The supplement: evidence that came after a receipt, signed, and tied to that receipt. Grade P.

Owns the one form of bytes a supplement may have, and the check; `supplement_issue` makes them. The
form is that of a receipt (canonical JSON, Ed25519 over it without `signature`), signed by the same
key. It names its receipt by SHA-256, so it belongs to no other. Contract: README.md, "Supplements".
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

from ledgerstone.erasure.erasure import ScanOutcome
from ledgerstone.erasure.outputs import Status
from ledgerstone.erasure.receipt import (
    ReceiptRefused,
    ReceiptVerdict,
    check_signature,
    parse,
    parse_canonical,
)
from ledgerstone.erasure.receipt_shape import odd_supplement_fields
from ledgerstone.erasure.receipt_words import KIND_SUPPLEMENT, SUPPLEMENT_FIELDS
from ledgerstone.erasure.standing import covered, worst_of

VERSION: Final = 1
MAX_BYTES: Final = 512 << 10
# Fields that must be those of the receipt.
_SAME: Final = ("id", "cluster_id", "topic", "topic_id", "public_key")


class StandingOutput(NamedTuple):
    """How an output stands once all supplements are taken in."""

    kind: str
    name: str
    status: str
    reason: str
    supplement: int | None  # the number of the one that says so; None: the receipt does


def parse_supplement(data: bytes) -> dict[str, Any]:
    """The fields of a supplement, if the bytes are exactly the canonical form of them."""
    content = parse_canonical(data, max_bytes=MAX_BYTES, what="a supplement")
    if content.get("kind") != KIND_SUPPLEMENT or type(content.get("version")) is not int:
        raise ReceiptRefused("it is no supplement")
    if content["version"] != VERSION:
        raise ReceiptRefused(f"version {content['version']} of a supplement, only 1 is known")
    odd = sorted({*SUPPLEMENT_FIELDS} ^ {*content})
    if odd:
        raise ReceiptRefused(f"fields that are missing or unknown: {', '.join(odd)[:200]}")
    return content


def verify_supplement(data: bytes, receipt: bytes) -> ReceiptVerdict:
    """Whether it was signed by the key of this very receipt, and about it. Whether that key is to
    be trusted is the receipt's own matter."""
    try:
        about = parse(receipt)
        content = parse_supplement(data)
        check_signature(content, None)
        if odd := odd_supplement_fields(content):
            raise ReceiptRefused(f"not what a supplement holds: {'; '.join(odd)[:200]}")
        _check_belongs(content, about, receipt)
        _check_words(content)
    except ReceiptRefused as refusal:
        return ReceiptVerdict(False, (str(refusal),))
    return ReceiptVerdict(True, (), (f"supplement {content['number']} belongs to the receipt",))


def _check_belongs(content: Mapping[str, Any], about: Mapping[str, Any], receipt: bytes) -> None:
    for name in _SAME:
        if content[name] != about[name]:
            if name == "public_key":
                raise ReceiptRefused(f"signed by {content[name]}, the receipt by {about[name]}")
            raise ReceiptRefused(f"its {name} is not that of the receipt: it belongs to another")
    if content["receipt_sha256"] != sha256(receipt).hexdigest():
        raise ReceiptRefused("it names another receipt than this one")


def _check_words(content: Mapping[str, Any]) -> None:
    """Its verdict and the outputs it covers are what follows from its words."""
    verdicts = [each.value for each in ScanOutcome]
    words = [each["verdict"] for each in content["words"]]
    if not words or any(each not in verdicts for each in words):
        raise ReceiptRefused("it has no words, or words that are no verdicts")
    worst = worst_of(ScanOutcome(each) for each in words)
    if worst is None or content["verdict"] != worst.value:
        raise ReceiptRefused(f"its verdict is {content['verdict'][:20]}, its words say otherwise")
    covers = [(each["kind"], each["name"]) for each in content["covers"]]
    if covers != list(covered(content["verifier"], content["group"])):
        raise ReceiptRefused("it covers other outputs than its evidence is about")
    if content["number"] < 1:
        raise ReceiptRefused("it has no number")


# -- receipt and supplements together -------------------------------------------------------------


def standing(
    receipt: Mapping[str, Any], supplements: Sequence[Mapping[str, Any]]
) -> list[StandingOutput]:
    """`receipt` and `supplements` are the contents of papers that were verified."""
    found = {
        (each["kind"], each["name"]): StandingOutput(
            each["kind"], each["name"], each["status"], each["reason"], None
        )
        for each in receipt.get("outputs", ())
    }
    for each in sorted(supplements, key=lambda content: int(content["number"])):
        for output in each["covers"]:
            is_clean = each["verdict"] == ScanOutcome.CLEAN.value
            status = Status.VERIFIED if is_clean else Status.NOT_VERIFIED
            place = (output["kind"], output["name"])
            reason = "" if is_clean else each["verdict"]
            found[place] = StandingOutput(*place, status.value, reason, each["number"])
    return list(found.values())


def missing_numbers(supplements: Sequence[Mapping[str, Any]]) -> list[int]:
    """Numbers below the last one that are not there: somebody left them out."""
    there = {int(each["number"]) for each in supplements}
    return [number for number in range(1, max(there, default=0)) if number not in there]


def unlisted(receipt: Mapping[str, Any]) -> int:
    """Outputs that the receipt counts and does not name."""
    return int(receipt.get("outputs_in_all", 0)) - len(receipt.get("outputs", ()))


def together(receipt: Mapping[str, Any], supplements: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """For people, after the receipt itself: each supplement, and what is left open."""
    for each in supplements:
        yield ""
        yield from _lines(each)
    left = [
        f"{each.kind} {each.name}"
        for each in standing(receipt, supplements)
        if each.status == Status.NOT_VERIFIED.value
    ]
    if unlisted(receipt) > 0:
        left.append(f"{unlisted(receipt)} groups that it does not name")
    if left:
        yield ""
        yield f"NOT VERIFIED: {'; '.join(left)}"
    elif receipt.get("outputs_not_verified"):
        yield ""
        yield "Every output that was not verified is by now."


def _lines(content: Mapping[str, Any]) -> Iterator[str]:
    of_group = f", group {content['group']}" if content["group"] else ""
    yield f"Supplement {content['number']}, {content['issued_at']}"
    yield f"  {content['verifier']}{of_group}: {content['verdict']}"
    for each in content["words"]:
        yield f"    {each['output']}: {each['verdict']} ({each['evidence']})"
