"""In-sync replicas of three nodes with real connections, disks and clocks."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgerstone.metadata.image import PartitionImage
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.produce import (
    ProducePartitionData,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicData,
)
from ledgerstone.server.broker import Broker
from ledgerstone.types import TopicPartition
from tests.kit.broker import wait_until
from tests.kit.logs import batch
from tests.kit.loopback_cluster import LoopbackCluster

TOPIC = "events"
EVENTS = TopicPartition(TOPIC, 0)


@pytest.fixture
def three(tmp_path: Path) -> Iterator[LoopbackCluster]:
    settings = {"replica.lag.time.max.ms": "2000", "min.insync.replicas": "2"}
    with LoopbackCluster(tmp_path, settings=settings) as cluster:
        cluster.start()
        assert cluster.create_topic(1, TOPIC, replicas=3) == ErrorCode.NONE
        cluster.wait_for("the topic is there", lambda image: TOPIC in image.topics)
        wait_until(lambda: is_hosted(cluster), "its leader has made it", 20)
        yield cluster


def state(cluster: LoopbackCluster) -> PartitionImage:
    return cluster.image(cluster.active()).topics[TOPIC].partitions[0]


def is_hosted(cluster: LoopbackCluster) -> bool:
    def leads(broker: Broker) -> bool:
        partition = broker.partitions.find(EVENTS)
        return partition is not None and partition.is_leader

    return cluster.on(state(cluster).leader, leads)


def produce(cluster: LoopbackCluster, timeout_ms: int = 10_000) -> int:
    """The error code of one batch with acks=all."""
    data = ProducePartitionData(index=0, records=batch(("key", "value")))
    topic_id = cluster.image(cluster.active()).topics[TOPIC].topic_id
    topics = [ProduceTopicData(name=TOPIC, topic_id=topic_id, partition_data=[data])]
    request = ProduceRequest(acks=-1, timeout_ms=timeout_ms, topic_data=topics)
    answer = cluster.ask(state(cluster).leader, request)
    assert isinstance(answer, ProduceResponse)
    return answer.responses[0].partition_responses[0].error_code


def stop_following(broker: Broker) -> None:
    """It lives on and sends heartbeats; it only fetches no more."""
    assert broker.following.replicating is not None
    broker.following.replicating.stop()


def end_offset(broker: Broker) -> int:
    return broker.partitions.get(EVENTS).log.log_end_offset


def test_follower_that_stops_fetching_leaves_and_writes_go_on(three: LoopbackCluster) -> None:
    assert produce(three) == ErrorCode.NONE
    leader = state(three).leader
    stuck, other = (each for each in three.nodes if each != leader)

    three.on(stuck, stop_following)
    assert produce(three) == ErrorCode.NONE, "committed once the controller has let it go"

    assert set(state(three).isr) == {leader, other}
    assert three.on(other, end_offset) == 2
    assert three.on(leader, lambda broker: broker.counters.isr_shrinks) >= 1

    three.on(other, stop_following)
    wait_until(lambda: produce(three, 200) == ErrorCode.NOT_ENOUGH_REPLICAS, "too few are left", 20)
    assert state(three).isr == (leader,)


@pytest.mark.slow
def test_killed_follower_joins_again_by_itself(three: LoopbackCluster) -> None:
    assert produce(three) == ErrorCode.NONE
    leader = state(three).leader
    victim = next(each for each in three.nodes if each not in (leader, three.active()))
    three.kill(victim)
    assert produce(three) == ErrorCode.NONE

    three.start(victim)

    wait_until(lambda: len(state(three).isr) == 3, "all are in sync again", 20)
    assert produce(three) == ErrorCode.NONE
    assert [three.on(each, end_offset) for each in sorted(three.nodes)] == [3, 3, 3]
