"""Erasures as a broker drives them: asked for, looked at when something happened, written down.

Grade D. What an erasure needs next is decided by `erasure.life` from facts; here the facts are
gathered, the steps of all erasures are made one round, and their ends are taken in. How a step is
taken is in `erasing_steps`. Nothing is kept in memory that a restart could not find out again: the
journal has the stages, the logs have the rest. No key in clear is held longer than a call.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from ledgerstone.erasure import changes
from ledgerstone.erasure.audit_headers import check_text, iso_time
from ledgerstone.erasure.erasure import Erasure, Evidence, ReplicaScan, Stage
from ledgerstone.erasure.facts import Facts, SearchOutcome
from ledgerstone.erasure.forecast import Forecast, forecast, why_not_in_time
from ledgerstone.erasure.key_print import journal_key_of
from ledgerstone.erasure.life import next_step
from ledgerstone.erasure.readings import observed
from ledgerstone.erasure.rounds import Round, make_round
from ledgerstone.erasure.secrets_file import SECRETS_FILE, Secrets, load, load_or_create
from ledgerstone.erasure.steps import Step
from ledgerstone.errors import InvalidRequest, KafkaError, LogStorageError, StorageError
from ledgerstone.fs import join
from ledgerstone.metadata.delta import Delta
from ledgerstone.replication.leadership import Leadership, LeadershipChanged
from ledgerstone.server.cleaning.parts import Ticket
from ledgerstone.server.effects import AskVerifier, Effect
from ledgerstone.server.erasing import steps
from ledgerstone.server.erasing.facts import Look, TombstoneSights
from ledgerstone.server.erasing.groups import GroupWatch
from ledgerstone.server.erasing.journal import JOURNAL, ErasureJournal
from ledgerstone.server.erasing.scans import Scans, SearchTickets, missing_partition
from ledgerstone.server.movable_clock import MovableClock
from ledgerstone.types import TopicPartition

if TYPE_CHECKING:
    from ledgerstone.erasure.request import ErasureRequest
    from ledgerstone.server.broker import Broker

_LOG: Final = logging.getLogger(__name__)
DISK_REFUSED: Final = (OSError, StorageError, KafkaError)
# Where nothing tells us that something has changed, as when a transaction ends.
LOOK_MS: Final = 5_000
# Where what is waited for should have happened by now.
_LATE_LOOK_MS: Final = 200
# Looking must not take more than this share of the time, however many erasures there are.
_LOOK_SHARE: Final = 50
# Erasures looked at in one go, and how long a turn may take before everybody else gets theirs.
SLICE: Final = 100
_TURN_MS: Final = 20
MAX_UNFINISHED: Final = 100_000


class Outlook(NamedTuple):
    """What an erasure waits for, and when it will be done, as of the last look."""

    waits_for: str | None
    until_ms: int | None
    forecast: Forecast

    @property
    def reason(self) -> str:
        """Why it may be late."""
        return self.forecast.because or self.waits_for or "the work itself takes too long"


@dataclass(slots=True)
class _Sweep:
    """One look at all erasures, slice by slice. What is done for many is done at its end."""

    ids: list[str]
    started_ms: int
    pairs: list[tuple[Erasure, Step]] = field(default_factory=list)
    has_changed: bool = False
    took_ms: int = 0


@dataclass(slots=True, kw_only=True)
class Erasing:
    """Made by bootstrap; `load` once the partitions are hosted."""

    keys_file: str | None = None  # None: `erasure.keys` in the log directory
    # Names of the verifiers that are installed beside the broker.
    installed_verifiers: Callable[[], Sequence[str]] = tuple
    journal: ErasureJournal = field(default_factory=ErasureJournal)
    scans: Scans = field(default_factory=Scans)
    tickets: SearchTickets = field(default_factory=SearchTickets)
    secrets: Secrets | None = None
    trouble: str | None = None  # why nothing can be done for any erasure
    outlooks: dict[str, Outlook] = field(default_factory=dict)
    # Since when each was seen to wait for what has no end that is known; wall time.
    blocked_since: dict[str, int] = field(default_factory=dict)
    # Since start: what searches and scans found, what is under way, what went wrong.
    searches: dict[str, SearchOutcome] = field(default_factory=dict)
    replica_scans: dict[str, ReplicaScan] = field(default_factory=dict)
    in_flight: dict[str, str] = field(default_factory=dict)
    searching: dict[str, None] = field(default_factory=dict)  # topics
    is_scanning: bool = False
    asked: dict[TopicPartition, tuple[int, Ticket]] = field(default_factory=dict)
    verifier_rests: dict[tuple[str, str], int] = field(default_factory=dict)  # until, wall time
    to_ask: list[AskVerifier] = field(default_factory=list)
    refusals: dict[tuple[str, str], str] = field(default_factory=dict)  # by erasure and verifier
    watch: GroupWatch = field(default_factory=GroupWatch)
    _sights: TombstoneSights = field(default_factory=TombstoneSights)
    _alarmed: dict[str, str] = field(default_factory=dict)
    _due_ms: int | None = None
    _sweep: _Sweep | None = None
    # Something happened since the sweep began.
    _is_stale: bool = False
    _has_lost_journal: bool = False

    # -- life cycle ---------------------------------------------------------------------------

    def load(self, broker: "Broker") -> None:
        """At start. A journal that cannot be read stops erasures, not the broker."""
        try:
            self._load(broker)
        except DISK_REFUSED as error:
            self._stopped(f"{error}")
        if self.journal.unfinished:
            self.look_now()

    def _load(self, broker: "Broker") -> None:
        path = self.keys_path(broker)
        secrets, refusal = None, f"{path} is missing; bring it back from a copy"
        try:
            secrets = load(broker.log_dir.fs, path)
        except DISK_REFUSED as error:
            refusal = str(error)
        chain_key = None if secrets is None else journal_key_of(secrets.salt)
        is_ours = self.journal.load(broker, chain_key)
        if not is_ours:
            self.journal = ErasureJournal()
            self.journal.load(broker, None)
        if self.journal.is_empty:
            return
        if secrets is None:
            raise LogStorageError(refusal)
        from ledgerstone.erasure.sealing import public_key_of

        public_key = public_key_of(secrets.signing_seed)
        if not is_ours or self.journal.secrets_name not in (None, public_key.hex()):
            # With another salt no key is found again: every scan would be clean, and a lie.
            raise LogStorageError(
                f"{path} is not the one the erasures were made with: its public key is "
                f"{public_key.hex()}, theirs {self.journal.secrets_name}"
            )
        self.secrets = secrets
        try:
            self.journal.settle(broker, public_key)
        except DISK_REFUSED as error:
            # What was found is known, and is written down with the next record.
            _LOG.error("erasures held up reason=%s", error)

    def _stopped(self, reason: str) -> None:
        self.trouble = reason
        _LOG.error("erasures stopped reason=%s", reason)

    def keys_path(self, broker: "Broker") -> str:
        return self.keys_file or join(broker.log_dir.path, SECRETS_FILE)

    def metadata_changed(self, broker: "Broker", delta: Delta) -> None:
        self.something_happened()

    def leadership_changed(self, broker: "Broker", event: LeadershipChanged) -> None:
        """Of the journal. Whoever leads it runs the erasures; what was written here and not
        committed may be in the log or not, so a regained journal is read anew."""
        if event.kind is Leadership.LOST:
            self._has_lost_journal = True
            self.journal, self.secrets, self._sweep = ErasureJournal(), None, None
            self._stopped("another broker leads the journal")
        elif event.kind is Leadership.GAINED:
            if self._has_lost_journal:
                self._has_lost_journal, self.trouble = False, None
                self.load(broker)
        else:
            self.journal_committed(broker)

    def journal_committed(self, broker: "Broker") -> None:
        """More of the journal is committed."""
        if self.journal.high_watermark_moved(broker):
            self.look_now()

    # -- what users ask -----------------------------------------------------------------------

    def request(self, broker: "Broker", requests: Sequence["ErasureRequest"]) -> list[Erasure]:
        """All of them or none; the first request makes the secrets and the journal."""
        from ledgerstone.erasure.request import new_erasure

        self._check_works()
        unfinished = len(self.journal.unfinished) + len(requests)
        if unfinished > MAX_UNFINISHED:
            raise InvalidRequest(f"{unfinished} erasures at a time, at most {MAX_UNFINISHED}")
        secrets, now_ms = self._secrets(broker), broker.clock.now_ms()
        print_key = secrets.print_key
        made = [
            new_erasure(each, print_key=print_key, dice=broker.dice, now_ms=now_ms)
            for each in requests
        ]
        self.keep(broker, made)
        look = Look(broker, self._sights, self.asked)
        for each in made:
            # At once, so that who asks hears whether it can be done in time.
            self._step(broker, look, each.id, now_ms)
        return made

    def why_not_in_time(self, broker: "Broker", erasure: Erasure) -> str | None:
        """For who has just asked for it."""
        facts = self._facts(broker, Look(broker, self._sights, self.asked), erasure)
        return why_not_in_time(erasure, facts, now_ms=broker.clock.now_ms())

    def cancel(self, broker: "Broker", erasure: Erasure, by: str) -> Erasure:
        self._check_works()
        now_ms, salt = broker.clock.now_ms(), self._secrets(broker).salt
        cancelled = changes.cancelled(erasure, by=by, salt=salt, now_ms=now_ms)
        self.keep(broker, [cancelled])
        return cancelled

    def abandon(self, broker: "Broker", erasure: Erasure, by: str, reason: str) -> Erasure:
        self._check_works()
        now_ms, salt = broker.clock.now_ms(), self._secrets(broker).salt
        given_up = changes.abandoned(erasure, by=by, reason=reason, salt=salt, now_ms=now_ms)
        self.keep(broker, [given_up])
        return given_up

    def accept(
        self, broker: "Broker", erasure: Erasure, *, file: str, reason: str, by: str
    ) -> Erasure:
        """What the last scan found in a file may stay there; the receipt will say so."""
        self._check_works()
        successor = changes.with_exception(
            erasure,
            self.replica_scans.get(erasure.id),
            file=file,
            reason=reason,
            by=by,
            salt=self._secrets(broker).salt,
            now_ms=broker.clock.now_ms(),
        )
        self.keep(broker, [successor])
        return successor

    def give_evidence(
        self, broker: "Broker", erasure: Erasure, evidence: Sequence[Evidence]
    ) -> Erasure:
        """All of it or nothing. After the receipt it becomes a signed supplement."""
        self._check_works()
        if erasure.stage is Stage.RECEIPTED:
            return steps.supplement(self, broker, erasure, evidence)
        salt = self._secrets(broker).salt
        for each in evidence:
            erasure = changes.with_evidence(erasure, each, salt=salt)
        self.keep(broker, [erasure])
        return erasure

    def acknowledge_breaks(self, broker: "Broker", by: str) -> None:
        self._check_works()
        check_text("by", by)
        if not any(each.is_open for each in self.journal.breaks):
            raise InvalidRequest("the journal has no break that is not acknowledged")
        self.journal.acknowledge(broker, by)
        _LOG.warning("journal of erasures acknowledged by=%s", by)

    def _check_works(self) -> None:
        if self.trouble is not None:
            raise LogStorageError(f"no erasures: {self.trouble}")

    def _secrets(self, broker: "Broker") -> Secrets:
        if self.secrets is None:
            path, now_ms = self.keys_path(broker), broker.clock.now_ms()
            self.secrets = load_or_create(broker.log_dir.fs, path, dice=broker.dice, now_ms=now_ms)
        if self.journal.chain is None:
            # Nothing was there to load: this is the first erasure.
            self.journal.load(broker, journal_key_of(self.secrets.salt))
        if self.journal.secrets_name is None:
            from ledgerstone.erasure.sealing import public_key_of

            self.journal.name_secrets(broker, public_key_of(self.secrets.signing_seed))
        return self.secrets

    # -- when to look -------------------------------------------------------------------------

    def look_now(self) -> None:
        self._due_ms = 0
        self._is_stale = True

    def something_happened(self) -> None:
        """A pass ended, metadata or the clock changed: it may be what an erasure waits for."""
        if self.journal.unfinished:
            self.look_now()

    @property
    def next_deadline_ms(self) -> int | None:
        if self.scans.has_wanted:
            return 0
        look_ms = self.scans.watch.next_look_ms
        return look_ms if self._due_ms is None else min(self._due_ms, look_ms)

    def scan_goes_on(self, broker: "Broker", number: int) -> None:
        timeout_ms = broker.cleaning.settings.worker_timeout_ms
        self.scans.goes_on(number, now_ms=broker.clock.monotonic_ms(), timeout_ms=timeout_ms)

    def tick(self, broker: "Broker") -> Iterator[Effect]:
        now_ms = broker.clock.monotonic_ms()
        if self._due_ms is not None and now_ms >= self._due_ms:
            self._due_ms = None
            if self.trouble is None:
                self._look(broker)
        timeout_ms = broker.cleaning.settings.worker_timeout_ms
        yield from self.scans.give_up_silent(now_ms=now_ms, timeout_ms=timeout_ms)
        yield from self.scans.take_wanted()
        to_ask, self.to_ask = self.to_ask, []
        yield from to_ask

    def _look(self, broker: "Broker") -> None:
        """Goes on with the sweep, or begins one, until it is done or the turn is over."""
        clock = broker.clock
        started_ms = clock.monotonic_ms()
        look = Look(broker, self._sights, self.asked)
        try:
            while True:
                if self._sweep is None:
                    self._is_stale = False
                    self._sweep = _Sweep(list(self.journal.unfinished), clock.now_ms())
                    self._unlink_due(broker)
                is_done = self._take_slice(broker, look, self._sweep)
                if clock.monotonic_ms() - started_ms >= _TURN_MS:
                    self._due_ms = 0
                    return
                if is_done:
                    return
        except DISK_REFUSED as error:
            # Nothing was promised: the journal has what is true, and it is tried again.
            _LOG.error("erasures held up reason=%s", error)
            self._sweep = None
            self._due_ms = clock.monotonic_ms() + LOOK_MS
        finally:
            if self._sweep is not None:
                self._sweep.took_ms += clock.monotonic_ms() - started_ms

    def _unlink_due(self, broker: "Broker") -> None:
        """What is due goes now: somebody waits for it."""
        waiting = (Stage.REMOVED, Stage.UNLINKED)
        if any(self.journal.get(each).stage in waiting for each in self.journal.unfinished):
            broker.housekeeping.unlink_soon()

    def _take_slice(self, broker: "Broker", look: Look, sweep: _Sweep) -> bool:
        """True where nothing is left to do for now."""
        ids, sweep.ids = sweep.ids[:SLICE], sweep.ids[SLICE:]
        now_ms = broker.clock.now_ms()
        pairs = [self._step(broker, look, each, now_ms) for each in ids if self._is_open(each)]
        made = make_round(pairs, now_ms=now_ms)
        if made.advances or made.writes or made.issues:
            sweep.has_changed = True
            self.keep(broker, steps.with_statements(self, broker, made.advances))
            steps.write_tombstones(self, broker, made.writes)
            steps.issue_receipts(self, broker, made.issues)
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
        self._take_shared(broker, whole)
        if not self._is_stale:
            self._schedule(broker, whole, took_ms=sweep.took_ms)
        return not self._is_stale

    def _is_open(self, erasure_id: str) -> bool:
        return erasure_id in self.journal.unfinished

    def _step(
        self, broker: "Broker", look: Look, erasure_id: str, now_ms: int
    ) -> tuple[Erasure, Step]:
        erasure = self.journal.get(erasure_id)
        facts = self._facts(broker, look, erasure)
        erasure = self.watch.noted(observed(self.watch.remembered(erasure), facts))
        step = next_step(erasure, facts, now_ms=now_ms)
        expected = forecast(erasure, facts, now_ms=now_ms)
        if expected.blocked_by is None:
            self.blocked_since.pop(erasure.id, None)
        else:
            self.blocked_since.setdefault(erasure.id, now_ms)
        outlook = self.outlooks[erasure.id] = Outlook(*steps.what_for(step), expected)
        self._alarm(erasure, outlook)
        return erasure, step

    def _take_shared(self, broker: "Broker", made: Round) -> None:
        """Searches, passes and scans are for all that wait for one."""
        for erasure_id, wait in made.waits.items():
            # Of a pass that waits for other erasures it is not told until when: whoever has a
            # virtual clock would move it there, and nothing would be done for all at once.
            self.outlooks[erasure_id] = self.outlooks[erasure_id]._replace(waits_for=wait.because)
        for topic, ids in made.searches.items():
            steps.search(self, broker, topic, ids)
        for tp in made.asks:
            steps.ask(self, broker, tp)
        if made.ask_journal:
            steps.ask(self, broker, JOURNAL)
        for ids in made.scans.values():
            steps.scan(self, broker, ids)
        steps.ask_verifiers(self, broker, made.verifiers)

    def _schedule(self, broker: "Broker", made: Round, *, took_ms: int) -> None:
        if not self.journal.unfinished:
            return
        rest_ms = max(LOOK_MS, took_ms * _LOOK_SHARE)
        if made.next_ms is not None:
            wait_ms = made.next_ms - broker.clock.now_ms()
            # In the past: its time has come and it is under way, as an unlinking is. Its end is
            # reported, so there is no need to look all the time.
            rest_ms = min(rest_ms, wait_ms if wait_ms > 0 else _LATE_LOOK_MS)
        self._due_ms = broker.clock.monotonic_ms() + rest_ms

    def _facts(self, broker: "Broker", look: Look, erasure: Erasure) -> Facts:
        topic = broker.image.topics.get(erasure.topic)
        exists = topic is not None and topic.topic_id == erasure.topic_id
        trouble = None
        retention_ms, delay_ms = 86_400_000, 60_000
        if exists:
            partitions = look.partitions_of(erasure)
            trouble = missing_partition(broker.image, broker.partitions, erasure.topic)
            hosted = broker.partitions.find(TopicPartition(erasure.topic, 0))
            if hosted is not None:
                retention_ms = hosted.log.config.delete_retention_ms
                delay_ms = hosted.log.config.file_delete_delay_ms
        else:
            partitions = look.deleted_topic(erasure.topic)
        in_flight = self._in_flight(erasure)
        sealed = False
        if erasure.stage is Stage.UNLINKED:
            sealed, hindrance = steps.sealed_copies(self, look, erasure)
            in_flight = in_flight or hindrance
        scan = self.replica_scans.get(erasure.id)
        salt = None if self.secrets is None else self.secrets.salt
        seen = self.watch.seen(look, erasure, salt, topic_exists=exists)
        return Facts(
            topic_exists=exists,
            partitions=partitions,
            search=self.searches.get(erasure.id),
            scans=() if scan is None else (scan,),
            node_ids=(broker.config.node_id,),
            in_flight=in_flight,
            trouble=trouble,
            blocked_since_ms=self.blocked_since.get(erasure.id),
            groups_are_known=seen.are_known,
            groups=seen.groups,
            missed=seen.missed,
            removed_ms=seen.removed_ms,
            full_ledgers=seen.full_ledgers,
            more_groups=seen.more,
            sealed_copies_left=sealed,
            delete_retention_ms=retention_ms,
            file_delete_delay_ms=delay_ms,
        )

    def _in_flight(self, erasure: Erasure) -> str | None:
        """One search of a topic at a time, and one scan: what comes meanwhile is in the next."""
        if erasure.id in self.in_flight:
            return self.in_flight[erasure.id]
        needs_search = erasure.stage in (Stage.REQUESTED, Stage.SEARCHED)
        if needs_search and erasure.topic in self.searching and erasure.id not in self.searches:
            return f"a search of {erasure.topic} for others is under way; the next one is for this"
        if erasure.stage is Stage.UNLINKED and self.is_scanning:
            return "a scan for others is under way; the next one is for this"
        return None

    def keep(self, broker: "Broker", erasures: Sequence[Erasure]) -> None:
        """Writes successors down; from then on they are true."""
        if not erasures:
            return
        erasures = [self.on_this_clock(broker, self.watch.remembered(each)) for each in erasures]
        self.journal.append(broker, erasures)
        self.look_now()
        for each in erasures:
            _LOG.info("erasure id=%s topic=%s stage=%s", each.id, each.topic, each.stage.value)
            if each.stage is Stage.TOMBSTONED:
                self.searches.pop(each.id, None)
            elif each.is_over:
                self._forget(each)

    def on_this_clock(self, broker: "Broker", erasure: Erasure) -> Erasure:
        """Times that were set by hand are told for ever."""
        if not isinstance(broker.clock, MovableClock):
            return erasure
        return replace(erasure, on_virtual_clock=True)

    def _forget(self, erasure: Erasure) -> None:
        for name in erasure.awaited_verifiers:
            self.verifier_rests.pop((erasure.id, name), None)
            self.refusals.pop((erasure.id, name), None)
        self.watch.forget(erasure.id)
        self.searches.pop(erasure.id, None)
        self.replica_scans.pop(erasure.id, None)
        self.in_flight.pop(erasure.id, None)
        self._sights.forget(erasure.topic, erasure.tombstones)
        self._alarmed.pop(erasure.id, None)
        self.blocked_since.pop(erasure.id, None)
        self.outlooks.pop(erasure.id, None)

    def _alarm(self, erasure: Erasure, outlook: Outlook) -> None:
        """Once when a deadline is about to be missed, once when it was."""
        expected = outlook.forecast
        if not expected.will_miss or erasure.deadline_ms is None:
            self._alarmed.pop(erasure.id, None)
            return
        level = "overdue" if expected.is_overdue else "at risk"
        if self._alarmed.get(erasure.id) == level:
            return
        self._alarmed[erasure.id] = level
        _LOG.log(
            logging.ERROR if expected.is_overdue else logging.WARNING,
            "erasure %s id=%s topic=%s stage=%s deadline=%s reason=%s",
            level, erasure.id, erasure.topic, erasure.stage.value, iso_time(erasure.deadline_ms),
            outlook.reason,
        )  # fmt: skip
