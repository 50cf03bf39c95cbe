"""How the HTTP port finds out who asks, from the broker's keys. Pure.

Users are those of the Kafka port: what its listeners for clients offer is offered here, unless
`listener.name.http.sasl.enabled.mechanisms` says otherwise.
"""

import ipaddress
from collections.abc import Mapping
from typing import Final

from ledgerstone.config.broker import HTTP_LISTENER, BrokerConfig
from ledgerstone.config.listener_keys import listener_values
from ledgerstone.errors import ConfigError
from ledgerstone.security.http_credentials import USER_HEADER, Network, TrustedProxy
from ledgerstone.security.mapping_rules import MappingRules, parse_mapping_rules
from ledgerstone.server.login.settings import ListenerLogin

_ADDRESSES: Final = "ledgerstone.http.proxy.addresses"
_SECRET: Final = "ledgerstone.http.proxy.secret"
_HEADER: Final = "ledgerstone.http.proxy.user.header"
_LEAST_SECRET: Final = 16


def http_logins(
    config: BrokerConfig, logins: Mapping[str, ListenerLogin]
) -> tuple[ListenerLogin, ...]:
    names = [each.name for each in config.listeners]
    if HTTP_LISTENER in logins and HTTP_LISTENER not in names:
        return (logins[HTTP_LISTENER],)
    controllers = config.cluster.controller_listener_names
    return tuple(each for name, each in logins.items() if name not in controllers)


def trusted_proxy(raw: Mapping[str, str]) -> TrustedProxy | None:
    addresses, secret = raw.get(_ADDRESSES, "").strip(), raw.get(_SECRET, "")
    if not addresses and not secret:
        return None
    if not addresses:
        raise ConfigError(_ADDRESSES, "", f"must be set with {_SECRET}")
    if len(secret) < _LEAST_SECRET or not secret.isascii() or secret != secret.strip():
        reason = f"must be {_LEAST_SECRET} ASCII characters or more, set with {_ADDRESSES}"
        raise ConfigError(_SECRET, "[hidden]", reason)
    header = raw.get(_HEADER, USER_HEADER).strip()
    if not header.replace("-", "").isalnum() or not header.isascii():
        raise ConfigError(_HEADER, header, "must be the name of a header")
    networks = tuple(_network(each.strip()) for each in addresses.split(",") if each.strip())
    return TrustedProxy(networks=networks, secret=secret, user_header=header)


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise ConfigError(_ADDRESSES, text, f"must be an address or a network: {error}") from None


def certificate_names(config: BrokerConfig) -> MappingRules:
    values = listener_values(config.raw, HTTP_LISTENER)
    return parse_mapping_rules(values.get("ssl.principal.mapping.rules", ""))
