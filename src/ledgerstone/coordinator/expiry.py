"""Which committed offsets have outlived their retention. Pure. The rules are in README.md."""

from ledgerstone.coordinator.group_state import GroupPhase, GroupState
from ledgerstone.coordinator.offsets import CommittedOffset, OffsetStore
from ledgerstone.types import NO_TIMESTAMP, TopicPartition


def expired_offsets(
    group: GroupState, offsets: OffsetStore, *, now_ms: int, retention_ms: int
) -> list[TopicPartition]:
    if group.state not in (GroupPhase.EMPTY, GroupPhase.STABLE):
        return []
    in_use: dict[str, None] = {}
    if group.state is GroupPhase.STABLE:
        subscribed = group.subscribed_topics()
        if subscribed is None:
            # Nobody can tell which offsets the members still need.
            return []
        in_use = subscribed
    return [
        topic_partition
        for topic_partition, committed in offsets.offsets_of(group.group_id)
        if topic_partition.topic not in in_use
        and now_ms >= _expires_ms(group, committed, retention_ms)
    ]


def _expires_ms(group: GroupState, committed: CommittedOffset, retention_ms: int) -> int:
    if committed.expire_timestamp_ms != NO_TIMESTAMP:
        return committed.expire_timestamp_ms
    starts_ms = committed.commit_timestamp_ms
    if group.state is GroupPhase.EMPTY and group.protocol_type is not None:
        # While there were members the offset was in use, whenever it was committed.
        # Differs from Kafka: an offset that was set after the last member left is not older.
        starts_ms = max(starts_ms, group.state_since_ms)
    return starts_ms + retention_ms
