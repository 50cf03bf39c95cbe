"""Requests that tests of a broker make again and again, each in a line."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
)
from ledgerstone.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ledgerstone.protocol.messages.fetch import (
    FetchForgottenTopic,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from ledgerstone.protocol.messages.join_group import JoinGroupProtocol, JoinGroupRequest
from ledgerstone.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ledgerstone.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from ledgerstone.protocol.messages.produce import (
    ProducePartitionData,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicData,
)
from ledgerstone.records.batch import iter_headers
from ledgerstone.records.record import iter_records
from ledgerstone.server.metrics import Exposition, MetricSample
from ledgerstone.types import TopicPartition
from tests.kit.in_process import Client, InProcess
from tests.kit.logs import batch

TOPIC = "events"
# The last version that names topics by their names.
BY_NAME = 12


def create_topic(
    client: Client, name: str = TOPIC, partitions: int = 1, **configs: str
) -> CreateTopicsResponse:
    """Configuration keys with underscores for dots."""
    given = [
        CreateTopicsRequestConfig(key.replace("_", "."), value) for key, value in configs.items()
    ]
    topic = CreateTopicsRequestTopic(
        name=name, num_partitions=partitions, replication_factor=1, configs=given
    )
    return client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000), CreateTopicsResponse)


def delete_topic(client: Client, name: str = TOPIC) -> int:
    request = DeleteTopicsRequest(topic_names=[name], timeout_ms=1000)
    return client.ask(request, DeleteTopicsResponse, 5).responses[0].error_code


def produce(
    records: bytes | bytearray, topic: str = TOPIC, partition: int = 0, *, acks: int = 1
) -> ProduceRequest:
    data = ProducePartitionData(index=partition, records=bytearray(records))
    topics = [ProduceTopicData(name=topic, partition_data=[data])]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics)


def produced(
    client: Client, records: bytes | bytearray, topic: str = TOPIC, partition: int = 0, **how: Any
) -> ProducePartitionResponse:
    response = client.ask(produce(records, topic, partition, **how), ProduceResponse)
    return response.responses[0].partition_responses[0]


def write(client: Client, *values: str, topic: str = TOPIC, partition: int = 0) -> list[int]:
    """One batch for each value; returns their offsets."""
    answers = [produced(client, batch(("key", value)), topic, partition) for value in values]
    assert [answer.error_code for answer in answers] == [ErrorCode.NONE] * len(values)
    return [answer.base_offset for answer in answers]


def fetch(
    offsets: Mapping[int, int] | None = None,
    topic: str = TOPIC,
    *,
    partition_max_bytes: int = 1 << 20,
    leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    forget: Sequence[int] = (),
    **fields: Any,
) -> FetchRequest:
    """Partition 0 from the start unless told otherwise; does not wait unless told to."""
    partitions = [
        FetchPartition(
            partition=number,
            fetch_offset=offset,
            partition_max_bytes=partition_max_bytes,
            current_leader_epoch=leader_epoch,
            last_fetched_epoch=last_fetched_epoch,
        )
        for number, offset in ({0: 0} if offsets is None else offsets).items()
    ]
    forgotten = [FetchForgottenTopic(topic=topic, partitions=list(forget))] if forget else []
    topics = [FetchTopic(topic=topic, partitions=partitions)] if partitions else []
    return FetchRequest(topics=topics, forgotten_topics_data=forgotten, **fields)


def fetched(client: Client, request: FetchRequest | None = None) -> FetchPartitionResponse:
    """The one partition that was asked for."""
    response = client.ask(request or fetch(), FetchResponse, BY_NAME)
    assert response.error_code == ErrorCode.NONE
    return response.responses[0].partitions[0]


def partitions_in(response: FetchResponse) -> list[int]:
    return [each.partition_index for topic in response.responses for each in topic.partitions]


def values_in(answer: FetchPartitionResponse) -> list[str]:
    data = answer.records
    assert data is None or isinstance(data, bytes | memoryview)
    return [
        bytes(record.value or b"").decode()
        for position, header in iter_headers(data or b"")
        if not header.is_control
        for record in iter_records(data or b"", position)
    ]


def read_all(client: Client, topic: str = TOPIC, partition: int = 0) -> list[str]:
    return values_in(fetched(client, fetch({partition: 0}, topic)))


def commit_offset(
    client: Client, group: str, offset: int, topic: str = TOPIC, metadata: str = ""
) -> int:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=metadata
    )
    topics = [OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    request = OffsetCommitRequest(group_id=group, topics=topics)
    answer = client.ask(request, OffsetCommitResponse, 8)
    return answer.topics[0].partitions[0].error_code


def committed_offset(client: Client, group: str) -> int | None:
    """None where nothing was committed."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    topics = client.ask(request, OffsetFetchResponse, 8).groups[0].topics
    return topics[0].partitions[0].committed_offset if topics else None


def join(group: str, member_id: str = "", topics: bytes = b"") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=30_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupProtocol(name="range", metadata=topics)],
    )


def end_offset(machine: InProcess, topic: str = TOPIC, partition: int = 0) -> int:
    return machine.broker.partitions.get(TopicPartition(topic, partition)).log.log_end_offset


def exposition(samples: Iterable[MetricSample]) -> str:
    page = Exposition()
    page.add(samples)
    return page.text()
