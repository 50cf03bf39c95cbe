"""Keystores and truststores: files and texts to keys and certificates. Grade S.

PEM and PKCS12, told apart by what is in the file: many a .jks is PKCS12. Real JKS is refused with
the line that converts it. What is wrong with a store is a ConfigError; no text of it has a secret.
"""

import datetime
from collections.abc import Sequence
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    pkcs12,
)

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import ConfigError, NotPrivate
from ledgerstone.private_files import read_operators
from ledgerstone.tls.settings import StoreSettings

_MOST_BYTES: Final = 4 << 20
_PEM: Final = b"-----BEGIN "
_DER: Final = b"\x30"
_JAVA: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
# What `cryptography` says of bytes that look like a key or a certificate and are none.
_BROKEN: Final = (ValueError, UnsupportedAlgorithm, x509.InvalidVersion)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyAndChain:
    """In PEM; the key is not encrypted. `certificate` is the first of the chain."""

    key: bytes = field(repr=False)
    chain: bytes
    certificate: x509.Certificate
    source: str

    @property
    def not_after(self) -> datetime.datetime:
        return self.certificate.not_valid_after_utc

    def complaint(self, now_ms: int) -> str | None:
        """Why nobody will accept it, although it can be used."""
        now = datetime.datetime.fromtimestamp(now_ms / 1000, datetime.UTC)
        if now > self.not_after:
            return f"{self.source}: the certificate has expired on {self.not_after:%Y-%m-%d %H:%M}Z"
        begin = self.certificate.not_valid_before_utc
        if now < begin:
            return f"{self.source}: the certificate counts from {begin:%Y-%m-%d %H:%M}Z on only"
        return None


def read_keystore(store: StoreSettings) -> KeyAndChain:
    if store.key is not None and store.certificates is not None:
        key_pem, chain_pem = store.key.encode(), store.certificates.encode()
        return _from_pem(store, key_pem, chain_pem, "ssl.keystore.certificate.chain")
    assert store.location is not None
    source = f"{store.name}.location"
    data = _content(store, store.location, source)
    if not data.startswith(_PEM) and _PEM not in data:
        return _from_pkcs12(store, data, source)
    if store.password is not None:
        reason = "cannot be set with a PEM file; an encrypted key has ssl.key.password"
        raise ConfigError(f"{store.name}.password", "[hidden]", reason)
    key_data = data
    if store.key_location is not None:
        key_data = _content(store, store.key_location, "ssl.key.location")
    return _from_pem(store, key_data, data, source)


def read_truststore(store: StoreSettings) -> bytes:
    """The certificates, in PEM."""
    source = f"{store.name}.certificates" if store.location is None else f"{store.name}.location"
    where = store.location or "[text]"
    if store.location is None:
        assert store.certificates is not None
        data = store.certificates.encode()
    else:
        data = _content(store, store.location, source)
    if _PEM in data:
        if store.password is not None:
            raise ConfigError(f"{store.name}.password", "[hidden]", "cannot be set with a PEM file")
        found: Sequence[x509.Certificate] = _certificates(data, source, where)
    else:
        held = _load_pkcs12(store, data, source)
        found = [each.certificate for each in held.additional_certs]
        if held.cert is not None:
            found = [held.cert.certificate, *found]
    if not found:
        raise ConfigError(source, where, "holds no certificate")
    return b"".join(each.public_bytes(Encoding.PEM) for each in found)


def readable_by_others(store: StoreSettings) -> str | None:
    """A complaint about the file of a private key."""
    if store.location is None:
        return None
    path = store.key_location or store.location
    return read_operators(path, 0).found.remark("a private key")


def _content(store: StoreSettings, path: str, source: str) -> bytes:
    try:
        data = read_operators(path, _MOST_BYTES).content
    except OSError as error:
        raise ConfigError(source, path, f"cannot be read: {error.strerror}") from error
    except NotPrivate as error:
        raise ConfigError(source, path, error.reason) from error
    if len(data) > _MOST_BYTES:
        raise ConfigError(source, path, f"is larger than {_MOST_BYTES} bytes: no {store.name}")
    if data.startswith(_JAVA):
        reason = (
            "is a JKS store, which only Java reads. Convert it: keytool -importkeystore "
            f"-srckeystore {path} -destkeystore {path}.p12 -deststoretype PKCS12"
        )
        raise ConfigError(source, path, reason)
    if _PEM not in data and not data.startswith(_DER):
        raise ConfigError(source, path, "is neither PEM nor PKCS12")
    return data


def _certificates(data: bytes, source: str, where: str) -> list[x509.Certificate]:
    if b"-----BEGIN CERTIFICATE" not in data:
        return []
    try:
        return x509.load_pem_x509_certificates(data)
    except _BROKEN as error:
        raise ConfigError(source, where, f"holds a certificate that is broken: {error}") from error


def _from_pem(store: StoreSettings, key_data: bytes, data: bytes, source: str) -> KeyAndChain:
    where = store.location or "[text]"
    chain = _certificates(data, source, where)
    if not chain:
        raise ConfigError(source, where, "holds no certificate")
    begin = key_data.find(_PEM)
    while begin >= 0 and b"PRIVATE KEY-----" not in key_data[begin : begin + 50]:
        begin = key_data.find(_PEM, begin + 1)
    if begin < 0:
        where = store.key_location or where
        raise ConfigError(source, where, "holds no private key; it has to be in the same file")
    password = None if store.key_password is None else store.key_password.encode()
    try:
        key = load_pem_private_key(key_data[begin:], password)
    except TypeError as error:
        reason = "is needed" if password is None else "is set, but the key is not encrypted"
        raise ConfigError("ssl.key.password", "[hidden]", reason) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        reason = "holds a private key that cannot be read"
        if password is not None:
            reason += ", or ssl.key.password is wrong"
        raise ConfigError(source, where, reason) from error
    return _checked(key, chain, source, where)


def _load_pkcs12(store: StoreSettings, data: bytes, source: str) -> pkcs12.PKCS12KeyAndCertificates:
    password = None if store.password is None else store.password.encode()
    try:
        return pkcs12.load_pkcs12(data, password)
    except _BROKEN as error:
        reason = f"is no PKCS12 that can be read, or {store.name}.password is wrong"
        if password is None:
            reason = f"is no PKCS12 that can be read without {store.name}.password"
        raise ConfigError(source, store.location, reason) from error


def _from_pkcs12(store: StoreSettings, data: bytes, source: str) -> KeyAndChain:
    where = store.location or ""
    held = _load_pkcs12(store, data, source)
    if held.key is None or held.cert is None:
        raise ConfigError(source, where, "holds no private key with its certificate")
    others = [each.certificate for each in held.additional_certs]
    return _checked(held.key, [held.cert.certificate, *others], source, where)


def _checked(
    key: PrivateKeyTypes, chain: Sequence[x509.Certificate], source: str, where: str
) -> KeyAndChain:
    spki = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    try:
        fits = key.public_key().public_bytes(*spki) == chain[0].public_key().public_bytes(*spki)
        # Read here, as names are compared when it is renewed.
        _ = chain[0].extensions
    except _BROKEN as error:
        reason = f"holds a certificate that is broken: {error}"
        raise ConfigError(source, where, reason) from error
    if not fits:
        reason = "has a private key that is not the one of its first certificate"
        raise ConfigError(source, where, reason)
    return KeyAndChain(
        key=key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        chain=b"".join(each.public_bytes(Encoding.PEM) for each in chain),
        certificate=chain[0],
        source=f"{source}={where}",
    )
