"""What the ssl.* keys say, of a listener or of a client: read, checked, typed. Pure.

The names are Kafka's, and librdkafka's where it has its own. Files are named here and read in
`stores`.
"""

import enum
from collections.abc import Mapping
from typing import Final

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import ConfigError
from ledgerstone.tls.ciphers import TLS13_SUITES, openssl_name

_HIDDEN: Final = "[hidden]"
_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
_STORE_TYPES: Final = ("JKS", "PEM", "PKCS12")
_OFF: Final = ("none", "false", "")


# Of a client: Kafka's names, then librdkafka's.
TLS_PROPERTIES: Final = (
    "ssl.protocol",
    "ssl.enabled.protocols",
    "ssl.cipher.suites",
    "ssl.endpoint.identification.algorithm",
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.key.password",
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.key.location",
    "ssl.key.pem",
    "enable.ssl.certificate.verification",
)


class ClientAuth(enum.Enum):
    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """A keystore or a truststore: a file, or PEM texts. `key` is None for a truststore."""

    name: str  # ssl.keystore or ssl.truststore
    location: str | None = None
    password: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    certificates: str | None = field(default=None, repr=False)
    # librdkafka has the key in a file of its own.
    key_location: str | None = None

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(each for each in (self.location, self.key_location) if each is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """`ciphers` are OpenSSL's names for TLS 1.2; empty: its default."""

    keystore: StoreSettings | None
    truststore: StoreSettings | None
    client_auth: ClientAuth = ClientAuth.NONE
    least_version: str = "TLSv1.2"
    newest_version: str = "TLSv1.3"
    ciphers: tuple[str, ...] = ()
    checks_host: bool = True
    # Only librdkafka has a switch for it: the certificate is not looked at.
    verifies: bool = True
    allows_dn_changes: bool = False
    allows_san_changes: bool = False

    @property
    def files(self) -> tuple[str, ...]:
        """What has to be read again when it changes."""
        stores = (self.keystore, self.truststore)
        return tuple(path for store in stores if store is not None for path in store.files)


def tls_settings(values: Mapping[str, str]) -> TlsSettings:
    """By plain keys: those of a listener (`config.listener_keys`), or a client's properties."""
    least, newest = _versions(values)
    ciphers, least, newest = _ciphers(values, least, newest)
    algorithm = values.get("ssl.endpoint.identification.algorithm", "https").strip().lower()
    if algorithm not in ("https", *_OFF):
        key = "ssl.endpoint.identification.algorithm"
        raise ConfigError(key, algorithm, "must be https, or empty to check no host")
    return TlsSettings(
        keystore=_keystore(values),
        truststore=_truststore(values),
        client_auth=_client_auth(values),
        least_version=least,
        newest_version=newest,
        ciphers=ciphers,
        checks_host=algorithm == "https",
        verifies=_flag(values, "enable.ssl.certificate.verification", default=True),
        allows_dn_changes=_flag(values, "ssl.allow.dn.changes", default=False),
        allows_san_changes=_flag(values, "ssl.allow.san.changes", default=False),
    )


def _text(values: Mapping[str, str], *names: str) -> str | None:
    """The first of them that is set."""
    return next((values[name] for name in names if values.get(name, "").strip()), None)


def _flag(values: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = values.get(name, "").strip().lower()
    if text not in ("", "true", "false"):
        raise ConfigError(name, text, "must be true or false")
    return default if not text else text == "true"


def _words(values: Mapping[str, str], name: str) -> tuple[str, ...]:
    text = values.get(name, "").replace(":", ",")
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _client_auth(values: Mapping[str, str]) -> ClientAuth:
    text = values.get("ssl.client.auth", "none").strip().lower()
    try:
        return ClientAuth(text)
    except ValueError:
        words = ", ".join(each.value for each in ClientAuth)
        raise ConfigError("ssl.client.auth", text, f"must be one of {words}") from None


def _versions(values: Mapping[str, str]) -> tuple[str, str]:
    enabled = _words(values, "ssl.enabled.protocols") or _VERSIONS
    for version in enabled:
        if version not in _VERSIONS:
            reason = "must be TLSv1.2, TLSv1.3 or both: older ones are broken"
            raise ConfigError("ssl.enabled.protocols", version, reason)
    protocol = values.get("ssl.protocol", "TLSv1.3").strip()
    if protocol not in (*_VERSIONS, "TLS"):
        raise ConfigError("ssl.protocol", protocol, "must be TLSv1.2 or TLSv1.3")
    newest = min(max(enabled), "TLSv1.3" if protocol == "TLS" else protocol)
    if newest < min(enabled):
        reason = f"ssl.enabled.protocols={','.join(enabled)} has only newer ones"
        raise ConfigError("ssl.protocol", protocol, reason)
    return min(enabled), newest


def _ciphers(
    values: Mapping[str, str], least: str, newest: str
) -> tuple[tuple[str, ...], str, str]:
    """As in Java, a version without a suite in the list is not spoken."""
    key = "ssl.cipher.suites"
    suites = _words(values, key)
    if not suites:
        return (), least, newest
    older = []
    for suite in suites:
        name = openssl_name(suite)
        if suite not in TLS13_SUITES and name is None:
            raise ConfigError(key, suite, "is no cipher suite that is known here")
        if suite not in TLS13_SUITES:
            assert name is not None
            older.append(name)
    if len(older) == len(suites):
        newest = "TLSv1.2"
    elif not older:
        least = "TLSv1.3"
    if least > newest:
        versions = f"{least} to {newest}"
        raise ConfigError(key, ",".join(suites), f"has no suite for {versions}")
    return tuple(older), least, newest


def _store_type(values: Mapping[str, str], name: str) -> str:
    """Only says something where there is no file: files are told apart by what is in them."""
    kind = values.get(f"{name}.type", "JKS").strip().upper()
    if kind not in _STORE_TYPES:
        raise ConfigError(f"{name}.type", kind, "must be PEM or PKCS12")
    return kind


def _keystore(values: Mapping[str, str]) -> StoreSettings | None:
    name = "ssl.keystore"
    kind = _store_type(values, name)
    key = _text(values, "ssl.keystore.key", "ssl.key.pem")
    chain = _text(values, "ssl.keystore.certificate.chain", "ssl.certificate.pem")
    location = _text(values, "ssl.keystore.location", "ssl.certificate.location")
    key_location = _text(values, "ssl.key.location")
    store = StoreSettings(
        name=name,
        location=location,
        password=_text(values, "ssl.keystore.password"),
        key_password=_text(values, "ssl.key.password"),
        key=key,
        certificates=chain,
        key_location=key_location,
    )
    if (key is None) != (chain is None):
        missing = "ssl.keystore.key" if key is None else "ssl.keystore.certificate.chain"
        raise ConfigError(missing, "", "must be set too: a key needs its certificate chain")
    if key is None and location is None:
        if key_location is not None:
            raise ConfigError("ssl.certificate.location", "", "must be set with ssl.key.location")
        return None
    _check_inline(store, kind)
    return store


def _truststore(values: Mapping[str, str]) -> StoreSettings | None:
    name = "ssl.truststore"
    kind = _store_type(values, name)
    store = StoreSettings(
        name=name,
        location=_text(values, "ssl.truststore.location", "ssl.ca.location"),
        password=_text(values, "ssl.truststore.password"),
        certificates=_text(values, "ssl.truststore.certificates", "ssl.ca.pem"),
    )
    if store.location is None and store.certificates is None:
        return None
    _check_inline(store, kind)
    return store


def _check_inline(store: StoreSettings, kind: str) -> None:
    if store.certificates is None:
        return
    if store.location is not None:
        reason = f"cannot be set with {store.name}.location: one of them has the certificates"
        raise ConfigError(f"{store.name}.certificates", _HIDDEN, reason)
    if store.password is not None:
        reason = "cannot be set with PEM texts; an encrypted key has ssl.key.password"
        raise ConfigError(f"{store.name}.password", _HIDDEN, reason)
    if kind == "PKCS12":
        reason = f"must be PEM, as {store.name} is given as text"
        raise ConfigError(f"{store.name}.type", kind, reason)
