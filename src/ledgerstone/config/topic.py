"""Every topic key, declared once, and how a topic's settings resolve. Pure.

The names, defaults and ranges are Kafka's; keys of our own begin with `ledgerstone.`. A topic's own
value comes first, then the broker keys that serve as its default in the order of `synonyms`, then
the default declared here.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from ledgerstone.config.setting import ConfigKey, ConfigType, Synonym, Value
from ledgerstone.dataclasses import replace
from ledgerstone.errors import ConfigError
from ledgerstone.types import INT64_MAX

_HOUR_MS: Final = 3_600_000
_WEEK_MS: Final = 168 * _HOUR_MS


def _same(name: str) -> tuple[Synonym, ...]:
    return (Synonym(name=name),)


# Tiered storage is not built. Its keys take the values that a Kafka without tiered storage takes,
# and have no effect.
REMOTE_STORAGE: Final = "remote.storage.enable"
_TIERED: Final = (
    ConfigKey(
        name=REMOTE_STORAGE,
        kind=ConfigType.BOOLEAN,
        default=False,
        doc="Whether the log is also copied to tiered storage; true is refused: not supported.",
    ),
    ConfigKey(
        name="remote.log.copy.disable",
        kind=ConfigType.BOOLEAN,
        default=False,
        doc="No effect: nothing is copied to tiered storage.",
    ),
    ConfigKey(
        name="remote.log.delete.on.disable",
        kind=ConfigType.BOOLEAN,
        default=False,
        doc="No effect: nothing is kept in tiered storage.",
    ),
    ConfigKey(
        name="local.retention.ms",
        kind=ConfigType.LONG,
        default=-2,
        at_least=-2,
        synonyms=_same("log.local.retention.ms"),
        doc="No effect without tiered storage; -2 stands for retention.ms.",
    ),
    ConfigKey(
        name="local.retention.bytes",
        kind=ConfigType.LONG,
        default=-2,
        at_least=-2,
        synonyms=_same("log.local.retention.bytes"),
        doc="No effect without tiered storage; -2 stands for retention.bytes.",
    ),
)
# Replication throttles: tools set and remove them around a reassignment.
_THROTTLED: Final = tuple(
    ConfigKey(
        name=f"{role}.replication.throttled.replicas",
        kind=ConfigType.LIST,
        default=(),
        pattern=r"\*|[0-9]+:[0-9]+",
        doc=f"Replicas, as partition:broker pairs or *, that {role}.replication.throttled.rate of "
        "their broker slows while they are not in sync.",
    )
    for role in ("leader", "follower")
)

TOPIC_KEYS: Final[Mapping[str, ConfigKey]] = {
    key.name: key
    for key in (
        ConfigKey(
            name="cleanup.policy",
            kind=ConfigType.LIST,
            default=("delete",),
            one_of=("compact", "delete"),
            synonyms=_same("log.cleanup.policy"),
            doc="What happens to old segments: deleted by age or size, compacted by key, or both.",
        ),
        ConfigKey(
            name="segment.bytes",
            kind=ConfigType.INT,
            default=1 << 30,
            at_least=14,
            synonyms=_same("log.segment.bytes"),
            doc="Size at which a segment is rolled; also the most that one append may carry.",
        ),
        ConfigKey(
            name="segment.ms",
            kind=ConfigType.LONG,
            default=_WEEK_MS,
            at_least=1,
            synonyms=(
                Synonym(name="log.roll.ms"),
                Synonym(name="log.roll.hours", scale=_HOUR_MS),
            ),
            doc="Age, by record time, at which an append rolls the segment.",
        ),
        ConfigKey(
            name="segment.jitter.ms",
            kind=ConfigType.LONG,
            default=0,
            at_least=0,
            synonyms=(
                Synonym(name="log.roll.jitter.ms"),
                Synonym(name="log.roll.jitter.hours", scale=_HOUR_MS),
            ),
            doc="Largest random time subtracted from segment.ms, to spread rolls over time.",
        ),
        ConfigKey(
            name="segment.index.bytes",
            kind=ConfigType.INT,
            default=10 << 20,
            at_least=4,
            synonyms=_same("log.index.size.max.bytes"),
            doc="Largest size of one index file; a full index rolls the segment.",
        ),
        ConfigKey(
            name="index.interval.bytes",
            kind=ConfigType.INT,
            default=4096,
            at_least=0,
            synonyms=_same("log.index.interval.bytes"),
            doc="Bytes of log between two index entries.",
        ),
        ConfigKey(
            name="preallocate",
            kind=ConfigType.BOOLEAN,
            default=False,
            synonyms=_same("log.preallocate"),
            doc="Create segment files at full size.",
        ),
        ConfigKey(
            name="file.delete.delay.ms",
            kind=ConfigType.LONG,
            default=60_000,
            at_least=0,
            synonyms=_same("log.segment.delete.delay.ms"),
            doc="How long a deleted file stays on disk under its .deleted name.",
        ),
        ConfigKey(
            name="flush.messages",
            kind=ConfigType.LONG,
            default=INT64_MAX,
            at_least=1,
            synonyms=_same("log.flush.interval.messages"),
            doc="Unflushed records that force an fsync; 1 makes an append durable before its ack.",
        ),
        ConfigKey(
            name="flush.ms",
            kind=ConfigType.LONG,
            default=INT64_MAX,
            at_least=0,
            synonyms=(
                Synonym(name="log.flush.interval.ms"),
                Synonym(name="log.flush.scheduler.interval.ms"),
            ),
            doc="Longest time a record may stay unflushed.",
        ),
        ConfigKey(
            name="retention.ms",
            kind=ConfigType.LONG,
            default=_WEEK_MS,
            at_least=-1,
            synonyms=(
                Synonym(name="log.retention.ms"),
                Synonym(name="log.retention.minutes", scale=60_000),
                Synonym(name="log.retention.hours", scale=_HOUR_MS),
            ),
            doc="Age, by record time, past which a segment is deleted; -1 keeps everything.",
        ),
        ConfigKey(
            name="retention.bytes",
            kind=ConfigType.LONG,
            default=-1,
            synonyms=_same("log.retention.bytes"),
            doc="Size of a partition past which old segments are deleted; negative keeps all.",
        ),
        ConfigKey(
            name="delete.retention.ms",
            kind=ConfigType.LONG,
            default=86_400_000,
            at_least=0,
            synonyms=_same("log.cleaner.delete.retention.ms"),
            doc="How long a tombstone stays readable after the first cleaning pass has seen it.",
        ),
        ConfigKey(
            name="min.cleanable.dirty.ratio",
            kind=ConfigType.DOUBLE,
            default=0.5,
            at_least=0,
            at_most=1,
            synonyms=_same("log.cleaner.min.cleanable.ratio"),
            doc="Share of dirty bytes above which a log is worth cleaning.",
        ),
        ConfigKey(
            name="min.compaction.lag.ms",
            kind=ConfigType.LONG,
            default=0,
            at_least=0,
            synonyms=_same("log.cleaner.min.compaction.lag.ms"),
            doc="Age below which a record is safe from compaction.",
        ),
        ConfigKey(
            name="max.compaction.lag.ms",
            kind=ConfigType.LONG,
            default=INT64_MAX,
            at_least=1,
            synonyms=_same("log.cleaner.max.compaction.lag.ms"),
            doc="Age above which a record makes its log worth cleaning whatever its dirty ratio.",
        ),
        ConfigKey(
            name="max.message.bytes",
            kind=ConfigType.INT,
            default=1_048_588,
            at_least=0,
            synonyms=_same("message.max.bytes"),
            doc="Largest record batch, as sent, including its 12-byte prefix.",
        ),
        ConfigKey(
            name="compression.type",
            kind=ConfigType.STRING,
            default="producer",
            one_of=("uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"),
            synonyms=_same("compression.type"),
            doc="Codec that batches are stored with; producer keeps the producer's.",
        ),
        ConfigKey(
            name="compression.gzip.level",
            kind=ConfigType.INT,
            default=-1,
            at_least=-1,
            at_most=9,
            other_than=(0,),
            synonyms=_same("compression.gzip.level"),
            doc="Level used when the broker compresses with gzip: 1 to 9, or -1 for the default.",
        ),
        ConfigKey(
            name="compression.lz4.level",
            kind=ConfigType.INT,
            default=9,
            at_least=1,
            at_most=17,
            synonyms=_same("compression.lz4.level"),
            doc="Level used when the broker compresses with lz4.",
        ),
        ConfigKey(
            name="compression.zstd.level",
            kind=ConfigType.INT,
            default=3,
            at_least=-131_072,
            at_most=22,
            synonyms=_same("compression.zstd.level"),
            doc="Level used when the broker compresses with zstd.",
        ),
        ConfigKey(
            name="message.timestamp.type",
            kind=ConfigType.STRING,
            default="CreateTime",
            one_of=("CreateTime", "LogAppendTime"),
            synonyms=_same("log.message.timestamp.type"),
            doc="Whether a record carries the producer's time or the broker's.",
        ),
        ConfigKey(
            name="message.timestamp.before.max.ms",
            kind=ConfigType.LONG,
            default=INT64_MAX,
            at_least=0,
            synonyms=_same("log.message.timestamp.before.max.ms"),
            doc="How far a record's time may lie behind the broker's clock.",
        ),
        ConfigKey(
            name="message.timestamp.after.max.ms",
            kind=ConfigType.LONG,
            default=_HOUR_MS,
            at_least=0,
            synonyms=_same("log.message.timestamp.after.max.ms"),
            doc="How far a record's time may lie ahead of the broker's clock.",
        ),
        ConfigKey(
            name="min.insync.replicas",
            kind=ConfigType.INT,
            default=1,
            at_least=1,
            synonyms=_same("min.insync.replicas"),
            doc="In-sync replicas that must have a record before acks=all answers.",
        ),
        ConfigKey(
            name="unclean.leader.election.enable",
            kind=ConfigType.BOOLEAN,
            default=False,
            synonyms=_same("unclean.leader.election.enable"),
            doc="Whether a replica outside the in-sync set may lead, losing what it does not have.",
        ),
        *_TIERED,
        *_THROTTLED,
        # Ours; Kafka removes a tombstone at its horizon even if consumers have not read it.
        ConfigKey(
            name="ledgerstone.tombstone.hold.groups",
            kind=ConfigType.LIST,
            default=(),
            synonyms=_same("ledgerstone.tombstone.hold.groups"),
            doc="Groups that must have committed past a tombstone before it is removed; * stands "
            "for every group with commits on the topic.",
        ),
        ConfigKey(
            name="ledgerstone.tombstone.hold.max.ms",
            kind=ConfigType.LONG,
            default=_WEEK_MS,
            at_least=0,
            synonyms=_same("ledgerstone.tombstone.hold.max.ms"),
            doc="Longest time a tombstone is held for groups past its delete horizon.",
        ),
        # Ours; Kafka removes a tombstone whatever other replicas hold.
        ConfigKey(
            name="ledgerstone.tombstone.replica.hold.max.ms",
            kind=ConfigType.LONG,
            default=_WEEK_MS,
            at_least=0,
            synonyms=_same("ledgerstone.tombstone.replica.hold.max.ms"),
            doc="Longest time tombstones are held for a replica that has stopped reporting to its "
            "leader; it rebuilds its log when it comes back later.",
        ),
    )
}

# For `LogConfig`, whose fields take their defaults from here.
TOPIC_DEFAULTS: Final[Mapping[str, Any]] = {key.name: key.default for key in TOPIC_KEYS.values()}


def parse_topic_overrides(overrides: Mapping[str, str]) -> dict[str, Value]:
    """Typed values of a topic's own settings; refuses unknown names and contradictory values."""
    values: dict[str, Value] = {}
    for name, text in overrides.items():
        key = TOPIC_KEYS.get(name)
        if key is None:
            raise ConfigError(name, text, "unknown topic config name")
        values[name] = key.parse(text)
    if values.get(REMOTE_STORAGE):
        raise ConfigError(REMOTE_STORAGE, "true", "tiered storage is not supported")
    return values


