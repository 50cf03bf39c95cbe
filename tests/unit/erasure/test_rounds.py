"""Steps of many erasures become few pieces of work."""

from dataclasses import replace

from ledgerstone.erasure.erasure import Erasure, Stage
from ledgerstone.erasure.facts import Facts
from ledgerstone.erasure.life import next_step
from ledgerstone.erasure.rounds import HOLD_BACK_MS, make_round
from ledgerstone.erasure.steps import (
    Advance,
    Ask,
    AskVerifiers,
    Issue,
    Nothing,
    ScanStep,
    Search,
    Step,
    WaitStep,
    WriteTombstones,
)
from ledgerstone.types import TopicPartition
from tests.unit.erasure.making import T0, at_stage, requested

NOW = T0 + 20 * 60_000


def many(count: int, stage: Stage) -> list[Erasure]:
    return [at_stage(stage, requested(seed)) for seed in range(count)]


def test_searches_and_scans_of_many_are_one_each() -> None:
    waiting = many(50, Stage.REQUESTED)
    clean = many(50, Stage.UNLINKED)
    pairs = [
        (each, next_step(each, Facts(node_ids=[1]), now_ms=NOW)) for each in (*waiting, *clean)
    ]

    made = make_round(pairs, now_ms=NOW)

    assert made.searches == {"customers": [each.id for each in waiting]}
    assert made.scans == {1: [each.id for each in clean]}


def test_asks_for_one_partition_are_one_ask() -> None:
    one, other = many(2, Stage.TOMBSTONED)

    made = make_round([(one, Ask((0, 3))), (other, Ask((3,)))], now_ms=NOW)

    assert made.asks == {
        TopicPartition("customers", 0): [one.id],
        TopicPartition("customers", 3): [one.id, other.id],
    }
    assert not made.ask_journal


def test_pass_waits_for_tombstones_that_are_about_to_come() -> None:
    asker = at_stage(Stage.TOMBSTONED, requested(1))
    comer = at_stage(Stage.SEARCHED, requested(2))
    elsewhere = replace(asker, id="ER-OTHER", topic="orders")
    pairs: list[tuple[Erasure, Step]] = [
        (asker, Ask((0,))), (comer, WriteTombstones((0,), ())), (elsewhere, Ask((0,))),
    ]  # fmt: skip

    held = make_round(pairs, now_ms=asker.stage_ms)
    freed = make_round(pairs, now_ms=asker.stage_ms + HOLD_BACK_MS)

    assert list(held.asks) == [TopicPartition("orders", 0)]
    assert held.next_ms == asker.stage_ms + HOLD_BACK_MS
    assert list(freed.asks) == [TopicPartition("customers", 0), TopicPartition("orders", 0)]


def test_scheduled_erasures_hold_nobody_back() -> None:
    asker, later = at_stage(Stage.TOMBSTONED), requested(2, after_ms=99)

    made = make_round([(asker, Ask((0,))), (later, WaitStep(T0 + 99, "x"))], now_ms=asker.stage_ms)

    assert list(made.asks) == [TopicPartition("customers", 0)]


def test_every_step_has_its_place() -> None:
    one, two, three, four, five, six = many(6, Stage.VERIFIED)
    writes = WriteTombstones((1,), ())
    pairs: list[tuple[Erasure, Step]] = [
        (one, Advance(two)), (two, writes), (three, AskVerifiers(("lake",))), (four, Issue()),
        (five, WaitStep(NOW + 5, "x")), (six, Ask((), journal=True)), (six, Nothing()),
        (one, ScanStep((2,))), (one, Search()),
    ]  # fmt: skip

    made = make_round(pairs, now_ms=NOW)

    assert made.advances == [two]
    assert made.writes == {two.id: writes}
    assert made.verifiers == {three.id: ("lake",)}
    assert made.issues == [four.id]
    assert made.waits == {five.id: WaitStep(NOW + 5, "x")}
    assert made.ask_journal
    assert made.asks == {}
    assert made.next_ms == NOW + 5


def test_round_without_times_has_no_next() -> None:
    made = make_round([(requested(), WaitStep(None, "a transaction is open"))], now_ms=NOW)

    assert made.next_ms is None
