"""Rests of erasures when the wall clock is moved: none lasts as long as the clock was wrong."""

from ledgerstone.erasure.erasure import Stage
from ledgerstone.erasure.facts import Facts, SearchOutcome
from ledgerstone.erasure.life import next_step
from ledgerstone.erasure.steps import Ask, ScanStep, Search, Step, WaitStep
from tests.unit.erasure.making import DAY_MS, T0, at_stage, partition, scan

NOW = T0 + 20 * 60_000
YEAR_MS = 365 * DAY_MS


def step(stage: Stage, facts: Facts, *, now_ms: int = NOW) -> Step:
    return next_step(at_stage(stage), facts, now_ms=now_ms)


def test_what_ended_while_the_clock_was_ahead_is_tried_again_at_once() -> None:
    """It was waited for until the clock had caught up, which may be years."""
    ahead_ms = NOW + YEAR_MS
    search = SearchOutcome(home_partition=0, ends=(), ended_ms=ahead_ms, trouble="damaged")
    futile = partition(last_pass_started_ms=ahead_ms)
    dirty = scan(residue=1, started_ms=ahead_ms - 10, ended_ms=ahead_ms)

    assert step(Stage.REQUESTED, Facts(search=search)) == Search()
    assert step(Stage.TOMBSTONED, Facts(partitions={0: futile})) == Ask((0,))
    assert step(Stage.UNLINKED, Facts(node_ids=[1], scans=[dirty])) == ScanStep((1,))


def test_clock_that_was_set_forward_during_a_scan_makes_no_rest_of_years() -> None:
    ended_ms = NOW + YEAR_MS
    dirty = scan(residue=1, started_ms=NOW, ended_ms=ended_ms)

    found = step(Stage.UNLINKED, Facts(node_ids=[1], scans=[dirty]), now_ms=ended_ms)

    assert isinstance(found, WaitStep)
    assert found.until_ms == ended_ms + DAY_MS
