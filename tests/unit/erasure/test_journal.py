"""Journal records hold a whole erasure, come back the same, and are refused where damaged."""

import json
from dataclasses import replace
from typing import Any

import pytest

from ledgerstone.erasure.changes import with_evidence
from ledgerstone.erasure.erasure import Erasure, Evidence, RecordSpan, ScanOutcome, Stage
from ledgerstone.erasure.journal import ErasureBook, decode, encode, record_of
from ledgerstone.errors import CorruptRecord
from tests.unit.erasure.making import KEY, SALT, T0, at_stage, requested

STAGES = [stage for stage in Stage if stage not in (Stage.CANCELLED, Stage.NOT_FOUND)]


def full() -> Erasure:
    """One with something in every field."""
    span = RecordSpan("customers", 1, 2, 3, 4, 1)
    word = Evidence(
        verifier="lake", output="table", outcome=ScanOutcome.CLEAN, evidence="ä", given_ms=T0
    )
    erasure = with_evidence(at_stage(Stage.VERIFIED), word, salt=SALT)
    return replace(
        erasure, recreated=(span,), elsewhere=(span,), note="n", awaited_verifiers=("lake",)
    )


@pytest.mark.parametrize("stage", [*STAGES[1:]])
def test_erasure_comes_back_from_its_record_at_every_stage(stage: Stage) -> None:
    erasure = at_stage(stage)

    assert decode(encode(erasure)) == erasure


def test_every_field_comes_back() -> None:
    assert decode(encode(full())) == full()


def test_record_is_ascii_json_under_the_id_without_the_key_in_clear() -> None:
    for stage in STAGES[1:]:
        key, value = record_of(at_stage(stage))

        assert key.decode("ascii").startswith("ER-")
        assert json.loads(value.decode("ascii"))["version"] == 1
        assert KEY not in value
        assert KEY.hex().encode() not in value


def test_book_holds_the_latest_record_of_each_erasure() -> None:
    book, one, other = ErasureBook(), requested(1), requested(2)

    for erasure in (one, other, at_stage(Stage.STAMPED, one)):
        book.replay(*record_of(erasure))

    assert [erasure.stage for erasure in book] == [Stage.STAMPED, Stage.REQUESTED]
    assert book.get(other.id) == other
    assert book.get("ER-0") is None


def test_record_without_a_value_forgets_the_erasure() -> None:
    book, erasure = ErasureBook(), requested()
    book.replay(*record_of(erasure))

    book.replay(erasure.id.encode(), None)
    book.replay(erasure.id.encode(), None)

    assert len(book) == 0


def test_unfinished_are_those_that_are_not_over() -> None:
    book, one, other = ErasureBook(), requested(1), at_stage(Stage.RECEIPTED, requested(2))
    for erasure in (one, other):
        book.replay(*record_of(erasure))

    assert book.unfinished() == [one]


@pytest.mark.parametrize("key", [b"", b"ER-1", b"\xff" * 19, b"ER-" + b"0" * 17])
def test_key_that_is_no_id_is_refused(key: bytes) -> None:
    with pytest.raises(CorruptRecord, match="no erasure id"):
        ErasureBook().replay(key, encode(requested()))


def test_erasure_under_the_id_of_another_is_refused() -> None:
    one, other = requested(1), requested(2)

    with pytest.raises(CorruptRecord, match=f"{other.id} under the key {one.id}"):
        ErasureBook().replay(one.id.encode(), encode(other))


def test_every_torn_record_is_refused() -> None:
    whole = encode(full())

    for size in range(len(whole)):
        with pytest.raises(CorruptRecord, match="no erasure"):
            decode(whole[:size])


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"stage": "nowhere"},
        {"stage": "requested"},  # without its sealed key
        {"topic_id": "x"},
        {"key_print": None},
        {"tombstones": [[1]]},
        {"scans": [{"files": 1}]},
        {"evidence": [{"outcome": "perhaps"}]},
        {"stage_times": 7},
        {"sealed_key": "AAAA"},  # in a stage that has none
        {"sealed_key": "?"},
    ],
)
def test_damaged_field_is_refused(change: dict[str, Any]) -> None:
    content = json.loads(encode(full()))

    with pytest.raises(CorruptRecord):
        decode(json.dumps({**content, **change}).encode())


@pytest.mark.parametrize("name", sorted(json.loads(encode(full()))))
@pytest.mark.parametrize("odd", [None, True, 7, -1.5, "x", "", [], [[]], [None], {}, {"a": 1}])
def test_field_of_another_type_is_refused_or_what_it_says(name: str, odd: object) -> None:
    content = {**json.loads(encode(full())), name: odd}

    try:
        erasure = decode(json.dumps(content).encode())
    except CorruptRecord:
        return

    # It is one that could have been written.
    assert decode(encode(erasure)) == erasure
    assert json.loads(encode(erasure))[name] == odd


@pytest.mark.parametrize("value", [b"[]", b"null", b"7", b"[" * 100_000, b"\xff"])
def test_value_that_is_no_object_is_refused(value: bytes) -> None:
    with pytest.raises(CorruptRecord):
        decode(value)
