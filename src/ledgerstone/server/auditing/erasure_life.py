"""What becomes of erasures, as lines of the audit log. Grade D, through the journal.

On the broker that leads the journal, once a change is committed; who asked for it stands in the
line of the call. A change after a restart or a new leader may be told twice.
"""

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple

from ledgerstone.erasure.erasure import Erasure, Stage
from ledgerstone.security.audit_chain import AuditEvent

_KINDS: Final[Mapping[Stage, str]] = {
    Stage.SCHEDULED: "erase.request",
    Stage.REQUESTED: "erase.request",
    Stage.CANCELLED: "erase.cancel",
    Stage.ABANDONED: "erase.abandon",
    Stage.NOT_FOUND: "erase.done",
    Stage.RECEIPTED: "erase.done",
}
# Of erasures that are remembered; those beyond are told as if they were new.
_MOST_REMEMBERED: Final = 100_000


class _Known(NamedTuple):
    stage: Stage | None = None
    words: int = 0
    accepted: int = 0

    @classmethod
    def of(cls, erasure: Erasure) -> "_Known":
        words = len(erasure.evidence) + len(erasure.supplements)
        return cls(erasure.stage, words, len(erasure.exceptions) + len(erasure.lost_brokers))


class ErasureLife:
    def __init__(self, write: Callable[[AuditEvent], None]) -> None:
        self._write = write
        self._known: dict[str, _Known] = {}

    def became(self, erasure: Erasure) -> None:
        before, now = self._known.get(erasure.id, _Known()), _Known.of(erasure)
        if before.stage is not now.stage:
            self._tell_stage(erasure)
        if now.words > before.words:
            self._tell(erasure, "erase.evidence", {"words": now.words})
        if now.accepted > before.accepted:
            self._tell(erasure, "erase.accept", {"accepted": now.accepted})
        if len(self._known) >= _MOST_REMEMBERED:
            self._known.clear()
        # Evidence may come after the receipt, so what is over is remembered, too.
        self._known[erasure.id] = now

    def _tell_stage(self, erasure: Erasure) -> None:
        facts: dict[str, Any] = {"stage": erasure.stage.value}
        if erasure.stage is Stage.RECEIPTED and erasure.receipt is not None:
            facts["receipt_sha256"] = sha256(erasure.receipt.encode()).hexdigest()
            facts["met_deadline"] = erasure.met_deadline
        self._tell(erasure, _KINDS.get(erasure.stage, "erase.stage"), facts)

    def _tell(self, erasure: Erasure, kind: str, facts: dict[str, Any]) -> None:
        who = {}
        if erasure.stage in (Stage.SCHEDULED, Stage.REQUESTED):
            who = {"requested_by": erasure.requested_by, "reason": erasure.reason}
        about = {"erasure": erasure.id, "topic": erasure.topic, **facts}
        self._write(AuditEvent(kind, "done", who, about))
