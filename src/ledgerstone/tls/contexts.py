"""OpenSSL's contexts for a listener and for connections out. Grade S."""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import ConfigError
from ledgerstone.tls.settings import ClientAuth, TlsSettings
from ledgerstone.tls.stores import KeyAndChain, read_keystore, read_truststore

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY: Final = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


@dataclass(frozen=True, slots=True)
class LoadedContext:
    """`identity` is what was shown to the other side, if anything was."""

    context: ssl.SSLContext
    identity: KeyAndChain | None


def server_context(settings: TlsSettings) -> LoadedContext:
    if settings.keystore is None:
        raise ConfigError("ssl.keystore.location", "", "must be set: a listener with TLS needs it")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _restrict(context, settings)
    identity = read_keystore(settings.keystore)
    _show(context, identity)
    if settings.client_auth is not ClientAuth.NONE:
        if settings.truststore is None:
            reason = f"must be set with ssl.client.auth={settings.client_auth.value}"
            raise ConfigError("ssl.truststore.location", "", reason)
        _trust(context, settings)
    context.verify_mode = _VERIFY[settings.client_auth]
    # Tickets cost each handshake a fifth more, and of the clients only the Java one would use them.
    context.num_tickets = 0
    return LoadedContext(context, identity)


def client_context(settings: TlsSettings) -> LoadedContext:
    """Without a truststore those of the system are trusted, as Kafka trusts those of its Java."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _restrict(context, settings)
    context.check_hostname = settings.checks_host and settings.verifies
    if not settings.verifies:
        context.verify_mode = ssl.CERT_NONE
    if settings.truststore is None:
        context.load_default_certs()
    else:
        _trust(context, settings)
    identity = None if settings.keystore is None else read_keystore(settings.keystore)
    if identity is not None:
        _show(context, identity)
    return LoadedContext(context, identity)


def _restrict(context: ssl.SSLContext, settings: TlsSettings) -> None:
    context.minimum_version = _VERSIONS[settings.least_version]
    context.maximum_version = _VERSIONS[settings.newest_version]
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    if settings.ciphers:
        names = ":".join(settings.ciphers)
        try:
            context.set_ciphers(names)
        except ssl.SSLError as error:
            reason = "has no suite that OpenSSL offers here"
            raise ConfigError("ssl.cipher.suites", names, reason) from error


def _trust(context: ssl.SSLContext, settings: TlsSettings) -> None:
    store = settings.truststore
    assert store is not None
    try:
        context.load_verify_locations(cadata=read_truststore(store).decode())
    except ssl.SSLError as error:
        key = f"{store.name}.{'certificates' if store.location is None else 'location'}"
        where = store.location or "[text]"
        reason = f"holds a certificate that OpenSSL does not take: {error.reason or error}"
        raise ConfigError(key, where, reason) from error


def _show(context: ssl.SSLContext, identity: KeyAndChain) -> None:
    """OpenSSL's wrapper takes files only; these exist in memory alone."""
    try:
        with _in_memory(identity.chain) as chain, _in_memory(identity.key) as key:
            context.load_cert_chain(chain, key)
    except ssl.SSLError as error:
        key, _, where = identity.source.partition("=")
        raise ConfigError(key, where, f"is refused by OpenSSL: {error.reason}") from error


@contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
