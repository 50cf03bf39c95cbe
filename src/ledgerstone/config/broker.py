"""A broker's settings: read from file, environment and command line, checked, typed. Pure.

The keys are declared in `broker_keys`. The command line overrides the environment, which overrides
the file, which overrides the defaults. An unknown key is a warning, since configurations made for
Kafka carry many; an invalid value is a ConfigError.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

from ledgerstone.config.broker_keys import BROKER_DEFAULTS, BROKER_KEYS
from ledgerstone.config.properties import parse_properties
from ledgerstone.config.setting import Value
from ledgerstone.config.topic import resolve_topic
from ledgerstone.errors import ConfigError

ENVIRONMENT_PREFIX: Final = "KAFKA_"
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
_EVERY_ADDRESS: Final = ("", "0.0.0.0", "::")
_LOOPBACK: Final = "127.0.0.1"


class Listener(NamedTuple):
    """One `name://host:port`. Port 0 lets the system choose."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """The settings read from here, each named as its key with underscores.

    Defaults are those of `broker_keys`; `from_raw({})` is a broker with nothing set. The cleaner
    reads its own keys, which may change while the broker runs. `raw` has every given value as text,
    by key: it also holds the defaults of topics, and DescribeConfigs shows it as static.
    """

    node_id: int
    broker_rack: str | None
    listeners: tuple[Listener, ...]
    advertised_listeners: tuple[Listener, ...]
    log_dirs: tuple[str, ...]
    ledgerstone_http_listener: Listener | None
    ledgerstone_http_readonly: bool
    ledgerstone_http_hosts: tuple[str, ...]

    socket_request_max_bytes: int
    max_connections: int
    max_connections_per_ip: int
    connections_max_idle_ms: int
    queued_max_request_bytes: int
    fetch_max_bytes: int
    max_incremental_fetch_session_cache_slots: int

    num_partitions: int
    default_replication_factor: int
    auto_create_topics_enable: bool
    delete_topic_enable: bool

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

    raw: Mapping[str, str]

    @classmethod
    def from_raw(cls, raw: Mapping[str, str]) -> "BrokerConfig":
        """Parses every value of `raw`, whose keys are all known. The rest have their defaults."""
        given = {name: BROKER_KEYS[name].parse(text) for name, text in raw.items()}
        # Topics without settings of their own get these values, so they must be valid together.
        resolve_topic({}, raw)
        plain: dict[str, Any] = {
            field: given.get(name, BROKER_DEFAULTS[name]) for field, name in _PLAIN.items()
        }
        listeners = _listeners("listeners", given)
        _check_groups(plain)
        return cls(
            **plain,
            node_id=_node_id(given),
            listeners=listeners,
            advertised_listeners=_advertised(given, listeners),
            log_dirs=_log_dirs(given),
            ledgerstone_http_listener=_http_listener(given),
            ledgerstone_http_hosts=_http_hosts(given),
            raw=dict(raw),
        )


# Fields that need more than the parsed value of the key of their name.
_DERIVED: Final = (
    "node_id",
    "listeners",
    "advertised_listeners",
    "log_dirs",
    "ledgerstone_http_listener",
    "ledgerstone_http_hosts",
    "raw",
)
# The others, with their keys.
_PLAIN: Final = {
    each.name: each.name.replace("_", ".")
    for each in fields(BrokerConfig)
    if each.name not in _DERIVED
}


class LoadedConfig(NamedTuple):
    config: BrokerConfig
    warnings: tuple[str, ...]


def load_broker_config(
    *,
    properties: bytes = b"",
    environment: Mapping[str, str] | None = None,
    overrides: Sequence[str] = (),
) -> LoadedConfig:
    """The settings of a broker, and warnings for its operator."""
    given = {
        **_from_file(properties),
        **from_environment(environment or {}),
        **_from_command_line(overrides),
    }
    raw = {name: text for name, text in sorted(given.items()) if name in BROKER_KEYS}
    unknown = [f"{name}: unknown key, ignored" for name in sorted(given) if name not in BROKER_KEYS]
    config = BrokerConfig.from_raw(raw)
    return LoadedConfig(config, (*unknown, *_advice(config)))


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


def _node_id(given: Mapping[str, Value]) -> int:
    node_id, broker_id = given.get("node.id"), given.get("broker.id", -1)
    assert isinstance(node_id, int | None)
    assert isinstance(broker_id, int)
    if node_id is None:
        return broker_id if broker_id >= 0 else BROKER_DEFAULTS["node.id"]
    if broker_id not in (-1, node_id):
        raise ConfigError("broker.id", broker_id, f"must equal node.id={node_id}")
    return node_id


def _listeners(key: str, given: Mapping[str, Value]) -> tuple[Listener, ...]:
    text = given.get(key, BROKER_KEYS[key].default)
    assert isinstance(text, str)
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
    host, port = _host_and_port(key, text, address)
    return Listener(name.upper(), host, port)


def _host_and_port(key: str, text: str, address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) < 65_536):
        raise ConfigError(key, text, "must end in a port from 0 to 65535")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise ConfigError(key, text, "must have its IPv6 address in brackets")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _advertised(
    given: Mapping[str, Value], listeners: tuple[Listener, ...]
) -> tuple[Listener, ...]:
    if not given.get("advertised.listeners"):
        return tuple(
            listener._replace(host=_LOOPBACK) if listener.host in _EVERY_ADDRESS else listener
            for listener in listeners
        )
    advertised = _listeners("advertised.listeners", given)
    bound = [listener.name for listener in listeners]
    for listener in advertised:
        if listener.name not in bound:
            reason = f"must be one of the listeners, {', '.join(bound)}"
            raise ConfigError("advertised.listeners", str(listener), reason)
        if listener.host in _EVERY_ADDRESS:
            reason = "must have an address that clients can connect to"
            raise ConfigError("advertised.listeners", str(listener), reason)
    return advertised


def _log_dirs(given: Mapping[str, Value]) -> tuple[str, ...]:
    text = given.get("log.dirs") or given.get("log.dir", BROKER_KEYS["log.dir"].default)
    assert isinstance(text, str)
    log_dirs = tuple(part.strip() for part in text.split(",") if part.strip())
    if len(log_dirs) != 1:
        raise ConfigError("log.dirs", text, "must name one directory")
    return log_dirs


def _http_listener(given: Mapping[str, Value]) -> Listener | None:
    key = "ledgerstone.http.listener"
    text = given.get(key)
    assert isinstance(text, str | None)
    return Listener("HTTP", *_host_and_port(key, text, text)) if text else None


def _http_hosts(given: Mapping[str, Value]) -> tuple[str, ...]:
    text = given.get("ledgerstone.http.hosts") or ""
    assert isinstance(text, str)
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _check_groups(values: Mapping[str, Any]) -> None:
    low, high = values["group_min_session_timeout_ms"], values["group_max_session_timeout_ms"]
    if low > high:
        reason = f"must not exceed group.max.session.timeout.ms={high}"
        raise ConfigError("group.min.session.timeout.ms", low, reason)


def _advice(config: BrokerConfig) -> Iterator[str]:
    advertised = dict.fromkeys(listener.name for listener in config.advertised_listeners)
    for listener in config.listeners:
        if listener.host in _EVERY_ADDRESS and "advertised.listeners" not in config.raw:
            yield f"advertised.listeners: not set, {listener} is advertised as {_LOOPBACK}"
        elif listener.name not in advertised:
            yield f"advertised.listeners: {listener} is not advertised to clients"


assert all(name in BROKER_KEYS for name in _PLAIN.values())
