"""Receipts: what they say, that no changed byte passes, and how they read."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ledgerstone.erasure import changes
from ledgerstone.erasure.changes import with_evidence
from ledgerstone.erasure.erasure import (
    Erasure,
    Evidence,
    HostDisk,
    HostedAt,
    KindCount,
    NameHits,
    PartitionEnd,
    PartitionScan,
    RecordCounts,
    RecordSpan,
    ScanOutcome,
    ScanProof,
    SearchedFiles,
    Stage,
)
from ledgerstone.erasure.receipt import (
    MAX_BYTES,
    ReceiptRefused,
    ReceiptVerdict,
    canonical,
    parse,
    verify,
)
from ledgerstone.erasure.receipt_issue import issue
from ledgerstone.erasure.receipt_text import render
from ledgerstone.erasure.sealing import public_key_of, sign
from ledgerstone.errors import InvariantViolation
from tests.unit.erasure.making import KEY, SALT, SEED, T0, at_stage, requested, scan

PUBLIC_KEY = public_key_of(SEED)


def verified() -> Erasure:
    word = Evidence(
        verifier="lake",
        output="table",
        outcome=ScanOutcome.UNKNOWN,
        evidence="12 files",
        given_ms=T0,
    )
    erasure = with_evidence(at_stage(Stage.VERIFIED), word, salt=SALT)
    counts = RecordCounts(older=0, recreated=3, elsewhere=1)
    return replace(
        erasure,
        scans=tuple(replace(each, counts=counts) for each in erasure.scans),
        recreated=(RecordSpan("customers", 0, 10, 12, 3, 1),),
        elsewhere=(RecordSpan("orders", 2, 4, 4, 1),),
    )


def receipt(erasure: Erasure | None = None) -> bytes:
    return issue(
        erasure or verified(), cluster_id="cluster", signing_seed=SEED, now_ms=T0 + 900_000
    )


ISSUED = receipt()


def signed(**change: Any) -> bytes:
    """A receipt with other fields, signed all the same."""
    content = {**json.loads(ISSUED), **change}
    content = {name: value for name, value in content.items() if value is not ...}
    content.pop("signature", None)
    return canonical({**content, "signature": sign(SEED, canonical(content)).hex()})


REPLICA = json.loads(ISSUED)["replicas"][0]


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
        changed = bytearray(whole)
        # A letter becomes another one, or changes its case.
        changed[at] ^= 0x20 if at % 3 == 0 else 0x01
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

    assert found == ReceiptVerdict(
        False, (f"signed by {public_key_of(other).hex()}, not by {PUBLIC_KEY.hex()}",)
    )


@pytest.mark.parametrize(("key", "salt"), [(b"bob", SALT), (KEY, bytes(32))])
def test_receipt_of_another_key_or_salt_is_refused(key: bytes, salt: bytes) -> None:
    found = verify(receipt(), key=key, salt=salt)

    assert found.reasons == ("it is about another key, or was made with another salt",)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"version": 5}, "version '5'"),
        ({"version": True}, "version 'True'"),
        ({"replicas": []}, "no replica was scanned"),
        ({"replicas": [{**REPLICA, "records": 1}]}, "not clean"),
        ({"replicas": [{**REPLICA, "records": False}]}, "records is true or false"),
        ({"replicas": [{**REPLICA, "more": 1}]}, "missing or unknown"),
        ({"replicas": [{**REPLICA, "residue": 1}]}, "not clean"),
        ({"replicas": [{**REPLICA, "residue": 1, "accepted": 1}]}, "listed under exceptions"),
        ({"replicas": [{**REPLICA, "recreated_records": 2}]}, "that are not listed"),
        ({"replicas": [{**REPLICA, "other_topic_records": 2}]}, "that are not listed"),
        ({"replicas": [{**REPLICA, "mentions": "0"}]}, "mentions is a text"),
        ({"recreated": []}, "that are not listed"),
        ({"recreated": 7}, "recreated is a whole number, not a list"),
        ({"exceptions": [7]}, "exceptions[0] is a whole number"),
        ({"clock": "sundial"}, "by which clock"),
        ({"kind": "hearsay"}, "neither of an erasure"),
        ({"kind": "not_found"}, "nothing was searched"),
        ({"replicas": [7]}, "replicas[0] is a whole number"),
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


# -- other versions, other kinds -------------------------------------------------------------------


def test_receipt_of_version_1_verifies_and_says_what_it_did_not_count() -> None:
    old = Path(__file__).with_name("receipt_version_1.json").read_bytes()

    found = verify(old, public_key=PUBLIC_KEY, key=KEY, salt=SALT)

    assert found.ok
    assert "was concluded and not counted" in found.notes[-1]
    assert "12 files, 3456 bytes, 0 records" in render(parse(old))
    for at in range(0, len(old), 7):
        changed = bytearray(old)
        changed[at] ^= 1
        assert not verify(bytes(changed)).ok, at


def test_receipt_of_version_2_verifies_and_says_what_it_does_not_name() -> None:
    old = Path(__file__).with_name("receipt_version_2.json").read_bytes()

    found = verify(old, public_key=PUBLIC_KEY, key=KEY, salt=SALT)

    assert found.ok
    assert "which outputs of the topic were known" in found.notes[-1]
    assert "12 files, 3456 bytes, 0 records" in render(parse(old))
    for at in range(0, len(old), 7):
        changed = bytearray(old)
        changed[at] ^= 1
        assert not verify(bytes(changed)).ok, at


def test_receipt_of_version_3_verifies_and_says_that_it_speaks_of_one_node() -> None:
    old = Path(__file__).with_name("receipt_version_3.json").read_bytes()

    found = verify(old, public_key=PUBLIC_KEY, key=KEY, salt=SALT)

    assert found.ok
    assert "which life of a node made its scan" in found.notes[-1]
    assert "12 files, 3456 bytes, 0 records" in render(parse(old))
    for at in range(0, len(old), 7):
        changed = bytearray(old)
        changed[at] ^= 1
        assert not verify(bytes(changed)).ok, at


# -- several brokers ------------------------------------------------------------------------------


def of_two_brokers() -> Erasure:
    """Broker 3 is given up; its disk was never scanned."""
    hosted = (HostedAt(0, 5, 2, 0, 12),)
    scans = [
        scan(node_id=each, proof=ScanProof(f"incarnation-{each}", 40 + each, (disk,), hosted, 1))
        for each, disk in ((1, "disk-1"), (2, "disk-2"))
    ]
    disks = [HostDisk(each, f"disk-{each}") for each in (1, 2, 3)]
    unlinked = changes.with_hosts(at_stage(Stage.UNLINKED), disks)
    unlinked = changes.with_lost_broker(
        unlinked, broker_id=3, reason="shredded", by="ops", salt=SALT, now_ms=T0
    )
    return changes.verified(unlinked, scans, recreated=(), elsewhere=(), now_ms=T0 + 800_000)


def test_receipt_names_every_broker_with_its_life_and_its_disks() -> None:
    made = receipt(of_two_brokers())

    content = json.loads(made)
    assert verify(made, public_key=PUBLIC_KEY).ok
    assert [
        (each["node_id"], each["incarnation_id"], each["broker_epoch"], each["directory_ids"])
        for each in content["replicas"]
    ] == [(1, "incarnation-1", 41, ["disk-1"]), (2, "incarnation-2", 42, ["disk-2"])]
    assert content["replicas"][1]["hosted"] == [
        {
            "partition": 0,
            "partition_epoch": 5,
            "leader_epoch": 2,
            "log_start_offset": 0,
            "log_end_offset": 12,
        }
    ]
    assert content["lost_brokers"] == [
        {
            "broker_id": 3,
            "directory_ids": ["disk-3"],
            "reason": "shredded",
            "by": "ops",
            "at": "2027-01-15T08:00:00.000Z",
        }
    ]
    text = render(parse(made))
    assert "incarnation incarnation-2, broker epoch 42, log directories disk-2" in text
    assert "NOT SCANNED, given up by the operator" in text
    assert "broker 3, log directories disk-3; by ops" in text


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda each: each | {"node_id": 1}, "a broker is listed twice"),
        (lambda each: each | {"incarnation_id": None}, "without its incarnation"),
        (lambda each: each | {"directory_ids": []}, "without its incarnation and its disks"),
        (lambda each: each | {"broker_epoch": "42"}, "broker_epoch is a text"),
        (lambda each: {k: v for k, v in each.items() if k != "hosted"}, "hosted is missing"),
    ],
)
def test_signed_receipt_of_several_brokers_that_proves_nothing_is_refused(
    change: Callable[[dict[str, Any]], dict[str, Any]], reason: str
) -> None:
    content = json.loads(receipt(of_two_brokers()))
    content["replicas"][1] = change(content["replicas"][1])
    content.pop("signature")
    made = canonical({**content, "signature": sign(SEED, canonical(content)).hex()})

    (refusal,) = verify(made).reasons

    assert reason in refusal


OUTPUT = {
    "kind": "group", "name": "people", "status": "not_verified", "reason": "missed_tombstone",
    "detail": "", "partition": 0, "tombstone_offset": 9, "committed_offset": 4,
}  # fmt: skip


@pytest.mark.parametrize(
    ("outputs", "in_all", "open_ones", "reason"),
    [
        ([OUTPUT], 1, 0, "not those that are listed"),
        ([OUTPUT], 2, 1, "not those that are listed"),
        ([OUTPUT], 0, 1, "not those that are listed"),
        ([OUTPUT, OUTPUT], 2, 2, "listed twice"),
        ([{**OUTPUT, "reason": ""}], 1, 1, "without a reason"),
        ([{**OUTPUT, "status": "verified"}], 1, 0, "verified with one"),
        ([{**OUTPUT, "status": "fine"}], 1, 1, "an output that is fine"),
        ([{**OUTPUT, "kind": "sink"}], 1, 1, "missing or unknown"),
        ([{**OUTPUT, "name": 5}], 1, 1, "name is a whole number"),
    ],
)
def test_counts_of_outputs_are_those_of_the_list(
    outputs: list[Any], in_all: int, open_ones: int, reason: str
) -> None:
    fields = {"outputs": outputs, "outputs_in_all": in_all, "outputs_not_verified": open_ones}

    found = verify(signed(**fields))

    assert not found.ok
    assert reason in found.reasons[0]


def test_known_outputs_read_as_sentences() -> None:
    fields = {"outputs": [OUTPUT], "outputs_in_all": 3, "outputs_not_verified": 3}
    made = signed(**fields)

    text = render(parse(made))

    assert verify(made).ok
    assert "Known outputs: 3, 3 of them not verified" in text
    assert (
        "group people: NOT VERIFIED, it had committed offset 4 when the tombstone in partition 0 "
        "at offset 9 was removed"
    ) in text
    assert "and 2 more groups, not verified" in text


def test_receipt_signs_the_counts_of_its_scan() -> None:
    scanned = replace(
        verified().scans[0],
        counts=RecordCounts(older=0, recreated=3, elsewhere=1),
        mentions=5,
        names=(NameHits("topic names", 4),),
        kinds=(KindCount("logs", 10, 3000), KindCount("indexes", 2, 456)),
        partitions=(PartitionScan(0, 12, 3456, "cd" * 32),),
        partition_count=3,
    )

    made = receipt(replace(verified(), scans=(scanned,)))

    (replica,) = json.loads(made)["replicas"]
    assert (replica["records"], replica["recreated_records"]) == (0, 3)
    assert (replica["other_topic_records"], replica["mentions"]) == (1, 5)
    assert replica["names"] == [{"what": "topic names", "hits": 4}]
    assert replica["kinds"][0] == {"kind": "logs", "files": 10, "bytes": 3000}
    assert replica["partitions"][0]["digest"] == "cd" * 32
    assert verify(made).ok
    text = render(parse(made))
    for part in (
        "10 logs, 3000 bytes", "partition 0: 12 files", "and 2 more partitions",
        "3 records written later, 1 in other topics", "4 in topic names", "names are places",
    ):  # fmt: skip
        assert part in text


def test_scan_with_older_records_verifies_nothing() -> None:
    dirty = replace(verified().scans[0], counts=RecordCounts(older=1))

    with pytest.raises(InvariantViolation, match="not all complete and clean"):
        changes.verified(at_stage(Stage.UNLINKED), [dirty], recreated=(), elsewhere=(), now_ms=T0)


def test_receipt_made_on_a_virtual_clock_says_so_wherever_it_is_shown() -> None:
    made = receipt(replace(verified(), on_virtual_clock=True))

    assert json.loads(made)["clock"] == "virtual"
    assert any("virtual clock" in text for text in json.loads(made)["not_covered"])
    assert "made on a virtual clock" in verify(made).notes[-1]
    assert "VIRTUAL" in render(parse(made))
    assert json.loads(receipt())["clock"] == "system"
    assert not any("virtual" in note for note in verify(receipt()).notes)


def test_key_that_is_nowhere_gets_a_signed_statement_of_the_search() -> None:
    looked = SearchedFiles(
        records=0,
        files=7,
        scanned_bytes=900,
        started_ms=T0 + 1000,
        ended_ms=T0 + 2000,
        node_ids=(1, 2),
    )
    erasure = changes.not_found(
        requested(), note="nowhere", now_ms=T0 + 3000, looked_at=looked, ends=[PartitionEnd(0, 9)]
    )

    made = receipt(erasure)

    content = json.loads(made)
    assert content["kind"] == "not_found"
    assert content["searched"] == {
        "partitions": 1, "files": 7, "bytes": 900, "records": 0,
        "started_at": "2027-01-15T08:00:01.000Z", "ended_at": "2027-01-15T08:00:02.000Z",
        "node_ids": [1, 2],
    }  # fmt: skip
    assert "none had the key" in content["statement"]
    assert any("they were not searched" in text for text in content["not_covered"])
    assert verify(made, public_key=PUBLIC_KEY, key=KEY, salt=SALT).ok
    assert "1 partitions, 7 files, 900 bytes, 0 records of the key" in render(parse(made))


def test_key_that_nobody_looked_for_gets_no_statement() -> None:
    erasure = changes.not_found(requested(), note="the topic is gone", now_ms=T0)

    with pytest.raises(InvariantViolation):
        receipt(erasure)


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
    content = json.loads(ISSUED)
    place = content
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = odd
    # What was changed is signed all the same, except where it is the signature itself.
    return signed(**content) if path != ("signature",) else canonical(content)


@pytest.mark.parametrize("path", list(paths_of(json.loads(ISSUED))), ids=str)
def test_field_of_an_odd_kind_is_refused_in_words_or_can_be_shown(path: tuple[Any, ...]) -> None:
    for odd in ODD:
        made = with_odd(path, odd)
        found = verify(made, public_key=PUBLIC_KEY, key=KEY, salt=SALT)

        if found.ok:
            assert render(parse(made))
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
