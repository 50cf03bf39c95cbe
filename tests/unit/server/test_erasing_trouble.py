"""Erasures when things go wrong: deaths at every stage, residue, lost secrets, full disks."""

import errno
import logging
from collections.abc import Sequence

import pytest

from ledgerstone.erasure.erasure import Erasure, ScanOutcome, Stage
from ledgerstone.erasure.receipt import verify
from ledgerstone.erasure.verifiers import Word
from ledgerstone.server.erasing import sweep
from ledgerstone.server.erasing.journal import ErasureJournal
from ledgerstone.server.erasing.scans import ScanFailed
from ledgerstone.server.http.monitor import readiness, samples
from ledgerstone.sim.filesystem import SimulatedCrash
from tests.unit.server.asks import create_topic, delete_topic, exposition
from tests.unit.server.erasing_kit import (
    DAY_MS,
    HOUR_MS,
    KEY,
    TOPIC,
    ErasingMachine,
    machine_with,
)

ON_THE_WAY = [
    Stage.SCHEDULED, Stage.REQUESTED, Stage.SEARCHED, Stage.TOMBSTONED, Stage.STAMPED,
    Stage.REMOVED, Stage.UNLINKED, Stage.VERIFIED,
]  # fmt: skip
SECRETS = "/data/erasure.keys"


def started(stage: Stage) -> tuple[ErasingMachine, str]:
    """An erasure that has just reached a stage and was held there."""
    machine = machine_with(partitions=2)
    machine.put(0, (KEY, b"lives in Ulm"), (b"bob", b"1"))
    machine.put(1, (KEY, b"stray"))
    after_ms = HOUR_MS if stage is Stage.SCHEDULED else 0
    awaited = ["lake"] if stage is Stage.VERIFIED else []
    if stage in (Stage.REQUESTED, Stage.SEARCHED):
        machine.held_scans = []
    if stage is Stage.TOMBSTONED:
        machine.held_passes = []
    erasure_id = machine.erase(after_ms=after_ms, verifiers=awaited)
    if stage is Stage.UNLINKED:
        machine.run(erasure_id, until=Stage.REMOVED)
        machine.held_scans = []
    if stage is not Stage.SCHEDULED:
        machine.run(erasure_id, until=stage)
    if stage is Stage.SEARCHED:
        # The search comes to its end, and the disk is full before a tombstone is written.
        machine.fs.fail_matching("pwrite", f"/data/{TOPIC}-0/*", errno.ENOSPC)
        assert machine.held_scans is not None
        machine.finish_scan(machine.held_scans.pop())
        machine.settle()
        machine.fs.clear_faults()
    assert machine.erasure(erasure_id).stage is stage
    return machine, erasure_id


def check_done(machine: ErasingMachine, erasure_id: str) -> None:
    machine.release()
    erasure = machine.run(erasure_id)
    if erasure.stage is Stage.VERIFIED:
        machine.call(
            "POST", f"erasures/{erasure_id}/evidence", verifier="lake", output="table",
            verdict="clean", evidence="0 rows",
        )  # fmt: skip
        erasure = machine.run(erasure_id)
    assert erasure.stage is Stage.RECEIPTED, machine.broker.erasing.outlooks
    assert erasure.receipt is not None
    assert verify(erasure.receipt.encode()).ok
    assert [each.partition for each in erasure.tombstones] == [0, 1]
    assert not machine.files_with(KEY)


# -- deaths ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ON_THE_WAY, ids=lambda stage: stage.value)
def test_killed_broker_goes_on_where_it_was(stage: Stage) -> None:
    machine, erasure_id = started(stage)

    machine.kill()

    assert machine.erasure(erasure_id).stage is stage
    check_done(machine, erasure_id)


@pytest.mark.parametrize("stage", ON_THE_WAY, ids=lambda stage: stage.value)
def test_power_loss_costs_no_stage_that_was_reached(stage: Stage) -> None:
    machine, erasure_id = started(stage)

    machine.lose_power()

    assert machine.erasure(erasure_id).stage is stage
    # What was not synced of the topic is lost, and nothing can be erased that is nowhere.
    if stage not in (Stage.SCHEDULED, Stage.REQUESTED):
        check_done(machine, erasure_id)


def test_clean_stop_and_start_change_nothing() -> None:
    machine, erasure_id = started(Stage.STAMPED)

    machine.stop()
    machine.start()

    check_done(machine, erasure_id)


