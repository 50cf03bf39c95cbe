"""What is written to the audit log, and when. Grade D.

A change is written down and synced before it is made: where that fails it is not made. Denials and
failed logins are written without waiting for the disk, and bounded (`denial_storm`).
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ledgerstone.clock import Clock
from ledgerstone.metadata.delta import Delta
from ledgerstone.protocol.messages import APIS
from ledgerstone.security.acl import AclOperation, AclResourceType
from ledgerstone.security.audit_chain import AuditEvent
from ledgerstone.security.denial_storm import CountedDenials, Denial, DenialStorm
from ledgerstone.server.auditing.audit_file import AuditFile
from ledgerstone.server.effects import Effect
from ledgerstone.server.request import Request
from ledgerstone.server.results import Result
from ledgerstone.server.throttle import LogThrottle

_LOG: Final = logging.getLogger(__name__)
_LOGIN: Final = "login"


class Auditor:
    """`Agent`: counts of denials are written when their time has come."""

    def __init__(self, file: AuditFile, clock: Clock) -> None:
        self._file = file
        self._clock = clock
        self._storm = DenialStorm()
        self._faults = LogThrottle()

    @property
    def head(self) -> str:
        """Where the chain ends, to be kept elsewhere."""
        return str(self._file.link)

    # -- changes ------------------------------------------------------------------------------

    def asked(self, request: Request, kind: str, what: Sequence[str]) -> None:
        """Before a change is made. OSError: it must not be."""
        facts = {**_facts(request), "what": list(what)}
        self._file.append(AuditEvent(kind, "asked", _who(request), facts), sync=True)

    def answered(self, request: Request, kind: str, codes: Mapping[int, int]) -> None:
        """What came of it: how often each error code was answered."""
        facts = {**_facts(request), "codes": {str(code): n for code, n in codes.items()}}
        outcome = "done" if not any(codes) else "refused"
        self._write(AuditEvent(kind, outcome, _who(request), facts))

    def noted(
        self,
        kind: str,
        outcome: str,
        facts: Mapping[str, Any],
        *,
        sync: bool,
        who: Mapping[str, str] | None = None,
    ) -> None:
        """What no request of Kafka's protocol asked for. OSError only with `sync`."""
        event = AuditEvent(kind, outcome, dict(who or {}), facts)
        if sync:
            self._file.append(event, sync=True)
        else:
            self._write(event)

    # -- denials ------------------------------------------------------------------------------

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
        self._deny(Denial(str(session.principal), session.host, api, operation.name, resource))

    def denied_http(
        self,
        principal: str,
        host: str,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
    ) -> None:
        resource = f"{resource_type.name}:{name}"
        self._deny(Denial(principal, host, "http", operation.name, resource))

    def login_failed(self, host: str, listener: str, mechanism: str) -> None:
        self._deny(Denial(None, host, _LOGIN, mechanism, listener))

    def _deny(self, denial: Denial) -> None:
        for each in self._storm.denied(denial, self._clock.monotonic_ms()):
            self._write_denial(each)

    def _write_denial(self, counted: CountedDenials) -> None:
        denial = counted.denial
        who = {
            key: value
            for key, value in (("principal", denial.principal), ("host", denial.host))
            if value is not None
        }
        kind = "authn.fail" if denial.api == _LOGIN else "authz.deny"
        facts = {
            "api": denial.api,
            "op": denial.operation,
            "resource": denial.resource,
            "times": counted.times,
        }
        self._write(AuditEvent(kind, "denied", who, facts))

    def _write(self, event: AuditEvent) -> None:
        """What has happened already: it cannot be refused for a full disk."""
        try:
            self._file.append(event, sync=False)
        except OSError as error:
            suppressed = self._faults.admit("audit", self._clock.monotonic_ms())
            if suppressed is not None:
                _LOG.error(
                    "audit log not written kind=%s reason=%s suppressed=%d",
                    event.kind,
                    error,
                    suppressed,
                )

    # -- as an agent --------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        return self._storm.next_deadline_ms

    def tick(self) -> list[Effect]:
        for each in self._storm.due(self._clock.monotonic_ms()):
            self._write_denial(each)
        return []

    def completed(self, effect: Effect, result: Result) -> list[Effect]:
        raise AssertionError(f"no effect is asked for here: {effect} {result}")

    def metadata_changed(self, delta: Delta) -> list[Effect]:
        return []


def _who(request: Request) -> dict[str, str]:
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
