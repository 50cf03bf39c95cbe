"""Receipts: what they say, that no changed byte passes, and how they read."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from ledgerstone.erasure.changes import with_evidence
from ledgerstone.erasure.erasure import Erasure, Evidence, Outcome, RecordSpan, Stage
from ledgerstone.erasure.receipt import (
    MAX_BYTES,
    ReceiptRefused,
    Verdict,
    canonical,
    issue,
    parse,
    verify,
)
from ledgerstone.erasure.receipt_text import render
from ledgerstone.erasure.sealing import public_key_of, sign
from ledgerstone.errors import InvariantViolation
from tests.unit.erasure.making import KEY, SALT, SEED, T0, at_stage, requested

PUBLIC_KEY = public_key_of(SEED)


def verified() -> Erasure:
    word = Evidence(
        verifier="lake", output="table", outcome=Outcome.UNKNOWN, evidence="12 files", given_ms=T0
    )
    erasure = with_evidence(at_stage(Stage.VERIFIED), word, salt=SALT)
    return replace(
        erasure,
        recreated=(RecordSpan("customers", 0, 10, 12, 3, 1),),
        elsewhere=(RecordSpan("orders", 2, 4, 4, 1),),
    )


def receipt(erasure: Erasure | None = None) -> bytes:
    return issue(
        erasure or verified(), cluster_id="cluster", signing_seed=SEED, now_ms=T0 + 900_000
    )


def signed(**change: Any) -> bytes:
    """A receipt with other fields, signed all the same."""
    content = {**json.loads(receipt()), **change}
    content = {name: value for name, value in content.items() if value is not ...}
    content.pop("signature", None)
    return canonical({**content, "signature": sign(SEED, canonical(content)).hex()})


# -- issuing --------------------------------------------------------------------------------------


def test_receipt_says_what_was_asked_done_and_found() -> None:
    erasure = verified()

    content = json.loads(receipt(erasure))

    assert content["id"] == erasure.id
    assert content["key"] == {"hmac_sha256": erasure.key_print.hmac.hex()}
    assert (content["reason"], content["requested_by"]) == ("ticket 4711", "clerk")
    assert content["met_deadline"] is True
    assert content["tombstones"][0] == {
        "partition": 0, "offset": 9, "at": "2027-01-15T08:01:40.000Z",
    }  # fmt: skip
    assert list(content["stages"]) == sorted(
        ["requested", "searched", "tombstoned", "stamped", "removed", "unlinked", "verified"]
    )
    (replica,) = content["replicas"]
    assert (replica["files"], replica["bytes"], replica["digest"]) == (12, 3456, "ab" * 32)
    assert (replica["records"], replica["residue"]) == (0, 0)
    assert content["downstream"][0]["verdict"] == "unknown"
    assert content["recreated"][0]["first_offset"] == 10
    assert content["other_topics"][0]["topic"] == "orders"
    assert "not legal advice" in content["statement"]


def test_receipt_names_what_it_does_not_cover() -> None:
    texts = " | ".join(json.loads(receipt())["not_covered"])

    for part in (
        "backups", "blocks", "written after the erasure", "other topics",
        "table: verifier lake could not tell", "other than those listed under downstream",
    ):  # fmt: skip
        assert part in texts
    assert "keys of less than" not in texts


def test_receipt_without_verifiers_and_with_a_short_key_says_so() -> None:
    content = json.loads(receipt(at_stage(Stage.VERIFIED, requested(key=b"bob"))))

    texts = " | ".join(content["not_covered"])
    assert "no verifier gave evidence" in texts
    assert "since keys of less than 5 bytes" in texts


def test_receipt_contains_neither_the_key_nor_its_length() -> None:
    made = receipt()

    assert KEY not in made
    assert KEY.hex().encode() not in made
    assert "length" not in json.loads(made)["key"]


def test_same_facts_give_the_same_bytes() -> None:
    assert receipt() == receipt()


def test_texts_outside_ascii_are_escaped() -> None:
    made = receipt(at_stage(Stage.VERIFIED, requested(reason="Löschung 削除")))

    assert made.isascii()
    assert json.loads(made)["reason"] == "Löschung 削除"
    assert verify(made).ok


@pytest.mark.parametrize("stage", [Stage.REQUESTED, Stage.UNLINKED, Stage.RECEIPTED])
def test_only_a_verified_erasure_gets_a_receipt(stage: Stage) -> None:
    with pytest.raises(InvariantViolation, match="not verified: no receipt"):
        receipt(at_stage(stage))


# -- checking -------------------------------------------------------------------------------------


def test_receipt_verifies_against_its_key_and_signer() -> None:
    found = verify(receipt(), public_key=PUBLIC_KEY, key=KEY, salt=SALT)

    assert found.ok
    assert found.reasons == ()
    assert found.notes == (
        f"signed with the public key given, {PUBLIC_KEY.hex()}",
        "it is about the key given",
    )


def test_unknown_signer_and_unchecked_key_are_told() -> None:
    found = verify(receipt())

    assert found.ok
    assert "the public key inside it" in found.notes[0]
    assert "not checked against a key" in found.notes[1]


def test_every_changed_byte_is_refused() -> None:
    whole = receipt()

    for at in range(len(whole)):
        for mask in (0x01, 0x20):
            changed = bytearray(whole)
            changed[at] ^= mask
            assert not verify(bytes(changed)).ok, at


def test_every_missing_added_or_cut_off_byte_is_refused() -> None:
    whole = receipt()

    for at in range(len(whole)):
        assert not verify(whole[:at] + whole[at + 1 :]).ok, at
        assert not verify(whole[:at]).ok, at
    for tail in (b" ", b"\n", b"{}"):
        assert not verify(whole + tail).ok
        assert not verify(tail + whole).ok


def test_receipt_signed_by_somebody_else_is_refused() -> None:
    other = bytes([8]) * 32
    forged = issue(verified(), cluster_id="cluster", signing_seed=other, now_ms=T0)

    found = verify(forged, public_key=PUBLIC_KEY)

    assert found == Verdict(
        False, (f"signed by {public_key_of(other).hex()}, not by {PUBLIC_KEY.hex()}",)
    )


@pytest.mark.parametrize(("key", "salt"), [(b"bob", SALT), (KEY, bytes(32))])
def test_receipt_of_another_key_or_salt_is_refused(key: bytes, salt: bytes) -> None:
    found = verify(receipt(), key=key, salt=salt)

    assert found.reasons == ("it is about another key, or was made with another salt",)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"version": 2}, "version 2"),
        ({"replicas": []}, "no replica was scanned"),
        ({"replicas": [{"records": 1, "residue": 0}]}, "not clean"),
        ({"replicas": [{"records": 0, "residue": 1}]}, "not clean"),
        ({"replicas": [7]}, "not clean"),
        ({"extra": 1}, "extra"),
        ({"topic": ...}, "topic"),
        ({"public_key": 7}, "public_key is not hexadecimal"),
        ({"public_key": "zz"}, "public_key is not hexadecimal"),
        ({"public_key": PUBLIC_KEY.hex().upper()}, "not spelled"),
        ({"public_key": "00"}, "signature does not fit"),
    ],
)
def test_signed_nonsense_is_refused(change: dict[str, Any], reason: str) -> None:
    found = verify(signed(**change))

    assert not found.ok
    assert reason in found.reasons[0]


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"7", b"[" * 100_000, b'{"a":NaN}', b"\xff", b" " * (MAX_BYTES + 1)]
)
def test_other_bytes_are_refused(data: bytes) -> None:
    assert not verify(data).ok
    with pytest.raises(ReceiptRefused):
        parse(data)


# -- reading --------------------------------------------------------------------------------------


def test_text_tells_the_same_story() -> None:
    text = render(parse(receipt()))

    for part in (
        "Erasure ER-", "ticket 4711", "by clerk", ", met", "verified      2027-01-15T08:06:00.000Z",
        "partition 3, offset 5", "12 files, 3456 bytes, 0 records, 0 residue, 0 mentions",
        "customers-0: 3 records (1 tombstones), offsets 10 to 12", "orders-2",
        "lake, table: unknown (12 files)", "- copies outside", "not legal advice",
        PUBLIC_KEY.hex(),
    ):  # fmt: skip
        assert part in text
    assert KEY.decode() not in text


def test_text_does_not_let_a_reason_move_the_cursor() -> None:
    made = receipt(at_stage(Stage.VERIFIED, requested(reason="a\x1b[2J\nb\u202ec")))

    text = render(parse(made))

    assert "a\\x1b[2J\\x0ab\\x202ec" in text
    assert "\x1b" not in text


def test_missed_deadline_is_shown() -> None:
    made = receipt(at_stage(Stage.VERIFIED, requested(deadline_ms=T0 + 1)))

    assert ", MISSED" in render(parse(made))


# -- odd kinds ------------------------------------------------------------------------------------

ODD: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    7,
    -1.5,
    "",
    "x",
    [],
    [None],
    [[]],
    [{}],
    {},
    {"a": 1},
)


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every field, however deep."""
    if path:
        yield path
    if isinstance(value, list):
        value = dict(enumerate(value))
    for name, each in value.items() if isinstance(value, dict) else ():
        yield from paths_of(each, (*path, name))


