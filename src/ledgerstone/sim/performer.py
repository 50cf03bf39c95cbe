"""Hands that perform a broker's effects in the simulated world: later, in parts, and maybe never.

`server.performer` tells the effects apart, as for the runtime. The disk work of an effect and its
result are two events: a crash may come before, between or after.
Workers are `Stepwise`: they stop at every file they make and at every group they report.
"""

import json
from collections.abc import Callable
from typing import Any, Protocol, cast

from ledgerstone.cleaner.plan import CleanedGroup
from ledgerstone.cleaner.worker import clean
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.erasure.scan_messages import report_message, report_of
from ledgerstone.erasure.worker import scan
from ledgerstone.fs import Filesystem
from ledgerstone.protocol.pieces import Piece
from ledgerstone.server import performer
from ledgerstone.server.broker import Broker
from ledgerstone.server.cleaning.parts import PassFailed
from ledgerstone.server.effects import (
    Analyse,
    AskVerifier,
    Clean,
    Close,
    Dial,
    Effect,
    GiveUp,
    Halt,
    Hangup,
    Persist,
    Proceed,
    Resume,
    Send,
    StartScan,
    Unlink,
    WorkerName,
    WriteSnapshot,
)
from ledgerstone.server.erasing.scans import ScanFailed, ScanResult
from ledgerstone.server.quorum.snapshot_writing import write_snapshot
from ledgerstone.server.results import (
    AnalysisFailed,
    Done,
    Failed,
    GroupCleaned,
    Result,
    StillAtWork,
    VerifierFailed,
)
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.stepwise import Cancelled, Stepwise
from ledgerstone.storage.deleted_files import unlink_all
from ledgerstone.storage.sync_plan import sync_all

# A pass stops at each file of records it begins; a scan at every so many reads.
_PAUSES_AT = ".log.cleaned"
_READS_A_STEP = 64


class Process(Protocol):
    """What the performer needs of the node it works for."""

    def send(self, number: int, pieces: list[Piece]) -> None: ...

    def close(self, number: int, reason: str) -> None: ...

    def later(self, delay_ms: int, label: str, action: Callable[[], None]) -> None: ...

    def machine_said(self, effects: list[Effect]) -> None: ...

    def dial(self, effect: Dial) -> None: ...

    def hang_up(self, number: int) -> None: ...

    def halt(self, reason: str) -> None: ...


class PausingFilesystem:
    """The disk as a worker sees it: the world goes on at every name that is made or synced."""

    def __init__(
        self, fs: Filesystem, pause: Callable[[object], None], check_alive: Callable[[], None]
    ) -> None:
        self._fs = fs
        self._pause = pause
        self._check_alive = check_alive

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the disk has
        # A worker that is unwound must not tidy up: its process is dead.
        self._check_alive()
        return getattr(self._fs, name)

    def open(self, path: str, *, create: bool = False) -> object:
        if create and path.endswith(_PAUSES_AT):
            self._pause("create")
        return self._fs.open(path, create=create)

    def fsync_dir(self, path: str) -> None:
        self._pause("fsync_dir")
        self._fs.fsync_dir(path)


@dataclass(slots=True)
class _Pass:
    effect: Clean
    work: Stepwise
    is_called_off: bool = False
    awaits_word: bool = False


@dataclass(slots=True, eq=False)
class _Scan:
    effect: StartScan
    work: Stepwise