def resolve_topic(overrides: Mapping[str, str], broker: Mapping[str, str]) -> dict[str, Value]:
    """Every topic key's value: the topic's own, else a broker synonym's, else the default."""
    own = parse_topic_overrides(overrides)
    resolved = {
        name: own[name] if name in own else _from_broker(key, broker)
        for name, key in TOPIC_KEYS.items()
    }
    low, high = resolved["min.compaction.lag.ms"], resolved["max.compaction.lag.ms"]
    assert isinstance(low, int)
    assert isinstance(high, int)
    if low > high:
        raise ConfigError(
            "min.compaction.lag.ms", low, f"must not exceed max.compaction.lag.ms={high}"
        )
    return resolved


def settle_topic(overrides: Mapping[str, str], broker: Mapping[str, str]) -> dict[str, Value]:
    """As `resolve_topic`, of settings that are committed. They were judged beside the defaults of
    that time, by the controller, which may be Kafka's; defaults change, and differ from broker to
    broker. So what is not understood here counts as not set, and contradictions stay."""
    values: dict[str, Value] = {}
    for name, key in TOPIC_KEYS.items():
        values[name] = key.default
        with suppress(ConfigError):
            values[name] = _from_broker(key, broker)
        if name in overrides:
            with suppress(ConfigError):
                values[name] = parse_topic_overrides({name: overrides[name]})[name]
    return values


def _from_broker(key: ConfigKey, broker: Mapping[str, str]) -> Value:
    for synonym in key.synonyms:
        text = broker.get(synonym.name)
        if text is None:
            continue
        # An error must name the key that the operator wrote.
        written = replace(key, name=synonym.name)
        if synonym.scale == 1:
            return written.parse(text)
        hours_or_minutes = ConfigKey(
            name=synonym.name, kind=ConfigType.INT, default=0, doc=""
        ).parse(text)
        assert isinstance(hours_or_minutes, int)
        value = hours_or_minutes * synonym.scale
        if key.at_least == -1:
            # A negative retention in hours or minutes means the same as -1 ms: keep everything.
            value = max(value, -1)
        written.check(value, text)
        return value
    return key.default
