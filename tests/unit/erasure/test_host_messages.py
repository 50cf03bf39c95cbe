"""What brokers tell each other for erasures: it comes back as it was, and nonsense is refused."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from ledgerstone.erasure import host_messages as said
from ledgerstone.erasure.erasure import HostedAt, RecordSpan, ScanProof
from ledgerstone.erasure.facts import BlockingTxn, PartitionFacts
from ledgerstone.erasure.scan_plan import KeyPrints, Place, SearchReport, SpanOfPrint
from ledgerstone.errors import InvalidRequest
from tests.unit.erasure.making import PRINT_KEY, T0, scan

QUESTIONS = [
    said.TombstoneQuestion("customers", "x" * 22, 0, 9, "tombstoned", T0 - 5000),
    said.TombstoneQuestion("customers", "x" * 22, 3, 5, "removed", T0),
]
WORDS = [
    said.ReplicaWord(
        PartitionFacts(
            log_start_offset=1,
            first_dirty_offset=7,
            tombstone_is_there=True,
            horizon_ms=T0 + 70,
            last_pass_started_ms=T0 - 3,
            waits_for="an open transaction",
            opens_at_ms=T0 + 9,
            abortable_txns=(BlockingTxn(4, 2),),
            leftovers_since_ms=T0 - 1,
        ),
        (("people", 3),),
    ),
    None,
]
KEYS = KeyPrints.under(PRINT_KEY, [PRINT_KEY.print_of("customers", b"alice@example.org")])
REPORT = SearchReport(
    spans=(SpanOfPrint(0, RecordSpan("customers", 0, 1, 9, 3, 1)),),
    places=(Place(0, "customers", 0, "a.log", 0, 9, T0, True, "ER-1", "none", 3),),
    is_truncated=False,
    scanned_bytes=100,
    files=2,
)
FOUND = said.SearchWord((said.ReplicaEnd(0, 10, 9, True),), REPORT)
WRITES = [
    said.TombstoneWrite(
        "customers", "x" * 22, 0, b"alice\xff", (("id", b"ER-1"),), (("id", b"ER-1"),), "ER-1"
    )
]
SCANS = [
    scan(
        proof=ScanProof("i", 4, ("d1", "d2"), (HostedAt(0, 1, 2, 3, 4),), 1),
        hidden_topics=(("alice", "…"),),
        records=(RecordSpan("customers", 0, 1, 1, 1),),
    )
]

Read = Callable[[dict[str, Any]], object]
# How each is said at a clock that is an hour ahead, and how it is read.
AHEAD_MS = 3_600_000
CASES: dict[str, tuple[dict[str, Any], Read, object]] = {
    "questions": (
        said.questions_json(QUESTIONS, now_ms=T0),
        lambda content: said.questions_of(content, now_ms=T0),
        QUESTIONS,
    ),
    "words": (
        said.words_json(WORDS, now_ms=T0),
        lambda content: said.words_of(content, now_ms=T0),
        WORDS,
    ),
    "keys": (said.keys_json(KEYS), said.keys_of, KEYS),
    "search": (said.search_word_json(FOUND), said.search_word_of, FOUND),
    "writes": (said.writes_json(WRITES), said.writes_of, WRITES),
    "written": (
        said.written_json([said.WrittenTombstone(7, T0, "", 3)], now_ms=T0),
        lambda content: said.written_of(content, 1, now_ms=T0),
        [said.WrittenTombstone(7, T0, "", 3)],
    ),
    "scans": (said.scans_json(SCANS), said.scans_of, SCANS),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_said_comes_back_as_it_was(name: str) -> None:
    content, read, value = CASES[name]

    assert read(said.decoded(said.encoded(content))) == value


def test_times_are_those_of_the_reader() -> None:
    """The host's clock is an hour ahead; what it says of its past is the reader's past."""
    facts = PartitionFacts(
        log_start_offset=0,
        first_dirty_offset=0,
        tombstone_is_there=True,
        horizon_ms=T0 + AHEAD_MS + 500,
        last_pass_started_ms=T0 + AHEAD_MS - 500,
    )

    told = said.words_json([said.ReplicaWord(facts)], now_ms=T0 + AHEAD_MS)
    (word,) = said.words_of(said.decoded(said.encoded(told)), now_ms=T0)

    assert word is not None
    assert (word.facts.horizon_ms, word.facts.last_pass_started_ms) == (T0 + 500, T0 - 500)


def test_what_lies_ahead_keeps_its_time_while_clocks_are_close() -> None:
    facts = PartitionFacts(
        log_start_offset=0,
        first_dirty_offset=0,
        tombstone_is_there=True,
        horizon_ms=T0 + 500,
        leftovers_since_ms=T0 - 500,
    )

    told = said.decoded(said.encoded(said.words_json([said.ReplicaWord(facts)], now_ms=T0)))
    words = [said.words_of(told, now_ms=T0 - each)[0] for each in (3, 7)]

    assert [each and each.facts.horizon_ms for each in words] == [T0 + 500, T0 + 500]
    # What is past is never told younger than it is.
    assert [each and each.facts.leftovers_since_ms for each in words] == [T0 - 503, T0 - 507]


@pytest.mark.parametrize("name", CASES)
def test_nonsense_is_refused_and_nothing_else_happens(name: str) -> None:
    """Every value replaced by one of another kind, everything left out once, and dice."""
    content, read, _ = CASES[name]
    plain = json.loads(said.encoded(content))
    odd: list[Any] = [None, 1.5, True, -1, "x", [], {}, [[]], "9" * 400]
    dice = Random(7)
    for changed in [{}, {"words": 3}, *(_replaced(plain, dice, odd) for _ in range(400))]:
        try:
            read(said.decoded(said.encoded(changed)))
        except InvalidRequest:
            continue


def _replaced(content: Any, dice: Random, odd: list[Any]) -> Any:
    """A copy with one part replaced, somewhere."""
    if isinstance(content, dict) and content and dice.random() < 0.9:
        name = dice.choice(sorted(content))
        return {**content, name: _replaced(content[name], dice, odd)}
    if isinstance(content, list) and content and dice.random() < 0.9:
        index = dice.randrange(len(content))
        return [*content[:index], _replaced(content[index], dice, odd), *content[index + 1 :]]
    return dice.choice(odd)


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b"{" * 5000, b"nul"])
def test_what_is_no_json_object_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequest):
        said.decoded(data)


def test_lists_are_bounded() -> None:
    many = {"questions": said.questions_json(QUESTIONS, now_ms=T0)["questions"] * 300}
    with pytest.raises(InvalidRequest, match="600 questions"):
        said.questions_of(many, now_ms=T0)
    with pytest.raises(InvalidRequest, match="201 tombstones"):
        said.writes_of({"writes": said.writes_json(WRITES)["writes"] * 201})
    with pytest.raises(InvalidRequest, match="2001 prints"):
        said.keys_of({**said.keys_json(KEYS), "prints": said.keys_json(KEYS)["prints"] * 2001})
    with pytest.raises(InvalidRequest, match="a word of 1 tombstones, 2 were sent"):
        said.written_of({"written": [[1, 0, ""]]}, 2, now_ms=T0)
