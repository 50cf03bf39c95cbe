"""A fetcher's questions as Kafka's messages. Pure."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from ledgerstone.protocol.messages.fetch import (
    FetchForgottenTopic,
    FetchPartition,
    FetchPartitionResponse,
    FetchReplicaState,
    FetchRequest,
    FetchTopic,
)
from ledgerstone.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from ledgerstone.replication.fetch_session import PartitionKey
from ledgerstone.replication.fetching.followed import FetchStage, FollowedPartition
from ledgerstone.replication.fetching.session import Named
from ledgerstone.replication.removal import LeaderWord

# Partitions are named by topic id, and the broker epoch is told.
LEAST_FETCH_VERSION: Final = 15
# A follower gets the leader's log end offset for LATEST, not its high watermark.
LATEST: Final = -1
EARLIEST: Final = -2


class FetchSettings(NamedTuple):
    """Named as Kafka's keys; `partition_max_bytes` is replica.fetch.max.bytes."""

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    partition_max_bytes: int
    response_max_bytes: int
    backoff_ms: int


def fetch_request(named: Named, settings: FetchSettings, broker_epoch: int) -> FetchRequest:
    topics: dict[bytes, FetchTopic] = {}
    for (topic_id, number), wish in named.wishes:
        assert isinstance(topic_id, bytes)
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = FetchTopic(topic_id=topic_id)
        topic.partitions.append(
            FetchPartition(
                partition=number,
                current_leader_epoch=wish.leader_epoch,
                fetch_offset=wish.fetch_offset,
                last_fetched_epoch=wish.last_fetched_epoch,
                log_start_offset=wish.log_start_offset,
                partition_max_bytes=settings.partition_max_bytes,
                clean_to=wish.clean_to,
                removed_to=wish.removed_to,
            )
        )
    return FetchRequest(
        replica_state=FetchReplicaState(replica_id=settings.replica_id, replica_epoch=broker_epoch),
        max_wait_ms=settings.max_wait_ms,
        min_bytes=settings.min_bytes,
        max_bytes=settings.response_max_bytes,
        session_id=named.session_id,
        session_epoch=named.epoch,
        topics=list(topics.values()),
        forgotten_topics_data=_forgotten(named.forgotten),
    )


def leader_word(data: FetchPartitionResponse) -> LeaderWord | None:
    """What the leader says about tombstones; None from an Apache Kafka leader."""
    if data.removable_to < 0:
        return None
    held_from = data.held_from_offset
    return LeaderWord(
        data.removable_to, data.removed_to, data.clean_to, None if held_from < 0 else held_from
    )


def _forgotten(keys: Iterable[PartitionKey]) -> list[FetchForgottenTopic]:
    topics: dict[bytes, list[int]] = {}
    for topic_id, number in keys:
        assert isinstance(topic_id, bytes)
        topics.setdefault(topic_id, []).append(number)
    return [
        FetchForgottenTopic(topic_id=topic_id, partitions=numbers)
        for topic_id, numbers in topics.items()
    ]


def offsets_request(asking: Iterable[FollowedPartition], replica_id: int) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsRequestTopic] = {}
    for each in asking:
        name, number = each.topic_partition
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = ListOffsetsRequestTopic(name=name)
        topic.partitions.append(
            ListOffsetsRequestPartition(
                partition_index=number,
                current_leader_epoch=each.leader_epoch,
                timestamp=LATEST if each.stage is FetchStage.ASKS_LATEST else EARLIEST,
            )
        )
    return ListOffsetsRequest(replica_id=replica_id, topics=list(topics.values()))
