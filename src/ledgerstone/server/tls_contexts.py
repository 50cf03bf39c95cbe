"""The TLS contexts of a broker: of its listeners, and of connections to other nodes. Grade S.

Keystores and truststores are read again when their files have changed. New connections use what
was read last; those that stand are not disturbed. What cannot be used leaves the old one in place,
and says so until it is mended.
"""

import logging
import os
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Final

from cryptography import x509

from ledgerstone.clock import Clock
from ledgerstone.config.broker import HTTP_LISTENER, BrokerConfig
from ledgerstone.config.listener_keys import listener_values
from ledgerstone.config.security_protocol import SecurityProtocol
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import ConfigError
from ledgerstone.server.effects import Dial
from ledgerstone.server.metrics import MetricSample
from ledgerstone.server.tls_transport import RECEIVE_BYTES, TlsTransport
from ledgerstone.server.transport import MakeTransport, PlainTransport, Transport
from ledgerstone.tls.contexts import LoadedContext, client_context, server_context
from ledgerstone.tls.settings import TlsSettings, tls_settings
from ledgerstone.tls.stores import KeyAndChain, readable_by_others

_LOG: Final = logging.getLogger(__name__)
_CLIENT_AUTH: Final = "ssl.client.auth"

_Stamp = tuple[tuple[int, int, int] | None, ...]
_Load = Callable[[TlsSettings], LoadedContext]


@dataclass(slots=True, eq=False)
class Kept:
    """One context, and what it was read from."""

    name: str
    settings: TlsSettings
    load: _Load
    loaded: LoadedContext = field(init=False)
    failure: str | None = None
    _stamp: _Stamp = ()

    def __post_init__(self) -> None:
        self._stamp = self._stamp_now()
        self.loaded = self.load(self.settings)

    def has_changed(self) -> bool:
        return bool(self.settings.files) and self._stamp_now() != self._stamp

    def read_again(self) -> None:
        """May run beside the loop: the reference is changed at the end, at once."""
        self._stamp = self._stamp_now()
        try:
            fresh = self.load(self.settings)
            _check_identity(self.settings, self.loaded.identity, fresh.identity)
        except ConfigError as error:
            self.failure = str(error)
            _LOG.error("tls reload failed listener=%s reason=%s", self.name, error)
            return
        self.loaded, self.failure = fresh, None
        _LOG.info("tls reloaded listener=%s", self.name)

    def _stamp_now(self) -> _Stamp:
        return tuple(map(_stamp_of, self.settings.files))


