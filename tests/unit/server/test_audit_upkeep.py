"""Rotation, retention, seals and redaction of the audit files, and their deaths at every step."""

import contextlib
import errno
import json
from collections.abc import Callable
from typing import Any

import pytest

from ledgerstone.errors import StorageError
from ledgerstone.security.audit_chain import ChainEnd
from ledgerstone.security.audit_check import ChainCheck
from ledgerstone.server.auditing import audit_file, redaction, seal_key, upkeep
from ledgerstone.server.auditing.audit_file import AuditFile, audit_files, lines_of
from ledgerstone.server.auditing.auditor import Auditor
from ledgerstone.server.auditing.upkeep import Upkeep
from ledgerstone.sim.clock import VirtualClock
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem, SimulatedCrash
from ledgerstone.sim.platter import PowerLoss

DIRECTORY = "/var/audit"
KEY_FILE = f"{DIRECTORY}/{seal_key.KEY_FILE}"


class _Node:
    """A disk and a clock that outlive the process."""

    def __init__(self, retention_days: int | None = None) -> None:
        self.clock = VirtualClock(start_ms=0)
        self.fs = SimFilesystem(dice=SeededDice("disk"), clock=self.clock)
        self.dice = SeededDice("salt")
        self.retention_days = retention_days
        # The last line that was promised, and lines whose names were promised to be gone.
        self.promised = ChainEnd()
        self.redacted: list[int] = []

    def start(self) -> Auditor:
        if self.fs.exists(DIRECTORY):
            redaction.finish(self.fs, DIRECTORY)
        file = AuditFile(self.fs, DIRECTORY, self.clock, self.dice, node_id=1)
        secret = seal_key.load_or_create(self.fs, KEY_FILE, self.dice)
        care = Upkeep(file, self.clock, secret, retention_days=self.retention_days)
        auditor = Auditor(file, self.clock, care)
        auditor.noted("start", {})
        self.promised = file.link
        return auditor

    def lines(self) -> list[bytes]:
        return [
            line
            for path in audit_files(self.fs, DIRECTORY)
            for line in lines_of(self.fs.open(path))
        ]

    def check(self) -> ChainCheck:
        check = ChainCheck(expected=[str(self.promised)] if self.promised.seq else [])
        for each in self.lines():
            check.take(each)
        check.finish()
        return check

    def kinds(self) -> list[str]:
        return [json.loads(each)["kind"] for each in self.lines()]

    def pass_time(self, auditor: Auditor, *, ms: int = 0, days: int = 0) -> None:
        self.clock.advance(ms=ms, days=days)
        auditor.tick()


def _append(node: _Node, auditor: Auditor, count: int = 1) -> None:
    for _ in range(count):
        auditor.begun("k", {"principal": "User:ann"}, {})
        node.promised = auditor.file.link


def test_a_day_has_its_own_file() -> None:
    node = _Node()
    auditor = node.start()

    for _ in range(3):
        _append(node, auditor)
        node.clock.advance(days=1)

    assert len(audit_files(node.fs, DIRECTORY)) == 3
    assert node.kinds() == ["start", "k", "audit.rotate", "k", "audit.rotate", "k"]
    first = json.loads(node.lines()[2])
    assert (first["last"], first["hash"]) == (2, first["prev"])
    assert node.check().end.seq == 6


def test_restart_within_the_day_goes_on_in_its_file() -> None:
    node = _Node()
    _append(node, node.start())

    node.fs.kill()
    _append(node, node.start())

    assert len(audit_files(node.fs, DIRECTORY)) == 1


def test_old_files_go_and_the_log_says_so() -> None:
    node = _Node(retention_days=3)
    auditor = node.start()
    for _ in range(10):
        _append(node, auditor)
        node.pass_time(auditor, days=1)

    check = node.check()

    assert check.first > 1
    assert check.beginning == f"lines up to {check.first - 1} were retired, as the log says"
    oldest = json.loads(node.lines()[0])
    assert node.clock.now_ms() - oldest["ts_ms"] <= 5 * audit_file.DAY_MS


def test_files_that_somebody_took_away_are_missed() -> None:
    node = _Node()
    auditor = node.start()
    for _ in range(3):
        _append(node, auditor)
        node.pass_time(auditor, days=1)

    node.fs.unlink(audit_files(node.fs, DIRECTORY)[0])

    assert "no line says why" in str(node.check().beginning)


def test_seals_come_by_time_and_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "LINES_PER_SEAL", 5)
    node = _Node()
    auditor = node.start()

    node.pass_time(auditor, ms=59_000)
    assert "audit.seal" not in node.kinds()
    node.pass_time(auditor, ms=2_000)
    assert node.kinds() == ["start", "audit.seal"]
    _append(node, auditor, 5)
    assert auditor.next_deadline_ms == node.clock.monotonic_ms()
    node.pass_time(auditor)
    assert node.kinds()[2:] == ["k"] * 5 + ["audit.seal"]
    node.pass_time(auditor, ms=600_000)
    assert len(node.kinds()) == 8, "nothing new, nothing to seal"
    assert node.check().unsealed == 0


