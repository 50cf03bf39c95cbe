"""From a configuration to a running broker, and back down in order. Grade S.

Listen, open everything (`opening`), serve. A node of a cluster goes through the same stages, but
waits for others in between (`cluster_start`). Stop: no new connections, flush and close the logs,
the clean marker last. What a single node may do without is imported where it is used.
"""

import asyncio
import errno
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from ledgerstone.clock import Clock
from ledgerstone.config.broker import BrokerConfig, Listener
from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import ConfigError, LedgerstoneError
from ledgerstone.records.kernels import load
from ledgerstone.server.accepting import Listening
from ledgerstone.server.broker import Broker
from ledgerstone.server.housekeeping.disk_watch import LINE_INTERVAL_MS
from ledgerstone.server.http.server import HttpServer
from ledgerstone.server.http.serving import MakeSite, check_settings, serve_http
from ledgerstone.server.listening import listen_on, with_real_http_port, with_real_ports
from ledgerstone.server.opening import Surroundings, open_broker
from ledgerstone.server.runtime import Runtime
from ledgerstone.server.transport import PlainTransport

if TYPE_CHECKING:
    import socket

    from ledgerstone.server.login.key_fetching import KeyFetching
    from ledgerstone.server.tls_contexts import TlsContexts

_LOG: Final = logging.getLogger(__name__)
_ROOM_CHECK_S: Final = 1.0


@dataclass(slots=True, kw_only=True)
class RunningBroker:
    broker: Broker
    runtime: Runtime
    http: HttpServer | None
    bootstrap: str
    http_address: str | None
    key_fetching: "KeyFetching | None" = None

    async def stop(self, hurries: Callable[[], bool] = lambda: False) -> None:
        """The order matters: nobody may be answered from a log that is already closed. A broker of
        a cluster hands its leaderships over first, unless `hurries`; the controller stops last."""
        broker = self.broker
        if broker.membership is not None:
            from ledgerstone.server.cluster_stop import leave_cluster, stop_quorum

            await leave_cluster(broker, self.runtime, hurries)
            if broker.membership.replicating is not None:
                broker.membership.replicating.stop()
            self.runtime.stop_clients()
            await stop_quorum(broker, self.runtime, hurries)
        if self.key_fetching is not None:
            self.key_fetching.stop()
        await self.runtime.stop()
        if self.http is not None:
            await self.http.stop()
        broker.partitions.drop_rest()
        if broker.auditor is not None:
            broker.auditor.stop()
        broker.log_dirs.close(broker_epoch=self._broker_epoch)
        _LOG.info("broker stopped node_id=%d", broker.config.node_id)

    @property
    def _broker_epoch(self) -> int:
        """For the clean marker. A start that was stopped before it registered leaves the old one:
        the logs are as they were."""
        broker = self.broker
        membership = broker.membership
        if membership is None:
            return broker.image.brokers[broker.config.node_id].broker_epoch
        if membership.life is None or membership.life.life.broker_epoch < 0:
            return broker.log_dirs.previous_broker_epoch
        return membership.life.life.broker_epoch


