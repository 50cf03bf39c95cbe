"""Verifiers that are installed beside the broker: other people's code, asked in a thread."""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest

from ledgerstone.erasure.erasure import ScanOutcome
from ledgerstone.erasure.verifiers import VerifierQuestion, Word
from ledgerstone.server.effects import AskVerifier, Effect
from ledgerstone.server.erasing.verifiers import Verifiers
from ledgerstone.server.results import Result, VerifierSaid
from ledgerstone.server.runtime import Runtime
from tests.kit.in_process import InProcess

QUESTION = VerifierQuestion(
    erasure_id="ER-0000000000000000", topic="t", key_hmac=bytes(32), key=None, tombstones=()
)
ASKED = AskVerifier("lake", QUESTION)


class Lake:
    name = "lake"

    def verify(self, question: VerifierQuestion) -> Sequence[Word]:
        return [Word(f"table {question.topic}", ScanOutcome.CLEAN, "0 rows")]


class Broken:
    name = "lake"

    def verify(self, question: VerifierQuestion) -> Sequence[Word]:
        raise ValueError("it says the secret")


class Point(NamedTuple):
    name: str
    load: Callable[[], object]


def install(monkeypatch: pytest.MonkeyPatch, *points: Point) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points)


def test_installed_verifier_is_known_by_name_and_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Point("lake", lambda: Lake))
    verifiers = Verifiers()

    words = verifiers.ask(ASKED)

    assert verifiers.names() == ("lake",)
    assert words == [Word("table t", ScanOutcome.CLEAN, "0 rows")]


def test_what_a_verifier_raises_is_told_without_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Point("lake", lambda: Broken))

    assert Verifiers().ask(ASKED) == "it failed with ValueError"


def test_verifier_that_cannot_be_loaded_is_as_if_it_were_not_there(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def load() -> object:
        raise ImportError("no pyspark")

    install(monkeypatch, Point("lake", load))

    verifiers = Verifiers()

    assert verifiers.names() == ()
    assert verifiers.ask(ASKED) == "no verifier lake is installed here"
    assert "no pyspark" in caplog.text


def test_runtime_asks_in_a_thread_and_tells_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Point("lake", lambda: Lake))
    broker = InProcess().broker
    told: list[tuple[Effect, Result]] = []
    done = asyncio.Event()

    def completed(_: object, effect: Effect, result: Result) -> list[Effect]:
        told.append((effect, result))
        done.set()
        return []

    monkeypatch.setattr(type(broker), "completed", completed)

    async def ask() -> None:
        runtime = Runtime(broker, asyncio.get_running_loop())
        runtime._perform([ASKED])
        await asyncio.wait_for(done.wait(), 10)
        await runtime.stop()

    asyncio.run(ask())

    assert told == [(ASKED, VerifierSaid((Word("table t", ScanOutcome.CLEAN, "0 rows"),)))]
