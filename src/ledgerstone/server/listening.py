"""The sockets that a broker listens on, and the ports they were given. Grade S."""

import socket
from collections.abc import Sequence
from typing import Final

from ledgerstone.config.broker import HTTP_LISTENER, BrokerConfig, Listener
from ledgerstone.dataclasses import replace
from ledgerstone.errors import ConfigError

_BACKLOG: Final = 1024


def listen_on(listener: Listener) -> socket.socket:
    family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((listener.host, listener.port))
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        key = "ledgerstone.http.listener" if listener.name == HTTP_LISTENER else "listeners"
        raise ConfigError(key, str(listener), f"cannot listen: {error}") from error
    return sock


def with_real_ports(config: BrokerConfig, sockets: Sequence[socket.socket]) -> list[Listener]:
    """What clients and other nodes are told; where the port was 0, the one the system chose."""
    ports = {
        listener.name: sock.getsockname()[1]
        for listener, sock in zip(config.listeners, sockets, strict=True)
    }
    told = (*config.advertised_listeners, *config.cluster.advertised_controller_listeners)
    return [
        listener if listener.port else listener._replace(port=ports[listener.name])
        for listener in told
    ]


def with_real_http_port(config: BrokerConfig, sock: socket.socket) -> BrokerConfig:
    """Whoever asks for the broker's settings learns where its API really is."""
    listener = config.ledgerstone_http_listener
    assert listener is not None
    listener = listener._replace(port=sock.getsockname()[1])
    text = str(listener).partition("://")[2]
    if config.ledgerstone_http_tls:
        text = f"https://{text}"
    raw = {**config.raw, "ledgerstone.http.listener": text}
    return replace(config, ledgerstone_http_listener=listener, raw=raw)
