"""Plug-ins are taken in by name, asked a question without a key, and bounded by their word."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from ledgerstone.erasure.erasure import ScanOutcome, Stage
from ledgerstone.erasure.verifiers import (
    VerifierQuestion,
    Word,
    evidence_from,
    load_verifiers,
    question_about,
)
from ledgerstone.errors import ConfigError
from tests.unit.erasure.making import KEY, T0, TOMBSTONES, at_stage


class Lake:
    name = "lake"

    def verify(self, question: VerifierQuestion) -> Sequence[Word]:
        return [Word("table", ScanOutcome.CLEAN, f"asked about {question.topic}")]


@dataclass
class Point:
    name: str
    factory: Callable[[], object]

    def load(self) -> object:
        return self.factory


def test_verifiers_are_loaded_by_their_own_names() -> None:
    verifiers = load_verifiers([Point("anything", Lake)])

    words = verifiers["lake"].verify(question_about(at_stage(Stage.VERIFIED)))

    assert words == [Word("table", ScanOutcome.CLEAN, "asked about customers")]


def test_two_verifiers_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="another verifier is named 'lake'"):
        load_verifiers([Point("a", Lake), Point("b", Lake)])


def test_plug_in_that_is_no_verifier_is_refused() -> None:
    with pytest.raises(ConfigError, match="no name or no verify"):
        load_verifiers([Point("a", dict)])


def test_plug_in_that_has_nothing_to_answer_for_is_left_out() -> None:
    verifiers = load_verifiers([Point("a", lambda: None), Point("b", Lake)])

    assert list(verifiers) == ["lake"]


def test_question_has_the_print_and_the_key_only_where_it_is_given() -> None:
    erasure = at_stage(Stage.VERIFIED)

    plain, clear = question_about(erasure), question_about(erasure, KEY)

    assert (plain.key, clear.key) == (None, KEY)
    assert plain.key_hmac == erasure.key_print.hmac
    assert plain.tombstones == TOMBSTONES
    assert KEY.decode() not in repr(clear)


def test_verifier_that_names_no_output_does_not_know() -> None:
    (evidence,) = evidence_from("lake", [], now_ms=T0)

    assert (evidence.verifier, evidence.outcome) == ("lake", ScanOutcome.UNKNOWN)
