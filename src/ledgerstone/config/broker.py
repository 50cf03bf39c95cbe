"""A broker's settings: read from file, environment and command line, checked, typed. Pure.

The keys are declared in `broker_keys`. The command line overrides the environment, which overrides
the file, which overrides the defaults. An unknown key is a warning, since configurations made for
Kafka carry many; an invalid value is a ConfigError.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ledgerstone.config.authorizer_keys import parse_super_users
from ledgerstone.config.broker_keys import BROKER_DEFAULTS, BROKER_KEYS
from ledgerstone.config.cluster import ClusterConfig
from ledgerstone.config.connection_limits import OVERRIDES_KEY, parse_overrides
from ledgerstone.config.listener_keys import find_key, split_listener_key
from ledgerstone.config.listeners import (
    EVERY_ADDRESS,
    LOOPBACK,
    host_and_port,
    is_loopback,
    parse_advertised,
    parse_listeners,
    parse_protocols,
)
from ledgerstone.config.listeners import Listener as Listener
from ledgerstone.config.properties import parse_properties
from ledgerstone.config.security_protocol import SecurityProtocol
from ledgerstone.config.setting import Value
from ledgerstone.config.topic import resolve_topic
from ledgerstone.dataclasses import dataclass, field, fields
from ledgerstone.errors import ConfigError

ENVIRONMENT_PREFIX: Final = "KAFKA_"
# What keys of the HTTP port alone have as listener.name.<name>.
HTTP_LISTENER: Final = "HTTP"
# Read by the start scripts of Kafka's images; not broker keys.
_NOT_KEYS: Final = (
    "KAFKA_GC_LOG_OPTS",
    "KAFKA_HEAP_OPTS",
    "KAFKA_JMX_OPTS",
    "KAFKA_JMX_PORT",
    "KAFKA_JVM_PERFORMANCE_OPTS",
    "KAFKA_LOG4J_LOGGERS",
    "KAFKA_LOG4J_OPTS",
    "KAFKA_LOG4J_ROOT_LOGLEVEL",
    "KAFKA_OPTS",
    "KAFKA_TOOLS_LOG4J_LOGLEVEL",
    "KAFKA_VERSION",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """The settings read from here, each named as its key with underscores.

    Defaults are those of `broker_keys`; `from_raw({})` is a broker with nothing set. The cleaner
    reads its own keys, which may change while the broker runs. `raw` has every given value as text,
    by key: it also holds the defaults of topics, and DescribeConfigs shows it as static.
    """

    node_id: int
    broker_rack: str | None
    cluster: ClusterConfig
    # All that are bound here; those of controllers are in `cluster`, too.
    listeners: tuple[Listener, ...]
    # What clients are told: none of a controller's listeners.
    advertised_listeners: tuple[Listener, ...]
    # By name: of all listeners, and of those of controllers on other nodes.
    listener_protocols: Mapping[str, SecurityProtocol]
    log_dirs: tuple[str, ...]
    ledgerstone_http_listener: Listener | None
    # Whether it is https://.
    ledgerstone_http_tls: bool
    ledgerstone_http_readonly: bool
    ledgerstone_http_metrics_open: bool
    ledgerstone_erasures_topic_replication_factor: int
    ledgerstone_http_hosts: tuple[str, ...]

    authorizer_class_name: str
    super_users: tuple[str, ...]
    allow_everyone_if_no_acl_found: bool
    ledgerstone_audit_dir: str | None
    ledgerstone_audit_key_file: str | None
    ledgerstone_audit_retention_days: int
    ledgerstone_audit_topic_enable: bool
    ledgerstone_audit_topic_replication_factor: int

    socket_request_max_bytes: int
    quota_window_num: int
    quota_window_size_seconds: int
    controller_quota_window_num: int
    controller_quota_window_size_seconds: int
    connections_max_idle_ms: int
    queued_max_request_bytes: int
    connection_failed_authentication_delay_ms: int
    ledgerstone_login_timeout_ms: int
    fetch_max_bytes: int
    max_incremental_fetch_session_cache_slots: int

    num_partitions: int
    default_replication_factor: int
    auto_create_topics_enable: bool
    delete_topic_enable: bool

    replica_lag_time_max_ms: int
    replica_selector_class: str | None

    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    group_max_size: int
    ledgerstone_groups_max_bytes: int
    ledgerstone_group_max_bytes: int
    ledgerstone_group_connection_max_bytes: int
    ledgerstone_offsets_max_bytes: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int
    offsets_retention_minutes: int
    offsets_retention_check_interval_ms: int
    offset_metadata_max_bytes: int
    offsets_commit_timeout_ms: int
    producer_id_expiration_ms: int
    producer_id_expiration_check_interval_ms: int
    transaction_partition_verification_enable: bool
    add_partitions_to_txn_retry_backoff_ms: int
    add_partitions_to_txn_retry_backoff_max_ms: int

    transaction_max_timeout_ms: int
    transactional_id_expiration_ms: int
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_state_log_num_partitions: int
    transaction_state_log_replication_factor: int
    transaction_state_log_min_isr: int
    transaction_state_log_segment_bytes: int
    ledgerstone_transactions_max_bytes: int
    ledgerstone_transaction_max_bytes: int

    log_retention_check_interval_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    replica_high_watermark_checkpoint_interval_ms: int
    log_initial_task_delay_ms: int
    log_dir_failure_timeout_ms: int

    # It has passwords, too: whoever prints settings must not print it.
    raw: Mapping[str, str] = field(repr=False)

    @classmethod
    def from_raw(cls, raw: Mapping[str, str]) -> "BrokerConfig":
        """Parses every value of `raw`, whose keys are all known. The rest have their defaults."""
        given = {name: _parsed(name, text) for name, text in raw.items()}
        # Topics without settings of their own get these values, so they must be valid together.
        resolve_topic({}, raw)
        plain: dict[str, Any] = {
            field: given.get(name, BROKER_DEFAULTS[name]) for field, name in _PLAIN.items()
        }
        node_id, log_dirs = _node_id(given), _log_dirs(given)
        listeners = _listeners(given)
        advertised = parse_advertised(given, listeners)
        cluster = ClusterConfig.from_given(
            given,
            node_id=node_id,
            log_dir=log_dirs[0],
            listeners=listeners,
            advertised=advertised,
        )
        names = (*(each.name for each in listeners), *cluster.controller_listener_names)
        protocols = parse_protocols(given, names)
        if cluster.is_configured:
            plain |= {
                field: each for field, each in _IN_CLUSTER.items() if _PLAIN[field] not in given
            }
        _check_groups(plain)
        if plain["ledgerstone_audit_topic_enable"] and not plain["ledgerstone_audit_dir"]:
            reason = "needs ledgerstone.audit.dir: the topic follows the files"
            raise ConfigError("ledgerstone.audit.topic.enable", "true", reason)
        parse_overrides(raw.get(OVERRIDES_KEY, ""))
        _check_fetch_wait(cluster, plain["replica_lag_time_max_ms"])
        return cls(
            **plain,
            node_id=node_id,
            cluster=cluster,
            listeners=listeners,
            advertised_listeners=_advertised(cluster, listeners, advertised),
            listener_protocols=protocols,
            log_dirs=log_dirs,
            super_users=parse_super_users(given),
            ledgerstone_http_listener=_http_listener(given),
            ledgerstone_http_tls=_http_scheme(given) == "https",
            ledgerstone_http_hosts=_http_hosts(given),
            raw=dict(raw),
        )


# Fields that need more than the parsed value of the key of their name.
_DERIVED: Final = (
    "node_id",
    "cluster",
    "listeners",
    "advertised_listeners",
    "listener_protocols",
    "log_dirs",
    "super_users",
    "ledgerstone_http_listener",
    "ledgerstone_http_tls",
    "ledgerstone_http_hosts",
    "raw",
)
# The others, with their keys.
_PLAIN: Final = {
    each.name: each.name.replace("_", ".")
    for each in fields(BrokerConfig)
    if each.name not in _DERIVED
}
# Defaults of a node with process.roles, where they differ from those of a single node.
_IN_CLUSTER: Final[Mapping[str, Any]] = {
    field: BROKER_KEYS[name].cluster_default
    for field, name in _PLAIN.items()
    if BROKER_KEYS[name].cluster_default is not None
}


class LoadedConfig(NamedTuple):
    config: BrokerConfig
    warnings: tuple[str, ...]


def load_broker_config(
    *,
    properties: bytes | Sequence[bytes] = b"",
    environment: Mapping[str, str] | None = None,
    overrides: Sequence[str] = (),
) -> LoadedConfig:
    """The settings of a broker, and warnings for its operator. Of several files, the later ones
    go before."""
    files = (properties,) if isinstance(properties, bytes) else properties
    given = {
        **{name: text for each in files for name, text in _from_file(each).items()},
        **from_environment(environment or {}),
        **_from_command_line(overrides),
    }
    raw = {name: text for name, text in sorted(given.items()) if find_key(name, BROKER_KEYS)}
    unknown = [f"{name}: unknown key, ignored" for name in sorted(given) if name not in raw]
    config = BrokerConfig.from_raw(raw)
    return LoadedConfig(config, (*unknown, *_advice(config)))


def secrets_of(properties: bytes) -> list[str]:
    """The keys in the text of a file whose values are secrets."""
    return secret_keys(_from_file(properties))


def secrets_of_command_line(overrides: Sequence[str]) -> list[str]:
    return secret_keys(_from_command_line(overrides))


def secret_keys(given: Mapping[str, str]) -> list[str]:
    found = {name: find_key(name, BROKER_KEYS) for name, text in given.items() if text}
    return sorted(name for name, key in found.items() if key is not None and key.is_sensitive)


def from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The rule of Kafka's images: `_` stands for a dot, `__` for `_`, `___` for a dash."""
    return {
        _key_of_variable(name): value
        for name, value in environment.items()
        if name.startswith(ENVIRONMENT_PREFIX) and name not in _NOT_KEYS
    }


