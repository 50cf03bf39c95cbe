"""The settings of one partition's log, typed. Pure.

Built from resolved topic keys (`ledgerstone.config.topic`); the defaults here are theirs, so a log
made in a test with `LogConfig(segment_bytes=210)` behaves like a topic with that one override.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from ledgerstone.config.setting import Value
from ledgerstone.config.topic import TOPIC_KEYS, resolve_topic
from ledgerstone.records.batch import Codec, TimestampType
from ledgerstone.records.validation import AppendRules
from ledgerstone.types import INT64_MAX

_CODECS: Final = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """One field per topic key that a log obeys, named as the key with underscores."""

    cleanup_policy: tuple[str, ...] = ("delete",)
    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    preallocate: bool = False
    file_delete_delay_ms: int = 60_000
    flush_messages: int = INT64_MAX
    flush_ms: int = INT64_MAX
    retention_ms: int = 604_800_000
    retention_bytes: int = -1
    delete_retention_ms: int = 86_400_000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = INT64_MAX
    max_message_bytes: int = 1_048_588
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = INT64_MAX
    message_timestamp_after_max_ms: int = 3_600_000
    ledgerstone_tombstone_hold_groups: tuple[str, ...] = ()
    ledgerstone_tombstone_hold_max_ms: int = 604_800_000
    # Derived once, because every append asks for them.
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
