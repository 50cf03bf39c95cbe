"""OffsetCommit (8). Grade D.

Behaviour: offsets are in __consumer_offsets before the answer leaves.
The rules are the coordinator's: coordinator/README.md.
Versions: 2-9.
"""

from ledgerstone.protocol.messages.offset_commit import OffsetCommitRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request
from ledgerstone.server.tombstone_guard import offset_committed
from ledgerstone.types import INT64_MAX, TopicPartition


def handle(broker: Broker, request: Request, message: OffsetCommitRequest) -> Answer:
    # Kept as the time it ends, which has to fit the record it is kept in.
    longest_ms = INT64_MAX - broker.clock.now_ms()
    message.retention_time_ms = min(message.retention_time_ms, longest_ms)
    answer = broker.groups.ask(
        broker,
        request,
        message.group_id,
        lambda shard, context, now: shard.handle_offset_commit(message, context, now),
        from_member=bool(message.member_id),
    )
    for topic in message.topics:
        for partition in topic.partitions:
            offset_committed(broker, TopicPartition(topic.name, partition.partition_index))
    return answer
