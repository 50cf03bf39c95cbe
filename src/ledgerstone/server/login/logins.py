"""Who logs in, by which mechanism, and for how long it counts. Grade D: it writes to the log.

Kafka's states: a connection that has to log in may ask for versions once and shake hands; then it
says what its mechanism wants said; then it may do everything until its login has expired, and log
in again before. Whatever else it says costs the connection, after a delay in which it holds no
memory but its own. Contract in README.md.
"""

import hashlib
import logging
from collections.abc import Callable
from functools import lru_cache
from typing import Final, Protocol

from ledgerstone.clock import Clock, Dice
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.metadata.scram_users import KnownScramUsers
from ledgerstone.protocol.codec import api_class
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages import APIS
from ledgerstone.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ledgerstone.protocol.messages.metadata import MetadataResponseTopic as MetadataTopic
from ledgerstone.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ledgerstone.protocol.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from ledgerstone.protocol.server_connection import ServerConnection
from ledgerstone.security.accounts import new_nonce
from ledgerstone.security.exchange import (
    MAX_STEPS,
    OAUTHBEARER,
    Accepted,
    LoginRefused,
    ServerLogin,
)
from ledgerstone.security.plain import PLAIN, PlainServer
from ledgerstone.security.principal import Principal
from ledgerstone.security.scram_keys import SCRAM_BY_TEXT
from ledgerstone.security.scram_server import ScramServer
from ledgerstone.server.groups.no_coordinator import refusal_of
from ledgerstone.server.login.settings import ListenerLogin, listener_logins
from ledgerstone.server.login.state import LoggedIn, SaslState
from ledgerstone.server.metrics import Counters
from ledgerstone.server.peers import Peer
from ledgerstone.server.request import Answer, Disconnect, Farewell, Parked, Request
from ledgerstone.server.session import Login, Session
from ledgerstone.server.throttle import LogThrottle

_LOG: Final = logging.getLogger(__name__)
_LEAST_BETWEEN_LOGINS_MS: Final = 1000
_SECRET_BYTES: Final = 32
_LATE: Final = "SaslAuthenticate request received after successful authentication"
_NOT_SASL: Final = SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


class LoginTurn(Protocol):
    def wire_of(self, request: Request) -> ServerConnection: ...

    def mute(self, connection: int, until_ms: int) -> None: ...


