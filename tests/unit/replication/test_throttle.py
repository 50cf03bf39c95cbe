"""Replicas that catch up are slowed to a rate, which counts over seconds, not moments."""

import pytest

from ledgerstone.metadata.image import EVERY_BROKER, ConfigResource, MetadataImage, ResourceType
from ledgerstone.replication.throttle import NO_LIMIT, ByteRate, ReplicationThrottle
from ledgerstone.types import TopicPartition

SECOND = 1000


def a_throttle(limit: int, **replicas: list[str]) -> ReplicationThrottle:
    throttle = ReplicationThrottle(1, windows=11, window_ms=SECOND)
    throttle.configure(limit, replicas)
    return throttle


def test_rate_is_counted_over_the_windows_that_are_left() -> None:
    rate = ByteRate(windows=3, window_ms=SECOND)
    assert rate.per_second(0) == 0
    rate.record(300, 0)
    assert rate.per_second(10) == 300, "a burst counts for a whole window"
    assert rate.per_second(2 * SECOND) == 150
    rate.record(300, 2 * SECOND)
    assert rate.per_second(2 * SECOND + 999) == 600 / 2.999
    assert rate.per_second(3 * SECOND) == 300, "the first window is over"
    assert rate.per_second(5 * SECOND) == 0


def test_replicas_that_the_topic_names_are_held_above_the_rate() -> None:
    throttle = a_throttle(100, t=["0:1", "1:2"], u=["*"])
    held, free, all_of = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 7)
    throttle.record(held, 500, 0)
    throttle.record(free, 500_000, 0)

    assert [throttle.holds(each, 900) for each in (held, free, all_of)] == [True, False, True]
    assert not throttle.holds(TopicPartition("v", 0), 900)
    assert not throttle.holds(held, 5 * SECOND), "500 bytes in 5 seconds"


@pytest.mark.parametrize("entry", ["", " ", ":", "1", "none", ":1", "1:", f"{'9' * 5000}:1"])
def test_entry_that_names_no_replica_counts_for_nothing(entry: str) -> None:
    """Validation takes a list that ends with a comma, and numbers of any length."""
    throttle = a_throttle(100, t=["0:1", entry])

    assert throttle.is_throttled(TopicPartition("t", 0))
    assert not throttle.is_throttled(TopicPartition("t", 1))


def test_nothing_is_held_without_a_rate_or_without_replicas() -> None:
    assert not a_throttle(NO_LIMIT, t=["*"]).is_active
    assert not a_throttle(100).is_active
    assert a_throttle(100, t=["*"]).is_active


def test_settings_come_from_brokers_and_topics() -> None:
    image = MetadataImage(
        cluster_id="c",
        configs={
            EVERY_BROKER: {"follower.replication.throttled.rate": "9"},
            ConfigResource(ResourceType.BROKER, "1"): {
                "follower.replication.throttled.rate": "100",
                "leader.replication.throttled.rate": "7",
            },
            ConfigResource(ResourceType.TOPIC, "t"): {
                "follower.replication.throttled.replicas": "0:1, 3:2"
            },
            ConfigResource(ResourceType.TOPIC, "u"): {"leader.replication.throttled.replicas": "*"},
        },
    )
    throttle = ReplicationThrottle(1, windows=11, window_ms=SECOND)
    throttle.follow_settings(image, "follower", {})
    throttle.record(TopicPartition("t", 0), 150, 0)

    assert throttle.holds(TopicPartition("t", 0), 0)
    assert not throttle.is_throttled(TopicPartition("t", 3))
    assert not throttle.is_throttled(TopicPartition("u", 0))
    throttle.follow_settings(MetadataImage(cluster_id="c"), "follower", {})
    assert not throttle.is_active
