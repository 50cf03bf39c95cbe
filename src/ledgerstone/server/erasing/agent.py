"""Erasures as a broker drives them: loaded, looked at when something happened, moved on by results.

Grade D. The journal says which erasures there are, and whoever leads it runs them.
"""

import logging
from collections.abc import Iterator
from typing import Any, Final

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.erasure.key_print import journal_key_of
from ledgerstone.erasure.scan_plan import ScanReport, SearchReport
from ledgerstone.erasure.secrets_file import load
from ledgerstone.errors import LogStorageError
from ledgerstone.metadata.delta import Delta
from ledgerstone.metadata.image import NO_LEADER
from ledgerstone.replication.leadership import Leadership, LeadershipChanged
from ledgerstone.server.effects import AskVerifier, Clean, Effect, StartScan, Unlink
from ledgerstone.server.erasing.attempts import Attempts
from ledgerstone.server.erasing.host import groups_here
from ledgerstone.server.erasing.journal_topic import JOURNAL
from ledgerstone.server.erasing.needs import UnlinksSoon
from ledgerstone.server.erasing.next_steps import survey_plan
from ledgerstone.server.erasing.requests import ErasureRequests
from ledgerstone.server.erasing.scans import ScanFailed
from ledgerstone.server.erasing.sharing import SecretsSharing
from ledgerstone.server.erasing.survey import Survey, Surveys
from ledgerstone.server.erasing.sweep import Sweeps
from ledgerstone.server.erasing.work import DISK_REFUSED, ErasingWork
from ledgerstone.server.results import (
    Result,
    StillAtWork,
    VerifierFailed,
    VerifierSaid,
    is_last,
)
from ledgerstone.types import TopicPartition