class Logins:
    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        dice: Dice,
        *,
        image: Callable[[], MetadataImage],
        counters: Counters,
        turn: LoginTurn,
    ) -> None:
        self._config = config
        self._clock = clock
        self._dice = dice
        self._counters = counters
        self._turn = turn
        self.listeners = listener_logins(config, dice.random_bytes(_SECRET_BYTES))
        self._scram_users = KnownScramUsers(image)
        self._passwords = _passwords(config)
        self._secret_of_this_node = dice.random_bytes(_SECRET_BYTES)
        self._lines = LogThrottle()
        # Hears of host, listener and mechanism of each login that failed.
        self.on_failure: Callable[[str, str, str], None] | None = None
        # The same, with the principal in front, of one that came about, and of one that ended.
        self.on_success: Callable[[str, str, str, str], None] | None = None
        self.on_expiry: Callable[[str, str, str, str], None] | None = None

    def admitted(self, peer: Peer, now_ms: int) -> None:
        """A connection to a listener that asks for a login."""
        login = self.listeners[peer.session.listener]
        peer.session.sasl = SaslState(began_ms=now_ms)
        peer.wire.limit_frames(login.max_receive_bytes)

    # -- requests -----------------------------------------------------------------------------

    def versions_asked(self, request: Request) -> None:
        """Before the login, once (Kafka's clients ask again after it)."""
        session = request.session
        if session.login is not Login.AWAITED or session.sasl is None:
            return
        if session.sasl.has_asked_versions:
            raise Disconnect("ApiVersions was asked twice before the login")
        session.sasl.has_asked_versions = True

    def handshake(self, request: Request, message: SaslHandshakeRequest) -> Answer:
        session, sasl = request.session, request.session.sasl
        if sasl is None:
            return _NOT_SASL
        if session.login is Login.UNDER_WAY:
            return self.refused(request, message)
        listener, mechanism = self.listeners[session.listener], message.mechanism
        if session.login is Login.COMPLETE and not self._may_log_in_again(session, sasl):
            return _NOT_SASL
        if mechanism not in listener.mechanisms:
            answer = SaslHandshakeResponse(
                ErrorCode.UNSUPPORTED_SASL_MECHANISM, list(listener.mechanisms)
            )
            return self._failed(request, f"Unsupported SASL mechanism {mechanism[:64]!r}", answer)
        session.login = Login.UNDER_WAY
        sasl.exchange, sasl.steps = None, 0
        if sasl.before is None or sasl.before.mechanism == mechanism:
            sasl.exchange = self._exchange(mechanism, listener)
        sasl.mechanism = mechanism
        sasl.is_raw = request.api_version == 0
        wire = self._turn.wire_of(request)
        wire.takes_tokens = sasl.is_raw
        wire.limit_frames(listener.max_receive_bytes)
        return SaslHandshakeResponse(ErrorCode.NONE, list(listener.mechanisms))

    def _may_log_in_again(self, session: Session, sasl: SaslState) -> bool:
        """KIP-368. Without a lifetime nobody needs to."""
        now_ms, last_ms = self._clock.monotonic_ms(), sasl.again_ms
        if sasl.expires_ms is None:
            return False
        if last_ms is not None and now_ms - last_ms < _LEAST_BETWEEN_LOGINS_MS:
            return False
        sasl.again_ms = sasl.began_ms = now_ms
        sasl.before = LoggedIn(session.principal, sasl.mechanism)
        return True

    def authenticate(self, request: Request, message: SaslAuthenticateRequest) -> Answer:
        session, sasl = request.session, request.session.sasl
        if sasl is None or session.login is Login.COMPLETE:
            return SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, _LATE)
        if session.login is Login.AWAITED:
            return self.refused(request, message)
        if sasl.exchange is None:
            assert sasl.before is not None
            before = sasl.before.mechanism
            return self._failed(request, f"{sasl.mechanism} after a login by {before}", None)
        sasl.hears_lifetime = sasl.hears_lifetime or request.api_version > 0
        sasl.steps += 1
        try:
            if sasl.steps > MAX_STEPS:
                raise LoginRefused(f"no end after {MAX_STEPS} steps")
            step = sasl.exchange.respond(bytes(message.auth_bytes))
            lifetime_ms = self._complete(request, step) if isinstance(step, Accepted) else 0
        except LoginRefused as refused:
            return self._refuse(request, sasl, refused)
        # A text also where nothing is wrong, as in Kafka.
        return SaslAuthenticateResponse(
            error_message="", auth_bytes=step.data, session_lifetime_ms=lifetime_ms
        )

    # -- ends ---------------------------------------------------------------------------------

    def _complete(self, request: Request, accepted: Accepted) -> int:
        """Returns how long it counts; 0: for ever."""
        session, sasl = request.session, request.session.sasl
        assert sasl is not None
        principal = Principal("User", accepted.name)
        if sasl.before is not None and sasl.before.principal != principal:
            before, after = (".".join(each) for each in (sasl.before.principal, principal))
            reason = f"Cannot change principals during re-authentication from {before}: {after}"
            raise LoginRefused(reason, reason)
        again, sasl.before, sasl.exchange = sasl.before is not None, None, None
        self._count("successful", again=again)(session.listener)
        if not sasl.hears_lifetime:
            self._counters.count_login("successful_authentication_no_reauth", session.listener)
        session.principal, session.login = principal, Login.COMPLETE
        if self.on_success is not None:
            self.on_success(str(principal), session.host, session.listener, sasl.mechanism)
        wire = self._turn.wire_of(request)
        wire.takes_tokens = False
        wire.limit_frames(self._config.socket_request_max_bytes)
        lifetime_ms = self._lifetime_ms(session.listener, sasl.mechanism, accepted.expires_ms)
        now_ms = self._clock.monotonic_ms()
        sasl.expires_ms = None if lifetime_ms is None else now_ms + lifetime_ms
        return lifetime_ms or 0

    def _lifetime_ms(
        self, listener: str, mechanism: str, credentials_end_ms: int | None
    ) -> int | None:
        limit_ms = self.listeners[listener].reauth_ms[mechanism] or None
        if credentials_end_ms is None:
            return limit_ms
        left_ms = max(credentials_end_ms - self._clock.now_ms(), 0)
        return left_ms if limit_ms is None else min(left_ms, limit_ms)

    def _refuse(self, request: Request, sasl: SaslState, refused: LoginRefused) -> Answer:
        kind = "authentication" if sasl.before is None else "re-authentication"
        # Nothing that says whether the user exists.
        text = refused.public or (
            f"Authentication failed during {kind} due to invalid credentials with SASL mechanism "
            f"{sasl.mechanism}"
        )
        answer = SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, text)
        return self._failed(request, str(refused), None if sasl.is_raw else answer)

    def refused(self, request: Request, message: ApiMessage) -> Answer:
        """Of the gate: a request that may not come now."""
        session, sasl = request.session, request.session.sasl
        assert sasl is not None
        name = APIS[request.api_key].name
        if session.login is Login.COMPLETE:
            self._counters.count_login("expired_connections_killed", session.listener)
            if self.on_expiry is not None:
                who = str(session.principal)
                self.on_expiry(who, session.host, session.listener, sasl.mechanism)
            raise Disconnect(f"{name} after the login has expired")
        if session.login is Login.AWAITED:
            return self._failed(request, f"{name} before the login", None)
        answer = None if sasl.is_raw else _illegal_state(message, request.api_version)
        return self._failed(request, f"{name} in the middle of the login", answer)

    def has_expired(self, sasl: SaslState) -> bool:
        return sasl.expires_ms is not None and self._clock.monotonic_ms() >= sasl.expires_ms

    def _failed(self, request: Request, reason: str, answer: ApiMessage | None) -> Answer:
        """Answers and closes, not at once: guessing is to take its time."""
        session, now_ms = request.session, self._clock.monotonic_ms()
        sasl = session.sasl
        assert sasl is not None
        sasl.exchange = None
        self._count("failed", again=sasl.before is not None)(session.listener)
        if self.on_failure is not None:
            self.on_failure(session.host, session.listener, sasl.mechanism or "none")
        suppressed = self._lines.admit(session.listener, now_ms)
        if suppressed is not None:
            _LOG.info(
                "Failed authentication with %s on %s by %s (%s) suppressed=%d",
                session.host, session.listener, sasl.mechanism or "no mechanism", reason,
                suppressed,
            )  # fmt: skip
        deadline_ms = now_ms + self._config.connection_failed_authentication_delay_ms
        self._turn.mute(request.connection, deadline_ms)

        def end(time_is_up: bool) -> Farewell | None:
            if not time_is_up:
                return None
            return Farewell(answer, f"the login failed: {reason}")

        return Parked(attempt=end, deadline_ms=deadline_ms)

    def _count(self, outcome: str, *, again: bool) -> Callable[[str], None]:
        kind = "reauthentication" if again else "authentication"
        return lambda listener: self._counters.count_login(f"{outcome}_{kind}", listener)

    def _exchange(self, mechanism: str, listener: ListenerLogin) -> ServerLogin:
        if mechanism == PLAIN:
            assert listener.plain is not None
            return PlainServer(listener.plain)
        if mechanism == OAUTHBEARER:
            from ledgerstone.security.oauthbearer import OauthServer

            assert listener.tokens is not None
            return OauthServer(listener.tokens.rules, self._clock.now_ms)
        return ScramServer(
            SCRAM_BY_TEXT[mechanism],
            self._scram_users,
            secret=_shared_secret(self._passwords) or self._secret_of_this_node,
            server_nonce=new_nonce(self._dice),
        )


