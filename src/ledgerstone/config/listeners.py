"""Listeners: `name://host:port` as text and as values, bound and advertised. Pure."""

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ledgerstone.config.security_protocol import SecurityProtocol
from ledgerstone.config.setting import Value
from ledgerstone.errors import ConfigError

EVERY_ADDRESS: Final = ("", "0.0.0.0", "::")
LOOPBACK: Final = "127.0.0.1"
PLAINTEXT: Final = SecurityProtocol.PLAINTEXT
_MAP: Final = "listener.security.protocol.map"


class Listener(NamedTuple):
    """One `name://host:port`. Port 0 lets the system choose."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_listeners(key: str, text: str) -> tuple[Listener, ...]:
    listeners = tuple(_listener(key, part.strip()) for part in text.split(",") if part.strip())
    if not listeners:
        raise ConfigError(key, text, "must name at least one name://host:port")
    names = [listener.name for listener in listeners]
    if len(dict.fromkeys(names)) != len(names):
        raise ConfigError(key, text, "must name each listener once")
    return listeners


def _listener(key: str, text: str) -> Listener:
    name, separator, address = text.partition("://")
    if not separator or not name:
        raise ConfigError(key, text, "must be name://host:port")
    host, port = host_and_port(key, text, address)
    return Listener(name.upper(), host, port)


def host_and_port(key: str, text: str, address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) < 65_536):
        raise ConfigError(key, text, "must end in a port from 0 to 65535")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise ConfigError(key, text, "must have its IPv6 address in brackets")
    return host.removeprefix("[").removesuffix("]"), int(port)


def parse_advertised(
    given: Mapping[str, Value], listeners: tuple[Listener, ...]
) -> tuple[Listener, ...]:
    """What `advertised.listeners` says; nothing if it is not set."""
    text = given.get("advertised.listeners")
    if not text:
        return ()
    assert isinstance(text, str)
    advertised = parse_listeners("advertised.listeners", text)
    bound = [listener.name for listener in listeners]
    for listener in advertised:
        if listener.name not in bound:
            reason = f"must be one of the listeners, {', '.join(bound)}"
            raise ConfigError("advertised.listeners", str(listener), reason)
        if listener.host in EVERY_ADDRESS:
            reason = "must have an address that clients can connect to"
            raise ConfigError("advertised.listeners", str(listener), reason)
    return advertised


def parse_protocols(
    given: Mapping[str, Value], names: Iterable[str]
) -> Mapping[str, SecurityProtocol]:
    """The security protocol of each of these listeners."""
    text = given.get(_MAP)
    names = tuple(dict.fromkeys(names))
    mapped = dict(SecurityProtocol.__members__) if text is None else _mapped(text)
    if text is None and all(mapped.get(name, PLAINTEXT) is PLAINTEXT for name in names):
        # Kafka knows only controller listeners without the map. Here every name will do, as long
        # as nothing else is protected.
        return dict.fromkeys(names, PLAINTEXT)
    protocols = {}
    for name in names:
        if name not in mapped:
            raise ConfigError(_MAP, text, f"must name the protocol of the listener {name}")
        protocols[name] = mapped[name]
    return protocols


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _mapped(text: Value) -> dict[str, SecurityProtocol]:
    assert isinstance(text, str)
    mapped = {}
    for part in text.split(","):
        name, _, protocol = (word.strip().upper() for word in part.partition(":"))
        if not name or protocol not in SecurityProtocol.__members__:
            known = ", ".join(SecurityProtocol.__members__)
            reason = f"must be name:protocol, with a protocol of {known}"
            raise ConfigError(_MAP, part.strip(), reason)
        mapped[name] = SecurityProtocol[protocol]
    return mapped
