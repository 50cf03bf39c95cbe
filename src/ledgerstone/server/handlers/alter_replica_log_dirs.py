"""AlterReplicaLogDirs (34). Grade D.

Behaviour: a broker has one log directory, so a replica can only be sent where it is: that is
accepted and changes nothing. Another path gets LOG_DIR_NOT_FOUND.
Versions: 1-2.
Differs from Kafka: no moves between directories. A partition that is not here gets
UNKNOWN_TOPIC_OR_PARTITION where Kafka remembers the wish for a replica to come.
"""

from ledgerstone.protocol.error_codes import ErrorCode
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
                    error_code=_check(broker, directory.path, TopicPartition(topic.name, number)),
                )
                for number in topic.partitions
            ]
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _check(broker: Broker, path: str, topic_partition: TopicPartition) -> int:
    if path.rstrip("/") != broker.log_dir.path.rstrip("/"):
        return ErrorCode.LOG_DIR_NOT_FOUND
    if broker.partitions.find(topic_partition) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return 0
