"""Every broker key, declared once. Pure; how they are loaded is in `broker`.

The names, types, defaults and ranges are Kafka's; where a default differs, the line says why. The
keys that give topic keys their defaults are made from ``topic``, so the two cannot disagree.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ledgerstone.config.authorizer_keys import AUTHORIZER_KEYS
from ledgerstone.config.broker_key import BrokerKey, Update
from ledgerstone.config.broker_key import flag_key as _flag
from ledgerstone.config.broker_key import int_key as _int
from ledgerstone.config.broker_key import long_key as _long
from ledgerstone.config.broker_key import text_key as _text
from ledgerstone.config.cluster_keys import CLUSTER_KEYS
from ledgerstone.config.replication_keys import REPLICATION_KEYS
from ledgerstone.config.sasl_keys import SASL_KEYS
from ledgerstone.config.setting import ConfigKey, ConfigType, Value
from ledgerstone.config.tls_keys import TLS_KEYS
from ledgerstone.config.topic import TOPIC_KEYS
from ledgerstone.types import INT32_MAX, INT64_MAX

RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_DOUBLE_MAX: Final = 1.7976931348623157e308


def _dynamic(
    name: str,
    kind: ConfigType,
    default: Value,
    at_least: float,
    doc: str,
    at_most: float | None = None,
) -> BrokerKey:
    return BrokerKey(
        name=name,
        kind=kind,
        default=default,
        doc=doc,
        at_least=at_least,
        at_most=at_most,
        update=Update.CLUSTER_WIDE,
    )


_IDENTITY: Final = (
    _int("node.id", 1, "This broker's number in the cluster.", at_least=0),
    _int("broker.id", -1, "The older name of node.id; -1 leaves it to node.id.", at_least=-1),
    _text("broker.rack", None, "Rack of this broker; replicas are spread over racks."),
    # Differs from Kafka: reachable only from this machine unless configured otherwise.
    _text(
        "listeners",
        "PLAINTEXT://127.0.0.1:9092",
        "Addresses to listen on: name://host:port, comma separated.",
    ),
    _text(
        "advertised.listeners",
        None,
        "Addresses that clients are given to connect to; by default, the listeners.",
    ),
    # Differs from Kafka: in the working directory, not under /tmp, which is emptied at boot.
    _text("log.dir", "ledgerstone-logs", "The log directory, unless log.dirs is set."),
    _text("log.dirs", None, "The log directories, comma-separated; log.dir if it is not set."),
    _text(
        "ledgerstone.http.listener",
        None,
        "host:port of the web page and the HTTP API, or https://host:port, with the keys that "
        "ssl.* or listener.name.http.ssl.* name; unset turns both off.",
    ),
    _flag(
        "ledgerstone.http.metrics.open",
        False,
        "Whether /metrics is served without a login to programs on this machine, where there is "
        "an authorizer; without one it always is.",
    ),
    _text(
        "ledgerstone.http.proxy.addresses",
        None,
        "Addresses or networks of proxies that say who asks, comma separated. They must also send "
        "ledgerstone.http.proxy.secret as X-Ledgerstone-Proxy-Secret.",
    ),
    BrokerKey(
        name="ledgerstone.http.proxy.secret",
        kind=ConfigType.PASSWORD,
        default=None,
        doc="What a trusted proxy sends along; at least 16 characters.",
        is_sensitive=True,
    ),
    _text(
        "ledgerstone.http.proxy.user.header",
        "X-Forwarded-User",
        "The header in which a trusted proxy names the user.",
    ),
    _text(
        "ledgerstone.http.hosts",
        None,
        "Further Host headers that the HTTP port accepts, comma separated, such as the name "
        "Prometheus or a proxy uses. localhost, IP addresses and the hosts of "
        "advertised.listeners are always accepted; * accepts any.",
    ),
    _flag(
        "ledgerstone.http.readonly",
        False,
        "Whether the web page and the HTTP API refuse all changes.",
    ),
    BrokerKey(
        name="ledgerstone.erasures.topic.replication.factor",
        kind=ConfigType.SHORT,
        default=1,
        cluster_default=3,
        at_least=1,
        doc="Replicas of __erasures; 3 on a node with process.roles.",
    ),
    _text(
        "ledgerstone.erasure.keys.file",
        None,
        "File with the secrets of erasures; by default, erasure.keys in the log directory.",
    ),
)

_NETWORK: Final = (
    _int(
        "socket.request.max.bytes",
        104_857_600,
        "Largest request in bytes; a larger one closes its connection.",
    ),
    _dynamic("max.connections", ConfigType.INT, INT32_MAX, 0, "Most connections open at a time."),
    _dynamic(
        "max.connections.per.ip",
        ConfigType.INT,
        INT32_MAX,
        0,
        "Most connections open at a time from one address.",
    ),
    BrokerKey(
        name="max.connections.per.ip.overrides",
        kind=ConfigType.STRING,
        default="",
        doc="Other limits for some addresses, as address:number, comma-separated. A bracketed "
        "address is an IPv6 one.",
        update=Update.CLUSTER_WIDE,
    ),
    _dynamic(
        "max.connection.creation.rate",
        ConfigType.INT,
        INT32_MAX,
        0,
        "Most connections accepted a second; above it, listeners wait.",
    ),
    _int("quota.window.num", 11, "Windows over which clients' rates are averaged."),
    _int("quota.window.size.seconds", 1, "Length of such a window."),
    _int(
        "controller.quota.window.num",
        11,
        "Windows whose changes of topics a client may make at once.",
    ),
    _int("controller.quota.window.size.seconds", 1, "Length of such a window."),
    _long("connections.max.idle.ms", 600_000, "Idle time after which a connection is closed."),
    _int(
        "queued.max.requests",
        500,
        "No effect: requests are handled as they arrive, and none are queued. "
        "queued.max.request.bytes limits their memory.",
    ),
    _long(
        "queued.max.request.bytes",
        536_870_912,
        "Memory for requests that have partly arrived or are waiting. Above it, connections whose "
        "request needs more are not read until memory is free. -1, Kafka's default: no limit.",
        at_least=-1,
    ),
    _int(
        "fetch.max.bytes",
        57_671_680,
        "Largest fetch response, even if the request allows more.",
        at_least=1024,
    ),
    _int(
        "max.incremental.fetch.session.cache.slots",
        1000,
        "Most fetch sessions kept at a time.",
        at_least=0,
    ),
)

_TOPICS: Final = (
    _int("num.partitions", 1, "Partitions of a topic created without a partition count."),
    _int("default.replication.factor", 1, "Replicas of a topic created without a factor."),
    _flag("auto.create.topics.enable", True, "Whether a request for an unknown topic creates it."),
    _flag("delete.topic.enable", True, "Whether topics can be deleted."),
)

_REPLICATION: Final = (
    _long(
        "replica.lag.time.max.ms",
        30_000,
        "How long a follower may lag before its leader drops it from the in-sync replicas.",
        at_least=0,
    ),
    BrokerKey(
        name="replica.selector.class",
        kind=ConfigType.STRING,
        default=None,
        one_of=(RACK_AWARE_SELECTOR,),
        doc="How a leader chooses the replica that a consumer reads from. Unset: the leader. "
        "RackAwareReplicaSelector: one in the consumer's rack.",
    ),
)

_GROUPS: Final = (
    _int("group.min.session.timeout.ms", 6000, "Shortest session timeout a member may ask for."),
    _int(
        "group.max.session.timeout.ms", 1_800_000, "Longest session timeout a member may ask for."
    ),
    _int(
        "group.initial.rebalance.delay.ms",
        3000,
        "How long a new group waits for more members.",
        at_least=0,
    ),
    _int("group.max.size", INT32_MAX, "Most members of one group."),
    # Ours; Kafka has no limit in bytes, and keeps members' metadata as long as their sessions.
    _long(
        "ledgerstone.groups.max.bytes",
        134_217_728,
        "Memory for the members of all groups: their ids, metadata and assignments. Above it, "
        "JoinGroup fails with the retriable COORDINATOR_LOAD_IN_PROGRESS.",
    ),
    _long(
        "ledgerstone.group.max.bytes",
        16_777_216,
        "The same for one group; above it, JoinGroup fails with GROUP_MAX_SIZE_REACHED.",
    ),
    _long(
        "ledgerstone.group.connection.max.bytes",
        8_388_608,
        "The same for the members that joined through one connection; above it, JoinGroup fails "
        "with POLICY_VIOLATION.",
    ),
    _long(
        "ledgerstone.offsets.max.bytes",
        268_435_456,
        "Memory for the committed offsets of all groups. Above it, commits for new partitions fail "
        "with INVALID_COMMIT_OFFSET_SIZE; existing offsets can still be updated.",
    ),
    _int("offsets.topic.num.partitions", 50, "Partitions of __consumer_offsets."),
    # Differs from Kafka without a cluster: a single broker must serve groups without configuration.
    BrokerKey(
        name="offsets.topic.replication.factor",
        kind=ConfigType.SHORT,
        default=1,
        cluster_default=3,
        at_least=1,
        doc="Replicas of __consumer_offsets; 3 on a node with process.roles.",
    ),
    _int("offsets.topic.segment.bytes", 104_857_600, "Segment size of __consumer_offsets."),
    _int("offsets.retention.minutes", 10_080, "How long an inactive group's offsets are kept."),
    _long("offsets.retention.check.interval.ms", 600_000, "How often expired offsets are removed."),
    _int("offset.metadata.max.bytes", 4096, "Longest metadata of a committed offset.", at_least=0),
    _int("offsets.commit.timeout.ms", 5000, "How long a commit waits for replicas."),
    _int("producer.id.expiration.ms", 86_400_000, "Idle time after which a producer id expires."),
    _int(
        "producer.id.expiration.check.interval.ms",
        600_000,
        "How often expired producer ids are removed.",
    ),
    _flag(
        "transaction.partition.verification.enable",
        True,
        "Whether a partition's leader asks the coordinator before the first batch of a transaction "
        "is written; without it a lost or late producer can leave a transaction open for ever.",
    ),
    _int(
        "add.partitions.to.txn.retry.backoff.ms",
        20,
        "Time after which a leader asks a coordinator again that is still ending the transaction "
        "before.",
    ),
    _int(
        "add.partitions.to.txn.retry.backoff.max.ms",
        100,
        "How long a leader goes on asking before it leaves the retry to the client.",
        at_least=0,
    ),
)

_TRANSACTIONS: Final = (
    _int(
        "transaction.max.timeout.ms",
        900_000,
        "Longest transaction timeout that a producer may ask for; above it, InitProducerId fails "
        "with INVALID_TRANSACTION_TIMEOUT.",
    ),
    _int(
        "transactional.id.expiration.ms",
        604_800_000,
        "How long an inactive transactional id is kept.",
    ),
    _int(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        10_000,
        "How often transactions past their timeout are aborted.",
    ),
    _int(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        3_600_000,
        "How often expired transactional ids are removed.",
    ),
    _int("transaction.state.log.num.partitions", 50, "Partitions of __transaction_state."),
    # Differs from Kafka without a cluster, likewise.
    BrokerKey(
        name="transaction.state.log.replication.factor",
        kind=ConfigType.SHORT,
        default=1,
        cluster_default=3,
        at_least=1,
        doc="Replicas of __transaction_state; 3 on a node with process.roles.",
    ),
    BrokerKey(
        name="transaction.state.log.min.isr",
        kind=ConfigType.INT,
        default=1,
        cluster_default=2,
        at_least=1,
        doc="min.insync.replicas of __transaction_state; 2 on a node with process.roles.",
    ),
    _int(
        "transaction.state.log.segment.bytes", 104_857_600, "Segment size of __transaction_state."
    ),
    # Ours; Kafka has no limit in bytes, and keeps transactional ids for days.
    _long(
        "ledgerstone.transactions.max.bytes",
        134_217_728,
        "Memory for all transactional ids and the partitions of their transactions. Above it, new "
        "ids and partitions fail with POLICY_VIOLATION; open transactions can still be ended.",
    ),
    _long(
        "ledgerstone.transaction.max.bytes",
        8_388_608,
        "The same for one transactional id and its partitions.",
    ),
)

_LOG: Final = (
    _long(
        "log.retention.check.interval.ms",
        300_000,
        "How often segments past retention are deleted.",
    ),
    _int(
        "log.flush.offset.checkpoint.interval.ms",
        60_000,
        "How often recovery points are checkpointed.",
        at_least=0,
    ),
    _int(
        "log.flush.start.offset.checkpoint.interval.ms",
        60_000,
        "How often log start offsets are checkpointed.",
        at_least=0,
    ),
    _long(
        "replica.high.watermark.checkpoint.interval.ms",
        5000,
        "How often high watermarks are checkpointed.",
    ),
    _long(
        "log.initial.task.delay.ms",
        30_000,
        "Delay after start before the periodic tasks begin.",
        at_least=0,
    ),
    _long(
        "log.dir.failure.timeout.ms",
        30_000,
        "How long the controller may not be told of a failed log directory. After it, the broker "
        "ends.",
        at_least=1,
    ),
    BrokerKey(
        name="replica.alter.log.dirs.io.max.bytes.per.second",
        kind=ConfigType.LONG,
        default=INT64_MAX,
        doc="Most bytes a second for moving replicas between log directories of this broker.",
        at_least=1,
        update=Update.PER_BROKER,
    ),
    _flag("log.cleaner.enable", True, "Whether compacted topics are compacted."),
    _dynamic("log.cleaner.threads", ConfigType.INT, 1, 0, "Most cleaning passes at a time."),
    _dynamic(
        "log.cleaner.dedupe.buffer.size",
        ConfigType.LONG,
        134_217_728,
        1,
        "Memory for the offset maps of all passes together.",
    ),
    _dynamic(
        "log.cleaner.io.buffer.size",
        ConfigType.INT,
        524_288,
        0,
        "Memory for the read and write buffers of all passes together.",
    ),
    _dynamic(
        "log.cleaner.io.buffer.load.factor",
        ConfigType.DOUBLE,
        0.9,
        0,
        "How full an offset map may get.",
        at_most=1,
    ),
    _dynamic(
        "log.cleaner.io.max.bytes.per.second",
        ConfigType.DOUBLE,
        _DOUBLE_MAX,
        0,
        "Most bytes that cleaning reads and writes in a second.",
    ),
    _dynamic(
        "log.cleaner.backoff.ms",
        ConfigType.LONG,
        15_000,
        0,
        "How long the cleaner waits when there is nothing to clean.",
    ),
)

# Beyond Kafka's cleaner. Each key says which value gives Kafka's own behaviour.
_CLEANER: Final = (
    BrokerKey(
        name="ledgerstone.cleaner.finish.deletes",
        kind=ConfigType.BOOLEAN,
        default=True,
        update=Update.CLUSTER_WIDE,
        doc="Whether a pass starts when a delete horizon, max.compaction.lag.ms or "
        "ledgerstone.cleaner.tombstone.lag.ms has passed, even on topics without new writes; "
        "false is Kafka's behaviour.",
    ),
    _dynamic(
        "ledgerstone.cleaner.tombstone.lag.ms",
        ConfigType.LONG,
        86_400_000,
        0,
        "Longest time a tombstone waits for the pass that removes the values it deletes.",
    ),
    _dynamic(
        "ledgerstone.cleaner.retry.ms",
        ConfigType.LONG,
        15_000,
        0,
        "Delay before a partition whose pass failed is retried, doubled with each failure; 0 "
        "leaves it uncleanable until the next start, as Kafka does.",
    ),
    _dynamic(
        "ledgerstone.cleaner.history.runs",
        ConfigType.INT,
        20,
        0,
        "Passes remembered for each partition; 0 keeps no history.",
        at_most=1000,
    ),
    _dynamic(
        "ledgerstone.cleaner.overdue.ms",
        ConfigType.LONG,
        3_600_000,
        0,
        "How late a due delete may be before the broker reports that it is not ready; 0: never.",
    ),
    _dynamic(
        "ledgerstone.cleaner.worker.timeout.ms",
        ConfigType.LONG,
        60_000,
        0,
        "How long a worker process (cleaning, scanning, analysing) may be silent before it is "
        "killed and its job retried; 0: forever, as with Kafka's threads.",
    ),
    BrokerKey(
        name="ledgerstone.near.tombstones.check",
        kind=ConfigType.BOOLEAN,
        default=True,
        update=Update.CLUSTER_WIDE,
        doc="Whether sampled tombstones are looked up in the other partitions of their topic, to "
        "report those written to the wrong one.",
    ),
)

_KEPT_FOR_TOOLS: Final = (
    BrokerKey(
        name="sasl.kerberos.min.time.before.relogin",
        kind=ConfigType.LONG,
        default=60_000,
        update=Update.PER_BROKER,
        doc="No effect: Kerberos is not supported. Client test suites set it as their example.",
    ),
)

# Kafka reads these only at start.
_FIXED_SYNONYMS: Final = ("log.flush.scheduler.interval.ms",)


def _topic_defaults() -> Iterator[BrokerKey]:
    """The broker keys behind the topic keys; of several, the last one carries the default."""
    for key in TOPIC_KEYS.values():
        last = key.synonyms[-1] if key.synonyms else None
        for synonym in key.synonyms:
            fixed = synonym.scale != 1 or synonym.name in _FIXED_SYNONYMS
            default = _scaled_default(key, synonym.scale) if synonym is last else None
            yield BrokerKey(
                name=synonym.name,
                kind=key.kind if synonym.scale == 1 else ConfigType.INT,
                default=default,
                doc=f"Default of the topic key {key.name}. {key.doc}",
                at_least=key.at_least if synonym.scale == 1 else None,
                at_most=key.at_most if synonym.scale == 1 else None,
                one_of=key.one_of,
                update=Update.READ_ONLY if fixed else Update.CLUSTER_WIDE,
            )


def _scaled_default(key: ConfigKey, scale: int) -> Value:
    if scale == 1:
        return key.default
    assert isinstance(key.default, int)
    return key.default // scale


BROKER_KEYS: Final[Mapping[str, BrokerKey]] = {
    key.name: key
    for key in (
        *_IDENTITY,
        *AUTHORIZER_KEYS,
        *CLUSTER_KEYS,
        *REPLICATION_KEYS,
        *SASL_KEYS,
        *TLS_KEYS,
        *_NETWORK,
        *_TOPICS,
        *_REPLICATION,
        *_GROUPS,
        *_TRANSACTIONS,
        *_LOG,
        *_CLEANER,
        *_topic_defaults(),
        *_KEPT_FOR_TOOLS,
    )
}

# Typed configs take their defaults from here.
BROKER_DEFAULTS: Final[Mapping[str, Any]] = {key.name: key.default for key in BROKER_KEYS.values()}
