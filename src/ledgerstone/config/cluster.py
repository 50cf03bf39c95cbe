"""A node's place in a cluster: roles, controller listeners, quorum, timeouts. Pure.

Without `process.roles` a node is a cluster of its own, as it comes: broker and controller in one,
no controller listener, nothing to format. With it, the rules are Kafka's, and what Kafka refuses
is refused here.
"""

import enum
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from ledgerstone.config.broker_keys import BROKER_DEFAULTS
from ledgerstone.config.listeners import EVERY_ADDRESS, Listener, host_and_port
from ledgerstone.config.setting import Value
from ledgerstone.dataclasses import dataclass, fields
from ledgerstone.errors import ConfigError

_ROLES: Final = "process.roles"
_NAMES: Final = "controller.listener.names"
_VOTERS: Final = "controller.quorum.voters"
_SERVERS: Final = "controller.quorum.bootstrap.servers"
_INTER_BROKER: Final = "inter.broker.listener.name"
_INTER_BROKER_PROTOCOL: Final = "security.inter.broker.protocol"
_AUTO_JOIN: Final = "controller.quorum.auto.join.enable"


class Roles(enum.Flag):
    BROKER = enum.auto()
    CONTROLLER = enum.auto()
    BOTH = BROKER | CONTROLLER


class QuorumVoter(NamedTuple):
    """An entry of `controller.quorum.voters`."""

    id: int
    host: str
    port: int


