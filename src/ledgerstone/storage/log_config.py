"""The settings of one partition's log, typed. Pure.

Built from resolved topic keys (`ledgerstone.config.topic`); the defaults here are theirs, so a log
made in a test with `LogConfig(segment_bytes=210)` behaves like a topic with that one override.
"""

from collections.abc import Mapping
from typing import Any, Final

from ledgerstone.config.setting import Value
from ledgerstone.config.topic import TOPIC_DEFAULTS as _DEFAULT
from ledgerstone.config.topic import TOPIC_KEYS, resolve_topic
from ledgerstone.dataclasses import dataclass, field, fields
from ledgerstone.records.batch import Codec, TimestampType
from ledgerstone.records.validation import AppendRules

_CODECS: Final = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
_HOLD_GROUPS: Final = "ledgerstone.tombstone.hold.groups"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """One field per topic key that a log obeys, named as the key with underscores."""

    cleanup_policy: tuple[str, ...] = _DEFAULT["cleanup.policy"]
    segment_bytes: int = _DEFAULT["segment.bytes"]
    segment_ms: int = _DEFAULT["segment.ms"]
    segment_jitter_ms: int = _DEFAULT["segment.jitter.ms"]
    segment_index_bytes: int = _DEFAULT["segment.index.bytes"]
    index_interval_bytes: int = _DEFAULT["index.interval.bytes"]
    preallocate: bool = _DEFAULT["preallocate"]
    file_delete_delay_ms: int = _DEFAULT["file.delete.delay.ms"]
    flush_messages: int = _DEFAULT["flush.messages"]
    flush_ms: int = _DEFAULT["flush.ms"]
    retention_ms: int = _DEFAULT["retention.ms"]
    retention_bytes: int = _DEFAULT["retention.bytes"]
    delete_retention_ms: int = _DEFAULT["delete.retention.ms"]
    min_cleanable_dirty_ratio: float = _DEFAULT["min.cleanable.dirty.ratio"]
    min_compaction_lag_ms: int = _DEFAULT["min.compaction.lag.ms"]
    max_compaction_lag_ms: int = _DEFAULT["max.compaction.lag.ms"]
    max_message_bytes: int = _DEFAULT["max.message.bytes"]
    compression_type: str = _DEFAULT["compression.type"]
    compression_gzip_level: int = _DEFAULT["compression.gzip.level"]
    compression_lz4_level: int = _DEFAULT["compression.lz4.level"]
    compression_zstd_level: int = _DEFAULT["compression.zstd.level"]
    message_timestamp_type: str = _DEFAULT["message.timestamp.type"]
    message_timestamp_before_max_ms: int = _DEFAULT["message.timestamp.before.max.ms"]
    message_timestamp_after_max_ms: int = _DEFAULT["message.timestamp.after.max.ms"]
    ledgerstone_tombstone_hold_groups: tuple[str, ...] = _DEFAULT[
        "ledgerstone.tombstone.hold.groups"
    ]
    ledgerstone_tombstone_hold_max_ms: int = _DEFAULT["ledgerstone.tombstone.hold.max.ms"]
    ledgerstone_tombstone_replica_hold_max_ms: int = _DEFAULT[
        "ledgerstone.tombstone.replica.hold.max.ms"
    ]
    # Derived once, because every append reads them.
    append_rules: AppendRules = field(init=False, repr=False, compare=False)
    # The age that rolls a segment; a compacted topic must also keep its compaction lag.
    max_segment_ms: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "append_rules", self._append_rules())
        object.__setattr__(self, "max_segment_ms", self._max_segment_ms())

    @classmethod
    def from_values(cls, values: Mapping[str, Value]) -> "LogConfig":
        typed: dict[str, Any] = {name.replace(".", "_"): value for name, value in values.items()}
        return cls(**{key.name: typed[key.name] for key in fields(cls) if key.init})

    @classmethod
    def from_topic(
        cls, overrides: Mapping[str, str], broker: Mapping[str, str] | None = None
    ) -> "LogConfig":
        return cls.from_values(resolve_topic(overrides, broker or {}))

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

    def _max_segment_ms(self) -> int:
        if self.compacts and self.max_compaction_lag_ms > 0:
            return min(self.segment_ms, self.max_compaction_lag_ms)
        return self.segment_ms

    def _append_rules(self) -> AppendRules:
        codec = _CODECS.get(self.compression_type)
        levels = {
            Codec.GZIP: self.compression_gzip_level,
            Codec.LZ4: self.compression_lz4_level,
            Codec.ZSTD: self.compression_zstd_level,
        }
        append_time = self.message_timestamp_type == "LogAppendTime"
        return AppendRules(
            compacted=self.compacts,
            max_message_bytes=self.max_message_bytes,
            timestamp_type=TimestampType.LOG_APPEND_TIME
            if append_time
            else TimestampType.CREATE_TIME,
            timestamp_before_max_ms=self.message_timestamp_before_max_ms,
            timestamp_after_max_ms=self.message_timestamp_after_max_ms,
            codec=codec,
            level=levels.get(codec) if codec is not None else None,
        )


assert all(key.name.replace("_", ".") in TOPIC_KEYS for key in fields(LogConfig) if key.init)