def test_tombstones_that_were_written_and_not_written_down_are_found_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine, erasure_id = started(Stage.REQUESTED)
    append = ErasureJournal.append

    def refuse_tombstoned(journal: ErasureJournal, erasures: Sequence[Erasure]) -> None:
        if any(each.stage is Stage.TOMBSTONED for each in erasures):
            raise SimulatedCrash
        append(journal, erasures)

    monkeypatch.setattr(ErasureJournal, "append", refuse_tombstoned)
    machine.release()
    with pytest.raises(SimulatedCrash):
        machine.run(erasure_id)
    ends = [machine.end(number) for number in (0, 1)]
    monkeypatch.undo()

    machine.kill()
    erasure = machine.run(erasure_id)

    assert ends == [3, 2]
    assert erasure.stage is Stage.RECEIPTED
    assert [(each.partition, each.offset) for each in erasure.tombstones] == [(0, 2), (1, 1)]


# -- what is found --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/data/notes.txt",
        f"/data/{TOPIC}-0/leader-epoch-checkpoint.bak",
        "/data/meta.properties.old",
    ],
)
def test_planted_residue_keeps_the_receipt_away_until_it_is_gone(path: str) -> None:
    machine, erasure_id = started(Stage.REMOVED)
    file = machine.fs.open(path, create=True)
    file.pwrite(b"somebody wrote down " + KEY + b" here", 0)

    machine.settle()
    for _ in range(3):
        machine.advance(61_000)
    found = machine.call("GET", f"erasures/{erasure_id}")
    no_receipt = machine.page("GET", f"erasures/{erasure_id}/receipt")
    machine.fs.unlink(path)

    assert (found["stage"], found["status"]) == ("unlinked", "residue found")
    assert path.removeprefix("/data/") in found["waits_for"]
    assert no_receipt.status == 409
    check_done(machine, erasure_id)


def test_file_that_came_back_from_a_backup_keeps_the_receipt_away() -> None:
    machine, erasure_id = started(Stage.TOMBSTONED)
    path = f"/data/{TOPIC}-0/00000000000000000000.log"
    backup = machine.fs.files()[path]
    machine.release()
    machine.run(erasure_id, until=Stage.REMOVED)
    machine.fs.open("/data/backup.log", create=True).pwrite(backup, 0)

    machine.run(erasure_id, until=Stage.UNLINKED)
    found = machine.call("GET", f"erasures/{erasure_id}")
    machine.fs.unlink("/data/backup.log")

    assert (found["status"], found["has_receipt"]) == ("residue found", False)
    check_done(machine, erasure_id)


def test_failed_scan_is_tried_again() -> None:
    machine, erasure_id = started(Stage.REMOVED)
    machine.held_scans = []
    machine.run(erasure_id)
    (scan,) = machine.held_scans
    machine.held_scans = None

    machine.finish_scan(scan, ScanFailed("the scanning worker died", worker_died=True))
    machine.settle()

    waits_for = machine.call("GET", f"erasures/{erasure_id}")["waits_for"]
    assert "the scan is incomplete: the scanning worker died" in waits_for
    check_done(machine, erasure_id)


def test_failed_search_is_tried_again_and_finds_nothing_less() -> None:
    machine = machine_with(partitions=2)
    machine.put(0, (KEY, b"1"))
    machine.put(1, (KEY, b"1"))
    machine.held_scans = []
    erasure_id = machine.erase()
    machine.settle()
    (search,) = machine.held_scans
    machine.held_scans = None

    machine.finish_scan(search, ScanFailed("no"))
    machine.settle()

    assert (
        "the search is incomplete: no" in machine.call("GET", f"erasures/{erasure_id}")["waits_for"]
    )
    check_done(machine, erasure_id)


# -- secrets and journal --------------------------------------------------------------------------


def test_lost_secrets_stop_erasures_instead_of_calling_everything_clean() -> None:
    machine, erasure_id = started(Stage.STAMPED)
    machine.fs.unlink(SECRETS)

    machine.kill()
    machine.run(erasure_id)
    machine.advance(10_000)

    ready = readiness(machine.broker)
    refused = machine.page("POST", f"topics/{TOPIC}/erasures", key="", reason="", requested_by="")
    assert machine.erasure(erasure_id).stage is Stage.STAMPED
    assert ready.status == 503
    assert "erasure.keys is missing" in ready.body
    assert refused.status == 503


def test_secrets_of_another_broker_are_not_believed() -> None:
    machine, erasure_id = started(Stage.STAMPED)
    other = ErasingMachine(seed=1)
    create_topic(other.connect(), TOPIC, 1, cleanup_policy="compact")
    other.erase()
    foreign = other.fs.files()[SECRETS]
    file = machine.fs.open(SECRETS)
    file.truncate(0)
    file.pwrite(foreign, 0)

    machine.kill()
    machine.advance(10_000)

    assert "is not the one the erasures were made with" in (machine.broker.erasing.trouble or "")
    assert machine.erasure(erasure_id).stage is Stage.STAMPED