class TlsContexts:
    """`listeners` and `dialled` are by the names of listeners; plain ones are in neither."""

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self._clock = clock
        # Only used within a call, by whichever transport is called.
        self._room = memoryview(bytearray(RECEIVE_BYTES))
        self._protocols = config.listener_protocols
        names = [each.name for each in config.listeners]
        self._listeners = {
            name: Kept(name, _settings(config, name), server_context)
            for name in names
            if config.listener_protocols[name].uses_tls
        }
        if config.ledgerstone_http_tls:
            settings = _settings(config, HTTP_LISTENER)
            self._http: Kept | None = Kept("ledgerstone.http.listener", settings, server_context)
        else:
            self._http = None
        self._dialled = {
            name: Kept(f"to {name}", _settings(config, name), client_context)
            for name in _dialled_names(config)
            if config.listener_protocols[name].uses_tls
        }

    def transports_of(self, listener: str) -> MakeTransport:
        kept = self._listeners.get(listener)
        if kept is None:
            return PlainTransport

        def make(sock: socket.socket) -> Transport:
            return TlsTransport(sock, kept.loaded.context, self._room)

        return make

    def http(self) -> ssl.SSLContext:
        """The newest one of the HTTP port, which must be https."""
        assert self._http is not None
        return self._http.loaded.context

    def dialled(self, sock: socket.socket, dial: Dial) -> Transport | None:
        """None: the listener of the other side is a plain one."""
        kept = self._dialled.get(dial.listener)
        if kept is None:
            return None
        context = kept.loaded.context
        return TlsTransport(sock, context, self._room, server_hostname=dial.host)

    # -- changes ------------------------------------------------------------------------------

    @property
    def all(self) -> Iterator[Kept]:
        yield from self._listeners.values()
        if self._http is not None:
            yield self._http
        yield from self._dialled.values()

    def changed(self) -> list[Kept]:
        return [each for each in self.all if each.has_changed()]

    # -- what operators see -------------------------------------------------------------------

    def complaints(self) -> Iterator[str]:
        now_ms = self._clock.now_ms()
        for kept in self.all:
            if kept.failure is not None:
                yield f"tls {kept.name}: the files have changed and cannot be used: {kept.failure}"
            identity = kept.loaded.identity
            if identity is not None and (said := identity.complaint(now_ms)) is not None:
                yield f"tls {kept.name}: {said}"

    def advice(self) -> Iterator[str]:
        """At the start."""
        yield from self.complaints()
        told: dict[str, None] = {}
        for kept in self.all:
            if kept.settings.keystore is not None:
                said = readable_by_others(kept.settings.keystore)
                if said is not None and said not in told:
                    told[said] = None
                    yield said

    def samples(self) -> Iterator[MetricSample]:
        for kept in self.all:
            labels = (("listener", kept.name),)
            yield MetricSample(
                "ledgerstone_tls_reload_failed", "gauge",
                "1: the newest keystore or truststore cannot be used.",
                int(kept.failure is not None), labels,
            )  # fmt: skip
            if kept.loaded.identity is not None:
                yield MetricSample(
                    "ledgerstone_tls_certificate_not_after_seconds", "gauge",
                    "When the certificate expires, in seconds since 1970.",
                    int(kept.loaded.identity.not_after.timestamp()), labels,
                )  # fmt: skip


def _dialled_names(config: BrokerConfig) -> tuple[str, ...]:
    cluster = config.cluster
    if not cluster.is_configured:
        return ()
    between = (cluster.inter_broker_listener_name,)
    named = (*cluster.controller_listener_names[:1], *(each for each in between if each))
    return tuple(dict.fromkeys(named))


def _settings(config: BrokerConfig, name: str) -> TlsSettings:
    values = listener_values(config.raw, name)
    own = f"listener.name.{name.lower()}.{_CLIENT_AUTH}"
    has_logins = config.listener_protocols.get(name) in (None, SecurityProtocol.SASL_SSL)
    if has_logins and own not in config.raw:
        # As in Kafka: a login says who it is, and a certificate is not asked for by the way. The
        # HTTP port has logins, too.
        values.pop(_CLIENT_AUTH, None)
    try:
        return tls_settings(values)
    except ConfigError as error:
        raise ConfigError(error.key, error.value, f"listener {name}: {error.reason}") from error


def _stamp_of(path: str) -> tuple[int, int, int] | None:
    """Of the file behind all links: secrets of containers are links that are moved."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _check_identity(
    settings: TlsSettings, before: KeyAndChain | None, after: KeyAndChain | None
) -> None:
    """As in Kafka: a certificate for something else is more likely a mistake."""
    if before is None or after is None:
        return
    old, new = before.certificate, after.certificate
    if not settings.allows_dn_changes and old.subject != new.subject:
        was, now = old.subject.rfc4514_string(), new.subject.rfc4514_string()
        reason = f"is for {now}, the one before for {was}; see ssl.allow.dn.changes"
        raise ConfigError("ssl.keystore", after.source, reason)
    lost = [name for name in _names(old) if name not in _names(new)]
    if lost and not settings.allows_san_changes:
        reason = f"is not for {', '.join(lost)}, as the one before was; see ssl.allow.san.changes"
        raise ConfigError("ssl.keystore", after.source, reason)


def _names(certificate: x509.Certificate) -> list[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    return [str(each.value) for each in found.value]
