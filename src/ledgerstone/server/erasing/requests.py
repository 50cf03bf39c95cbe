"""What users and verifiers ask of erasures: new ones, cancelling, evidence, exceptions. Grade D.

The caller has its answer once the journal holds the change. The first request makes the secrets and
the journal.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from ledgerstone.dataclasses import dataclass
from ledgerstone.erasure import changes
from ledgerstone.erasure.audit_headers import check_text
from ledgerstone.erasure.erasure import Erasure, Evidence, ReplicaScan, Stage
from ledgerstone.erasure.forecast import why_not_in_time
from ledgerstone.erasure.hosting import why_not_given_up
from ledgerstone.erasure.key_print import journal_key_of
from ledgerstone.erasure.secrets_file import Secrets, load, load_or_create
from ledgerstone.erasure.verifiers import Word, evidence_from
from ledgerstone.errors import InvalidRequest, LogStorageError
from ledgerstone.server.effects import AskVerifier
from ledgerstone.server.erasing import receipts
from ledgerstone.server.erasing.journal import ChangeInFlight, ErasureJournal
from ledgerstone.server.erasing.next_steps import facts_of, look_at
from ledgerstone.server.erasing.sharing import SecretsSharing
from ledgerstone.server.erasing.work import DISK_REFUSED, ErasingWork, NotYet

if TYPE_CHECKING:
    # Takes cryptography with it, which a broker that erases nothing does without.
    from ledgerstone.erasure.request import ErasureRequest

_LOG: Final = logging.getLogger(__name__)
MAX_UNFINISHED: Final = 100_000


@dataclass(slots=True)
class JournalChange:
    """One thing that a user asked for, tried until the journal has it.

    `attempt` raises NotYet; what it refuses for good it raises otherwise. Nothing is written
    twice: once a change is in the log it is only waited for."""

    work: ErasingWork
    make: Callable[[], Sequence[Erasure]]
    _made: Sequence[Erasure] | None = None
    _journal: ErasureJournal | None = None

    def attempt(self) -> list[Erasure]:
        if self._made is None:
            self._write()
        assert self._made is not None
        if self._journal is not self.work.journal:
            raise LogStorageError(
                "the journal has moved to another broker meanwhile: look whether the change is in "
                "it before you ask again"
            )
        if not self._journal.is_settled:
            raise NotYet("the change is written to the journal and not committed yet")
        return [self.work.journal.get(each.id) for each in self._made]

    def _write(self) -> None:
        made = self.make()
        try:
            self.work.keep(made)
        except ChangeInFlight as error:
            if not error.is_written:
                raise NotYet(str(error)) from None
        self._made, self._journal = made, self.work.journal


@dataclass(slots=True)
class ErasureRequests:
    work: ErasingWork
    sharing: SecretsSharing
    _topic_trouble: str | None = None
    _is_topic_asked: bool = False

    def new(self, requests: Sequence["ErasureRequest"]) -> JournalChange:
        """All of them or none."""
        return JournalChange(self.work, lambda: self._make(requests))

    def make(self, requests: Sequence["ErasureRequest"]) -> list[Erasure]:
        return self.new(requests).attempt()

    def _make(self, requests: Sequence["ErasureRequest"]) -> list[Erasure]:
        from ledgerstone.erasure.request import new_erasure

        self._check_works()
        work = self.work
        unfinished = len(work.journal.unfinished) + len(requests)
        if unfinished > MAX_UNFINISHED:
            raise InvalidRequest(f"{unfinished} erasures at a time, at most {MAX_UNFINISHED}")
        print_key, now_ms = self._secrets().print_key, work.clock.now_ms()
        return [
            new_erasure(each, print_key=print_key, dice=work.dice, now_ms=now_ms)
            for each in requests
        ]

    def look_at(self, made: Sequence[Erasure]) -> None:
        """At once, so that the caller hears whether it can be done in time."""
        look, now_ms = self.work.look(), self.work.clock.now_ms()
        for each in made:
            if not each.is_over:
                look_at(self.work, look, each.id, now_ms)

    def why_not_in_time(self, erasure: Erasure) -> str | None:
        """For the caller that has just asked for it."""
        facts = facts_of(self.work, self.work.look(), erasure)
        return why_not_in_time(erasure, facts, now_ms=self.work.clock.now_ms())

    def _changing(
        self, erasure_id: str, successor: Callable[[Erasure, bytes, int], Erasure | None]
    ) -> JournalChange:
        """`successor` gets the erasure as it is by then, the salt and the time; None: no change."""

        def make() -> list[Erasure]:
            self._check_works()
            erasure = self.work.journal.get(erasure_id)
            made = successor(erasure, self._secrets().salt, self.work.clock.now_ms())
            return [] if made is None else [made]

        return JournalChange(self.work, make)

    def cancel(self, erasure_id: str, by: str) -> JournalChange:
        return self._changing(
            erasure_id,
            lambda erasure, salt, now_ms: changes.cancelled(
                erasure, by=by, salt=salt, now_ms=now_ms
            ),
        )

    def abandon(self, erasure_id: str, by: str, reason: str) -> JournalChange:
        return self._changing(
            erasure_id,
            lambda erasure, salt, now_ms: changes.abandoned(
                erasure, by=by, reason=reason, salt=salt, now_ms=now_ms
            ),
        )

    def accept(
        self, erasure_id: str, *, file: str, reason: str, by: str, node_id: int | None = None
    ) -> JournalChange:
        """What the last scan found in a file may stay there; the receipt will say so."""
        return self._changing(
            erasure_id,
            lambda erasure, salt, now_ms: changes.with_exception(
                erasure,
                self._scan_with(erasure, file, node_id),
                file=file,
                reason=reason,
                by=by,
                salt=salt,
                now_ms=now_ms,
            ),
        )

    def _scan_with(self, erasure: Erasure, file: str, node_id: int | None) -> ReplicaScan | None:
        """The last scan of the broker that has something in the file."""
        scans = self.work.replica_scans.get(erasure.id, {})
        if node_id is not None:
            if node_id not in scans:
                raise InvalidRequest(f"{erasure.id}: no scan of broker {node_id}")
            return scans[node_id]
        found = [
            scan
            for scan in (scans[each] for each in sorted(scans))
            if file in [each.file for each in scan.residue_files]
            or file in [each.file for each in scan.troubles]
        ]
        if len(found) > 1:
            names = ", ".join(str(each.node_id) for each in found)
            raise InvalidRequest(f"{erasure.id}: brokers {names} have such a file; name one")
        return next(iter(found or scans.values()), None)

    def give_up_broker(
        self, erasure_id: str, *, broker_id: int, reason: str, by: str
    ) -> JournalChange:
        """A broker that is destroyed is not scanned; the receipt will name it."""

        def successor(erasure: Erasure, salt: bytes, now_ms: int) -> Erasure:
            refusal = why_not_given_up(
                broker_id,
                hosts=erasure.hosts,
                standing=self.work.disks(),
                alive=self.work.others.alive,
            )
            if refusal is not None:
                raise InvalidRequest(refusal)
            return changes.with_lost_broker(
                erasure, broker_id=broker_id, reason=reason, by=by, salt=salt, now_ms=now_ms
            )

        return self._changing(erasure_id, successor)

    def give_evidence(self, erasure_id: str, evidence: Sequence[Evidence]) -> JournalChange:
        """All of it or nothing. After the receipt it becomes a signed supplement."""

        def successor(erasure: Erasure, salt: bytes, now_ms: int) -> Erasure | None:
            if erasure.stage is Stage.RECEIPTED:
                return receipts.supplemented(self.work, erasure, evidence)
            for each in evidence:
                erasure = changes.with_evidence(erasure, each, salt=salt)
            return erasure

        return self._changing(erasure_id, successor)

    def verifier_spoke(self, asked: AskVerifier, words: Sequence[Word] | str) -> None:
        """`words`, or why there are none."""
        erasure = self.work.journal.book.get(asked.question.erasure_id)
        # A verifier that took too long speaks after the receipt: that is a supplement.
        if erasure is None or (erasure.is_over and erasure.stage is not Stage.RECEIPTED):
            return
        if isinstance(words, str):
            _LOG.warning(
                "verifier failed id=%s verifier=%s reason=%s", erasure.id, asked.name, words
            )
            if not erasure.is_over:
                self.work.refusals[erasure.id, asked.name] = words
            return
        try:
            given = evidence_from(asked.name, words, now_ms=self.work.clock.now_ms())
            self.give_evidence(erasure.id, given).attempt()
        except NotYet:
            # It is in the log by now, or the verifier is asked again.
            pass
        except DISK_REFUSED as error:
            _LOG.warning(
                "evidence refused id=%s verifier=%s reason=%s", erasure.id, asked.name, error
            )

    def acknowledge_breaks(self, by: str) -> None:
        self._check_works()
        check_text("by", by)
        if not any(each.is_open for each in self.work.journal.breaks):
            raise InvalidRequest("the journal has no break that is not acknowledged")
        with suppress(ChangeInFlight):
            self.work.journal.acknowledge(by)
        _LOG.warning("journal of erasures acknowledged by=%s", by)

    def _check_works(self) -> None:
        self.work.check_is_loaded()
        if self.work.trouble is not None:
            raise LogStorageError(f"no erasures: {self.work.trouble}")

    # -- the journal and the secrets ------------------------------------------------------------

    def ensure_journal(self) -> None:
        """Makes the topic when the first erasure is asked for. NotYet until it has a leader."""
        topic = self.work.journal.topic
        if topic.exists or self.work.others.links is None:
            return
        if self._topic_trouble is not None:
            trouble, self._topic_trouble = self._topic_trouble, None
            raise LogStorageError(trouble)
        if not self._is_topic_asked:
            self._is_topic_asked = True
            topic.ask_for_topic(self._topic_answered)
        raise NotYet("the topic of the journal is being made")

    def _topic_answered(self, trouble: str | None) -> None:
        self._is_topic_asked, self._topic_trouble = False, trouble

    def _secrets(self) -> Secrets:
        work, journal = self.work, self.work.journal
        self.ensure_journal()
        if work.secrets is None:
            # First the journal: on a cluster another broker may lead it, and have the secrets.
            journal.topic.ensure_partition().check_leader()
            fs, path, now_ms = work.log_dirs.fs, work.keys_path, work.clock.now_ms()
            if load(fs, path) is None and (why := self.sharing.may_make()) is not None:
                raise NotYet(why)
            work.secrets = load_or_create(fs, path, dice=work.dice, now_ms=now_ms)
            self.sharing.look_now()
        from ledgerstone.erasure.sealing import public_key_of

        public_key = public_key_of(work.secrets.signing_seed)
        if (why := self.sharing.why_not_shared(public_key.hex())) is not None:
            raise NotYet(why)
        if journal.chain is None:
            # Nothing was there to load: this is the first erasure.
            journal.load(journal_key_of(work.secrets.salt))
        try:
            return work.named_secrets()
        except ChangeInFlight as error:
            raise NotYet(str(error)) from None
