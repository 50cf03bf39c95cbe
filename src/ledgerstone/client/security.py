"""How a client speaks to brokers and who it is, from properties by Kafka's names. Pure.

`sasl.jaas.config` is Kafka's; `sasl.username` and `sasl.password` are librdkafka's names for the
same. An error names the key and never a secret.
"""

from collections.abc import Mapping
from typing import Final

from ledgerstone.config.security_protocol import SecurityProtocol
from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import ConfigError
from ledgerstone.security.accounts import CLIENT_MECHANISMS, Account
from ledgerstone.security.exchange import OAUTHBEARER
from ledgerstone.security.jaas import parse_jaas
from ledgerstone.tls.settings import TLS_PROPERTIES, TlsSettings, tls_settings

_PROTOCOL: Final = "security.protocol"
_MECHANISM: Final = "sasl.mechanism"
_MECHANISMS: Final = "sasl.mechanisms"  # librdkafka's
_JAAS: Final = "sasl.jaas.config"
_NAME: Final = "sasl.username"
_PASSWORD: Final = "sasl.password"
_TOKEN: Final = "ledgerstone.oauthbearer.token"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSecurity:
    """`account` is there where the protocol asks for a login, `tls` where it has TLS."""

    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    account: Account | None = None
    tls: TlsSettings | None = None


PLAIN_TEXT: Final = ClientSecurity()
# Every property that is looked at here.
SECURITY_PROPERTIES: Final = (
    _PROTOCOL,
    _MECHANISM,
    _MECHANISMS,
    _JAAS,
    _NAME,
    _PASSWORD,
    _TOKEN,
    *TLS_PROPERTIES,
)


def client_security(properties: Mapping[str, str]) -> ClientSecurity:
    """From the properties of a client; those that are not about security are not looked at."""
    text = properties.get(_PROTOCOL, "PLAINTEXT").strip().upper()
    if text not in SecurityProtocol.__members__:
        known = ", ".join(SecurityProtocol.__members__)
        raise ConfigError(_PROTOCOL, text, f"must be one of {known}")
    protocol = SecurityProtocol[text]
    account = _account(properties) if protocol.uses_sasl else None
    tls = tls_settings(properties) if protocol.uses_tls else None
    return ClientSecurity(protocol=protocol, account=account, tls=tls)


def _account(properties: Mapping[str, str]) -> Account:
    mechanism = properties.get(_MECHANISM, properties.get(_MECHANISMS, "")).strip().upper()
    if mechanism not in CLIENT_MECHANISMS:
        raise ConfigError(_MECHANISM, mechanism, f"must be one of {', '.join(CLIENT_MECHANISMS)}")
    if mechanism == OAUTHBEARER:
        return _token_account(properties)
    name, password = _name_and_password(properties)
    if not name or not password:
        reason = f"must have username and password, or set {_NAME} and {_PASSWORD}"
        raise ConfigError(_JAAS, "[hidden]", reason)
    return Account(mechanism, name, password)


def _token_account(properties: Mapping[str, str]) -> Account:
    token = properties.get(_TOKEN, "").strip()
    if not token:
        raise ConfigError(_TOKEN, "[hidden]", "must be the token to log in with")
    return Account(OAUTHBEARER, "", token)


def _name_and_password(properties: Mapping[str, str]) -> tuple[str, str]:
    if _JAAS not in properties:
        return properties.get(_NAME, ""), properties.get(_PASSWORD, "")
    options = parse_jaas(_JAAS, properties[_JAAS]).options
    return options.get("username", ""), options.get("password", "")
