"""The typed settings of a log: the defaults are the topic's, and what follows from them."""

from dataclasses import fields
from typing import Any

import pytest

from ledgerstone.config.setting import format_value
from ledgerstone.config.topic import TOPIC_KEYS
from ledgerstone.errors import ConfigError
from ledgerstone.records.batch import Codec, TimestampType
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.types import INT64_MAX


def test_defaults_are_those_of_the_topic_keys() -> None:
    assert LogConfig() == LogConfig.from_topic({})


def test_every_field_is_a_topic_key_with_the_same_default() -> None:
    for field in [field for field in fields(LogConfig) if field.init]:
        assert field.default == TOPIC_KEYS[field.name.replace("_", ".")].default, field.name


def test_overrides_win_over_the_broker_and_the_broker_over_the_default() -> None:
    config = LogConfig.from_topic(
        {"segment.bytes": "1000"}, {"log.segment.bytes": "2000", "log.flush.interval.messages": "7"}
    )

    assert (config.segment_bytes, config.flush_messages) == (1000, 7)
    assert config.retention_bytes == -1


def test_settings_of_a_log_survive_being_written_down() -> None:
    config = LogConfig(segment_bytes=210, cleanup_policy=("compact", "delete"), preallocate=True)
    overrides = {
        field.name.replace("_", "."): format_value(getattr(config, field.name))
        for field in fields(config)
        if field.init
    }

    assert LogConfig.from_topic(overrides) == config


@pytest.mark.parametrize(
    ("policy", "compacts", "deletes"),
    [
        (("delete",), False, True),
        (("compact",), True, False),
        (("compact", "delete"), True, True),
        ((), False, False),
    ],
)
def test_cleanup_policy_says_what_may_happen_to_old_segments(
    policy: tuple[str, ...], compacts: bool, deletes: bool
) -> None:
    config = LogConfig(cleanup_policy=policy)

    assert (config.compacts, config.deletes) == (compacts, deletes)
    assert config.append_rules.compacted == compacts


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"cleanup_policy": ("delete",), "max_compaction_lag_ms": 10}, 1000),
        ({"cleanup_policy": ("compact",), "max_compaction_lag_ms": 10}, 10),
        ({"cleanup_policy": ("compact",), "max_compaction_lag_ms": 5000}, 1000),
        ({"cleanup_policy": ("compact",), "max_compaction_lag_ms": INT64_MAX}, 1000),
    ],
)
def test_compaction_lag_rolls_earlier_only_where_a_topic_is_compacted(
    settings: dict[str, Any], expected: int
) -> None:
    assert LogConfig(segment_ms=1000, **settings).max_segment_ms == expected


@pytest.mark.parametrize(
    ("name", "codec", "level"),
    [
        ("producer", None, None),
        ("uncompressed", Codec.NONE, None),
        ("gzip", Codec.GZIP, 4),
        ("snappy", Codec.SNAPPY, None),
        ("lz4", Codec.LZ4, 5),
        ("zstd", Codec.ZSTD, 6),
    ],
)
def test_codec_comes_with_its_own_level(name: str, codec: Codec | None, level: int | None) -> None:
    config = LogConfig(
        compression_type=name,
        compression_gzip_level=4,
        compression_lz4_level=5,
        compression_zstd_level=6,
    )

    assert (config.append_rules.codec, config.append_rules.level) == (codec, level)


def test_append_rules_carry_the_time_and_size_settings() -> None:
    rules = LogConfig(
        message_timestamp_type="LogAppendTime",
        message_timestamp_before_max_ms=1,
        message_timestamp_after_max_ms=2,
        max_message_bytes=3,
    ).append_rules

    assert rules.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert (rules.timestamp_before_max_ms, rules.timestamp_after_max_ms) == (1, 2)
    assert rules.max_message_bytes == 3


def test_refusal_comes_from_the_key() -> None:
    with pytest.raises(ConfigError, match=r"segment.bytes='13': must be at least 14"):
        LogConfig.from_topic({"segment.bytes": "13"})
