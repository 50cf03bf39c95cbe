"""What a client believes of Metadata responses."""

import pytest

from ledgerstone.client.cluster import NO_NODE, KnownCluster
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ZERO_UUID
from ledgerstone.protocol.messages.metadata import (
    MetadataPartition,
    MetadataResponse,
    MetadataResponseTopic,
)
from ledgerstone.types import TopicPartition

P0 = TopicPartition("t", 0)
ID, OTHER_ID = b"a" * 16, b"b" * 16


def told(
    leader_id: int, leader_epoch: int, *, topic_id: bytes = ID, error_code: int = ErrorCode.NONE
) -> MetadataResponse:
    partition = MetadataPartition(
        partition_index=0,
        leader_id=leader_id,
        leader_epoch=leader_epoch,
        replica_nodes=[1, 2],
        isr_nodes=[leader_id],
    )
    topic = MetadataResponseTopic(
        name="t", topic_id=topic_id, error_code=error_code, partitions=[partition]
    )
    return MetadataResponse(topics=[topic])


def after(*responses: MetadataResponse) -> KnownCluster:
    cluster = KnownCluster()
    for each in responses:
        # As after every answer that says that something has changed.
        cluster.forget("t")
        cluster.learn(each, now_ms=0)
    return cluster


@pytest.mark.parametrize("topic_id", [ID, ZERO_UUID])
def test_older_leader_epoch_is_not_believed(topic_id: bytes) -> None:
    cluster = after(told(2, 5, topic_id=topic_id), told(1, 4, topic_id=topic_id))

    assert (cluster.leader_of(P0), cluster.leader_epoch_of(P0)) == (2, 5)


def test_newer_leader_epoch_is_believed() -> None:
    cluster = after(told(2, 5), told(1, 6))

    assert (cluster.leader_of(P0), cluster.leader_epoch_of(P0)) == (1, 6)


def test_topic_that_was_created_again_begins_anew() -> None:
    cluster = after(told(2, 5), told(1, 0, topic_id=OTHER_ID))

    assert (cluster.leader_of(P0), cluster.leader_epoch_of(P0)) == (1, 0)


def test_topic_without_an_id_begins_anew_once_a_broker_did_not_know_it() -> None:
    gone = told(-1, -1, topic_id=ZERO_UUID, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    cluster = after(told(2, 5, topic_id=ZERO_UUID), gone, told(1, 0, topic_id=ZERO_UUID))

    assert (cluster.leader_of(P0), cluster.leader_epoch_of(P0)) == (1, 0)


def test_topic_that_is_to_be_looked_up_again_keeps_its_id_and_epoch() -> None:
    cluster = after(told(2, 5))

    cluster.forget("t")

    assert cluster.leader_of(P0) == NO_NODE
    assert (cluster.topic_id("t"), cluster.name_of("", ID)) == (ID, "t")
    assert cluster.leader_epoch_of(P0) == 5


def test_id_of_a_topic_that_was_created_again_means_nothing() -> None:
    cluster = after(told(2, 5), told(1, 0, topic_id=OTHER_ID))

    assert (cluster.topic_id("t"), cluster.name_of("", OTHER_ID)) == (OTHER_ID, "t")
    assert cluster.name_of("", ID) is None
