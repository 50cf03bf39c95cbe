"""Settings: how texts become values, what is refused, and where a topic's value comes from."""

import re

import pytest

from ledgerstone.config.setting import ConfigKey, ConfigType, Value, format_value
from ledgerstone.config.topic import (
    TOPIC_KEYS,
    parse_topic_overrides,
    resolve_topic,
    settle_topic,
)
from ledgerstone.errors import ConfigError
from ledgerstone.types import INT32_MAX, INT64_MAX

HOUR_MS = 3_600_000


def key(kind: ConfigType, default: Value = 0, **limits: object) -> ConfigKey:
    return ConfigKey(name="some.key", kind=kind, default=default, doc="", **limits)  # type: ignore[arg-type]


# -- one key --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ConfigType.BOOLEAN, "true", True),
        (ConfigType.BOOLEAN, " FALSE ", False),
        (ConfigType.INT, " 12 ", 12),
        (ConfigType.INT, "-2147483648", -(2**31)),
        (ConfigType.SHORT, "32767", 32767),
        (ConfigType.LONG, "9223372036854775807", INT64_MAX),
        (ConfigType.LONG, "+7", 7),
        (ConfigType.DOUBLE, "0.25", 0.25),
        (ConfigType.DOUBLE, "1e-3", 0.001),
        (ConfigType.STRING, " a b ", "a b"),
        (ConfigType.LIST, "a, b,,c ", ("a", "b", "c")),
        (ConfigType.LIST, "", ()),
    ],
)
def test_text_becomes_a_value_of_its_kind(kind: ConfigType, text: str, value: Value) -> None:
    parsed = key(kind).parse(text)

    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        (ConfigType.BOOLEAN, "yes", "must be true or false"),
        (ConfigType.BOOLEAN, "1", "must be true or false"),
        (ConfigType.INT, "", "must be a whole number"),
        (ConfigType.INT, "1.0", "must be a whole number"),
        (ConfigType.INT, "0x10", "must be a whole number"),
        (ConfigType.INT, "1_000", "must be a whole number"),
        (ConfigType.INT, "١٢", "must be a whole number"),
        (ConfigType.INT, "2147483648", "must fit a int"),
        (ConfigType.SHORT, "32768", "must fit a short"),
        (ConfigType.LONG, "9223372036854775808", "must fit a long"),
        (ConfigType.LONG, "9" * 5000, "must be a whole number"),
        (ConfigType.DOUBLE, "much", "must be a number"),
        (ConfigType.DOUBLE, "nan", "must be a number"),
        (ConfigType.DOUBLE, "inf", "must be a number"),
        (ConfigType.DOUBLE, "1e999", "must be a number"),
        (ConfigType.DOUBLE, ".", "must be a number"),
        (ConfigType.DOUBLE, "1_0.5", "must be a number"),
    ],
)
def test_refusal_names_the_key_the_value_and_the_reason(
    kind: ConfigType, text: str, reason: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        key(kind).parse(text)

    assert (refused.value.key, refused.value.value) == ("some.key", text)
    assert refused.value.reason == reason


@pytest.mark.parametrize(("text", "ok"), [("4", False), ("5", True), ("9", True), ("10", False)])
def test_range_includes_its_ends(text: str, ok: bool) -> None:
    limited = key(ConfigType.INT, at_least=5, at_most=9)

    if ok:
        assert limited.parse(text) == int(text)
    else:
        with pytest.raises(ConfigError, match=r"must be at (least 5|most 9)"):
            limited.parse(text)


@pytest.mark.parametrize("kind", [ConfigType.STRING, ConfigType.LIST])
def test_word_outside_the_choice_is_refused(kind: ConfigType) -> None:
    choice = key(kind, one_of=("compact", "delete"))

    with pytest.raises(ConfigError, match="must be one of compact, delete"):
        choice.parse("shrink")


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "true"), (False, "false"), (7, "7"), (0.5, "0.5"), ("x", "x"), (("a", "b"), "a,b")],
)
def test_value_is_shown_as_kafka_shows_it(value: Value, text: str) -> None:
    assert format_value(value) == text


# -- the topic keys -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(TOPIC_KEYS))
def test_every_default_passes_its_own_rules_and_every_key_is_documented(name: str) -> None:
    topic_key = TOPIC_KEYS[name]

    assert topic_key.name == name
    assert topic_key.parse(format_value(topic_key.default)) == topic_key.default
    assert re.fullmatch(r"[A-Z].*\.", topic_key.doc)
    # Those that no broker key of Kafka's gives a default.
    is_topics_alone = name.startswith("remote.") or name.endswith(".throttled.replicas")
    assert bool(topic_key.synonyms) is not is_topics_alone


