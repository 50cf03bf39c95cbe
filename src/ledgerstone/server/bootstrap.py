"""From a configuration to a running broker, and back down in order. Grade S.

A single node: take the log directory, replay the metadata, register and unfence this broker, open
the logs, load the groups, listen. A node of a cluster goes through the same stages, but waits for
others in between (`cluster_start`). Stop: no new connections, flush and close the logs, the clean
marker last. What a single node may do without is imported where it is used.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ledgerstone.clock import Clock, Dice
from ledgerstone.config.broker import BrokerConfig, Listener
from ledgerstone.dataclasses import dataclass, replace
from ledgerstone.errors import ConfigError, LedgerstoneError
from ledgerstone.fs import Filesystem
from ledgerstone.metadata.broker_life import Registration
from ledgerstone.metadata.controller import Controller
from ledgerstone.metadata.image import Endpoint
from ledgerstone.metadata.topic_names import AUDIT
from ledgerstone.records.kernels import load
from ledgerstone.replication.fetch_session import FetchSessions
from ledgerstone.replication.hosted_partitions import HostedPartitions
from ledgerstone.security.authorizer import Authorizer
from ledgerstone.server.accepting import Listening
from ledgerstone.server.broker import Broker, Dispatch
from ledgerstone.server.controller_link import ControllerLink
from ledgerstone.server.controlling.composition import link_of
from ledgerstone.server.directories.opening import open_log_dirs
from ledgerstone.server.dispatch import CONTROLLER_HANDLED, HANDLED, dispatch, dispatch_through
from ledgerstone.server.erasing.scans import Scans
from ledgerstone.server.formatting.checking import check_formatted, read_bootstrap_records
from ledgerstone.server.groups.shards import HostedShards
from ledgerstone.server.housekeeping.disk_watch import LINE_INTERVAL_MS
from ledgerstone.server.http.monitor_routes import routes
from ledgerstone.server.http.server import Api, HttpRequest, HttpServer, Page, Site, SlowPage
from ledgerstone.server.log_agents import build_log_agents
from ledgerstone.server.producer_ids import ProducerIds
from ledgerstone.server.quorum.opening import open_quorum
from ledgerstone.server.runtime import Runtime
from ledgerstone.server.stages import Stages
from ledgerstone.server.tombstones.cluster_offsets import ClusterOffsets
from ledgerstone.server.tombstones.holds import TombstoneHolds
from ledgerstone.server.transactions.shards import TransactionShards
from ledgerstone.server.transport import PlainTransport
from ledgerstone.storage.log_dirs import LogDirs
from ledgerstone.uuid_text import random_uuid

if TYPE_CHECKING:
    from ledgerstone.server.auditing.auditor import Auditor
    from ledgerstone.server.http.doorkeeper import Doorkeeper
    from ledgerstone.server.login.key_fetching import KeyFetching
    from ledgerstone.server.tls_contexts import TlsContexts

_LOG: Final = logging.getLogger(__name__)
_BACKLOG: Final = 1024
_ROOM_CHECK_S: Final = 1.0

# Makes the pages of a broker; the second argument is called when a page has changed something.
MakeSite = Callable[[Broker, Callable[[], None]], Site]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a broker is given of the world."""

    fs: Filesystem
    clock: Clock
    dice: Dice
    # Of the machine; another one after each time it lost its power. None: not known.
    boot_id: str | None = None


def open_broker(
    config: BrokerConfig, world: Surroundings, advertised: Sequence[Listener]
) -> Broker:
    """Everything but sockets: a broker that could serve. `advertised` has the real ports."""
    try:
        check_formatted(world.fs, config)
    except OSError as error:
        path = config.cluster.metadata_log_dir
        raise ConfigError("log.dirs", path, f"cannot be used: {error}") from error
    log_dirs = open_log_dirs(config, world.fs, world.clock, world.dice, boot_id=world.boot_id)
    auditor = None
    try:
        auditor = _auditor(config, world)
        return _compose(config, world, advertised, log_dirs, auditor)
    except BaseException:
        log_dirs.release()
        if auditor is not None:
            auditor.release()
        raise