def _from_file(data: bytes) -> dict[str, str]:
    try:
        return parse_properties(data)
    except ValueError as error:
        raise ConfigError("server.properties", "", str(error)) from error


def _key_of_variable(name: str) -> str:
    words = name.removeprefix(ENVIRONMENT_PREFIX).lower()
    # A character that no key contains stands for `__` until the single ones are replaced.
    return words.replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")


def _from_command_line(overrides: Sequence[str]) -> dict[str, str]:
    given = {}
    for override in overrides:
        name, equals, value = override.partition("=")
        if not equals or not name.strip():
            raise ConfigError("-c", override, "must be key=value")
        given[name.strip()] = value
    return given


def _parsed(name: str, text: str) -> Value:
    key = find_key(name, BROKER_KEYS)
    assert key is not None, name
    return key.parse(text)


def _node_id(given: Mapping[str, Value]) -> int:
    node_id, broker_id = given.get("node.id"), given.get("broker.id", -1)
    assert isinstance(node_id, int | None)
    assert isinstance(broker_id, int)
    if node_id is None:
        return broker_id if broker_id >= 0 else BROKER_DEFAULTS["node.id"]
    if broker_id not in (-1, node_id):
        raise ConfigError("broker.id", broker_id, f"must equal node.id={node_id}")
    return node_id


