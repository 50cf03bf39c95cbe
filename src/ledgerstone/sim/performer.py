"""Performs a broker's effects in the simulated world: later, in parts, and maybe never.

Kept apart from node and network, so that another set of effects can be swapped in here. The disk
work of an effect and the word back to the broker are two events: a crash may come before, between
or after. Workers are `Stepwise`: they stop at every file they make and at every group they report.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from ledgerstone.cleaner.plan import CleanedGroup
from ledgerstone.cleaner.worker import clean
from ledgerstone.erasure.scan_messages import decode, encode, report_of
from ledgerstone.erasure.worker import work as scan
from ledgerstone.fs import Filesystem
from ledgerstone.protocol.pieces import Piece
from ledgerstone.server.broker import Broker
from ledgerstone.server.cleaning.parts import PassFailed
from ledgerstone.server.effects import (
    Analyse,
    AskVerifier,
    Clean,
    Close,
    Effect,
    Flush,
    GiveUp,
    Proceed,
    Resume,
    Scan,
    Send,
    SyncSwap,
    Unlink,
)
from ledgerstone.server.erasing.scans import ScanFailed, ScanResult
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.stepwise import Cancelled, Stepwise

# A pass stops at each file of records it begins; a scan at every so many reads.
_PAUSES_AT = ".log.cleaned"
_READS_A_STEP = 64


class Process(Protocol):
    """What the performer needs of the node it works for."""

    def send(self, number: int, pieces: list[Piece]) -> None: ...

    def close(self, number: int, reason: str) -> None: ...

    def later(self, delay_ms: int, label: str, action: Callable[[], None]) -> None: ...

    def machine_said(self, effects: list[Effect]) -> None: ...


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
    work: Stepwise
    is_called_off: bool = False
    awaits_word: bool = False


@dataclass(slots=True)
class Performer:
    """Of one process: dies with it. `node` carries bytes and runs what is due later."""

    node: Process
    broker: Broker
    latency: Callable[[], int]
    dice: SeededDice
    _passes: dict[int, _Pass] = field(default_factory=dict)
    _scans: list[Stepwise] = field(default_factory=list)

    def perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(number, pieces):
                    self.node.send(number, pieces)
                case Close(number, reason):
                    self.node.close(number, reason)
                case Resume():
                    pass  # The node asks `wants_read` after every step.
                case Flush():
                    self._sync(effect.plan.perform, lambda e, f=effect: self.broker.completed(f, e))  # type: ignore[misc]
                case Unlink():
                    self._sync(effect.plan.perform, lambda e, f=effect: self.broker.unlinked(f, e))  # type: ignore[misc]
                case SyncSwap():
                    self._sync(effect.perform, lambda e, f=effect: self.broker.swap_synced(f, e))  # type: ignore[misc]
                case Clean():
                    self._clean(effect)
                case Proceed(number, go_on):
                    self._proceed(number, go_on=go_on)
                case GiveUp(number, reason):
                    self._kill_pass(number, reason)
                case Scan():
                    self._scan(effect)
                case AskVerifier():
                    self._report(lambda e=effect: self.broker.verifier_spoke(e, "not reachable"))  # type: ignore[misc]
                case Analyse(number):
                    self._report(lambda n=number: self.broker.analysed(n, "no analyst here"))  # type: ignore[misc]

    def die(self) -> None:
        """The process is gone: its workers go with it, where they stand."""
        passes, self._passes = self._passes, {}
        for each in passes.values():
            each.work.cancel()
        scans, self._scans = self._scans, []
        for work in scans:
            work.cancel()

    @property
    def is_cleaning(self) -> bool:
        return bool(self._passes)

    @property
    def is_scanning(self) -> bool:
        return bool(self._scans)

    def kill_workers(self) -> None:
        for number in list(self._passes):
            self._kill_pass(number, "killed by a fault")

    # -- the disk -----------------------------------------------------------------------------

    def _sync(
        self, work: Callable[[], None], report: Callable[[OSError | None], list[Effect]]
    ) -> None:
        def do() -> None:
            failure: OSError | None = None
            try:
                work()
            except OSError as error:
                failure = error
            self._report(lambda: report(failure))

        self.node.later(self.latency(), "disk", do)

    def _report(self, report: Callable[[], list[Effect]]) -> None:
        self.node.later(self.latency(), "done", lambda: self.node.machine_said(report()))

    # -- cleaning -----------------------------------------------------------------------------

    def _clean(self, effect: Clean) -> None:
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

        self._passes[number] = _Pass(Stepwise(work))
        self.node.later(self.latency(), "clean", lambda: self._go_on(number))

    def _go_on(self, number: int) -> None:
        known = self._passes.get(number)
        if known is None or known.awaits_word:
            return
        said = known.work.resume()
        if known.work.is_done:
            del self._passes[number]
            outcome = known.work.result
            failed = PassFailed(outcome) if isinstance(outcome, str) else outcome
            self.node.machine_said(self.broker.cleaning_ended(number, failed))
        elif isinstance(said, CleanedGroup):
            known.awaits_word = True
            self.node.machine_said(self.broker.group_cleaned(number, said))
        else:
            self.broker.cleaning_goes_on(number)
            self.node.later(self.latency(), "clean", lambda: self._go_on(number))

    def _proceed(self, number: int, *, go_on: bool) -> None:
        known = self._passes.get(number)
        if known is None:
            return
        known.is_called_off = known.is_called_off or not go_on
        if known.awaits_word:
            known.awaits_word = False
            self.node.later(self.latency(), "clean", lambda: self._go_on(number))

    def _kill_pass(self, number: int, reason: str) -> None:
        known = self._passes.pop(number, None)
        if known is not None:
            known.work.cancel()
            failed = PassFailed(reason, worker_died=True)
            self._report(lambda: self.broker.cleaning_ended(number, failed))

    # -- scanning -----------------------------------------------------------------------------

    def _scan(self, effect: Scan) -> None:
        reads = [0]

        def work(pause: Callable[[object], None]) -> object:
            def before_read(size: int) -> None:
                reads[0] += 1
                if reads[0] % _READS_A_STEP == 0:
                    pause("read")

            return scan(self.broker.log_dir.fs, effect.plan, before_read)

        running = Stepwise(work)
        self._scans.append(running)
        self.node.later(self.latency(), "scan", lambda: self._scan_on(effect.number, running))

    def _scan_on(self, number: int, running: Stepwise) -> None:
        running.resume()
        if not running.is_done:
            self.node.later(self.latency(), "scan", lambda: self._scan_on(number, running))
            return
        self._scans.remove(running)
        # As it travels between the processes.
        message = decode(encode(running.result)[4:])
        result: ScanResult = (
            ScanFailed(message["detail"]) if message["kind"] == "failed" else report_of(message)
        )
        self.node.machine_said(self.broker.scan_ended(number, result))


__all__ = ["Cancelled", "PausingFilesystem", "Performer"]