class QuorumServer(NamedTuple):
    """An entry of `controller.quorum.bootstrap.servers`."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """Fields that are named as keys hold the values of those keys."""

    roles: Roles
    # Whether process.roles is set. If not, this is a single node, and nothing below matters to it.
    is_configured: bool
    # The first one is the one that every node connects to.
    controller_listener_names: tuple[str, ...]
    # Those of this node, in the order of their names, as other nodes reach them.
    advertised_controller_listeners: tuple[Listener, ...]
    # A listener of brokers; none on a node that only controls.
    inter_broker_listener_name: str | None
    # Of a static quorum. Empty where voters are in the metadata log.
    voters: tuple[QuorumVoter, ...]
    bootstrap_servers: tuple[QuorumServer, ...]
    metadata_log_dir: str

    controller_quorum_election_timeout_ms: int
    controller_quorum_fetch_timeout_ms: int
    controller_quorum_election_backoff_max_ms: int
    controller_quorum_request_timeout_ms: int
    controller_quorum_retry_backoff_ms: int
    controller_quorum_fetch_max_bytes: int
    controller_quorum_fetch_snapshot_max_bytes: int
    controller_quorum_auto_join_enable: bool
    metadata_log_segment_bytes: int
    metadata_log_segment_ms: int
    metadata_log_max_record_bytes_between_snapshots: int
    metadata_log_max_snapshot_interval_ms: int
    metadata_max_retention_bytes: int
    metadata_max_retention_ms: int
    metadata_max_idle_interval_ms: int
    broker_heartbeat_interval_ms: int
    broker_session_timeout_ms: int
    ledgerstone_broker_disconnect_grace_ms: int
    initial_broker_registration_timeout_ms: int
    controlled_shutdown_enable: bool
    server_max_startup_time_ms: int
    auto_leader_rebalance_enable: bool
    leader_imbalance_check_interval_seconds: int
    unclean_leader_election_interval_ms: int
    num_replica_fetchers: int
    replica_fetch_wait_max_ms: int
    replica_fetch_min_bytes: int
    replica_fetch_max_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_backoff_ms: int
    replica_socket_timeout_ms: int
    replication_quota_window_num: int
    replication_quota_window_size_seconds: int

    @property
    def is_broker(self) -> bool:
        return Roles.BROKER in self.roles

    @property
    def is_controller(self) -> bool:
        return Roles.CONTROLLER in self.roles

    @classmethod
    def from_given(
        cls,
        given: Mapping[str, Value],
        *,
        node_id: int,
        log_dir: str,
        listeners: tuple[Listener, ...],
        advertised: tuple[Listener, ...],
    ) -> "ClusterConfig":
        """`advertised` has what advertised.listeners says, and may be empty."""
        roles = _roles(given)
        names = tuple(name.upper() for name in _names(given, _NAMES))
        voters = tuple(_voter(text) for text in _names(given, _VOTERS))
        bound = {each.name: each for each in listeners}
        controllers = tuple(bound[name] for name in names if name in bound)
        if roles is None:
            _check_single(given)
        else:
            _check_roles(given, roles, node_id, names, voters, listeners)
        return cls(
            **{field: given.get(key, BROKER_DEFAULTS[key]) for field, key in _PLAIN.items()},
            roles=Roles.BOTH if roles is None else roles,
            is_configured=roles is not None,
            controller_listener_names=names,
            advertised_controller_listeners=tuple(
                _advertised(listener, node_id, names[0], voters, advertised)
                for listener in controllers
            ),
            inter_broker_listener_name=_inter_broker(given, roles, names, listeners, advertised),
            voters=voters,
            bootstrap_servers=tuple(_server(text) for text in _names(given, _SERVERS)),
            metadata_log_dir=_metadata_log_dir(given, log_dir),
        )

    def advice(self, raw: Mapping[str, str]) -> Iterator[str]:
        """What an operator should know, although it is no error."""
        beat, session = self.broker_heartbeat_interval_ms, self.broker_session_timeout_ms
        if beat * 2 > session:
            yield (
                f"broker.heartbeat.interval.ms={beat}: more than half of "
                f"broker.session.timeout.ms={session}; one late heartbeat fences the broker"
            )
        if not self.is_configured:
            return
        if self.roles is Roles.BROKER and len(self.controller_listener_names) > 1:
            yield f"{_NAMES}: only {self.controller_listener_names[0]} is used"
        if self.roles is Roles.BROKER:
            for key in ("num.partitions", "default.replication.factor"):
                if key in raw:
                    yield f"{key}: set it on the controllers, which create topics"


# Fields that need more than the parsed value of the key of their name.
_DERIVED: Final = (
    "roles",
    "is_configured",
    "controller_listener_names",
    "advertised_controller_listeners",
    "inter_broker_listener_name",
    "voters",
    "bootstrap_servers",
    "metadata_log_dir",
)
_PLAIN: Final[Mapping[str, Any]] = {
    each.name: each.name.replace("_", ".")
    for each in fields(ClusterConfig)
    if each.name not in _DERIVED
}


def _names(given: Mapping[str, Value], key: str) -> tuple[str, ...]:
    found = given.get(key, ())
    assert isinstance(found, tuple)
    if len(dict.fromkeys(found)) != len(found):
        raise ConfigError(key, ",".join(found), "must name each entry once")
    return found


def _roles(given: Mapping[str, Value]) -> Roles | None:
    names = given.get(_ROLES)
    if names is None:
        return None
    assert isinstance(names, tuple)
    found = Roles(0)
    for name in names:
        found |= Roles[name.upper()]
    if not found:
        raise ConfigError(_ROLES, "", "must be broker, controller or broker,controller")
    return found


def _voter(text: str) -> QuorumVoter:
    form = "must be a list of id@host:port"
    id_text, at, address = text.partition("@")
    if not at or not (id_text.isascii() and id_text.isdigit() and len(id_text) <= 10):
        raise ConfigError(_VOTERS, text, form)
    host, port = host_and_port(_VOTERS, text, address)
    if host in EVERY_ADDRESS or not port:
        raise ConfigError(_VOTERS, text, f"{form}, with addresses that other nodes can connect to")
    return QuorumVoter(int(id_text), host, port)


def _server(text: str) -> QuorumServer:
    host, port = host_and_port(_SERVERS, text, text)
    if host in EVERY_ADDRESS or not port:
        raise ConfigError(_SERVERS, text, "must be a list of host:port that this node can reach")
    return QuorumServer(host, port)


def _check_single(given: Mapping[str, Value]) -> None:
    """Without roles these keys would have no effect, and two nodes would be two clusters."""
    for key in (_NAMES, _VOTERS, _SERVERS):
        if given.get(key):
            text = ",".join(_names(given, key))
            raise ConfigError(key, text, f"needs {_ROLES}: broker, controller or broker,controller")


def _check_roles(
    given: Mapping[str, Value],
    roles: Roles,
    node_id: int,
    names: tuple[str, ...],
    voters: tuple[QuorumVoter, ...],
    listeners: tuple[Listener, ...],
) -> None:
    if given.get("node.id") is None and given.get("broker.id", -1) == -1:
        raise ConfigError("node.id", "", f"must be set with {_ROLES}, and differ on every node")
    ids = [voter.id for voter in voters]
    listed = ",".join(_names(given, _VOTERS))
    if not ids and not given.get(_SERVERS):
        raise ConfigError(_SERVERS, "", f"must be set with {_ROLES}, unless {_VOTERS} is")
    if len(dict.fromkeys(ids)) != len(ids):
        raise ConfigError(_VOTERS, listed, "must name each node once")
    if not names:
        raise ConfigError(_NAMES, "", f"must name at least one listener with {_ROLES}")
    bound = [each.name for each in listeners]
    if Roles.CONTROLLER in roles:
        if ids and node_id not in ids:
            raise ConfigError(_VOTERS, listed, f"must contain this controller, node {node_id}")
        for name in names:
            if name not in bound:
                reason = f"must be one of the listeners of a controller, {', '.join(bound)}"
                raise ConfigError(_NAMES, name, reason)
    else:
        _check_broker_only(given, node_id, names, voters, bound)
    _check_listeners(roles, names, listeners)


def _check_broker_only(
    given: Mapping[str, Value],
    node_id: int,
    names: tuple[str, ...],
    voters: tuple[QuorumVoter, ...],
    bound: list[str],
) -> None:
    if any(voter.id == node_id for voter in voters):
        reason = f"must not contain node {node_id}, which has only the role broker"
        raise ConfigError(_VOTERS, ",".join(_names(given, _VOTERS)), reason)
    for name in names:
        if name in bound:
            raise ConfigError(_NAMES, name, "must not be a listener of a node that is only broker")
    if given.get(_AUTO_JOIN):
        raise ConfigError(_AUTO_JOIN, "true", "needs the role controller")


def _check_listeners(roles: Roles, names: tuple[str, ...], listeners: tuple[Listener, ...]) -> None:
    serving_clients = [each.name for each in listeners if each.name not in names]
    if roles is Roles.CONTROLLER and serving_clients:
        reason = f"must only have listeners of {_NAMES} on a node that is only controller"
        raise ConfigError("listeners", ", ".join(serving_clients), reason)
    if Roles.BROKER in roles and not serving_clients:
        reason = f"must have a listener for clients, one that is not in {_NAMES}"
        raise ConfigError("listeners", ", ".join(str(each) for each in listeners), reason)


def _advertised(
    listener: Listener,
    node_id: int,
    first_name: str,
    voters: tuple[QuorumVoter, ...],
    advertised: tuple[Listener, ...],
) -> Listener:
    """How other nodes reach a controller listener. `controller.quorum.voters` says it as well."""
    for each in advertised:
        if each.name == listener.name:
            return each
    for voter in voters:
        if voter.id == node_id and listener.name == first_name:
            return Listener(listener.name, voter.host, voter.port)
    if listener.host in EVERY_ADDRESS:
        reason = f"must have {listener.name}, with an address that other nodes can connect to"
        raise ConfigError("advertised.listeners", str(listener), reason)
    return listener


def _inter_broker(
    given: Mapping[str, Value],
    roles: Roles | None,
    names: tuple[str, ...],
    listeners: tuple[Listener, ...],
    advertised: tuple[Listener, ...],
) -> str | None:
    wanted = given.get(_INTER_BROKER)
    assert isinstance(wanted, str | None)
    name = wanted.upper() if wanted else None
    protocol = given.get(_INTER_BROKER_PROTOCOL)
    assert isinstance(protocol, str | None)
    if name is not None and protocol is not None:
        raise ConfigError(_INTER_BROKER, name, f"cannot be set with {_INTER_BROKER_PROTOCOL}")
    if name is not None and name in names:
        raise ConfigError(_INTER_BROKER, name, f"must not be one of {_NAMES}")
    if roles is Roles.CONTROLLER:
        return None
    choice = [each.name for each in advertised or listeners if each.name not in names]
    if name is None:
        name = protocol or "PLAINTEXT"
        if roles is None and name not in choice:
            # A single node needs none, and has always been free in its names.
            name = choice[0]
    if name not in choice:
        reason = f"must be a listener that is advertised, one of {', '.join(choice)}"
        raise ConfigError(_INTER_BROKER, name, reason)
    return name


def _metadata_log_dir(given: Mapping[str, Value], first: str) -> str:
    """As in Kafka: the first log directory, unless metadata.log.dir names another one."""
    wanted = given.get("metadata.log.dir")
    assert isinstance(wanted, str | None)
    return wanted or first