def _listeners(given: Mapping[str, Value]) -> tuple[Listener, ...]:
    text = given.get("listeners", BROKER_KEYS["listeners"].default)
    assert isinstance(text, str)
    return parse_listeners("listeners", text)


def _advertised(
    cluster: ClusterConfig, listeners: tuple[Listener, ...], advertised: tuple[Listener, ...]
) -> tuple[Listener, ...]:
    names = cluster.controller_listener_names
    told = tuple(each for each in advertised or listeners if each.name not in names)
    if not cluster.is_configured:
        return tuple(
            each._replace(host=LOOPBACK) if each.host in EVERY_ADDRESS else each for each in told
        )
    for listener in told:
        if listener.host in EVERY_ADDRESS:
            reason = "must be set, with an address that clients and other brokers can connect to"
            raise ConfigError("advertised.listeners", str(listener), reason)
    return told


def _log_dirs(given: Mapping[str, Value]) -> tuple[str, ...]:
    text = given.get("log.dirs") or given.get("log.dir", BROKER_KEYS["log.dir"].default)
    assert isinstance(text, str)
    log_dirs = tuple(part.strip() for part in text.split(",") if part.strip())
    if not log_dirs:
        reason = "At least one log directory must be defined via log.dirs or log.dir."
        raise ConfigError("log.dirs", text, reason)
    trimmed = [path.rstrip("/") or "/" for path in log_dirs]
    if len(dict.fromkeys(trimmed)) != len(trimmed):
        raise ConfigError("log.dirs", text, f"Duplicate log directory found: {', '.join(log_dirs)}")
    return log_dirs