def test_sealed_keys_leave_the_journal_before_the_scan() -> None:
    machine, erasure_id = started(Stage.TOMBSTONED)
    sealed = [path for path in machine.files_with(b'"sealed_key":"') if "__erasures" in path]

    machine.release()
    erasure = machine.run(erasure_id)

    assert sealed
    assert erasure.stage is Stage.RECEIPTED
    assert not machine.files_with(b'"sealed_key":"')


def test_full_disk_is_a_passing_trouble() -> None:
    machine, erasure_id = started(Stage.SEARCHED)

    waits_for = machine.call("GET", f"erasures/{erasure_id}")["waits_for"]

    assert "a tombstone could not be written" in waits_for
    check_done(machine, erasure_id)


def test_erasure_that_is_cancelled_between_two_turns_of_a_look_stops_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = machine_with(partitions=1)
    machine.put(0, (KEY, b"1"))
    keys = [b"k%d" % number for number in range(sweep.SLICE + 50)]
    ids = machine.erase_all(keys, after_ms=DAY_MS)
    machine.settle()
    monkeypatch.setattr(sweep, "_TURN_MS", 0)
    machine.broker.clock_moved()

    machine.tick()
    machine.call("POST", f"erasures/{ids[0]}/cancel", by="clerk")
    for _ in range(4):
        machine.tick()
    monkeypatch.undo()

    assert machine.erasure(ids[0]).stage is Stage.CANCELLED
    assert machine.run(ids[1]).stage is Stage.NOT_FOUND


