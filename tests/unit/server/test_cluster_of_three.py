"""Several nodes with real connections, disks and clocks, each in a thread of this process."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from ledgerstone.errors import StartFailed
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
    DescribeQuorumResponse,
)
from ledgerstone.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ledgerstone.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from ledgerstone.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ledgerstone.server.broker import Broker
from ledgerstone.server.broker_life.machine import BrokerState
from tests.kit.broker import wait_until
from tests.kit.loopback_cluster import BOTH, LoopbackCluster


@pytest.fixture
def three(tmp_path: Path) -> Iterator[LoopbackCluster]:
    with LoopbackCluster(tmp_path) as cluster:
        cluster.start()
        yield cluster


def leaders(image: MetadataImage, topic: str) -> list[int]:
    return [each.leader for each in image.topics[topic].partitions.values()]


def is_gone(node_id: int, image: MetadataImage) -> bool:
    return node_id not in leaders(image, "a") and image.brokers[node_id].fenced


def is_back(node_id: int, image: MetadataImage) -> bool:
    return not image.brokers[node_id].fenced


def state_of(cluster: LoopbackCluster, node_id: int) -> BrokerState:
    def look(broker: Broker) -> BrokerState:
        assert broker.membership is not None
        assert broker.membership.life is not None
        return broker.membership.life.life.state

    return cluster.on(node_id, look)


def hosts(cluster: LoopbackCluster, node_id: int, count: int) -> bool:
    return cluster.on(node_id, lambda broker: len(broker.partitions)) == count


def metadata(cluster: LoopbackCluster, node_id: int) -> MetadataResponse:
    answer = cluster.ask(node_id, MetadataRequest(topics=None))
    assert isinstance(answer, MetadataResponse)
    return answer


def test_topics_created_through_any_broker_are_on_all(three: LoopbackCluster) -> None:
    for node_id in three.nodes:
        assert three.create_topic(node_id, f"t{node_id}", partitions=3, replicas=3) == 0
    names = {f"t{node_id}" for node_id in three.nodes}
    three.wait_for("all topics are there", lambda image: names <= image.topics.keys())

    # Once, whoever was asked: the second time it is there.
    assert three.create_topic(1, "t3") == ErrorCode.TOPIC_ALREADY_EXISTS
    assert len({three.image(each).topics["t1"].topic_id for each in three.nodes}) == 1
    for node_id in three.nodes:
        seen = metadata(three, node_id)
        assert sorted(each.node_id for each in seen.brokers) == [1, 2, 3]
        assert sorted(each.port for each in seen.brokers) == sorted(three.client_ports.values())
        assert seen.controller_id == three.active()
        # Every replica exists on its broker; one of them leads each partition.
        wait_until(partial(hosts, three, node_id, 9), "replicas are made")
    assert sorted(leaders(three.image(1), "t1")) == [1, 2, 3]


def test_brokers_ask_the_controller_for_what_they_hand_out(three: LoopbackCluster) -> None:
    ids = []
    for node_id in three.nodes:
        answer = three.ask(node_id, InitProducerIdRequest(transactional_id=None))
        assert isinstance(answer, InitProducerIdResponse)
        assert answer.error_code == 0
        ids.append(answer.producer_id)
    assert sorted(ids) == [0, 1000, 2000]

    def coordinator() -> int | None:
        found = three.ask(2, FindCoordinatorRequest(coordinator_keys=["a group"]))
        assert isinstance(found, FindCoordinatorResponse)
        (only,) = found.coordinators
        return None if only.error_code else only.port

    assert wait_until(coordinator, "a coordinator is found") in three.client_ports.values()


def test_a_broker_describes_the_quorum_as_its_leader_does(three: LoopbackCluster) -> None:
    partitions = [DescribeQuorumRequestPartition(0)]
    topic = DescribeQuorumRequestTopic("__cluster_metadata", partitions)
    active = three.active()
    for node_id in three.nodes:
        answer = three.ask(node_id, DescribeQuorumRequest(topics=[topic]))
        assert isinstance(answer, DescribeQuorumResponse)
        (partition,) = answer.topics[0].partitions
        assert partition.leader_id == active
        assert sorted(each.replica_id for each in partition.current_voters) == [1, 2, 3]


def test_killed_controller_is_replaced_fenced_and_taken_back(three: LoopbackCluster) -> None:
    killed = three.active()
    assert three.create_topic(killed, "before", partitions=3, replicas=3) == 0
    three.wait_for("the topic is there", lambda image: "before" in image.topics)
    three.kill(killed)
    left = list(three.nodes)

    # Forwarded as soon as there is a controller again.
    assert three.create_topic(left[0], "after", partitions=2, replicas=2) == 0
    assert three.active() in left
    three.wait_for("it is fenced", lambda image: image.brokers[killed].fenced)
    for node_id in left:
        assert killed not in leaders(three.image(node_id), "before")
        assert killed not in leaders(three.image(node_id), "after")
        assert sorted(each.node_id for each in metadata(three, node_id).brokers) == left

    epoch = three.image(left[0]).brokers[killed].broker_epoch
    three.start(killed)
    assert state_of(three, killed) is BrokerState.RUNNING
    three.wait_for("it is unfenced", lambda image: not image.brokers[killed].fenced)
    assert three.image(killed).brokers[killed].broker_epoch > epoch
    assert three.image(killed).topics.keys() >= {"before", "after"}


def test_stopping_broker_hands_over_what_it_leads(three: LoopbackCluster) -> None:
    assert three.create_topic(1, "a", partitions=6, replicas=3) == 0
    three.wait_for("the topic is there", lambda image: "a" in image.topics)
    active = three.active()
    follower = next(each for each in three.nodes if each != active)
    for stopped in (follower, active):
        three.stop(stopped)
        three.wait_for(f"{stopped} leads nothing", partial(is_gone, stopped))
        witness = next(iter(three.nodes))
        assert -1 not in leaders(three.image(witness), "a")
        three.start(stopped)
        three.wait_for("it is back", partial(is_back, stopped))


def test_whole_cluster_stops_and_comes_back_as_it_was(three: LoopbackCluster) -> None:
    assert three.create_topic(2, "a", partitions=2, replicas=2) == 0
    three.wait_for("the topic is there", lambda image: "a" in image.topics)
    topic_id = three.image(1).topics["a"].topic_id
    three.stop()
    three.start()
    assert three.image(3).topics["a"].topic_id == topic_id
    three.wait_for("leaders are back", lambda image: -1 not in leaders(image, "a"))
    assert three.create_topic(3, "b") == 0


def test_brokers_and_controllers_apart(tmp_path: Path) -> None:
    with LoopbackCluster(tmp_path, ["controller", "broker", "broker"]) as cluster:
        cluster.start()
        assert cluster.active() == 1
        assert cluster.create_topic(2, "a", partitions=4, replicas=2) == 0
        cluster.wait_for("the topic is there", lambda image: "a" in image.topics)
        image = cluster.image(3)
        assert sorted(image.brokers) == [2, 3]
        assert list(image.controllers) == [1]
        assert cluster.on(1, lambda broker: len(broker.partitions)) == 0
        assert metadata(cluster, 3).controller_id == 3
        # Brokers hand over and leave; the controller, without any, too.
        cluster.stop(2)
        cluster.wait_for("2 is fenced", lambda image: image.brokers[2].fenced)
        cluster.stop(1, 3)


def test_broker_that_finds_no_controller_gives_up(tmp_path: Path) -> None:
    settings = {"initial.broker.registration.timeout.ms": "1000"}
    with LoopbackCluster(tmp_path, [BOTH, BOTH, BOTH], settings) as cluster:
        with pytest.raises(StartFailed, match="a controller to be elected") as caught:
            cluster.start(1)
        assert "could not register for 1000 ms" in str(caught.value)
        # Nothing is left behind: ports and directory are free.
        cluster.extra.clear()
        cluster.start()
        assert cluster.create_topic(1, "a") == 0
