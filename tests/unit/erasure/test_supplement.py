"""Supplements: what they say, that no changed byte passes, and that each belongs to one receipt."""

import json
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from ledgerstone.erasure.changes import receipted
from ledgerstone.erasure.erasure import Erasure, Evidence, ScanOutcome, Stage
from ledgerstone.erasure.journal import decode, encode
from ledgerstone.erasure.outputs import GROUP, VERIFIER, KnownOutput, Status, UnverifiedReason
from ledgerstone.erasure.receipt import canonical, verify
from ledgerstone.erasure.receipt_issue import issue
from ledgerstone.erasure.sealing import sign
from ledgerstone.erasure.standing import not_verified
from ledgerstone.erasure.supplement import (
    missing_numbers,
    standing,
    together,
    verify_supplement,
)
from ledgerstone.erasure.supplement_issue import new_words, with_supplement
from ledgerstone.errors import InvalidRequest, InvariantViolation
from tests.unit.erasure.making import SALT, SEED, T0, at_stage, requested

FORGER = bytes([9]) * 32
OUTPUTS = (
    KnownOutput(VERIFIER, "lake", Status.VERIFIED),
    KnownOutput(
        GROUP, "people", Status.NOT_VERIFIED, UnverifiedReason.MISSED_TOMBSTONE,
        partition=0, tombstone_offset=9, committed_offset=4,
    ),
    KnownOutput(GROUP, "orders", Status.READ),
)  # fmt: skip


def with_receipt(seed: int = 1) -> Erasure:
    erasure = at_stage(Stage.VERIFIED, requested(seed))
    data = issue(erasure, cluster_id="c", signing_seed=SEED, now_ms=T0, outputs=OUTPUTS)
    return receipted(erasure, data.decode(), now_ms=T0, outputs=OUTPUTS)


def word(outcome: ScanOutcome = ScanOutcome.CLEAN, **fields: Any) -> Evidence:
    given: dict[str, Any] = {
        "verifier": "pipelines", "group": "people", "output": "table", "evidence": "0 rows",
        "given_ms": T0,
    }  # fmt: skip
    return Evidence(**{**given, "outcome": outcome, **fields})


def supplemented(erasure: Erasure, *words: Evidence, seed: bytes = SEED) -> Erasure:
    new = new_words(erasure, words, salt=SALT)
    return with_supplement(erasure, new, cluster_id="c", signing_seed=seed, now_ms=T0 + 1)


def papers(erasure: Erasure) -> tuple[bytes, list[bytes]]:
    assert erasure.receipt is not None
    return erasure.receipt.encode(), [each.document.encode() for each in erasure.supplements]


def signed(content: dict[str, Any], seed: bytes = SEED) -> bytes:
    unsigned = {name: value for name, value in content.items() if name != "signature"}
    return canonical({**unsigned, "signature": sign(seed, canonical(unsigned)).hex()})


def test_supplement_names_receipt_erasure_output_evidence_and_time() -> None:
    erasure = supplemented(with_receipt(), word())

    receipt, (paper,) = papers(erasure)
    content = json.loads(paper)

    assert verify(receipt).ok
    assert verify_supplement(paper, receipt).ok
    assert content["receipt_sha256"] == sha256(receipt).hexdigest()
    assert (content["id"], content["number"], content["verdict"]) == (erasure.id, 1, "clean")
    assert content["words"] == [
        {
            "output": "table",
            "verdict": "clean",
            "evidence": "0 rows",
            "at": content["words"][0]["at"],
        }
    ]
    assert decode(encode(erasure)) == erasure


def test_no_changed_byte_passes() -> None:
    receipt, (paper,) = papers(supplemented(with_receipt(), word()))

    for at in range(0, len(paper), 3):
        changed = bytearray(paper)
        changed[at] ^= 1
        assert not verify_supplement(bytes(changed), receipt).ok, at


def test_supplement_of_another_receipt_or_another_signer_is_refused() -> None:
    receipt, (paper,) = papers(supplemented(with_receipt(), word()))
    other, _ = papers(with_receipt(seed=2))
    _, (forged,) = papers(supplemented(with_receipt(), word(), seed=FORGER))

    assert verify_supplement(paper, other).reasons == (
        "its id is not that of the receipt: it belongs to another",
    )
    assert verify_supplement(forged, receipt).reasons[0].startswith("signed by ")
    assert not verify_supplement(receipt, receipt).ok


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"verdict": "residue"}, "its words say otherwise"),
        ({"covers": [{"kind": "group", "name": "orders"}]}, "covers other outputs"),
        ({"words": []}, "has no words"),
        ({"number": 0}, "no number"),
        ({"receipt_sha256": "00" * 32}, "names another receipt"),
        ({"version": 2}, "version 2"),
        ({"kind": "receipt"}, "no supplement"),
        ({"group": 4}, "group is a whole number"),
        ({"more": 1}, "missing or unknown: more"),
    ],
)
def test_signed_nonsense_is_refused(change: dict[str, Any], reason: str) -> None:
    receipt, (paper,) = papers(supplemented(with_receipt(), word()))

    found = verify_supplement(signed({**json.loads(paper), **change}), receipt)

    assert not found.ok
    assert reason in found.reasons[0]


def test_standing_of_receipt_and_supplements_together() -> None:
    one = supplemented(with_receipt(), word(ScanOutcome.RESIDUE))
    two = supplemented(one, word())
    strange = supplemented(two, word(ScanOutcome.UNKNOWN, verifier="vault", group=""))

    receipt, added = papers(strange)
    contents = [json.loads(each) for each in added]
    found = {
        each.name: (each.status, each.supplement)
        for each in standing(json.loads(receipt), contents)
    }

    assert (not_verified(with_receipt()), not_verified(one), not_verified(two)) == (1, 2, 0)
    assert found == {
        "lake": ("verified", None),
        "orders": ("read", None),
        "people": ("verified", 2),
        "pipelines": ("verified", 2),
        "vault": ("not_verified", 3),
    }
    assert missing_numbers([contents[0], contents[2]]) == [2]
    assert "NOT VERIFIED: verifier vault" in list(together(json.loads(receipt), contents))


def test_what_was_said_before_makes_no_supplement() -> None:
    erasure = supplemented(with_receipt(), word(), word(output="files"))

    assert new_words(erasure, [word(given_ms=T0 + 9)], salt=SALT) == ()
    assert new_words(erasure, [word(evidence="1 row")], salt=SALT) != ()


def test_supplement_is_of_one_verifier_and_needs_a_receipt() -> None:
    with pytest.raises(InvalidRequest, match="one verifier"):
        new_words(with_receipt(), [word(), word(verifier="lake")], salt=SALT)
    with pytest.raises(InvariantViolation):
        new_words(replace(with_receipt(), stage=Stage.VERIFIED), [word()], salt=SALT)


def test_supplements_are_bounded_in_bytes() -> None:
    erasure = with_receipt()
    heavy = [word(output=f"t{number}", evidence="ü" * 2000) for number in range(60)]

    with pytest.raises(InvalidRequest, match="at most"):
        supplemented(erasure, *heavy)
