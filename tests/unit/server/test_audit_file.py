"""The audit file dies at each of its operations, in every way, and loses nothing synced."""

import contextlib
import errno

import pytest

from ledgerstone.security.audit_chain import AuditEvent, BrokenChain, ChainEnd, verified
from ledgerstone.server.auditing import audit_file
from ledgerstone.server.auditing.audit_file import AuditFile, audit_files, lines_of
from ledgerstone.sim.clock import VirtualClock
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem, SimulatedCrash
from ledgerstone.sim.platter import PowerLoss

DIRECTORY = "/var/audit"


class _Story:
    """Appends lines, every second one synced; knows which of them were promised."""

    def __init__(self) -> None:
        self.clock = VirtualClock(start_ms=0)
        self.fs = SimFilesystem(dice=SeededDice("disk"), clock=self.clock)
        self.promised = 0

    def open(self) -> AuditFile:
        return AuditFile(self.fs, DIRECTORY, self.clock, SeededDice("salt"), node_id=1)

    def run(self) -> None:
        file = self.open()
        for number in range(12):
            event = AuditEvent("k", "asked", {"principal": "User:a"}, {"number": number})
            file.append(event, sync=number % 2 == 1)
            if number % 2 == 1:
                self.promised = file.link.seq

    def numbers(self) -> list[int]:
        lines = [
            line
            for path in audit_files(self.fs, DIRECTORY)
            for line in lines_of(self.fs.open(path))
        ]
        return [link.seq for _, link in verified(lines, ChainEnd())]


@pytest.fixture(autouse=True)
def _small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_file, "ROLL_BYTES", 1_500)


def _operations() -> int:
    story = _Story()
    story.run()
    return story.fs.operation_count


@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("loss", [None, "none", "random", "all"])
def test_every_death_leaves_a_whole_chain_with_all_that_was_synced(
    loss: PowerLoss | None, torn: bool
) -> None:
    for number in range(1, _operations() + 1):
        story = _Story()
        story.fs.crash_at(number, torn=torn)
        with contextlib.suppress(SimulatedCrash):
            story.run()
        story.fs.kill() if loss is None else story.fs.power_loss(loss)
        story.fs.clear_faults()

        again = story.open()
        again.append(AuditEvent("k", "asked", {}, {}), sync=True)

        numbers = story.numbers()
        assert numbers == list(range(1, len(numbers) + 1)), number
        assert numbers[-1] > story.promised, number


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_every_failure_of_the_disk_leaves_what_was_promised(error: int) -> None:
    for number in range(1, _operations() + 1):
        story = _Story()
        story.fs.fail_at(number, error, torn=True)
        with contextlib.suppress(OSError):
            story.run()
        story.fs.kill()
        story.fs.clear_faults()

        story.open()

        numbers = story.numbers()
        assert numbers == list(range(1, len(numbers) + 1)), number
        assert len(numbers) >= story.promised, number


def _unsynced(story: _Story, count: int) -> tuple[str, list[bytes]]:
    """A file whose last lines were never synced, and its lines."""
    file = story.open()
    file.append(AuditEvent("k", "asked", {}, {}), sync=True)
    for number in range(count):
        file.append(AuditEvent("k", "denied", {}, {"number": number}), sync=False)
    path = audit_files(story.fs, DIRECTORY)[-1]
    return path, list(lines_of(story.fs.open(path)))


def test_line_that_was_lost_among_others_ends_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_file, "ROLL_BYTES", 1 << 20)
    story = _Story()
    path, lines = _unsynced(story, 3)
    file = story.fs.open(path)
    # Pages come to the disk in any order: the second of three is not there.
    position = sum(len(each) + 1 for each in lines[:2])
    file.pwrite(bytes(len(lines[2])), position)

    story.fs.kill()
    again = story.open()

    assert again.link.seq == 3
    assert story.numbers() == [1, 2, 3]


def test_line_that_was_changed_before_a_sync_stays_as_evidence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(audit_file, "ROLL_BYTES", 1 << 20)
    story = _Story()
    path, lines = _unsynced(story, 2)
    story.open().append(AuditEvent("k", "asked", {}, {}), sync=True)
    file = story.fs.open(path)
    file.pwrite(bytes(len(lines[1])), len(lines[0]) + 1)

    story.fs.kill()
    again = story.open()

    assert again.link.seq == 4
    with pytest.raises(BrokenChain):
        story.numbers()


def test_lines_whose_sync_failed_are_written_again_before_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(audit_file, "ROLL_BYTES", 1 << 20)
    story = _Story()
    path, lines = _unsynced(story, 3)
    # Of a process before this one.
    file = story.open()
    file.append(AuditEvent("k", "denied", {}, {"number": 3}), sync=False)
    story.fs.fail_matching("fsync", path, errno.EIO, lose_dirty=True)

    with pytest.raises(OSError, match="Input/output"):
        file.append(AuditEvent("k", "asked", {}, {"is": "refused"}), sync=True)
    file.append(AuditEvent("k", "asked", {}, {"is": "taken"}), sync=True)
    story.fs.power_loss("all")

    # No gap is noted by this start.
    assert story.open().link == file.link
    assert story.numbers() == list(range(1, len(lines) + 3))


def test_lines_that_nobody_syncs_are_synced_before_memory_fills_with_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(audit_file, "_UNSYNCED_BYTES", 500)
    story = _Story()
    file = story.open()
    file.append(AuditEvent("k", "asked", {}, {}), sync=True)

    for number in range(6):
        file.append(AuditEvent("k", "denied", {}, {"number": number}), sync=False)

    assert 1 < file.synced_seq < file.link.seq
