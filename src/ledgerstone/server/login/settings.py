"""What a listener asks of a login, from the broker's keys. Pure.

Refused at start: a SASL listener without a mechanism, a mechanism that is not offered, and one that
nobody could log in with.
"""

from collections.abc import Mapping
from typing import Final

from ledgerstone.config.broker import BrokerConfig
from ledgerstone.config.broker_keys import BROKER_KEYS
from ledgerstone.config.listener_keys import listener_values
from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import ConfigError
from ledgerstone.security.jaas import PLAIN_MODULE, JaasConfig, parse_jaas
from ledgerstone.security.plain import PLAIN, PlainUsers
from ledgerstone.security.scram_keys import SCRAM_BY_TEXT

_ENABLED: Final = "sasl.enabled.mechanisms"
_JAAS: Final = "sasl.jaas.config"
_REAUTH: Final = "connections.max.reauth.ms"
_OFFERED: Final = (PLAIN, *SCRAM_BY_TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerLogin:
    """What one listener asks for. `reauth_ms` has each mechanism; 0: no limit."""

    mechanisms: tuple[str, ...]
    max_receive_bytes: int
    reauth_ms: Mapping[str, int]
    plain: PlainUsers | None


def listener_logins(config: BrokerConfig, key: bytes) -> dict[str, ListenerLogin]:
    """By name, of the listeners that ask for a login. `key` is for what is kept of passwords."""
    return {
        listener.name: _listener_login(config, listener.name, key)
        for listener in config.listeners
        if config.listener_protocols[listener.name].uses_sasl
    }


def _listener_login(config: BrokerConfig, name: str, key: bytes) -> ListenerLogin:
    values = listener_values(config.raw, name)
    mechanisms = enabled_mechanisms(values, name)
    return ListenerLogin(
        mechanisms=mechanisms,
        max_receive_bytes=_number(values, "", "sasl.server.max.receive.size"),
        reauth_ms={each: _number(values, each, _REAUTH) for each in mechanisms},
        plain=_plain_users(values, name, key) if PLAIN in mechanisms else None,
    )


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