def test_seal_that_the_disk_refuses_comes_later() -> None:
    node = _Node()
    auditor = node.start()
    _append(node, auditor)

    node.fs.fail_at(node.fs.operation_count + 1, errno.ENOSPC)
    node.clock.advance(ms=61_000)
    for _ in range(3):
        auditor.tick()
    assert auditor.failures == 1
    node.fs.clear_faults()
    node.pass_time(auditor, ms=61_000)

    assert node.check().unsealed == 0


def test_key_that_others_may_read_is_refused() -> None:
    node = _Node()
    node.start()
    file = node.fs.open("/other", create=True)
    file.pwrite(b"ledgerstone-audit-key-1 " + b"00" * 32, 0)

    with pytest.raises(StorageError, match="others than its owner"):
        seal_key.load(node.fs, "/other")


def test_key_that_is_none_is_refused_and_not_shown() -> None:
    node = _Node()
    file = node.fs.create_private("/key")
    file.pwrite(b"ledgerstone-audit-key-1 5ecre7", 0)

    with pytest.raises(StorageError, match="holds no key") as refused:
        seal_key.load(node.fs, "/key")
    assert "5ecre7" not in str(refused.value)


def test_newest_file_is_not_redacted_while_it_is_written() -> None:
    node = _Node()
    _append(node, node.start())

    with pytest.raises(redaction.FileInUse):
        redaction.redact(node.fs, DIRECTORY, [2], may_change_newest=False)

    assert redaction.noted(node.fs, DIRECTORY) == []


def test_redaction_is_named_once_in_the_log() -> None:
    node = _Node()
    auditor = node.start()
    _append(node, auditor)
    node.pass_time(auditor, days=1)
    _append(node, auditor)

    redaction.redact(node.fs, DIRECTORY, [2], may_change_newest=False)
    node.pass_time(auditor, ms=61_000)
    node.fs.kill()
    auditor = node.start()
    node.pass_time(auditor, ms=61_000)

    named = [json.loads(each) for each in node.lines() if b"audit.redact" in each]
    assert [each["lines"] for each in named] == [[2]]
    assert node.check().redacted == 1


# -- deaths -------------------------------------------------------------------------------------


def _rolls(node: _Node) -> None:
    """Files roll by size and by day, old ones go, seals are made."""
    auditor = node.start()
    for _ in range(4):
        _append(node, auditor, 4)
        node.pass_time(auditor, days=1)


def _redacts(node: _Node) -> None:
    auditor = node.start()
    for _ in range(2):
        _append(node, auditor, 2)
        node.pass_time(auditor, days=1)
    _append(node, auditor)
    for wanted in ([2], [3, 5]):
        redaction.redact(node.fs, DIRECTORY, wanted, may_change_newest=False)
        node.redacted += wanted
        node.pass_time(auditor, ms=61_000)


STORIES: list[tuple[Callable[[_Node], None], int | None]] = [(_rolls, 2), (_redacts, None)]


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_file, "ROLL_BYTES", 1_500)


@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize(("story", "days"), STORIES)
@pytest.mark.parametrize("loss", [None, "none", "random", "all"])
def test_every_death_leaves_a_whole_chain_and_keeps_promises(
    story: Callable[[_Node], None], days: int | None, loss: PowerLoss | None
) -> None:
    whole = _Node(days)
    story(whole)
    for number in range(1, whole.fs.operation_count + 1):
        node = _Node(days)
        node.fs.crash_at(number, torn=True)
        with contextlib.suppress(SimulatedCrash):
            story(node)
        node.fs.kill() if loss is None else node.fs.power_loss(loss)
        node.fs.clear_faults()

        promised = node.promised
        node.start()

        check = node.check()
        assert check.end.seq > promised.seq, number
        assert check.beginning is None or "retired" in check.beginning, number
        assert _is_there(node, promised), number
        assert set(node.redacted) <= set(redaction.noted(node.fs, DIRECTORY)), number
        for each in redaction.noted(node.fs, DIRECTORY):
            assert "who" not in _line(node, each), (number, each)


@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize("story", [_rolls, _redacts])
def test_every_failure_of_the_disk_leaves_a_whole_chain(story: Callable[[_Node], None]) -> None:
    whole = _Node()
    story(whole)
    for number in range(1, whole.fs.operation_count + 1):
        node = _Node()
        node.fs.fail_at(number, errno.ENOSPC, torn=True)
        with contextlib.suppress(OSError):
            story(node)
        promised = node.promised
        node.fs.kill()
        node.fs.clear_faults()

        node.start()

        assert node.check().end.seq > promised.seq, number


def _is_there(node: _Node, promised: ChainEnd) -> bool:
    hashes = [json.loads(each)["h"] for each in node.lines()]
    return not promised.seq or promised.hash in hashes


def _line(node: _Node, seq: int) -> dict[str, Any]:
    return next(line for each in node.lines() if (line := json.loads(each))["seq"] == seq)
