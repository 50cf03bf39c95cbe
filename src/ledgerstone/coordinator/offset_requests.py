"""OffsetCommit, OffsetFetch and OffsetDelete for one group. Pure. Rules are in README.md.

Committing and deleting only make records; the store changes when they are replayed.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ledgerstone.coordinator.group_records import offset_record, offset_tombstone
from ledgerstone.coordinator.group_state import GroupPhase, GroupState
from ledgerstone.coordinator.offsets import CommittedOffset, Growth, OffsetStore
from ledgerstone.coordinator.partitioning import java_length
from ledgerstone.coordinator.pending_offsets import PendingOffsets
from ledgerstone.coordinator.turn import Turn
from ledgerstone.errors import GroupIdNotFound, NonEmptyGroup
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ZERO_UUID
from ledgerstone.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ledgerstone.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ledgerstone.protocol.messages.offset_fetch import (
    OffsetFetchGroupPartition,
    OffsetFetchPartition,
    OffsetFetchRequest,
    OffsetFetchRequestGroupTopic,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseGroupTopic,
    OffsetFetchResponseTopic,
)
from ledgerstone.types import NO_LEADER_EPOCH, NO_OFFSET, NO_TIMESTAMP, TopicPartition

# OffsetFetch asks for one group before this version, for many from it on.
MANY_GROUPS_SINCE: Final = 8
NOT_COMMITTED: Final = CommittedOffset(NO_OFFSET)


def commit_offsets(
    request: OffsetCommitRequest, metadata_max_length: int, offsets: OffsetStore, turn: Turn
) -> OffsetCommitResponse:
    now_ms = turn.now.wall_ms
    growth = Growth(offsets, request.group_id)
    expire_timestamp_ms = NO_TIMESTAMP
    if request.retention_time_ms >= 0:
        expire_timestamp_ms = now_ms + request.retention_time_ms

    def commit_one(topic: OffsetCommitRequestTopic, wanted: OffsetCommitRequestPartition) -> int:
        metadata = wanted.committed_metadata or ""
        if java_length(metadata) > metadata_max_length:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        committed = CommittedOffset(
            wanted.committed_offset,
            wanted.committed_leader_epoch,
            metadata,
            now_ms,
            expire_timestamp_ms,
        )
        topic_partition = TopicPartition(topic.name, wanted.partition_index)
        if not growth.has_room_for(topic_partition, committed):
            # Not a code that makes clients try again: there may be no room for days.
            return ErrorCode.INVALID_COMMIT_OFFSET_SIZE
        record = offset_record(request.group_id, topic_partition, committed, topic.topic_id)
        turn.write(record)
        return ErrorCode.NONE

    response = OffsetCommitResponse()
    for topic in request.topics:
        partitions = [
            OffsetCommitResponsePartition(
                partition_index=wanted.partition_index, error_code=commit_one(topic, wanted)
            )
            for wanted in topic.partitions
        ]
        response.topics.append(
            OffsetCommitResponseTopic(
                name=topic.name, topic_id=topic.topic_id, partitions=partitions
            )
        )
    return response


def commit_refused(request: OffsetCommitRequest, error_code: int) -> OffsetCommitResponse:
    """OffsetCommit has no error of its own: every partition carries it."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error_code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def fetch_offsets(
    request: OffsetFetchRequest, api_version: int, offsets: OffsetStore, pending: PendingOffsets
) -> OffsetFetchResponse:
    """A group nobody knows has committed nothing, which is not an error.

    With `require_stable` an offset that a transaction may still replace is
    UNSTABLE_OFFSET_COMMIT; without it the last committed one is told."""

    def is_unstable(group_id: str, topic: str, partition: int) -> bool:
        return request.require_stable and pending.is_open(
            group_id, TopicPartition(topic, partition)
        )

    if api_version < MANY_GROUPS_SINCE:
        response = OffsetFetchResponse(
            topics=[
                _one_group_topic(*found)
                for found in _found(offsets.topics_of(request.group_id), request.topics)
            ]
        )
        for one in response.topics:
            for each in one.partitions:
                if is_unstable(request.group_id, one.name, each.partition_index):
                    _make_unstable(each)
        return response
    response = _fetch_many(request, offsets)
    for group in response.groups:
        for topic in group.topics:
            for partition in topic.partitions:
                if is_unstable(group.group_id, topic.name, partition.partition_index):
                    _make_unstable(partition)
    return response


