"""What is written to the audit log, and when. Grade D.

A change is written down and synced before it is made: where that fails it is not made. Denials and
logins are written without waiting for the disk, and bounded (`denial_storm`, `first_logins`). What
was written is sealed and kept for as long as was asked (`upkeep`), and follows into the topic
(`audit_feed`).
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ledgerstone.clock import Clock
from ledgerstone.metadata.delta import Delta
from ledgerstone.protocol.messages import APIS
from ledgerstone.security.acl import AclOperation, AclResourceType
from ledgerstone.security.audit_chain import AuditEvent
from ledgerstone.security.denial_storm import CountedDenials, Denial, DenialStorm
from ledgerstone.security.first_logins import FirstLogins
from ledgerstone.server.auditing.audit_file import AuditFile
from ledgerstone.server.auditing.upkeep import Upkeep
from ledgerstone.server.effects import Effect
from ledgerstone.server.request import Request
from ledgerstone.server.results import Result
from ledgerstone.server.throttle import LogThrottle

if TYPE_CHECKING:
    from ledgerstone.server.auditing.audit_feed import AuditFeed

_LOG: Final = logging.getLogger(__name__)
_AUTHZ: Final = "authz.deny"
_AUTHN: Final = "authn.fail"
_EXPIRED: Final = "authn.expired"
_HTTP: Final = "http.deny"


class Auditor:
    """`Agent`: counts of denials are written when their time has come, and seals.

    `wake` is called when `next_deadline_ms` may have come closer."""

    def __init__(self, file: AuditFile, clock: Clock, upkeep: Upkeep | None = None) -> None:
        self._file = file
        self._clock = clock
        self.upkeep = upkeep
        self.feed: AuditFeed | None = None
        self.wake: Callable[[], None] = lambda: None
        # Each kind has its own, so that a storm of one does not hide the others.
        self._storms = {kind: DenialStorm() for kind in (_AUTHZ, _AUTHN, _EXPIRED, _HTTP)}
        self._logins = FirstLogins()
        self._faults = LogThrottle()
        # Lines that could not be written, since the start.
        self.failures = 0
        # API keys of changes that are written down before they are made.
        self.audited: frozenset[int] = frozenset()

    @property
    def file(self) -> AuditFile:
        return self._file

    @property
    def head(self) -> str:
        """Where the chain ends, to be kept elsewhere."""
        return str(self._file.link)

    # -- changes ------------------------------------------------------------------------------

    def asked(
        self, request: Request, kind: str, what: Sequence[str], *, names_people: bool = False
    ) -> None:
        """Before a change is made. OSError: it must not be. `names_people`: `what` may have to be
        redacted, too."""
        who, facts = _who(request), _facts(request)
        (who if names_people else facts)["what"] = list(what)
        self.begun(kind, who, facts)

    def begun(self, kind: str, who: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        """The same, of what is no request of Kafka's protocol."""
        try:
            self._file.append(AuditEvent(kind, "asked", who, facts), sync=True)
        except OSError:
            self.failures += 1
            raise
        self._written()

    def answered(self, request: Request, kind: str, codes: Mapping[int, int]) -> None:
        """What came of it: how often each error code was answered."""
        facts = {**_facts(request), "codes": {str(code): n for code, n in codes.items()}}
        outcome = "done" if not any(codes) else "refused"
        self.write(AuditEvent(kind, outcome, _who(request), facts))

    def ended(
        self, kind: str, who: Mapping[str, Any], facts: Mapping[str, Any], status: int
    ) -> None:
        """What came of what was `begun`, as a status of HTTP."""
        outcome = "done" if status < 400 else "refused"
        self.write(AuditEvent(kind, outcome, who, {**facts, "status": status}))

    def noted(self, kind: str, facts: Mapping[str, Any]) -> None:
        """What nobody asked for: of the node's own life. Synced; OSError."""
        self._file.append(AuditEvent(kind, "done", {}, facts), sync=True)
        self._written()

    # -- denials and logins -------------------------------------------------------------------

    def denied(
        self,
        request: Request,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
    ) -> None:
        session = request.session
        resource = f"{resource_type.name}:{name}"
        api = APIS[request.api_key].name
        denial = Denial(str(session.principal), session.host, api, operation.name, resource)
        self._deny(_AUTHZ, denial)

    def only_wrong(self, request: Request, kind: str) -> None:
        """Somebody without a right asks for a change that is wrong in itself, such as a topic that
        it names twice: it was not denied, and cannot be made."""
        session = request.session
        api = APIS[request.api_key].name
        denial = Denial(str(session.principal), session.host, api, "NONE", kind)
        self._deny(_AUTHZ, denial)

    def denied_http(
        self,
        principal: str,
        host: str,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
    ) -> None:
        """The same, of a call on the HTTP port."""
        resource = f"{resource_type.name}:{name}"
        self._deny(_HTTP, Denial(principal, host, "http", operation.name, resource))

    def login_failed(self, host: str, listener: str, mechanism: str) -> None:
        self._deny(_AUTHN, Denial(None, host, "login", mechanism, listener))

    def login_expired(self, principal: str, host: str, listener: str, mechanism: str) -> None:
        self._deny(_EXPIRED, Denial(principal, host, "login", mechanism, listener))

    def logged_in(self, principal: str, host: str, listener: str, mechanism: str) -> None:
        if not self._logins.is_first(principal, host, self._clock.now_ms()):
            return
        if others := self._logins.take_uncounted():
            self.write(AuditEvent("authn.ok", "done", {}, {"times": others}))
        facts = {"listener": listener, "op": mechanism}
        self.write(AuditEvent("authn.ok", "done", {"principal": principal, "host": host}, facts))

    def tls_read(self, listener: str, failure: str | None) -> None:
        """Files of a listener have changed, and were read again."""
        facts = (
            {"listener": listener} if failure is None else {"listener": listener, "error": failure}
        )
        outcome = "done" if failure is None else "refused"
        self.write(AuditEvent("tls.reload", outcome, {}, facts))

    def _deny(self, kind: str, denial: Denial) -> None:
        storm = self._storms[kind]
        was_due = storm.next_deadline_ms
        for each in storm.denied(denial, self._clock.monotonic_ms()):
            self._write_denial(kind, each)
        if was_due is None and storm.next_deadline_ms is not None:
            self.wake()

    def _write_denial(self, kind: str, counted: CountedDenials) -> None:
        denial = counted.denial
        who = {
            key: value
            for key, value in (("principal", denial.principal), ("host", denial.host))
            if value is not None
        }
        facts = {
            "api": denial.api,
            "op": denial.operation,
            "resource": denial.resource,
            "times": counted.times,
        }
        self.write(AuditEvent(kind, "denied", who, facts))

    def write(self, event: AuditEvent) -> None:
        """What has happened already: it cannot be refused for a full disk."""
        try:
            self._file.append(event, sync=False)
        except OSError as error:
            self._failed(event.kind, error)
        else:
            self._written()

    def _written(self) -> None:
        """It has to be sealed, and to follow into the topic."""
        now_ms = self._clock.monotonic_ms()
        if self.upkeep is not None and self.upkeep.line_came(now_ms):
            self.wake()
        if self.feed is not None and self.feed.line_came(now_ms):
            self.wake()

    def _failed(self, kind: str, error: Exception) -> None:
        self.failures += 1
        suppressed = self._faults.admit("audit", self._clock.monotonic_ms())
        if suppressed is not None:
            _LOG.error(
                "audit log not written kind=%s reason=%s suppressed=%d", kind, error, suppressed
            )

    # -- as an agent --------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        times = [each.next_deadline_ms for each in self._storms.values()]
        if self.upkeep is not None:
            times.append(self.upkeep.next_deadline_ms)
        if self.feed is not None:
            times.append(self.feed.next_deadline_ms)
        return min((each for each in times if each is not None), default=None)

    def tick(self) -> list[Effect]:
        now_ms = self._clock.monotonic_ms()
        for kind, storm in self._storms.items():
            for each in storm.due(now_ms):
                self._write_denial(kind, each)
        if self.upkeep is not None:
            try:
                fresh = self.upkeep.tick(now_ms)
            except OSError as error:
                self._failed("upkeep", error)
            else:
                if fresh and self.feed is not None:
                    self.feed.redact(fresh)
        if self.feed is not None:
            self.feed.tick(now_ms)
        return []

    def completed(self, effect: Effect, result: Result) -> list[Effect]:
        raise AssertionError(f"no effect is asked for here: {effect} {result}")

    def metadata_changed(self, delta: Delta) -> list[Effect]:
        if self.feed is not None:
            self.feed.look_now()
        return []

    def stop(self) -> None:
        """At the end of a clean stop: all that is counted is written, and sealed."""
        for kind, storm in self._storms.items():
            for each in storm.rest():
                self._write_denial(kind, each)
        try:
            self.noted("stop", {"node_id": self._file.node_id})
            if self.upkeep is not None:
                self.upkeep.seal()
            if self.feed is not None:
                self.feed.remember()
        except OSError as error:
            self._failed("stop", error)
        self._file.close()

    def release(self) -> None:
        """Another may have the directory now; nothing is written any more."""
        self._file.close()


def _who(request: Request) -> dict[str, Any]:
    session = request.session
    return {
        "principal": str(session.principal),
        "host": session.host,
        "client_id": request.client_id or "",
    }


def _facts(request: Request) -> dict[str, Any]:
    return {
        "api": APIS[request.api_key].name,
        "version": request.api_version,
        "corr": request.correlation_id,
        "listener": request.session.listener,
    }
