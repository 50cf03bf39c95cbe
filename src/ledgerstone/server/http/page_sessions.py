"""Sessions of browsers: the cookie, and what a session rests on. Grade D.

Password and ACLs of the user: whoever gets other ones has to log in again.
"""

import functools
import hashlib

from ledgerstone.security.authorizer import Authorizer
from ledgerstone.security.http_credentials import cookie_in
from ledgerstone.security.passwords import Passwords
from ledgerstone.security.principal import Principal
from ledgerstone.security.web_sessions import (
    MOST_SESSIONS,
    SECRET_BYTES,
    WebSession,
    WebSessions,
    form_secret,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.http.asker import LOCAL_ADMIN, Asker
from ledgerstone.server.http.server import EVENTS, HttpLine, HttpRequest


class PageSessions:
    """`port` is known once the broker listens."""

    def __init__(self, broker: Broker, authorizer: Authorizer, passwords: Passwords) -> None:
        self.port = 0
        self._broker = broker
        self._authorizer = authorizer
        self._passwords = passwords
        self._is_secure = broker.config.ledgerstone_http_tls
        self._sessions = WebSessions()
        # By principal: a digest of the ACLs about it, and the epoch that it is of.
        self._acls: dict[Principal, tuple[int, bytes]] = {}

    @property
    def cookie_name(self) -> str:
        # Cookies ignore ports, and two brokers may run on one machine.
        return f"{'__Host-' if self._is_secure else ''}ledgerstone-login-{self.port}"

    def asker_of(self, request: HttpRequest, line: HttpLine) -> Asker | None:
        secret = cookie_in(request.headers, self.cookie_name)
        now_ms = self._broker.clock.monotonic_ms()
        session = self._sessions.find(secret, now_ms) if secret else None
        if secret is None or session is None:
            return None
        if session.rests_on != self.rests_on(session.principal):
            self._sessions.close(secret)
            return None
        if request.path != EVENTS:
            # A page that is left open does not make a session last.
            session.used_ms = now_ms
        # The very object: a user may have the same name, and comes in by a password.
        is_local_admin = session.principal is LOCAL_ADMIN
        rights = self._authorizer.rights_of(session.principal, line.host)
        return Asker(
            principal=session.principal,
            host=line.host,
            rights=None if is_local_admin else rights,
            csrf=form_secret(secret),
            has_session=True,
            is_valid=functools.partial(self._goes_on, session),
        )

    def open(self, principal: Principal, request: HttpRequest) -> tuple[str, str]:
        """A new one, whatever the browser had; returns the header that gives it the secret."""
        self.close(request)
        secret = self._broker.dice.random_bytes(SECRET_BYTES).hex()
        now_ms = self._broker.clock.monotonic_ms()
        self._sessions.open(secret, principal, self.rests_on(principal), now_ms)
        return self._set_cookie(secret)

    def close(self, request: HttpRequest) -> tuple[str, str]:
        """Returns the header that makes the browser forget it."""
        secret = cookie_in(request.headers, self.cookie_name)
        if secret is not None:
            self._sessions.close(secret)
        return self._set_cookie("")

    def rests_on(self, principal: Principal) -> bytes:
        """Changes with the password, and with the ACLs that are about the user."""
        if principal is LOCAL_ADMIN:
            return b""
        state = hashlib.sha256(self._acl_digest(principal))
        for each in self._passwords.keys_of(principal.name):
            state.update(b"-" if each is None else each.stored_key + each.salt)
        return state.digest()

    def _acl_digest(self, principal: Principal) -> bytes:
        index = self._authorizer.index
        epoch, digest = self._acls.get(principal, (-1, b""))
        if epoch == index.epoch:
            return digest
        texts = sorted(repr(tuple(each)) for each in index.about(str(principal)))
        digest = hashlib.sha256("\n".join(texts).encode("utf-8", "replace")).digest()
        if len(self._acls) >= MOST_SESSIONS:
            self._acls.clear()
        self._acls[principal] = index.epoch, digest
        return digest

    def _goes_on(self, session: WebSession) -> bool:
        if session.is_over or session.ends_by_time(self._broker.clock.monotonic_ms()):
            return False
        return session.rests_on == self.rests_on(session.principal)

    def _set_cookie(self, secret: str) -> tuple[str, str]:
        flags = "; Secure" if self._is_secure else ""
        ends = "" if secret else "; Max-Age=0"
        text = f"{self.cookie_name}={secret}; Path=/{flags}; HttpOnly; SameSite=Strict{ends}"
        return "Set-Cookie", text
