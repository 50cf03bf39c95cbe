"""DescribeLogDirs (35). Grade D.

Behaviour: the one log directory with the size of each partition in it.
Versions: 1-5.
"""

from ledgerstone.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResponseTopic,
    DescribeLogDirsResult,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: DescribeLogDirsRequest) -> Answer:
    wanted = None
    if message.topics is not None:
        wanted = {(topic.topic, number) for topic in message.topics for number in topic.partitions}
    topics: dict[str, DescribeLogDirsResponseTopic] = {}
    for partition in broker.partitions:
        topic, number = partition.topic_partition
        if wanted is not None and (topic, number) not in wanted:
            continue
        entry = topics.setdefault(topic, DescribeLogDirsResponseTopic(name=topic))
        entry.partitions.append(
            DescribeLogDirsPartition(
                partition_index=number, partition_size=partition.log.size_bytes
            )
        )
    result = DescribeLogDirsResult(log_dir=broker.log_dir.path, topics=list(topics.values()))
    return DescribeLogDirsResponse(results=[result])
