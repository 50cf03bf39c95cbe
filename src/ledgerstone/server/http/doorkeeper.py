"""Who asks over HTTP: passwords, tokens, certificates, a trusted proxy, sessions. Grade S.

Only where there is an authorizer: the principal is the one that the Kafka port would know, and has
the same rights. Nothing that lets somebody in is taken over a line that others can read.
"""

import hashlib
import hmac
import ipaddress
from functools import partial
from typing import Final
from urllib.parse import parse_qsl, urlencode

from ledgerstone.dataclasses import replace
from ledgerstone.metadata.scram_users import KnownScramUsers
from ledgerstone.security.authorizer import Authorizer
from ledgerstone.security.distinguished_name import BrokenName, rfc2253, subject_of
from ledgerstone.security.http_credentials import (
    BearerToken,
    Unreadable,
    authorization_in,
    is_own_page,
)
from ledgerstone.security.mapping_rules import NoMatchingRule
from ledgerstone.security.passwords import NamedPassword, Passwords
from ledgerstone.security.principal import ANONYMOUS, Principal
from ledgerstone.security.scram_keys import SCRAM_BY_TEXT
from ledgerstone.security.web_sessions import SECRET_BYTES
from ledgerstone.server.broker import Broker
from ledgerstone.server.http.asker import LOCAL_ADMIN, Asker
from ledgerstone.server.http.door_settings import certificate_names, http_logins, trusted_proxy
from ledgerstone.server.http.login_work import LoginWork
from ledgerstone.server.http.page_sessions import PageSessions
from ledgerstone.server.http.route_rights import rule_for
from ledgerstone.server.http.server import (
    API,
    EVENTS,
    LOGIN,
    LOGOUT,
    BadRequest,
    HttpLine,
    HttpRequest,
    Page,
    Rerouted,
    Site,
)

_HEALTH: Final = ("/livez", "/healthz", "/readyz")
_METRICS: Final = "/metrics"
_CHALLENGE: Final = (("WWW-Authenticate", 'Basic realm="ledgerstone", charset="UTF-8"'),)
_NO_TLS: Final = (
    "this port has no TLS, so nobody can log in from another machine: set "
    "ledgerstone.http.listener=https://host:port"
)
_KEY_FIELDS: Final = ("token", "key", "key_as")
_LONGEST_NEXT: Final = 1024
_NOT_KEPT: Final = ("Cache-Control", "no-store")


