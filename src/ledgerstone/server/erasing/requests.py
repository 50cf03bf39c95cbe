"""What users and verifiers ask of erasures: new ones, cancelling, evidence, exceptions. Grade D.

The caller has its answer once the journal holds the change. The first request makes the secrets and
the journal.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ledgerstone.dataclasses import dataclass
from ledgerstone.erasure import changes
from ledgerstone.erasure.audit_headers import check_text
from ledgerstone.erasure.erasure import Erasure, Evidence, Stage
from ledgerstone.erasure.forecast import why_not_in_time
from ledgerstone.erasure.key_print import journal_key_of
from ledgerstone.erasure.secrets_file import Secrets, load_or_create
from ledgerstone.erasure.verifiers import Word, evidence_from
from ledgerstone.errors import InvalidRequest, LogStorageError
from ledgerstone.server.effects import AskVerifier
from ledgerstone.server.erasing import receipts
from ledgerstone.server.erasing.next_steps import facts_of, look_at
from ledgerstone.server.erasing.work import DISK_REFUSED, ErasingWork

if TYPE_CHECKING:
    # Takes cryptography with it, which a broker that erases nothing does without.
    from ledgerstone.erasure.request import ErasureRequest

_LOG: Final = logging.getLogger(__name__)
MAX_UNFINISHED: Final = 100_000


@dataclass(slots=True)
class ErasureRequests:
    work: ErasingWork

    def make(self, requests: Sequence["ErasureRequest"]) -> list[Erasure]:
        """All of them or none."""
        from ledgerstone.erasure.request import new_erasure

        self._check_works()
        work = self.work
        if work.why_not_alone is not None:
            raise InvalidRequest(work.why_not_alone)
        unfinished = len(work.journal.unfinished) + len(requests)
        if unfinished > MAX_UNFINISHED:
            raise InvalidRequest(f"{unfinished} erasures at a time, at most {MAX_UNFINISHED}")
        print_key, now_ms = self._secrets().print_key, work.clock.now_ms()
        made = [
            new_erasure(each, print_key=print_key, dice=work.dice, now_ms=now_ms)
            for each in requests
        ]
        work.keep(made)
        look = work.look()
        for each in made:
            # At once, so that the caller hears whether it can be done in time.
            look_at(work, look, each.id, now_ms)
        return made

    def why_not_in_time(self, erasure: Erasure) -> str | None:
        """For the caller that has just asked for it."""
        facts = facts_of(self.work, self.work.look(), erasure)
        return why_not_in_time(erasure, facts, now_ms=self.work.clock.now_ms())

    def cancel(self, erasure: Erasure, by: str) -> Erasure:
        self._check_works()
        now_ms, salt = self.work.clock.now_ms(), self._secrets().salt
        cancelled = changes.cancelled(erasure, by=by, salt=salt, now_ms=now_ms)
        self.work.keep([cancelled])
        return cancelled

    def abandon(self, erasure: Erasure, by: str, reason: str) -> Erasure:
        self._check_works()
        now_ms, salt = self.work.clock.now_ms(), self._secrets().salt
        given_up = changes.abandoned(erasure, by=by, reason=reason, salt=salt, now_ms=now_ms)
        self.work.keep([given_up])
        return given_up

    def accept(self, erasure: Erasure, *, file: str, reason: str, by: str) -> Erasure:
        """What the last scan found in a file may stay there; the receipt will say so."""
        self._check_works()
        successor = changes.with_exception(
            erasure,
            self.work.replica_scans.get(erasure.id),
            file=file,
            reason=reason,
            by=by,
            salt=self._secrets().salt,
            now_ms=self.work.clock.now_ms(),
        )
        self.work.keep([successor])
        return successor

    def give_evidence(self, erasure: Erasure, evidence: Sequence[Evidence]) -> Erasure:
        """All of it or nothing. After the receipt it becomes a signed supplement."""
        self._check_works()
        if erasure.stage is Stage.RECEIPTED:
            return receipts.supplement(self.work, erasure, evidence)
        salt = self._secrets().salt
        for each in evidence:
            erasure = changes.with_evidence(erasure, each, salt=salt)
        self.work.keep([erasure])
        return erasure

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
            self.give_evidence(erasure, given)
        except DISK_REFUSED as error:
            _LOG.warning(
                "evidence refused id=%s verifier=%s reason=%s", erasure.id, asked.name, error
            )

    def acknowledge_breaks(self, by: str) -> None:
        self._check_works()
        check_text("by", by)
        if not any(each.is_open for each in self.work.journal.breaks):
            raise InvalidRequest("the journal has no break that is not acknowledged")
        self.work.journal.acknowledge(by)
        _LOG.warning("journal of erasures acknowledged by=%s", by)

    def _check_works(self) -> None:
        if self.work.trouble is not None:
            raise LogStorageError(f"no erasures: {self.work.trouble}")

    def _secrets(self) -> Secrets:
        work, journal = self.work, self.work.journal
        if work.secrets is None:
            # First the journal: on a cluster another broker may lead it, and have the secrets.
            journal.topic.ensure_partition().check_leader()
            fs, path, now_ms = work.log_dirs.fs, work.keys_path, work.clock.now_ms()
            work.secrets = load_or_create(fs, path, dice=work.dice, now_ms=now_ms)
        if journal.chain is None:
            # Nothing was there to load: this is the first erasure.
            journal.load(journal_key_of(work.secrets.salt))
        if journal.secrets_name is None:
            from ledgerstone.erasure.sealing import public_key_of

            journal.name_secrets(public_key_of(work.secrets.signing_seed))
        return work.secrets
