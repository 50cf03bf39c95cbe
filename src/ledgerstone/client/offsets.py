"""Offsets of logs by time, and committed offsets of groups. Shell over a `Client`."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from ledgerstone.client.blocking import Client
from ledgerstone.client.committed import CommittedOffset as CommittedOffset
from ledgerstone.client.errors import check
from ledgerstone.client.grouping import by_topic
from ledgerstone.client.rounds import PartitionAnswer
from ledgerstone.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
)
from ledgerstone.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ledgerstone.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ledgerstone.protocol.messages.offset_fetch import (
    OffsetFetchGroupPartition,
    OffsetFetchPartition,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from ledgerstone.types import NO_OFFSET, TopicPartition

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3

_CONSUMER_REPLICA_ID: Final = -1


class ListedOffset(NamedTuple):
    offset: int  # NO_OFFSET: no record is that recent
    timestamp_ms: int
    leader_epoch: int


def list_offsets(
    client: Client,
    timestamps: Mapping[TopicPartition, int],
    *,
    isolation_level: int = 0,
) -> dict[TopicPartition, ListedOffset]:
    """The first offset at or after a time, or at EARLIEST, LATEST or MAX_TIMESTAMP."""

    def build(group: Mapping[TopicPartition, int]) -> ListOffsetsRequest:
        return ListOffsetsRequest(
            replica_id=_CONSUMER_REPLICA_ID,
            isolation_level=isolation_level,
            topics=[
                ListOffsetsRequestTopic(
                    name=topic,
                    partitions=[
                        ListOffsetsRequestPartition(
                            partition_index=number,
                            current_leader_epoch=client.session.cluster.leader_epoch_of(
                                TopicPartition(topic, number)
                            ),
                            timestamp=timestamp,
                        )
                        for number, timestamp in partitions.items()
                    ],
                )
                for topic, partitions in by_topic(group).items()
            ],
            timeout_ms=client.session.config.call_timeout_ms,
        )

    answers = client.ask_leaders(
        "ListOffsets", timestamps, build, _read_listed, ListOffsetsResponse
    )
    done = answers.all_done()
    return {
        each: ListedOffset(done[each].offset, done[each].timestamp, done[each].leader_epoch)
        for each in timestamps
    }


def _read_listed(
    response: ListOffsetsResponse,
) -> Iterator[PartitionAnswer[ListOffsetsResponsePartition]]:
    for topic in response.topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            yield PartitionAnswer(partition, each.error_code, each)


def offsets_at(
    client: Client, partitions: Iterable[TopicPartition], at: int
) -> dict[TopicPartition, int]:
    """Where to start reading for a time; the end of the log if no record is that recent."""
    wanted = list(partitions)
    listed = list_offsets(client, dict.fromkeys(wanted, at))
    late = [each for each in wanted if listed[each].offset == NO_OFFSET]
    ends = list_offsets(client, dict.fromkeys(late, LATEST)) if late else {}
    return {each: (ends if each in ends else listed)[each].offset for each in wanted}


def commit_offsets(
    client: Client, group: str, offsets: Mapping[TopicPartition, CommittedOffset]
) -> None:
    """A commit from outside the group's membership; refused while the group has members."""
    request = OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=number,
                        committed_offset=each.offset,
                        committed_leader_epoch=each.leader_epoch,
                        committed_metadata=each.metadata,
                    )
                    for number, each in partitions.items()
                ],
            )
            for topic, partitions in by_topic(offsets).items()
        ],
    )
    response = client.call(request, OffsetCommitResponse)
    for answer in response.topics:
        for result in answer.partitions:
            subject = f"commit of group {group} for {answer.name}-{result.partition_index}"
            check(result.error_code, subject)


def committed_offsets(
    client: Client,
    group: str,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, CommittedOffset]:
    """Committed offsets; None asks for all partitions. Those without a commit are left out.

    For partitions named here, it waits until no transaction with an offset of theirs is open.
    Asked for all, Kafka omits a partition whose only offset is in an open transaction."""
    wanted = None if partitions is None else by_topic(dict.fromkeys(partitions, None))
    request = OffsetFetchRequest(
        group_id=group,
        topics=None
        if wanted is None
        else [
            OffsetFetchRequestTopic(name=topic, partition_indexes=list(numbers))
            for topic, numbers in wanted.items()
        ],
        groups=[
            OffsetFetchRequestGroup(
                group_id=group,
                topics=None
                if wanted is None
                else [
                    OffsetFetchRequestGroupTopic(name=topic, partition_indexes=list(numbers))
                    for topic, numbers in wanted.items()
                ],
            )
        ],
        require_stable=True,
    )
    answer = client.call(request, OffsetFetchResponse, timeout_ms=timeout_ms)
    return _read_committed(answer, group)


def _read_committed(
    response: OffsetFetchResponse, group: str
) -> dict[TopicPartition, CommittedOffset]:
    check(response.error_code, f"offsets of group {group}")
    found: dict[TopicPartition, CommittedOffset] = {}
    # Up to version 7 the response is for one group and has no list.
    answers: list[tuple[str, OffsetFetchPartition | OffsetFetchGroupPartition]] = [
        (topic.name, each) for topic in response.topics for each in topic.partitions
    ]
    for answer in response.groups:
        check(answer.error_code, f"offsets of group {answer.group_id}")
        answers += [(topic.name, each) for topic in answer.topics for each in topic.partitions]
    for name, each in answers:
        partition = TopicPartition(name, each.partition_index)
        check(each.error_code, f"offset of group {group} for {partition}")
        if each.committed_offset != NO_OFFSET:
            found[partition] = CommittedOffset(
                each.committed_offset, each.committed_leader_epoch, each.metadata
            )
    return found


def delete_offsets(client: Client, group: str, partitions: Iterable[TopicPartition]) -> None:
    wanted = by_topic(dict.fromkeys(partitions, None))
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[OffsetDeleteRequestPartition(partition_index=n) for n in numbers],
            )
            for topic, numbers in wanted.items()
        ],
    )
    response = client.call(request, OffsetDeleteResponse)
    check(response.error_code, f"offsets of group {group}")
    for topic in response.topics:
        for each in topic.partitions:
            subject = f"offset of group {group} for {topic.name}-{each.partition_index}"
            check(each.error_code, subject)
