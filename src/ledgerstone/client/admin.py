"""Administration of topics, partitions and log directories. Shell over a `Client`."""

from collections.abc import Iterator, Mapping
from typing import Final

from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import ask_about
from ledgerstone.client.errors import check
from ledgerstone.client.grouping import by_topic
from ledgerstone.client.rounds import PartitionAnswer, PartitionAnswers
from ledgerstone.client.routing import ToBroker
from ledgerstone.dataclasses import dataclass
from ledgerstone.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
)
from ledgerstone.protocol.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
    DeleteRecordsResponse,
)
from ledgerstone.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicsTopic,
)
from ledgerstone.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsRequestTopic,
    DescribeLogDirsResponse,
)
from ledgerstone.protocol.messages.metadata import MetadataResponse
from ledgerstone.types import TopicPartition

BROKER_DEFAULT: Final = -1  # as a partition count or a replication factor
HIGH_WATERMARK: Final = -1  # as an offset to delete up to


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLog:
    """One replica's log on one broker's disk."""

    broker_id: int
    log_dir: str
    partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool


def create_topic(client: Client, topic: NewTopic, *, validate_only: bool = False) -> None:
    configs = [CreateTopicsRequestConfig(name=k, value=v) for k, v in topic.configs.items()]
    request = CreateTopicsRequest(
        topics=[
            CreateTopicsRequestTopic(
                name=topic.name,
                num_partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                configs=configs,
            )
        ],
        timeout_ms=client.session.config.call_timeout_ms,
        validate_only=validate_only,
    )
    for result in client.call(request, CreateTopicsResponse).topics:
        check(result.error_code, f"topic {result.name}", result.error_message)


def delete_topic(client: Client, name: str) -> None:
    request = DeleteTopicsRequest(
        topic_names=[name],
        topics=[DeleteTopicsTopic(name=name)],
        timeout_ms=client.session.config.call_timeout_ms,
    )
    for result in client.call(request, DeleteTopicsResponse).responses:
        check(result.error_code, f"topic {result.name or name}", result.error_message)
    client.session.cluster.forget(name)


def add_partitions(client: Client, name: str, total: int) -> None:
    """Raises the number of partitions to `total`; it can never be lowered."""
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=total, assignments=None)],
        timeout_ms=client.session.config.call_timeout_ms,
    )
    for result in client.call(request, CreatePartitionsResponse).results:
        check(result.error_code, f"topic {result.name}", result.error_message)
    client.session.cluster.forget(name)


def delete_records(client: Client, before: Mapping[TopicPartition, int]) -> PartitionAnswers[int]:
    """Drops everything below an offset; the answers are the new log start offsets."""

    def build(group: Mapping[TopicPartition, int]) -> DeleteRecordsRequest:
        return DeleteRecordsRequest(
            topics=[
                DeleteRecordsRequestTopic(
                    name=topic,
                    partitions=[
                        DeleteRecordsRequestPartition(partition_index=number, offset=offset)
                        for number, offset in partitions.items()
                    ],
                )
                for topic, partitions in by_topic(group).items()
            ],
            timeout_ms=client.session.config.call_timeout_ms,
        )

    def read(response: DeleteRecordsResponse) -> Iterator[PartitionAnswer[int]]:
        for topic in response.topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                yield PartitionAnswer(partition, each.error_code, each.low_watermark)

    return client.ask_leaders("DeleteRecords", before, build, read, DeleteRecordsResponse)


def replica_logs(client: Client, topic: str | None = None) -> list[ReplicaLog]:
    """The logs on every broker's disks, or those of one topic."""
    asked = None
    if topic is not None:
        numbers = list(client.topic(topic).partitions)
        asked = [DescribeLogDirsRequestTopic(topic=topic, partitions=numbers)]
    elif not client.session.cluster.brokers:
        client.call(ask_about([]), MetadataResponse)
    found: list[ReplicaLog] = []
    for broker_id in sorted(client.session.cluster.brokers):
        request = DescribeLogDirsRequest(topics=asked)
        response = client.call(request, DescribeLogDirsResponse, to=ToBroker(broker_id))
        found += _read_logs(broker_id, response)
    return found


def _read_logs(broker_id: int, response: DescribeLogDirsResponse) -> Iterator[ReplicaLog]:
    check(response.error_code, f"log directories of broker {broker_id}")
    for log_dir in response.results:
        check(log_dir.error_code, f"log directory {log_dir.log_dir} of broker {broker_id}")
        for topic in log_dir.topics:
            for each in topic.partitions:
                yield ReplicaLog(
                    broker_id=broker_id,
                    log_dir=log_dir.log_dir,
                    partition=TopicPartition(topic.name, each.partition_index),
                    size_bytes=each.partition_size,
                    offset_lag=each.offset_lag,
                    is_future=each.is_future_key,
                )