def _compose(
    config: BrokerConfig,
    world: Surroundings,
    advertised: Sequence[Listener],
    log_dirs: LogDirs,
    auditor: "Auditor | None",
) -> Broker:
    log_dir = log_dirs.metadata
    quorum = open_quorum(config, world.clock, world.dice, log_dir, advertised)
    link, controller = link_of(
        config,
        world.clock,
        world.dice,
        quorum,
        cluster_id=log_dir.meta.cluster_id or "",
        bootstrap=read_bootstrap_records(world.fs, log_dir.path),
    )
    quorum.start(link)
    partitions = HostedPartitions(
        log_dirs, config.node_id, config.raw, max_lag_ms=config.replica_lag_time_max_ms
    )
    if not config.cluster.is_configured:
        _register(config, world, advertised, log_dirs, link, controller)
        partitions.load(link.image, quorum.topic_ids)
    # The link's image is the one that the broker has published.
    shards = HostedShards(lambda: link.image)
    txn_shards = TransactionShards(lambda: link.image, config.node_id)
    offsets = ClusterOffsets(world.clock, lambda: link.image, shards, config.node_id)
    scans = Scans()
    agents = build_log_agents(
        config=config,
        clock=world.clock,
        dice=world.dice,
        log_dirs=log_dirs,
        partitions=partitions,
        holds=TombstoneHolds(offsets),
        txn_owners=txn_shards,
        searching=scans,
        image=link.image,
        newest_image=lambda: link.image,
    )
    authorizer = _authorizer(config)
    broker = Broker(
        config=config,
        clock=world.clock,
        dice=world.dice,
        dispatch=_dispatch(config, authorizer, auditor),
        handled=HANDLED,
        controller_handled=CONTROLLER_HANDLED,
        log_dirs=log_dirs,
        quorum=quorum,
        controller_link=link,
        producer_ids=ProducerIds(link.ask, lambda: link.image, config.node_id, world.clock),
        partitions=partitions,
        shards=shards,
        txn_shards=txn_shards,
        fetch_sessions=FetchSessions(world.dice, config.max_incremental_fetch_session_cache_slots),
        scans=scans,
        disk=agents.disk,
        housekeeping=agents.housekeeping,
        cleaning=agents.cleaning,
        near_tombstones=agents.near_tombstones,
        anatomy=agents.anatomy,
        authorizer=authorizer,
        auditor=auditor,
    )
    _begin(broker, advertised, offsets)
    return broker


def _begin(broker: Broker, advertised: Sequence[Listener], offsets: ClusterOffsets) -> None:
    if broker.auditor is not None:
        from ledgerstone.server.auditing.opening import attend

        attend(broker, broker.auditor)
    if broker.config.cluster.is_configured:
        _begin_in_cluster(broker, advertised, offsets)
    else:
        _begin_alone(broker)


def _begin_in_cluster(
    broker: Broker, advertised: Sequence[Listener], offsets: ClusterOffsets
) -> None:
    broker.partitions.cleaning_knowledge = broker.cleaning.knowledge()
    # A single node does without it, and without what it imports.
    from ledgerstone.server.cluster_join import join_cluster

    join_cluster(broker, advertised, offsets)


def _authorizer(config: BrokerConfig) -> Authorizer | None:
    if not config.authorizer_class_name:
        return None
    return Authorizer(
        super_users=config.super_users,
        allows_without_acls=config.allow_everyone_if_no_acl_found,
        guarded_topics=(AUDIT,),
    )


def _auditor(config: BrokerConfig, world: Surroundings) -> "Auditor | None":
    if config.ledgerstone_audit_dir is None:
        return None
    from ledgerstone.server.auditing.opening import open_auditor

    return open_auditor(config, world.fs, world.clock, world.dice)


def _dispatch(
    config: BrokerConfig, authorizer: Authorizer | None, auditor: "Auditor | None"
) -> Dispatch:
    stages = Stages()
    # A broker does without what it does not use, and without what that imports.
    if authorizer is not None:
        from ledgerstone.server.authorising.stage import authorised

        stages = stages._replace(authorised=authorised(authorizer))
    if auditor is not None:
        from ledgerstone.server.auditing.stage import audited

        stages = stages._replace(audited=audited(auditor))
    if any(each.uses_sasl for each in config.listener_protocols.values()):
        from ledgerstone.server.login.stage import authenticated

        stages = stages._replace(authenticated=authenticated)
    return dispatch_through(stages) if any(stages) else dispatch


def _begin_alone(broker: Broker) -> None:
    broker.cleaning.load()
    broker.directories.load()
    broker.following.leadership()
    broker.following.load_all_coordinators()
    broker.erasing_on_demand.load()