@dataclass(slots=True)
class SimHands:
    """Of one process: dies with it. `node` carries bytes and runs what is due later."""

    node: Process
    broker: Broker
    latency: Callable[[], int]
    dice: SeededDice
    _shared: performer.Performer = field(init=False)
    _passes: dict[int, _Pass] = field(default_factory=dict)
    _scans: list[_Scan] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._shared = performer.Performer(self, self.broker.completed)

    def perform(self, effects: list[Effect]) -> None:
        self._shared.perform(effects)

    # -- `server.performer.Hands` -------------------------------------------------------------

    def send(self, sends: list[Send]) -> None:
        for number, pieces in sends:
            self.node.send(number, pieces)

    def close(self, effect: Close) -> None:
        self.node.close(effect.connection, effect.reason)

    def resume(self, effect: Resume) -> None:
        """The node asks `wants_read` after every step."""

    def dial(self, effect: Dial) -> None:
        self.node.dial(effect)

    def hang_up(self, effect: Hangup) -> None:
        self.node.hang_up(effect.connection)

    def persist(self, effect: Persist, synced: performer.Synced) -> None:
        def do() -> None:
            result: Done | Failed = Done()
            try:
                sync_all(self.broker.log_dir.fs, effect.syncs)
            except OSError as error:
                result = Failed(error)
            self.node.later(self.latency(), "done", lambda: synced(result))

        self.node.later(self.latency(), "disk", do)

    def write_snapshot(self, effect: WriteSnapshot) -> None:
        def do() -> None:
            result: Done | Failed = Done()
            try:
                write_snapshot(self.broker.log_dir.fs, effect.work)
            except OSError as error:
                result = Failed(error)
            self._report_later(effect, result)

        self.node.later(self.latency(), "disk", do)

    def halt(self, effect: Halt) -> None:
        self.node.halt(effect.reason)

    def unlink(self, effect: Unlink) -> None:
        def do() -> None:
            self._report_later(effect, unlink_all(self.broker.log_dir.fs, effect.plan))

        self.node.later(self.latency(), "disk", do)

    def give_up(self, effect: GiveUp) -> None:
        if effect.worker is WorkerName.CLEANING:
            self._kill_pass(effect.number, effect.reason)
        elif effect.worker is WorkerName.SCANNING:
            self._kill_scan(effect.number, effect.reason)

    def ask_verifier(self, effect: AskVerifier) -> None:
        self._report_later(effect, VerifierFailed("not reachable"))

    def analyse(self, effect: Analyse) -> None:
        self._report_later(effect, AnalysisFailed("no analyst here"))

    def report(self, effect: Effect, result: Result) -> None:
        self.node.machine_said(self.broker.completed(effect, result))

    def _report_later(self, effect: Effect, result: Result) -> None:
        self.node.later(self.latency(), "done", lambda: self.report(effect, result))

    def die(self) -> None:
        """The process is gone: its workers go with it, where they stand."""
        passes, self._passes = self._passes, {}
        for each in passes.values():
            each.work.cancel()
        scans, self._scans = self._scans, []
        for scan_at_work in scans:
            scan_at_work.work.cancel()

    @property
    def is_cleaning(self) -> bool:
        return bool(self._passes)

    @property
    def is_scanning(self) -> bool:
        return bool(self._scans)

    def kill_workers(self) -> None:
        for number in list(self._passes):
            self._kill_pass(number, "killed by a fault")

    # -- cleaning -----------------------------------------------------------------------------

    def clean(self, effect: Clean) -> None:
        number, dice = effect.number, self.dice

        def check_alive() -> None:
            if number not in self._passes:
                raise Cancelled

        def work(pause: Callable[[object], None]) -> object:
            fs = cast(Filesystem, PausingFilesystem(self.broker.log_dir.fs, pause, check_alive))
            return clean(
                fs,
                effect.plan,
                dice=dice,
                on_group=pause,
                should_abort=lambda: (
                    number not in self._passes or self._passes[number].is_called_off
                ),
            )

        self._passes[number] = _Pass(effect, Stepwise(work))
        self.node.later(self.latency(), "clean", lambda: self._go_on(number))

    def _go_on(self, number: int) -> None:
        known = self._passes.get(number)
        if known is None or known.awaits_word:
            return
        said = known.work.resume()
        if known.work.is_done:
            del self._passes[number]
            outcome = known.work.result
            ended = PassFailed(outcome) if isinstance(outcome, str) else outcome
            self.report(known.effect, cast(Result, ended))
        elif isinstance(said, CleanedGroup):
            known.awaits_word = True
            self.report(known.effect, GroupCleaned(said))
        else:
            self.report(known.effect, StillAtWork())
            self.node.later(self.latency(), "clean", lambda: self._go_on(number))

    def proceed(self, effect: Proceed) -> None:
        number = effect.number
        known = self._passes.get(number)
        if known is None:
            return
        known.is_called_off = known.is_called_off or not effect.go_on
        if known.awaits_word:
            known.awaits_word = False
            self.node.later(self.latency(), "clean", lambda: self._go_on(number))

    def _kill_pass(self, number: int, reason: str) -> None:
        known = self._passes.pop(number, None)
        if known is not None:
            known.work.cancel()
            failed = PassFailed(reason, worker_died=True)
            self._report_later(known.effect, failed)

    # -- scanning -----------------------------------------------------------------------------

    def scan(self, effect: StartScan) -> None:
        reads = [0]

        def work(pause: Callable[[object], None]) -> object:
            def before_read(size: int) -> None:
                reads[0] += 1
                if reads[0] % _READS_A_STEP == 0:
                    pause("read")

            try:
                found = scan(self.broker.log_dir.fs, effect.plan, before_read=before_read)
            except Exception as error:  # noqa: BLE001 - as a worker says it
                return ScanFailed(f"{type(error).__name__}: {error}")
            # As it travels between the processes.
            return report_of(json.loads(json.dumps(report_message(found))))

        running = _Scan(effect, Stepwise(work))
        self._scans.append(running)
        self.node.later(self.latency(), "scan", lambda: self._scan_on(running))

    def _scan_on(self, running: _Scan) -> None:
        if running not in self._scans:
            return
        running.work.resume()
        if not running.work.is_done:
            self.report(running.effect, StillAtWork())
            self.node.later(self.latency(), "scan", lambda: self._scan_on(running))
            return
        self._scans.remove(running)
        self.report(running.effect, cast(ScanResult, running.work.result))

    def _kill_scan(self, number: int, reason: str) -> None:
        for running in [each for each in self._scans if each.effect.number == number]:
            self._scans.remove(running)
            running.work.cancel()
            self._report_later(running.effect, ScanFailed(reason, worker_died=True))