class Doorkeeper:
    def __init__(self, broker: Broker, authorizer: Authorizer, site: Site | None) -> None:
        config = broker.config
        self._broker = broker
        self._authorizer = authorizer
        self._site = site
        self._secret = broker.dice.random_bytes(SECRET_BYTES)
        # What an asker without a login is: nobody, whatever ACLs say of everybody.
        self._nobody = Authorizer().rights_of(ANONYMOUS, "")
        logins = http_logins(config, broker.logins.listeners)
        self._token_rules = [each.tokens.rules for each in logins if each.tokens is not None]
        mechanisms = dict.fromkeys(name for each in logins for name in each.mechanisms)
        self._work = LoginWork(
            Passwords(
                plain=[each.plain for each in logins if each.plain is not None],
                mechanisms=[SCRAM_BY_TEXT[each] for each in mechanisms if each in SCRAM_BY_TEXT],
                scram_users=KnownScramUsers(lambda: broker.image),
                secret=self._secret,
            ),
            broker.clock,
            delay_ms=config.connection_failed_authentication_delay_ms,
            on_outcome=self._heard,
        )
        self._sessions = PageSessions(broker, authorizer, self._work.passwords)
        self._proxy = trusted_proxy(config.raw)
        self._names = certificate_names(config)

    def opened(self, port: int) -> None:
        self._sessions.port = port

    def stop(self) -> None:
        self._work.stop()

    # -- who ----------------------------------------------------------------------------------

    async def admit(self, request: HttpRequest, line: HttpLine) -> HttpRequest:
        """The request with its asker; BadRequest for who is nobody and must be somebody."""
        path = request.path
        unknown = Asker(host=line.host, rights=self._nobody)
        if not (line.is_secure or _is_loopback(line.host)):
            if path in _HEALTH:
                return request._replace(asker=unknown)
            raise BadRequest(403, _NO_TLS)
        are_metrics_open = self._broker.config.ledgerstone_http_metrics_open
        if path == _METRICS and are_metrics_open and _is_loopback(line.host):
            return request._replace(asker=Asker(host=line.host))
        if "token" in request.query and request.method == "GET" and not path.startswith(API):
            self._let_in(request, line)
        asker = await self._asker(request, line)
        if asker is not None:
            return request._replace(asker=asker)
        rule = rule_for(request.method, path)
        is_asset = self._site is not None and self._site.is_asset(path)
        if is_asset or (rule is not None and rule.rule.is_open):
            return request._replace(asker=unknown)
        if path.startswith(API) or path == _METRICS or self._site is None:
            reason = "log in: Authorization: Basic with name and password, or Bearer with a token"
            raise BadRequest(401, reason, _CHALLENGE)
        if request.method == "POST" or path == EVENTS:
            raise BadRequest(401, "this needs a login, or the session is over: open /login")
        raise BadRequest(303, "log in first", (("Location", _login_path(request)),))

    async def _asker(self, request: HttpRequest, line: HttpLine) -> Asker | None:
        headers = request.headers
        try:
            said = authorization_in(headers)
            named = None if self._proxy is None else self._proxy.user_in(headers, line.host)
        except Unreadable as error:
            raise self._unauthorized(str(error)) from None
        if isinstance(said, NamedPassword):
            if not await self._work.is_right(said, line.host):
                raise self._unauthorized("name and password do not fit")
            return self._plain_asker(Principal("User", said.name), line)
        if isinstance(said, BearerToken):
            return self._bearer(request, said, line)
        if named is not None:
            return self._plain_asker(Principal("User", named), line)
        session = None if request.path.startswith(API) else self._sessions.asker_of(request, line)
        return session or self._by_certificate(line)

    def _plain_asker(self, principal: Principal, line: HttpLine) -> Asker:
        """Who says who they are with every request."""
        rests_on = self._sessions.rests_on(principal)
        text = f"form {principal}".encode("utf-8", "replace")
        return Asker(
            principal=principal,
            host=line.host,
            rights=self._authorizer.rights_of(principal, line.host),
            csrf=hmac.new(self._secret, text, hashlib.sha256).hexdigest(),
            is_valid=lambda: self._sessions.rests_on(principal) == rests_on,
        )

    def _bearer(self, request: HttpRequest, said: BearerToken, line: HttpLine) -> Asker:
        """The token of the start, from this machine only; else one of the issuer. Neither can be
        guessed, so that others who try are no reason to refuse a right one."""
        if self._site is not None and self._site.has_token(request) and _is_loopback(line.host):
            return Asker(principal=LOCAL_ADMIN, host=line.host)
        if self._token_rules:
            # Takes cryptography with it, which a broker without tokens does without.
            from ledgerstone.security.jws import BadToken
            from ledgerstone.security.tokens import validate_token

            for rules in self._token_rules:
                try:
                    valid = validate_token(said.token, rules, self._broker.clock.now_ms())
                except BadToken:
                    continue
                asker = self._plain_asker(Principal("User", valid.name), line)
                return replace(asker, is_valid=partial(self._is_before, valid.expires_ms))
        self._work.begin(None, line.host, self._broker.clock.monotonic_ms())
        self._work.failed(line.host, "BEARER", "the token does not do")
        raise self._unauthorized("the token does not do")

    def _is_before(self, time_ms: int) -> bool:
        return self._broker.clock.now_ms() < time_ms

    def _by_certificate(self, line: HttpLine) -> Asker | None:
        if line.certificate is None:
            return None
        try:
            name = self._names.name_of(rfc2253(subject_of(line.certificate)))
        except (BrokenName, NoMatchingRule) as error:
            raise BadRequest(403, f"the certificate: {error}") from None
        return self._plain_asker(Principal("User", name), line)

    def _unauthorized(self, reason: str) -> BadRequest:
        return BadRequest(401, reason, _CHALLENGE)

    def _heard(self, host: str, how: str, is_right: bool) -> None:
        what = "successful_authentication" if is_right else "failed_authentication"
        self._broker.counters.count_login(what, "HTTP")
        if not is_right and self._broker.auditor is not None:
            self._broker.auditor.login_failed(host, "HTTP", how)

    # -- logins -------------------------------------------------------------------------------

    def _let_in(self, request: HttpRequest, line: HttpLine) -> None:
        """The address that was printed at the start: its token becomes a session."""
        bearer = {"authorization": f"Bearer {request.query['token']}"}
        asked = request._replace(headers=bearer)
        if self._site is None or not self._site.has_token(asked) or not _is_loopback(line.host):
            self._work.begin(None, line.host, self._broker.clock.monotonic_ms())
            raise BadRequest(403, "this token is not valid since the last start, or not from here")
        kept = {name: text for name, text in request.query.items() if name not in _KEY_FIELDS}
        where = "/" + request.path.lstrip("/") + (f"?{urlencode(kept)}" if kept else "")
        cookie = self._sessions.open(LOCAL_ADMIN, request)
        raise BadRequest(303, "", (("Location", where), cookie, _NOT_KEPT))

    async def answer(self, request: HttpRequest, line: HttpLine) -> Page | Rerouted | None:
        """None for what is no login."""
        if request.method != "POST" or request.path not in (LOGIN, LOGOUT):
            return None
        if not is_own_page(request.headers):
            raise BadRequest(403, "this form was not made by a page of this broker")
        fields = _fields(request.body)
        if request.path == LOGOUT:
            return self._log_out(request, fields.get("csrf", ""))
        given = NamedPassword(fields.get("username", ""), fields.get("password", "").encode())
        where = _local(fields.get("next", ""))
        try:
            is_right = given.is_possible and await self._work.is_right(given, line.host)
        except BadRequest as error:
            return _login_again(request, str(error), where, error.status, error.headers)
        if not is_right:
            return _login_again(request, "The name or the password is wrong.", where, 401)
        cookie = self._sessions.open(Principal("User", given.name), request)
        return Page(303, "", headers=(("Location", where), cookie, _NOT_KEPT))

    def _log_out(self, request: HttpRequest, csrf: str) -> Page:
        if not hmac.compare_digest(csrf.encode(), request.asker.csrf.encode()):
            raise BadRequest(403, "this form was not made by a page of this broker")
        cookie = self._sessions.close(request)
        return Page(303, "", headers=(("Location", LOGIN), cookie, _NOT_KEPT))


def _fields(body: bytes) -> dict[str, str]:
    try:
        text = body.decode("ascii")
        return dict(parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=10))
    except ValueError:
        raise BadRequest(400, "this is not a form") from None


def _login_again(
    request: HttpRequest,
    why: str,
    where: str,
    status: int,
    headers: tuple[tuple[str, str], ...] = (),
) -> Rerouted:
    query = {"why": why, "next": where}
    return Rerouted(request._replace(method="GET", query=query, body=b""), status, headers)


def _login_path(request: HttpRequest) -> str:
    kept = {name: text for name, text in request.query.items() if name not in _KEY_FIELDS}
    where = request.path + (f"?{urlencode(kept)}" if kept else "")
    return LOGIN if where == "/" else f"{LOGIN}?{urlencode({'next': _local(where)})}"


def _local(where: str) -> str:
    """A path of this site, and of no other one."""
    is_path = where.startswith("/") and not where.startswith(("//", "/\\"))
    is_plain = where.isascii() and where.isprintable() and len(where) <= _LONGEST_NEXT
    return where if is_path and is_plain and "\\" not in where else "/"


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    if address.version == 6 and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_loopback
