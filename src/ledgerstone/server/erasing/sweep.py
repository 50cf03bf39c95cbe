"""The look at all erasures, slice by slice: their next steps, taken together where one serves many.

Grade D. What can be written down for single erasures is written down first; searches, passes and
scans are started at the end of a sweep, for all that wait for one.
"""

import logging
from typing import Final

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.erasure.changes import with_hosts
from ledgerstone.erasure.erasure import Erasure, Stage
from ledgerstone.erasure.rounds import Round, make_round
from ledgerstone.erasure.steps import Step
from ledgerstone.server.erasing import receipts, searching, steps
from ledgerstone.server.erasing.facts import Look
from ledgerstone.server.erasing.journal import ChangeInFlight
from ledgerstone.server.erasing.needs import UnlinksSoon
from ledgerstone.server.erasing.next_steps import look_at
from ledgerstone.server.erasing.work import DISK_REFUSED, ErasingWork

_LOG: Final = logging.getLogger(__name__)
# Where nothing tells us that something has changed, as when a transaction ends.
LOOK_MS: Final = 5_000
_CLUSTER_LOOK_MS: Final = 2_000
_BUSY_LOOK_MS: Final = 300
# Where what is waited for should have happened by now.
_LATE_LOOK_MS: Final = 200
# Looking must not take more than this share of the time, however many erasures there are.
_LOOK_SHARE: Final = 50
# Erasures looked at in one go, and how long a turn may take before everybody else gets theirs.
SLICE: Final = 100
_TURN_MS: Final = 20


@dataclass(slots=True)
class _Sweep:
    """One look at all erasures. What is done for many is done at its end."""

    ids: list[str]
    started_ms: int
    pairs: list[tuple[Erasure, Step]] = field(default_factory=list)
    has_changed: bool = False
    took_ms: int = 0


@dataclass(slots=True)
class Sweeps:
    work: ErasingWork
    unlinking: UnlinksSoon
    _sweep: _Sweep | None = None

    @property
    def is_under_way(self) -> bool:
        return self._sweep is not None

    def forget(self) -> None:
        """The journal is another one: the sweep under way means nothing any more."""
        self._sweep = None

    def look(self) -> None:
        """Goes on with the sweep, or begins one, until it is done or the turn is over."""
        clock = self.work.clock
        started_ms = clock.monotonic_ms()
        look = self.work.look()
        try:
            while True:
                if self._sweep is None:
                    self.work.is_stale = False
                    self._sweep = _Sweep(list(self.work.journal.unfinished), clock.now_ms())
                    self._unlink_due()
                is_done = self._take_slice(look, self._sweep)
                if clock.monotonic_ms() - started_ms >= _TURN_MS:
                    self.work.due_ms = 0
                    return
                if is_done:
                    return
        except ChangeInFlight:
            # As usual where the journal is replicated: its commit makes everyone look again.
            self._sweep = None
            self.work.due_ms = clock.monotonic_ms() + LOOK_MS
        except DISK_REFUSED as error:
            # Nothing was promised: the journal has what is true, and it is tried again.
            _LOG.error("erasures held up reason=%s", error)
            self._sweep = None
            self.work.due_ms = clock.monotonic_ms() + LOOK_MS
        finally:
            if self._sweep is not None:
                self._sweep.took_ms += clock.monotonic_ms() - started_ms

    def _unlink_due(self) -> None:
        """Files that are due go now: an erasure waits for it."""
        waiting = (Stage.REMOVED, Stage.UNLINKED)
        if any(
            self.work.journal.get(each).stage in waiting for each in self.work.journal.unfinished
        ):
            self.unlinking.unlink_soon()

    def _take_slice(self, look: Look, sweep: _Sweep) -> bool:
        """True where nothing is left to do for now."""
        ids, sweep.ids = sweep.ids[:SLICE], sweep.ids[SLICE:]
        now_ms = self.work.clock.now_ms()
        pairs = [look_at(self.work, look, each, now_ms) for each in ids if self._is_open(each)]
        made = make_round(pairs, now_ms=now_ms)
        with_disks = self._with_new_disks([erasure for erasure, _ in pairs], made)
        if made.advances or made.writes or made.issues or with_disks:
            sweep.has_changed = True
            advances = receipts.with_statements(self.work, made.advances)
            self.work.keep([*advances, *with_disks])
            steps.write_tombstones(self.work, made.writes)
            receipts.issue_receipts(self.work, made.issues)
        sweep.pairs += pairs
        if sweep.ids:
            return False
        self._sweep = None
        if sweep.has_changed:
            # First all that can be written down, so that the rest is done for as many as possible.
            look.forget()
            return False
        # One that was looked at in an earlier turn may have been cancelled since.
        still_open = [pair for pair in sweep.pairs if self._is_open(pair[0].id)]
        whole = make_round(still_open, now_ms=now_ms)
        self._take_shared(whole)
        if not self.work.is_stale:
            self._schedule(whole, took_ms=sweep.took_ms)
        return not self.work.is_stale

    def _with_new_disks(self, erasures: list[Erasure], made: Round) -> list[Erasure]:
        """Those to be written down for a disk alone: a broker that comes and goes between two
        stages may take the key along."""
        disks, advancing = self.work.disks(), {each.id for each in made.advances}
        return [
            noted
            for each in erasures
            if each.id not in advancing and (noted := with_hosts(each, disks)) is not each
        ]

    def _is_open(self, erasure_id: str) -> bool:
        return erasure_id in self.work.journal.unfinished

    def _take_shared(self, made: Round) -> None:
        """Searches, passes and scans are for all that wait for one."""
        for erasure_id, wait in made.waits.items():
            # Of a pass that waits for other erasures it is not told until when: whoever has a
            # virtual clock would move it there, and nothing would be done for all at once.
            self.work.outlooks[erasure_id] = self.work.outlooks[erasure_id]._replace(
                waits_for=wait.because
            )
        for topic, ids in made.searches.items():
            searching.search(self.work, topic, ids)
        for tp in made.asks:
            steps.ask(self.work, tp)
        for broker_id, tp in made.remote_asks:
            steps.ask_replica(self.work, broker_id, tp)
        for erasure_id, step in made.aborts.items():
            steps.abort_open(self.work, erasure_id, step)
        if made.ask_journal:
            steps.ask_journal(self.work)
        for broker_id, ids in made.scans.items():
            steps.scan(self.work, broker_id, ids)
        receipts.ask_verifiers(self.work, made.verifiers)

    def _schedule(self, made: Round, *, took_ms: int) -> None:
        if not self.work.journal.unfinished:
            return
        look_ms = LOOK_MS
        if not self.work.is_alone:
            # Nobody tells us what happened on other brokers.
            is_busy = any(each.until_ms is None for each in made.waits.values())
            is_busy = is_busy or bool(made.remote_asks) or made.ask_journal
            look_ms = _BUSY_LOOK_MS if is_busy else _CLUSTER_LOOK_MS
        rest_ms = max(look_ms, took_ms * _LOOK_SHARE)
        if made.next_ms is not None:
            wait_ms = made.next_ms - self.work.clock.now_ms()
            # In the past: its time has come and it is under way, as an unlinking is. Its end is
            # reported, so there is no need to look all the time.
            rest_ms = min(rest_ms, wait_ms if wait_ms > 0 else _LATE_LOOK_MS)
        self.work.due_ms = self.work.clock.monotonic_ms() + rest_ms