def _http_listener(given: Mapping[str, Value]) -> Listener | None:
    key = "ledgerstone.http.listener"
    text = given.get(key)
    assert isinstance(text, str | None)
    if not text:
        return None
    _, separator, rest = text.partition("://")
    if separator and _http_scheme(given) not in ("http", "https"):
        raise ConfigError(key, text, "must be host:port, http://host:port or https://host:port")
    address = (rest if separator else text).removesuffix("/")
    return Listener(HTTP_LISTENER, *host_and_port(key, text, address))


def _http_scheme(given: Mapping[str, Value]) -> str:
    text = given.get("ledgerstone.http.listener") or ""
    assert isinstance(text, str)
    scheme, separator, _ = text.partition("://")
    return scheme.strip().lower() if separator else "http"


def _http_hosts(given: Mapping[str, Value]) -> tuple[str, ...]:
    text = given.get("ledgerstone.http.hosts") or ""
    assert isinstance(text, str)
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _check_fetch_wait(cluster: ClusterConfig, max_lag_ms: int) -> None:
    """A follower that has to wait for its answer must not be taken for one that is gone."""
    wait_ms, timeout_ms = cluster.replica_fetch_wait_max_ms, cluster.replica_socket_timeout_ms
    for key, limit_ms in (
        ("replica.socket.timeout.ms", timeout_ms),
        ("replica.lag.time.max.ms", max_lag_ms),
    ):
        if wait_ms > limit_ms:
            raise ConfigError(
                "replica.fetch.wait.max.ms", str(wait_ms), f"must not exceed {key}={limit_ms}"
            )


def _check_groups(values: Mapping[str, Any]) -> None:
    low, high = values["group_min_session_timeout_ms"], values["group_max_session_timeout_ms"]
    if low > high:
        reason = f"must not exceed group.max.session.timeout.ms={high}"
        raise ConfigError("group.min.session.timeout.ms", low, reason)


def _advice(config: BrokerConfig) -> Iterator[str]:
    told = dict.fromkeys(listener.name for listener in config.advertised_listeners)
    for listener in config.listeners:
        if listener.name in config.cluster.controller_listener_names:
            continue
        if listener.host in EVERY_ADDRESS and "advertised.listeners" not in config.raw:
            yield f"advertised.listeners: not set, {listener} is advertised as {LOOPBACK}"
        elif listener.name not in told:
            yield f"advertised.listeners: {listener} is not advertised to clients"
    open_to_all = config.allow_everyone_if_no_acl_found
    if config.authorizer_class_name and not config.super_users and not open_to_all:
        yield "super.users: not set, so nobody can give the first right"
    yield from _advice_on_listener_keys(config)
    yield from exposed_listeners(config)
    yield from config.cluster.advice(config.raw)


def _advice_on_listener_keys(config: BrokerConfig) -> Iterator[str]:
    for name in config.raw:
        own = split_listener_key(name)
        if own is not None and own.listener == HTTP_LISTENER and config.ledgerstone_http_listener:
            continue
        if own is not None and own.listener not in config.listener_protocols:
            yield f"{name}: there is no listener {own.listener}"


def exposed_listeners(config: BrokerConfig) -> Iterator[str]:
    """What everybody on the way can read and change. Not an error: the way may be a private one."""
    for listener in config.listeners:
        protocol = config.listener_protocols[listener.name]
        if not protocol.uses_tls and not is_loopback(listener.host):
            yield (
                f"listeners: {listener} has no TLS ({protocol.name}) and is reachable from other "
                "machines: whoever is on the way can read and change what is sent"
            )
    page = config.ledgerstone_http_listener
    if page is None or config.ledgerstone_http_tls or is_loopback(page.host):
        return
    if config.authorizer_class_name:
        yield (
            "ledgerstone.http.listener: it has no TLS, so other machines cannot log in there and "
            "only get its health; https://host:port lets them"
        )


assert all(name in BROKER_KEYS for name in _PLAIN.values())