def _illegal_state(message: ApiMessage, version: int) -> ApiMessage | None:
    """The error form of an API, where it has one for the whole answer."""
    code = ErrorCode.ILLEGAL_SASL_STATE
    if isinstance(message, MetadataRequest):
        # Some clients go on after a refused token as if it had been taken.
        topics = [MetadataTopic(code, topic.name) for topic in message.topics or ()]
        return MetadataResponse(topics=topics)
    # Some of these have fields that may not be null in every version.
    if (of_groups := refusal_of(message, code, version)) is not None:
        return of_groups
    response: ApiMessage = api_class(message.api_key, "Response")()
    if not hasattr(response, "error_code"):
        return None
    response.error_code = code
    return response


def _passwords(config: BrokerConfig) -> tuple[str, ...]:
    """The lines of the settings that have some."""
    texts = sorted(text for key, text in config.raw.items() if key.endswith("sasl.jaas.config"))
    return tuple(each for each in dict.fromkeys(texts) if "password" in each)


@lru_cache(maxsize=1)
def _shared_secret(passwords: tuple[str, ...]) -> bytes | None:
    """From the passwords in the settings, which brokers of a cluster share as a rule: a user that
    is not known then has the same salt on each of them, and after a restart.

    Strangers see such salts, and could try passwords on them at home: scrypt makes each try as
    dear as the first login here is, some 50 ms."""
    if not passwords:
        return None
    text = "\0".join(passwords).encode()
    return hashlib.scrypt(text, salt=b"ledgerstone salts", n=1 << 14, r=8, p=1, dklen=_SECRET_BYTES)
