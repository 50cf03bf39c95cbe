"""DescribeLogDirs (35). Grade D.

Behaviour: every log directory with the size of each partition in it, copies that are being made
there by AlterReplicaLogDirs, and the room on its disk. A directory that is offline gets
KAFKA_STORAGE_ERROR and nothing else.
Versions: 1-5.
"""

from collections.abc import Iterator

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResponseTopic,
    DescribeLogDirsResult,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request
from ledgerstone.storage.log_dir import LogDir
from ledgerstone.types import TopicPartition


def handle(broker: Broker, request: Request, message: DescribeLogDirsRequest) -> Answer:
    wanted = None
    if message.topics is not None:
        wanted = {
            TopicPartition(topic.topic, number)
            for topic in message.topics
            for number in topic.partitions
        }
    results = [_describe(broker, path, wanted) for path in broker.config.log_dirs]
    return DescribeLogDirsResponse(results=results)


def _describe(
    broker: Broker, path: str, wanted: set[TopicPartition] | None
) -> DescribeLogDirsResult:
    log_dir = broker.log_dirs.at(path)
    if log_dir is None:
        return DescribeLogDirsResult(log_dir=path, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    try:
        total_bytes, usable_bytes = log_dir.fs.room_of(path)
    except OSError:
        return DescribeLogDirsResult(log_dir=path, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    topics: dict[str, DescribeLogDirsResponseTopic] = {}
    for topic_partition, described in _partitions(broker, log_dir):
        if wanted is None or topic_partition in wanted:
            name = topic_partition.topic
            entry = topics.setdefault(name, DescribeLogDirsResponseTopic(name=name))
            entry.partitions.append(described)
    return DescribeLogDirsResult(
        log_dir=path,
        topics=list(topics.values()),
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
    )


def _partitions(
    broker: Broker, log_dir: LogDir
) -> Iterator[tuple[TopicPartition, DescribeLogDirsPartition]]:
    for partition in broker.partitions:
        tp = partition.topic_partition
        if tp in log_dir.logs:
            yield (
                tp,
                DescribeLogDirsPartition(
                    partition_index=tp.partition, partition_size=partition.log.size_bytes
                ),
            )
    for move in broker.directories.moves:
        if move.target is log_dir:
            tp, future = move.topic_partition, move.future
            yield (
                tp,
                DescribeLogDirsPartition(
                    partition_index=tp.partition,
                    partition_size=future.size_bytes,
                    offset_lag=move.partition.log.log_end_offset - future.end_offset,
                    is_future_key=True,
                ),
            )
