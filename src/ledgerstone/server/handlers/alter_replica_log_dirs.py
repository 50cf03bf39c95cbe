"""AlterReplicaLogDirs (34). Grade D.

Behaviour: moves a replica to another log directory of this broker. The answer comes once the copy
has begun; DescribeLogDirs shows how far it is. A replica that is not here yet gets
REPLICA_NOT_AVAILABLE, and goes to the wanted directory once it comes. Asked again with another
directory, the running copy is given up; with the one it is in, too.
Versions: 1-2.
"""

from ledgerstone.errors import KafkaError
from ledgerstone.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsPartition,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirsResult,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request
from ledgerstone.types import TopicPartition


def handle(broker: Broker, request: Request, message: AlterReplicaLogDirsRequest) -> Answer:
    results: dict[str, AlterReplicaLogDirsResult] = {}
    for directory in message.dirs:
        for topic in directory.topics:
            result = results.setdefault(topic.name, AlterReplicaLogDirsResult(topic.name))
            result.partitions += [
                AlterReplicaLogDirsPartition(
                    partition_index=number,
                    error_code=_move(broker, directory.path, TopicPartition(topic.name, number)),
                )
                for number in topic.partitions
            ]
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _move(broker: Broker, path: str, topic_partition: TopicPartition) -> int:
    try:
        broker.directories.move(topic_partition, path)
    except KafkaError as error:
        return error.code
    return 0
