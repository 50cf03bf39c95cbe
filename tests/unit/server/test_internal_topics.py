"""Topics of coordinators on a cluster: replicated as configured, or not made at all."""

from functools import partial
from pathlib import Path

from ledgerstone.metadata.image import ConfigResource, MetadataImage, ResourceType
from ledgerstone.metadata.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from tests.kit.broker import wait_until
from tests.kit.loopback_cluster import LoopbackCluster

# As on a cluster without settings, with fewer partitions.
SETTINGS = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "1",
}
TOPICS = (CONSUMER_OFFSETS, TRANSACTION_STATE)


def found(cluster: LoopbackCluster, through: int, key_type: int) -> tuple[int, int]:
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["key"])
    answer = cluster.ask(through, request)
    assert isinstance(answer, FindCoordinatorResponse)
    (only,) = answer.coordinators
    return only.error_code, only.node_id


def is_found(cluster: LoopbackCluster, key_type: int) -> bool:
    return found(cluster, 1, key_type)[0] == ErrorCode.NONE


def configs(image: MetadataImage, topic: str) -> tuple[str | None, str | None]:
    given = image.config_of(ConfigResource(ResourceType.TOPIC, topic))
    return given.get("min.insync.replicas"), given.get("unclean.leader.election.enable")


def test_coordinators_wait_for_as_many_brokers_as_their_topics_have_replicas(
    tmp_path: Path,
) -> None:
    with LoopbackCluster(tmp_path, settings=SETTINGS) as cluster:
        cluster.start(1, 2)
        for key_type in (0, 1):
            for through in (1, 2, 1):
                code, _ = found(cluster, through, key_type)
                assert code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert not cluster.image(1).topics

        cluster.start(3)
        leaders = []
        for key_type in (0, 1):
            wait_until(partial(is_found, cluster, key_type), "a coordinator is found", 20)
            leaders.append(found(cluster, 1, key_type)[1])

        image = cluster.image(1)
        for topic, leader in zip(TOPICS, leaders, strict=True):
            (state,) = image.topics[topic].partitions.values()
            assert sorted(state.replicas) == [1, 2, 3]
            assert state.leader == leader
        assert configs(image, CONSUMER_OFFSETS) == (None, "false")
        assert configs(image, TRANSACTION_STATE) == ("2", "false")
        # Every broker names the same.
        cluster.wait_for("topics are known", lambda seen: set(TOPICS) <= seen.topics.keys())
        for through in (1, 2, 3):
            assert [found(cluster, through, each)[1] for each in (0, 1)] == leaders
