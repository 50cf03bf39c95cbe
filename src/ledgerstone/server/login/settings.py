"""What a listener asks of a login, from the broker's keys. Pure.

Refused at start: a SASL listener without a mechanism, a mechanism that is not offered, and one that
nobody could log in with.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ledgerstone.config.broker import HTTP_LISTENER, BrokerConfig
from ledgerstone.config.broker_keys import BROKER_KEYS
from ledgerstone.config.listener_keys import listener_values
from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import ConfigError
from ledgerstone.security.exchange import OAUTHBEARER
from ledgerstone.security.jaas import PLAIN_MODULE, JaasConfig, parse_jaas
from ledgerstone.security.plain import PLAIN, PlainUsers
from ledgerstone.security.scram_keys import SCRAM_BY_TEXT

if TYPE_CHECKING:
    from ledgerstone.security.tokens import TokenRules

_ENABLED: Final = "sasl.enabled.mechanisms"
_JAAS: Final = "sasl.jaas.config"
_REAUTH: Final = "connections.max.reauth.ms"
_OFFERED: Final = (PLAIN, *SCRAM_BY_TEXT, OAUTHBEARER)
_OAUTH: Final = "sasl.oauthbearer."


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerLogin:
    """What one listener asks for. `reauth_ms` has each mechanism; 0: no limit."""

    mechanisms: tuple[str, ...]
    max_receive_bytes: int
    reauth_ms: Mapping[str, int]
    plain: PlainUsers | None
    tokens: "TokenLogin | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogin:
    """Where the keys come from, and what is asked of tokens. Whoever fetches the keys puts them
    into the rules; until then nobody is let in."""

    rules: "TokenRules"
    url: str
    refresh_ms: int


def listener_logins(config: BrokerConfig, key: bytes) -> dict[str, ListenerLogin]:
    """By name, of the listeners that ask for a login. `key` is for what is kept of passwords."""
    found = {
        listener.name: _listener_login(config, listener.name, key)
        for listener in config.listeners
        if config.listener_protocols[listener.name].uses_sasl
    }
    has_own = f"listener.name.{HTTP_LISTENER.lower()}.{_ENABLED}" in config.raw
    if has_own and config.ledgerstone_http_listener is not None and HTTP_LISTENER not in found:
        found[HTTP_LISTENER] = _listener_login(config, HTTP_LISTENER, key)
    return found


def _listener_login(config: BrokerConfig, name: str, key: bytes) -> ListenerLogin:
    values = listener_values(config.raw, name)
    mechanisms = enabled_mechanisms(values, name)
    return ListenerLogin(
        mechanisms=mechanisms,
        max_receive_bytes=_number(values, "", "sasl.server.max.receive.size"),
        reauth_ms={each: _number(values, each, _REAUTH) for each in mechanisms},
        plain=_plain_users(values, name, key) if PLAIN in mechanisms else None,
        tokens=_token_login(values) if OAUTHBEARER in mechanisms else None,
    )


def _token_login(values: Mapping[str, str]) -> TokenLogin:
    # Takes cryptography with it, which a broker without tokens does without.
    from ledgerstone.security.tokens import TokenKeys, TokenRules

    url = _needed(values, "jwks.endpoint.url")
    if not url.startswith(("https://", "file:///")):
        raise ConfigError(f"{_OAUTH}jwks.endpoint.url", url, "must be https://… or file:///…")
    audiences = _needed(values, "expected.audience").split(",")
    rules = TokenRules(
        keys=TokenKeys(),
        issuer=_needed(values, "expected.issuer"),
        audiences=tuple(each.strip() for each in audiences if each.strip()),
        name_claim=values.get(f"{_OAUTH}sub.claim.name", "sub"),
        scope_claim=values.get(f"{_OAUTH}scope.claim.name", "scope"),
        clock_skew_ms=_number(values, "", f"{_OAUTH}clock.skew.seconds") * 1000,
    )
    refresh_ms = _number(values, "", f"{_OAUTH}jwks.endpoint.refresh.ms")
    return TokenLogin(rules=rules, url=url, refresh_ms=refresh_ms)


def _needed(values: Mapping[str, str], name: str) -> str:
    """Without it anybody's token would do (CVE-2026-33557)."""
    key = f"{_OAUTH}{name}"
    text = values.get(f"oauthbearer.{key}", values.get(key, "")).strip()
    if not text:
        raise ConfigError(key, "", f"must be set where {OAUTHBEARER} is enabled")
    return text


def enabled_mechanisms(values: Mapping[str, str], listener: str) -> tuple[str, ...]:
    text = values.get(_ENABLED, "")
    mechanisms = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not mechanisms:
        reason = f"must name the mechanisms of the listener {listener}"
        raise ConfigError(_ENABLED, text, reason)
    for mechanism in mechanisms:
        if mechanism not in _OFFERED:
            raise ConfigError(_ENABLED, mechanism, f"must be of {', '.join(_OFFERED)}")
    return mechanisms


def jaas_of(values: Mapping[str, str], listener: str, mechanism: str) -> JaasConfig | None:
    """What is set for the listener and the mechanism; None: nothing."""
    text = values.get(f"{mechanism.lower()}.{_JAAS}")
    return None if text is None else parse_jaas(jaas_key(listener, mechanism), text)


def jaas_key(listener: str, mechanism: str) -> str:
    return f"listener.name.{listener.lower()}.{mechanism.lower()}.{_JAAS}"


def _plain_users(values: Mapping[str, str], listener: str, key: bytes) -> PlainUsers:
    name, jaas = jaas_key(listener, PLAIN), jaas_of(values, listener, PLAIN)
    if jaas is None or not jaas.users:
        raise ConfigError(name, "[hidden]", 'must name users, as user_alice="her password"')
    if jaas.module != PLAIN_MODULE:
        raise ConfigError(name, jaas.module, f"must be {PLAIN_MODULE}")
    return PlainUsers(jaas.users, key)


def _number(values: Mapping[str, str], mechanism: str, name: str) -> int:
    """Of the mechanism, else of the listener, else of all."""
    key = BROKER_KEYS[name]
    text = values.get(f"{mechanism.lower()}.{name}", values.get(name))
    value = key.default if text is None else key.parse(text)
    assert isinstance(value, int)
    return value