def _make_unstable(partition: OffsetFetchPartition | OffsetFetchGroupPartition) -> None:
    partition.error_code = ErrorCode.UNSTABLE_OFFSET_COMMIT
    partition.committed_offset = NO_OFFSET
    partition.committed_leader_epoch = NO_LEADER_EPOCH
    partition.metadata = ""


def _fetch_many(request: OffsetFetchRequest, offsets: OffsetStore) -> OffsetFetchResponse:
    return OffsetFetchResponse(
        groups=[
            OffsetFetchResponseGroup(
                group_id=group.group_id,
                topics=[
                    _many_groups_topic(*found)
                    for found in _found(offsets.topics_of(group.group_id), group.topics)
                ],
            )
            for group in request.groups
        ]
    )


def _found(
    committed: Mapping[str, Mapping[int, CommittedOffset]],
    wanted: Sequence[OffsetFetchRequestTopic | OffsetFetchRequestGroupTopic] | None,
) -> Iterator[tuple[str, bytes, list[tuple[int, CommittedOffset]]]]:
    """Topic name, topic id and offsets by partition; without a wish everything there is."""
    if wanted is None:
        for name, partitions in committed.items():
            yield name, ZERO_UUID, list(partitions.items())
        return
    for topic in wanted:
        topic_id = ZERO_UUID if isinstance(topic, OffsetFetchRequestTopic) else topic.topic_id
        known = committed.get(topic.name, {})
        indexes = topic.partition_indexes
        yield topic.name, topic_id, [(index, known.get(index, NOT_COMMITTED)) for index in indexes]


def _one_group_topic(
    name: str, _topic_id: bytes, partitions: list[tuple[int, CommittedOffset]]
) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=name,
        partitions=[
            OffsetFetchPartition(
                partition_index=index,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                metadata=committed.metadata,
            )
            for index, committed in partitions
        ],
    )


def _many_groups_topic(
    name: str, topic_id: bytes, partitions: list[tuple[int, CommittedOffset]]
) -> OffsetFetchResponseGroupTopic:
    return OffsetFetchResponseGroupTopic(
        name=name,
        topic_id=topic_id,
        partitions=[
            OffsetFetchGroupPartition(
                partition_index=index,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                metadata=committed.metadata,
            )
            for index, committed in partitions
        ],
    )


def delete_offsets(
    group: GroupState,
    request: OffsetDeleteRequest,
    offsets: OffsetStore,
    pending: PendingOffsets,
    turn: Turn,
) -> OffsetDeleteResponse:
    if group.state is GroupPhase.DEAD:
        raise GroupIdNotFound(f"{group.group_id!r} is being deleted")
    if group.state is not GroupPhase.EMPTY and not group.uses_consumer_protocol:
        raise NonEmptyGroup(f"{group.group_id!r} has {len(group.roster)} members")
    subscribed = group.subscribed_topics()
    response = OffsetDeleteResponse()
    for topic in request.topics:
        # Members whose subscription cannot be read might consume any topic.
        in_use = bool(group.roster) and (subscribed is None or topic.name in subscribed)
        answer = OffsetDeleteResponseTopic(name=topic.name)
        for partition in topic.partitions:
            topic_partition = TopicPartition(topic.name, partition.partition_index)
            is_there = offsets.get(group.group_id, topic_partition) is not None
            is_there = is_there or pending.is_open(group.group_id, topic_partition)
            if not in_use and is_there:
                turn.write(offset_tombstone(group.group_id, topic_partition))
            answer.partitions.append(
                OffsetDeleteResponsePartition(
                    partition_index=partition.partition_index,
                    error_code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if in_use else ErrorCode.NONE,
                )
            )
        response.topics.append(answer)
    return response