def test_topic_without_settings_has_the_defaults() -> None:
    assert resolve_topic({}, {}) == {name: k.default for name, k in TOPIC_KEYS.items()}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cleanup.policy", "compact,shred"),
        ("segment.bytes", "13"),
        ("segment.bytes", str(INT32_MAX + 1)),
        ("segment.ms", "0"),
        ("segment.jitter.ms", "-1"),
        ("segment.index.bytes", "3"),
        ("index.interval.bytes", "-1"),
        ("flush.messages", "0"),
        ("retention.ms", "-2"),
        ("delete.retention.ms", "-1"),
        ("min.cleanable.dirty.ratio", "1.01"),
        ("min.cleanable.dirty.ratio", "-0.01"),
        ("max.compaction.lag.ms", "0"),
        ("compression.type", "brotli"),
        ("compression.gzip.level", "0"),
        ("compression.gzip.level", "10"),
        ("compression.gzip.level", "-2"),
        ("compression.lz4.level", "18"),
        ("compression.zstd.level", "23"),
        ("message.timestamp.type", "createtime"),
        ("min.insync.replicas", "0"),
    ],
)
def test_value_out_of_range_is_refused(name: str, text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_topic_overrides({name: text})

    assert refused.value.key == name


def test_unknown_name_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"retention.hours='1': unknown topic config name"):
        parse_topic_overrides({"retention.hours": "1"})


def test_minimum_lag_above_the_maximum_is_refused_wherever_they_come_from() -> None:
    with pytest.raises(ConfigError, match=r"must not exceed max.compaction.lag.ms=10"):
        resolve_topic({"min.compaction.lag.ms": "11", "max.compaction.lag.ms": "10"}, {})
    with pytest.raises(ConfigError, match=r"must not exceed max.compaction.lag.ms=10"):
        resolve_topic({"min.compaction.lag.ms": "11"}, {"log.cleaner.max.compaction.lag.ms": "10"})


def test_what_is_committed_holds_as_far_as_it_is_understood() -> None:
    """As under a Kafka controller, which knows other settings and values."""
    own = {
        "min.compaction.lag.ms": "11",
        "remote.storage.enable": "true",
        "segment.bytes": "many",
        "not.known.here": "1",
        "retention.ms": "5",
    }
    broker = {"log.cleaner.max.compaction.lag.ms": "10", "log.segment.bytes": "2000000"}

    settled = settle_topic(own, broker)

    expected = {
        "min.compaction.lag.ms": 11,
        "max.compaction.lag.ms": 10,
        "remote.storage.enable": False,
        "segment.bytes": 2000000,
        "retention.ms": 5,
    }
    assert settled == resolve_topic({}, {}) | expected
    assert settle_topic({}, {"retention.ms": "5"}) == resolve_topic({}, {"retention.ms": "5"})


# -- synonyms -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("broker", "expected"),
    [
        ({}, 168 * HOUR_MS),
        ({"log.retention.hours": "2"}, 2 * HOUR_MS),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.minutes": "-1"}, -1),
    ],
)
def test_first_synonym_that_is_set_gives_the_default(broker: dict[str, str], expected: int) -> None:
    assert resolve_topic({}, broker)["retention.ms"] == expected


def test_own_value_of_the_topic_wins_over_every_synonym() -> None:
    assert resolve_topic({"retention.ms": "5"}, {"log.retention.ms": "4"})["retention.ms"] == 5


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log.segment.bytes", "1"),
        ("log.roll.ms", "0"),
        ("log.roll.hours", "0"),
        ("log.roll.hours", "-1"),
        ("log.roll.hours", "2147483648"),
        ("log.roll.hours", "soon"),
        ("log.roll.jitter.hours", "-1"),
        ("compression.gzip.level", "0"),
    ],
)
def test_value_of_a_synonym_obeys_the_range_of_its_topic_key(name: str, text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        resolve_topic({}, {name: text})

    assert refused.value.value == text


def test_refusal_of_a_synonym_names_the_key_the_operator_wrote() -> None:
    with pytest.raises(ConfigError, match=r"log.roll.hours='0': must be at least 1"):
        resolve_topic({}, {"log.roll.hours": "0"})
    with pytest.raises(ConfigError, match=r"log.segment.bytes='1': must be at least 14"):
        resolve_topic({}, {"log.segment.bytes": "1"})


def test_broker_keys_that_are_no_synonyms_change_nothing() -> None:
    assert resolve_topic({}, {"num.io.threads": "8"}) == resolve_topic({}, {})