def _register(
    config: BrokerConfig,
    world: Surroundings,
    advertised: Sequence[Listener],
    log_dirs: LogDirs,
    link: ControllerLink,
    controller: Controller,
) -> None:
    registration = Registration(
        broker_id=config.node_id,
        incarnation_id=random_uuid(world.dice),
        endpoints=[
            Endpoint(each.name, each.host, each.port, config.listener_protocols[each.name])
            for each in advertised
        ],
        rack=config.broker_rack,
        log_dirs=log_dirs.online_ids,
        stopped_cleanly=log_dirs.stopped_cleanly,
    )
    epoch = link.quorum.end_offset
    link.write(controller.register_broker(registration, broker_epoch=epoch))
    link.write(controller.unfence_broker(config.node_id, broker_epoch=epoch))


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
        _check_http(config)
    sockets: list[socket.socket] = []
    http_socket: socket.socket | None = None
    try:
        sockets += [_listen(listener) for listener in config.listeners]
        if config.ledgerstone_http_listener is not None:
            http_socket = _listen(config.ledgerstone_http_listener)
            config = _with_real_http_port(config, http_socket)
        advertised = _with_real_ports(config, sockets)
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
        await _serve_http(running, http_socket, make_site, advertised, tls)
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


async def _serve_http(
    running: RunningBroker,
    sock: socket.socket,
    make_site: MakeSite | None,
    advertised: Sequence[Listener],
    tls: "TlsContexts | None",
) -> None:
    broker, runtime, config = running.broker, running.runtime, running.broker.config

    def reads_only(path: str) -> bool:
        from ledgerstone.server.http import api

        return api.reads_only(path)

    def check_route(request: HttpRequest, page: Page) -> Page:
        from ledgerstone.server.http.gate import shown_to

        return shown_to(broker, request, page)

    site = None if make_site is None else make_site(broker, runtime.wake)
    running.http = HttpServer(
        routes(broker),
        _api(broker, runtime),
        site=site,
        is_readonly=config.ledgerstone_http_readonly,
        host_names=(*config.ledgerstone_http_hosts, *(each.host for each in advertised)),
        reads_only=reads_only,
        door=_door(broker, site),
        check_route=check_route,
    )
    is_secure = config.ledgerstone_http_tls
    assert tls is not None or not is_secure
    host, port = await running.http.start(sock, tls.http if tls is not None and is_secure else None)
    scheme = "https" if is_secure else "http"
    running.http_address = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _door(broker: Broker, site: Site | None) -> "Doorkeeper | None":
    """Without an authorizer nobody is asked who they are."""
    if broker.authorizer is None:
        return None
    from ledgerstone.server.http.doorkeeper import Doorkeeper

    return Doorkeeper(broker, broker.authorizer, site)


def _check_http(config: BrokerConfig) -> None:
    """Before anything is begun: what is wrong with the settings ends the start."""
    from ledgerstone.server.http.door_settings import certificate_names, trusted_proxy

    certificate_names(config)
    trusted_proxy(config.raw)


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


def _api(broker: Broker, runtime: Runtime) -> Api:
    def call(request: HttpRequest) -> Page | SlowPage | None:
        # Imported with the first request: many brokers are never asked anything this way.
        from ledgerstone.server.http import api

        page = api.begin(broker, request)
        # It may have made something due: a pass that was asked for, or what goes by the clock.
        runtime.wake()
        return page if page is None or isinstance(page, Page) else awaking(page)

    def awaking(page: SlowPage) -> SlowPage:
        """So may each attempt of a call that has to wait."""
        result: Any = None
        while True:
            try:
                step = page.send(result)
            except StopIteration as end:
                made: Page = end.value
                return made
            finally:
                runtime.wake()
            result = yield step

    return call


def _with_real_http_port(config: BrokerConfig, sock: socket.socket) -> BrokerConfig:
    """Whoever asks for the broker's settings learns where its API really is."""
    listener = config.ledgerstone_http_listener
    assert listener is not None
    listener = listener._replace(port=sock.getsockname()[1])
    text = str(listener).partition("://")[2]
    if config.ledgerstone_http_tls:
        text = f"https://{text}"
    raw = {**config.raw, "ledgerstone.http.listener": text}
    return replace(config, ledgerstone_http_listener=listener, raw=raw)


def _listen(listener: Listener) -> socket.socket:
    family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((listener.host, listener.port))
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        key = "ledgerstone.http.listener" if listener.name == "HTTP" else "listeners"
        raise ConfigError(key, str(listener), f"cannot listen: {error}") from error
    return sock


def _with_real_ports(config: BrokerConfig, sockets: Sequence[socket.socket]) -> list[Listener]:
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