def test_topic_that_is_deleted_between_two_turns_of_a_look_stops_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its search was begun at the end of the look, and the broker died of it."""
    machine = machine_with(partitions=1)
    create_topic(machine.connect(), "orders", 1, cleanup_policy="compact")
    monkeypatch.setattr(sweep, "_TURN_MS", 0)
    monkeypatch.setattr(sweep, "SLICE", 1)
    ids = [machine.erase(), machine.erase(topic="orders", after_ms=DAY_MS)]

    machine.tick()
    delete_topic(machine.connect(), TOPIC)
    for _ in range(4):
        machine.tick()
    monkeypatch.undo()

    assert [machine.run(each).stage for each in ids] == [Stage.NOT_FOUND] * 2
    assert not machine.broker.erasing.searching


# -- alarms ---------------------------------------------------------------------------------------


def test_deadline_that_cannot_be_met_alarms_before_it(caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_with(partitions=1, delete_retention_ms=str(10 * DAY_MS))
    machine.put(0, (KEY, b"1"))

    erasure_id = machine.erase(within_ms=5 * DAY_MS)
    machine.settle()

    name = "ledgerstone.server.erasing.next_steps"
    (alarm,) = [
        each for each in caplog.records if each.name == name and each.levelno == logging.WARNING
    ]
    shown = machine.call("GET", f"erasures/{erasure_id}")
    assert "erasure at risk" in alarm.getMessage()
    assert "delete.retention.ms=864000000" in alarm.getMessage()
    assert shown["will_miss"] is True
    assert shown["is_overdue"] is False
    assert "ledgerstone_erasures_at_risk 1" in exposition(samples(machine.broker))
    assert readiness(machine.broker).status == 200


def test_overdue_erasure_makes_the_broker_unready() -> None:
    machine = machine_with(partitions=1, delete_retention_ms=str(10 * DAY_MS))
    machine.put(0, (KEY, b"1"))
    erasure_id = machine.erase(within_ms=5 * DAY_MS)
    machine.settle()

    machine.clock.advance(days=6)
    machine.tick()

    ready, text = readiness(machine.broker), exposition(samples(machine.broker))
    overdue = machine.call("GET", "erasures?overdue=1")["erasures"]
    assert ready.status == 503
    assert f"{erasure_id}: stamped, was due" in ready.body
    assert "ledgerstone_erasures_overdue 1" in text
    assert 'ledgerstone_erasures{stage="stamped"} 1' in text
    assert [each["id"] for each in overdue] == [erasure_id]


def test_receipt_says_that_a_deadline_was_missed() -> None:
    machine = machine_with(partitions=1, delete_retention_ms=str(10 * DAY_MS))
    machine.put(0, (KEY, b"1"))

    erasure_id = machine.erase(within_ms=5 * DAY_MS)
    machine.run(erasure_id)

    receipt = machine.call("GET", f"erasures/{erasure_id}/receipt")
    assert receipt["met_deadline"] is False


# -- downstream -----------------------------------------------------------------------------------


def test_installed_verifier_is_asked_and_its_word_is_in_the_receipt() -> None:
    machine = machine_with(partitions=1)
    machine.verifiers = {"lake": [Word("table customers", ScanOutcome.CLEAN, "0 of 12 rows")]}
    machine.put(0, (KEY, b"1"))

    erasure_id = machine.erase()
    machine.run(erasure_id)

    (word,) = machine.call("GET", f"erasures/{erasure_id}/receipt")["downstream"]
    assert (word["verifier"], word["output"], word["verdict"]) == (
        "lake", "table customers", "clean",
    )  # fmt: skip


def test_verifier_that_finds_the_key_keeps_the_receipt_away() -> None:
    machine = machine_with(partitions=1)
    machine.verifiers = {"lake": [Word("table customers", ScanOutcome.RESIDUE, "2 rows")]}
    machine.put(0, (KEY, b"1"))

    erasure_id = machine.erase()
    machine.run(erasure_id)
    found = machine.call("GET", f"erasures/{erasure_id}")
    machine.call(
        "POST", f"erasures/{erasure_id}/evidence", verifier="lake", output="table customers",
        verdict="clean", evidence="0 rows",
    )  # fmt: skip
    done = machine.run(erasure_id)

    assert (found["stage"], found["status"]) == ("verified", "residue found")
    assert "verifier lake found the key in table customers: 2 rows" in found["waits_for"]
    assert done.stage is Stage.RECEIPTED


def test_verifier_that_fails_is_asked_again_later() -> None:
    machine = machine_with(partitions=1)
    machine.verifiers = {"lake": "it failed with ValueError"}
    machine.put(0, (KEY, b"1"))
    erasure_id = machine.erase()
    machine.run(erasure_id)
    held = machine.call("GET", f"erasures/{erasure_id}")

    machine.verifiers = {"lake": [Word("table", ScanOutcome.CLEAN, "0 rows")]}
    machine.advance(70_000)

    assert "evidence of lake is awaited" in held["waits_for"]
    assert machine.erasure(erasure_id).stage is Stage.RECEIPTED


def test_evidence_that_quotes_the_key_is_refused() -> None:
    machine, erasure_id = started(Stage.VERIFIED)

    page = machine.page(
        "POST", f"erasures/{erasure_id}/evidence", verifier="lake", output="table",
        verdict="clean", evidence=f"no row with {KEY.decode()}",
    )  # fmt: skip

    assert page.status == 400
    assert KEY.decode() not in page.body


def test_tombstone_is_not_removed_before_its_swap_is_synced() -> None:
    machine = machine_with(partitions=1)
    machine.put(0, (KEY, b"lives in Ulm"), (b"bob", b"1"))
    erasure_id = machine.erase()
    machine.run(erasure_id, until=Stage.STAMPED)
    scans_before = len(machine.scans_done)

    machine.held_syncs = []
    machine.clock.advance(ms=DAY_MS)
    machine.broker.clock_moved()
    machine.settle()
    stage = machine.erasure(erasure_id).stage
    held, machine.held_syncs = machine.held_syncs, None
    for each in held:
        machine.sync(each)
    ended = machine.run(erasure_id).stage

    # Else the replaced files seem younger than the removal, and the scan finds the key in them.
    assert (stage, ended) == (Stage.STAMPED, Stage.RECEIPTED)
    assert len(machine.scans_done) == scans_before + 1


def test_a_scan_counts_though_the_wall_clock_was_set_back_before_it_began() -> None:
    """It was repeated without a pause until the clock had caught up with the stage before it."""
    machine, erasure_id = started(Stage.UNLINKED)
    held, machine.held_scans = machine.held_scans, None
    assert held is not None
    machine.clock.set_wall_ms(machine.clock.now_ms() - 10 * DAY_MS)
    machine.broker.clock_moved()
    machine.finish_scan(held[0], ScanFailed("the worker died", worker_died=True))
    scans_before = len(machine.scans_done)

    for _ in range(40):
        machine.clock.advance(seconds=2)
        machine.settle()

    assert machine.erasure(erasure_id).stage is Stage.RECEIPTED
    assert len(machine.scans_done) == scans_before + 1


def test_nobody_looks_all_the_time_while_files_are_being_unlinked() -> None:
    """Their time has come, but to unlink them takes a while: that is no reason to spin."""
    machine, _ = started(Stage.REMOVED)
    machine.held_unlinks = []
    machine.advance(120_000)
    assert machine.held_unlinks, "the files are due"
    ticks = 0
    until_ms = machine.clock.monotonic_ms() + 1_000

    while machine.broker.next_deadline_ms < until_ms:
        machine.clock.advance(
            ms=max(0, machine.broker.next_deadline_ms - machine.clock.monotonic_ms())
        )
        machine.tick()
        ticks += 1

    assert ticks < 50