def with_odd(path: tuple[Any, ...], odd: object) -> bytes:
    content = json.loads(receipt())
    place = content
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = odd
    # What was changed is signed all the same, except where it is the signature itself.
    return signed(**content) if path != ("signature",) else canonical(content)


@pytest.mark.parametrize("path", list(paths_of(json.loads(receipt()))), ids=str)
def test_field_of_an_odd_kind_is_refused_in_words_or_can_be_shown(path: tuple[Any, ...]) -> None:
    for odd in ODD:
        found = verify(with_odd(path, odd), public_key=PUBLIC_KEY, key=KEY, salt=SALT)

        if found.ok:
            assert render(parse(with_odd(path, odd)))
        else:
            assert found.reasons[0]


@pytest.mark.parametrize("odd", [False, 0.0])
def test_count_that_only_equals_zero_is_no_count(odd: object) -> None:
    found = verify(with_odd(("replicas", 0, "records"), odd))

    assert "replicas[0].records is" in found.reasons[0]


def test_only_a_key_from_elsewhere_makes_a_receipt_trusted() -> None:
    assert verify(receipt()).is_trusted is False
    assert verify(receipt(), public_key=PUBLIC_KEY).is_trusted is True
    assert verify(receipt(), public_key=bytes(32)).ok is False
