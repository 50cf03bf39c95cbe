"""Scans and analyses whose worker falls silent, in virtual time."""

import pytest

from ledgerstone.erasure.erasure import Stage
from ledgerstone.server.anatomy.facts import anatomy_of
from ledgerstone.server.effects import Analyse, WorkerName
from ledgerstone.server.erasing.scans import ScanFailed
from ledgerstone.server.results import AnalysisFailed, StillAtWork
from ledgerstone.types import TopicPartition
from tests.unit.server.erasing_kit import KEY, TOPIC, ErasingMachine, machine_with

TIMEOUT_MS = 60_000
KILLED = f"the scanning worker was killed: it said nothing for {TIMEOUT_MS} ms"


@pytest.fixture
def machine() -> ErasingMachine:
    made = machine_with(1)
    made.put(0, (KEY, b"in Ulm"))
    made.held_scans = []
    return made


def given_up(machine: ErasingMachine) -> list[tuple[WorkerName, int]]:
    return [(each.worker, each.number) for each in machine.given_up]


def test_silent_scan_is_given_up_and_the_erasure_says_why_and_goes_on(
    machine: ErasingMachine,
) -> None:
    erasure_id = machine.erase()
    machine.settle()
    (hung,) = machine.held_scans or []
    machine.report(hung, StillAtWork())

    machine.advance(TIMEOUT_MS)
    found = given_up(machine)
    machine.held_scans = None
    machine.finish_scan(hung, ScanFailed(KILLED, worker_died=True))
    machine.settle()
    waits_for = machine.call("GET", f"erasures/{erasure_id}")["waits_for"]
    erasure = machine.run(erasure_id)

    assert found == [(WorkerName.SCANNING, hung.number)]
    assert waits_for == f"the search is incomplete: {KILLED}"
    assert erasure.stage is Stage.RECEIPTED


def test_scan_that_waits_for_the_worker_is_not_blamed(machine: ErasingMachine) -> None:
    machine.erase()
    machine.settle()

    machine.advance(4 * TIMEOUT_MS)

    assert machine.given_up == []


def test_scan_that_says_it_is_at_work_may_take_as_long_as_it_likes(
    machine: ErasingMachine,
) -> None:
    machine.erase()
    machine.settle()
    (slow,) = machine.held_scans or []

    for _ in range(20):
        machine.report(slow, StillAtWork())
        machine.advance(TIMEOUT_MS // 2)

    assert machine.given_up == []


def test_what_a_worker_says_after_its_scan_ended_starts_no_watch(machine: ErasingMachine) -> None:
    machine.erase()
    machine.settle()
    (scan,) = machine.held_scans or []
    machine.finish_scan(scan)

    machine.report(scan, StillAtWork())
    machine.advance(2 * TIMEOUT_MS)

    assert machine.given_up == []


def test_silent_analysis_is_given_up(machine: ErasingMachine) -> None:
    partition = machine.broker.partitions.get(TopicPartition(TOPIC, 0))
    anatomy_of(machine.broker.anatomy, partition)
    (asked,) = machine.broker.anatomy.tick()
    assert isinstance(asked, Analyse)
    machine.report(asked, StillAtWork())

    machine.advance(TIMEOUT_MS)
    found = given_up(machine)
    machine.report(asked, AnalysisFailed("the analysing worker was killed"))

    assert found == [(WorkerName.ANALYSING, asked.number)]
    assert (
        anatomy_of(machine.broker.anatomy, partition).not_divided
        == "the analysing worker was killed"
    )