async def start_broker(
    config: BrokerConfig,
    world: Surroundings,
    make_site: MakeSite | None = None,
    make_runtime: Callable[[Broker, asyncio.AbstractEventLoop], Runtime] = Runtime,
    is_stopping: Callable[[], bool] = lambda: False,
    on_wait: Callable[[str], None] = lambda _: None,
) -> RunningBroker:
    """Listens before the logs are opened, so that a port in use costs nothing. `on_wait` is told
    what the start of a cluster's node waits for."""
    # Now rather than under the first produced batch: the very first time it takes some seconds.
    load()
    tls = _tls_of(config, world.clock)
    if config.ledgerstone_http_listener is not None and config.authorizer_class_name:
        check_settings(config)
    sockets: list[socket.socket] = []
    http_socket: socket.socket | None = None
    try:
        sockets += [listen_on(listener) for listener in config.listeners]
        if config.ledgerstone_http_listener is not None:
            http_socket = listen_on(config.ledgerstone_http_listener)
            config = with_real_http_port(config, http_socket)
        advertised = with_real_ports(config, sockets)
        broker = await _open_when_there_is_room(config, world, advertised, is_stopping)
    except BaseException:
        for sock in (*sockets, *((http_socket,) if http_socket else ())):
            sock.close()
        raise
    runtime = make_runtime(broker, asyncio.get_running_loop())
    broker.erasing_on_demand.installed_verifiers = runtime.verifiers.names
    broker.anatomy.wake = runtime.wake
    if tls is not None:
        _secure(broker, runtime, tls)
    listening = [
        Listening(sock, listener.name, PlainTransport if tls is None else tls.transports_of(name))
        for listener, sock in zip(config.listeners, sockets, strict=True)
        for name in (listener.name,)
    ]
    address = f"{advertised[0].host}:{advertised[0].port}"
    running = RunningBroker(
        broker=broker,
        runtime=runtime,
        http=None,
        bootstrap=address,
        http_address=None,
        key_fetching=_key_fetching(broker),
    )
    if config.cluster.is_configured:
        names = config.cluster.controller_listener_names
        runtime.start(each for each in listening if each.name in names)
        listening = [each for each in listening if each.name not in names]
    else:
        runtime.start(listening)
    if http_socket is not None:
        running.http, running.http_address = await serve_http(
            broker, http_socket, make_site, advertised, tls=tls, wake=runtime.wake
        )
    if config.cluster.is_configured:
        from ledgerstone.server.cluster_start import ClusterStart

        try:
            await ClusterStart(broker, runtime, is_stopping=is_stopping, on_wait=on_wait).run()
        except BaseException:
            for each in listening:
                each.sock.close()
            await running.stop()
            raise
        runtime.start(listening)
    _LOG.info("broker ready node_id=%d bootstrap=%s", config.node_id, address)
    return running


def _secure(broker: Broker, runtime: Runtime, tls: "TlsContexts") -> None:
    runtime.secure(tls)
    broker.tls = tls
    if broker.auditor is not None:
        runtime.on_tls_read = broker.auditor.tls_read


def _key_fetching(broker: Broker) -> "KeyFetching | None":
    logins = [each.tokens for each in broker.logins.listeners.values() if each.tokens is not None]
    if not logins:
        return None
    from ledgerstone.server.login.key_fetching import KeyFetching

    fetching = KeyFetching(logins)
    fetching.start()
    return fetching


def _tls_of(config: BrokerConfig, clock: Clock) -> "TlsContexts | None":
    """Before anything else is begun: what is wrong with keys and certificates ends the start."""
    protocols = config.listener_protocols.values()
    if not config.ledgerstone_http_tls and not any(each.uses_tls for each in protocols):
        return None
    # Takes cryptography with it, which a plain broker does without.
    from ledgerstone.server.tls_contexts import TlsContexts

    tls = TlsContexts(config, clock)
    for line in tls.advice():
        _LOG.warning("%s", line)
    return tls


async def _open_when_there_is_room(
    config: BrokerConfig,
    world: Surroundings,
    advertised: Sequence[Listener],
    is_stopping: Callable[[], bool],
) -> Broker:
    """A start writes: on a full disk it waits until somebody has made room, and says so."""
    next_line_ms = 0
    while True:
        try:
            return open_broker(config, world, advertised)
        except (LedgerstoneError, OSError) as error:
            if not is_full_disk(error):
                raise
            now_ms = world.clock.monotonic_ms()
            if now_ms >= next_line_ms:
                next_line_ms = now_ms + LINE_INTERVAL_MS
                _LOG.error("start waits for room on disk path=%s reason=%s", config.log_dirs, error)
        await asyncio.sleep(_ROOM_CHECK_S)
        if is_stopping():
            raise ConfigError("log.dirs", config.log_dirs[0], "stopped while the disk was full")


def is_full_disk(error: BaseException | None) -> bool:
    """Whether that is what an error goes back to."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        error = error.__cause__ or error.__context__
    return False