_LOG: Final = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Erasing(ErasingWork):
    """An agent (`server.agent`). Made with the broker; `load` once the partitions are hosted."""

    unlinking: UnlinksSoon
    requests: ErasureRequests = field(init=False)
    sweeps: Sweeps = field(init=False)
    surveys: Surveys = field(init=False)
    sharing: SecretsSharing = field(init=False)
    attempts: Attempts[Any] = field(init=False)  # of pages, for other brokers
    _is_surveyed: bool = False
    # Of the journal, when replicas were last asked for their secrets.
    _shared_epoch: int | None = None
    # The journal is not here: another broker leads it, or its end is not committed yet.
    _is_away: bool = False
    # All records of the journal have been gone through, whatever became of the secrets.
    _is_read: bool = False

    def __post_init__(self) -> None:
        ErasingWork.__post_init__(self)
        self.sharing = SecretsSharing(
            clock=self.clock,
            dice=self.dice,
            fs=self.log_dirs.fs,
            path=lambda: self.keys_path,
            others=self.others,
            journal=self,
            on_taken=self._secrets_taken,
        )
        self.requests = ErasureRequests(self, self.sharing)
        self.sweeps = Sweeps(self, self.unlinking)
        self.attempts = Attempts(self.clock)
        self.surveys = Surveys(clock=self.clock, others=self.others)
        self.journal.on_change = self.became

    # -- as an agent --------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        if self.scans.has_wanted:
            return 0
        times = (
            self.scans.watch.next_look_ms,
            self.due_ms,
            self.jobs.next_deadline_ms,
            self.writer.next_deadline_ms,
            self.attempts.next_deadline_ms,
            self.sharing.next_deadline_ms if self.others.links is not None else None,
        )
        return min(each for each in times if each is not None)

    def tick(self) -> list[Effect]:
        return list(self._tick())

    def _tick(self) -> Iterator[Effect]:
        now_ms = self.clock.monotonic_ms()
        if self.due_ms is not None and now_ms >= self.due_ms:
            self.due_ms = None
            if self.trouble is None:
                self._look()
        self.jobs.tick()
        self.writer.tick()
        self.attempts.tick()
        if self.others.links is not None:
            self.sharing.tick()
        timeout_ms = self.cleaning.settings.worker_timeout_ms
        yield from self.scans.give_up_silent(now_ms=now_ms, timeout_ms=timeout_ms)
        yield from self.scans.take_wanted()
        to_ask, self.to_ask = self.to_ask, []
        yield from to_ask

    def _look(self) -> None:
        """With other brokers, they are asked first; a look that goes on has asked."""
        if self.is_alone or self._is_surveyed:
            self._is_surveyed = False
            self.sweeps.look()
            self._is_surveyed = self.sweeps.is_under_way
        elif not self.surveys.is_under_way and self.journal.unfinished:
            plan, own = survey_plan(self), Survey()
            for topic in plan.group_topics:
                own.add_groups(topic, *groups_here(self, topic))
            own.loaded.update(self.offsets.loaded())
            self.surveys.begin(plan, own, self._surveyed)

    def _surveyed(self, survey: Survey) -> None:
        self.survey, self._is_surveyed, self.due_ms = survey, True, 0

    def partition_moved(self, tp: TopicPartition) -> None:
        """The high watermark of a partition, or its lead: a tombstone may be committed by now."""
        self.writer.moved(tp)

    def _secrets_taken(self) -> None:
        """They came from another broker: if the journal is here, it may have waited for them."""
        if self.trouble is not None and self._is_led_here:
            self.load()

    def completed(self, effect: Effect, result: Result) -> list[Effect]:
        match effect, result:
            case StartScan(number), StillAtWork():
                self._scan_goes_on(number)
            case StartScan(number), SearchReport() | ScanReport() | ScanFailed():
                self.scans.ended(number, result)
            case AskVerifier(), VerifierSaid(said) | VerifierFailed(said):
                self.requests.verifier_spoke(effect, said)
            case ((Clean() | Unlink()), _):
                if is_last(result):
                    self.something_happened()
            case _:
                raise AssertionError(f"erasing asked for no {type(effect).__name__}")
        return []

    def _scan_goes_on(self, number: int) -> None:
        timeout_ms = self.cleaning.settings.worker_timeout_ms
        self.scans.goes_on(number, now_ms=self.clock.monotonic_ms(), timeout_ms=timeout_ms)

    def metadata_changed(self, delta: Delta) -> list[Effect]:
        if not self._is_led_here:
            # Another broker has made the journal, or it has moved on to a third one.
            self._let_go()
        self._share()
        self.something_happened()
        return []

    def _share(self) -> None:
        """Replicas of the journal may be others now, or back: each is asked what it has."""
        journal = self.image().partition(*JOURNAL)
        if journal is None or self.others.links is None:
            return
        if journal.leader_epoch != self._shared_epoch:
            self._shared_epoch = journal.leader_epoch
            self.sharing.forget()
        self.sharing.look_now()

    # -- what the journal says of the secrets -------------------------------------------------

    @property
    def has_read_journal(self) -> bool:
        return self._is_led_here and self._is_read and not self._is_away

    @property
    def secrets_name(self) -> str | None:
        if self.has_read_journal:
            return self.journal.secrets_name
        return self.journal.committed_name()

    def may_offer(self, public_key: str) -> bool:
        if not self.has_read_journal:
            return False
        named = self.journal.secrets_name
        return self.journal.is_empty if named is None else named == public_key

    # -- life cycle ---------------------------------------------------------------------------

    def load(self) -> None:
        """At start, and when the journal comes here. One that cannot be read stops erasures, not
        the broker."""
        if not self._is_led_here:
            self._let_go()
            return
        if not self.journal.is_committed:
            self._is_away = True
            self.trouble = self.loads = "the journal is not committed to its end yet"
            return
        self._is_away, self._is_read, self.trouble, self.loads = False, False, None, None
        self.is_elsewhere = False
        try:
            self._load()
        except DISK_REFUSED as error:
            self._stopped(f"{error}")
        if not self.is_alone:
            self.journal.suspect_sealed_copies()
        if self.journal.unfinished:
            self.look_now()

    @property
    def _is_led_here(self) -> bool:
        """Also before there is a journal: whoever is asked first makes it."""
        state = self.image().partition(*JOURNAL)
        return state is None or state.leader == self.config.node_id

    def _let_go(self) -> None:
        state = self.image().partition(*JOURNAL)
        leader = NO_LEADER if state is None else state.leader
        reason = f"broker {leader} leads the journal, ask there"
        if leader in (NO_LEADER, self.config.node_id):
            reason = "the journal is offline"
        if not self._is_away or self.trouble != reason:
            self._is_away, self._is_read, self.loads = True, False, None
            self.journal, self.secrets = self.journal.blank(), None
            self.sweeps.forget()
            self.surveys.forget()
            self._is_surveyed = False
            self.forget_work()
            # With a leader all is as it should be: another broker does the work.
            self.is_elsewhere = leader not in (NO_LEADER, self.config.node_id)
            if self.is_elsewhere:
                self.trouble = reason
            else:
                self._stopped(reason)

    def _load(self) -> None:
        path = self.keys_path
        secrets, refusal = None, f"{path} is missing; bring it back from a copy"
        try:
            secrets = load(self.log_dirs.fs, path)
        except DISK_REFUSED as error:
            refusal = str(error)
        chain_key = None if secrets is None else journal_key_of(secrets.salt)
        is_ours = self.journal.load(chain_key)
        if not is_ours:
            self.journal = self.journal.blank()
            self.journal.load(None)
        self._is_read = True
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
            self.journal.settle(public_key)
        except DISK_REFUSED as error:
            # What was found is known, and is written down with the next record.
            _LOG.error("erasures held up reason=%s", error)

    def _stopped(self, reason: str) -> None:
        self.trouble = reason
        _LOG.error("erasures stopped reason=%s", reason)

    def leadership_changed(self, event: LeadershipChanged) -> None:
        """Of the journal. Whoever leads it runs the erasures; what was written here and not
        committed may be in the log or not, so a regained journal is read anew."""
        if event.kind is Leadership.LOST:
            self._let_go()
        elif event.kind is Leadership.GAINED:
            if self._is_away:
                self.load()
        else:
            self.journal_committed()

    def journal_committed(self) -> None:
        """More of the journal is committed."""
        if self._is_away:
            self.load()
        elif self.journal.high_watermark_moved():
            self.look_now()
