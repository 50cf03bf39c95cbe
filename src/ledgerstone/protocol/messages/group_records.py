"""Group records. Pure.

Made from schemas/group_records.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import Final

from ledgerstone.protocol.message import ZERO_UUID, Message, Struct


@dataclass(slots=True, eq=False, repr=False)
class OffsetCommitKey(Message):
    group: str = ""
    topic: str = ""
    partition: int = 0


@dataclass(slots=True, eq=False, repr=False)
class OffsetCommitValue(Message):
    offset: int = 0
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp: int = 0
    expire_timestamp: int = -1


@dataclass(slots=True, eq=False, repr=False)
class GroupMetadataKey(Message):
    group: str = ""


@dataclass(slots=True, eq=False, repr=False)
class GroupMetadataMember(Struct):
    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: int = -1
    session_timeout: int = 0
    subscription: bytes = b""
    assignment: bytes = b""


@dataclass(slots=True, eq=False, repr=False)
class GroupMetadataValue(Message):
    protocol_type: str = ""
    generation: int = 0
    protocol: str | None = None
    leader: str | None = None
    current_state_timestamp: int = -1
    members: list[GroupMetadataMember] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ConsumerGroupMetadataKey(Message):
    group_id: str = ""


@dataclass(slots=True, eq=False, repr=False)
class ConsumerGroupMetadataValue(Message):
    epoch: int = 0


@dataclass(slots=True, eq=False, repr=False)
class ConsumerGroupPartitionMetadataKey(Message):
    group_id: str = ""


@dataclass(slots=True, eq=False, repr=False)
class ConsumerGroupPartitionMetadataPartitionMetadata(Struct):
    partition: int = 0
    racks: list[str] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ConsumerGroupPartitionMetadataTopic(Struct):
    topic_id: bytes = ZERO_UUID
    topic_name: str = ""
    num_partitions: int = 0
    partition_metadata: list[ConsumerGroupPartitionMetadataPartitionMetadata] = field(
        default_factory=list
    )


@dataclass(slots=True, eq=False, repr=False)
class ConsumerGroupPartitionMetadataValue(Message):
    topics: list[ConsumerGroupPartitionMetadataTopic] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ConsumerGroupMemberMetadataKey(Message):
    group_id: str = ""
    member_id: str = ""


@dataclass(slots=True, eq=False, repr=False)
class ClassicMemberProtocol(Struct):
    name: str = ""
    metadata: bytes = b""


@dataclass(slots=True, eq=False, repr=False)
class ClassicMemberMetadata(Struct):
    session_timeout_ms: int = 0
    supported_protocols: list[ClassicMemberProtocol] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ConsumerGroupMemberMetadataValue(Message):
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)
    subscribed_topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic_member_metadata: ClassicMemberMetadata | None = None


@dataclass(slots=True, eq=False, repr=False)
class ConsumerGroupTargetAssignmentMetadataKey(Message):
    group_id: str = ""


@dataclass(slots=True, eq=False, repr=False)
class ConsumerGroupTargetAssignmentMetadataValue(Message):
    assignment_epoch: int = 0


@dataclass(slots=True, eq=False, repr=False)
class ConsumerGroupTargetAssignmentMemberKey(Message):
    group_id: str = ""
    member_id: str = ""


@dataclass(slots=True, eq=False, repr=False)
class ConsumerGroupTargetAssignmentMemberTopicPartition(Struct):
    topic_id: bytes = ZERO_UUID
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ConsumerGroupTargetAssignmentMemberValue(Message):
    topic_partitions: list[ConsumerGroupTargetAssignmentMemberTopicPartition] = field(
        default_factory=list
    )


@dataclass(slots=True, eq=False, repr=False)
class ConsumerGroupCurrentMemberAssignmentKey(Message):
    group_id: str = ""
    member_id: str = ""


@dataclass(slots=True, eq=False, repr=False)
class ConsumerGroupCurrentMemberAssignmentAssignedPartition(Struct):
    topic_id: bytes = ZERO_UUID
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ConsumerGroupCurrentMemberAssignmentPartitionsPendingRevocation(Struct):
    topic_id: bytes = ZERO_UUID
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ConsumerGroupCurrentMemberAssignmentValue(Message):
    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: int = 0
    assigned_partitions: list[ConsumerGroupCurrentMemberAssignmentAssignedPartition] = field(
        default_factory=list
    )
    partitions_pending_revocation: list[
        ConsumerGroupCurrentMemberAssignmentPartitionsPendingRevocation
    ] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ShareGroupPartitionMetadataKey(Message):
    group_id: str = ""


@dataclass(slots=True, eq=False, repr=False)
class ShareGroupPartitionMetadataPartitionMetadata(Struct):
    partition: int = 0
    racks: list[str] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ShareGroupPartitionMetadataTopic(Struct):
    topic_id: bytes = ZERO_UUID
    topic_name: str = ""
    num_partitions: int = 0
    partition_metadata: list[ShareGroupPartitionMetadataPartitionMetadata] = field(
        default_factory=list
    )


@dataclass(slots=True, eq=False, repr=False)
class ShareGroupPartitionMetadataValue(Message):
    topics: list[ShareGroupPartitionMetadataTopic] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ShareGroupMemberMetadataKey(Message):
    group_id: str = ""
    member_id: str = ""


@dataclass(slots=True, eq=False, repr=False)
class ShareGroupMemberMetadataValue(Message):
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ShareGroupMetadataKey(Message):
    group_id: str = ""


@dataclass(slots=True, eq=False, repr=False)
class ShareGroupMetadataValue(Message):
    epoch: int = 0


@dataclass(slots=True, eq=False, repr=False)
class ShareGroupTargetAssignmentMetadataKey(Message):
    group_id: str = ""


@dataclass(slots=True, eq=False, repr=False)
class ShareGroupTargetAssignmentMetadataValue(Message):
    assignment_epoch: int = 0


@dataclass(slots=True, eq=False, repr=False)
class ShareGroupTargetAssignmentMemberKey(Message):
    group_id: str = ""
    member_id: str = ""


@dataclass(slots=True, eq=False, repr=False)
class ShareGroupTargetAssignmentMemberTopicPartition(Struct):
    topic_id: bytes = ZERO_UUID
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ShareGroupTargetAssignmentMemberValue(Message):
    topic_partitions: list[ShareGroupTargetAssignmentMemberTopicPartition] = field(
        default_factory=list
    )


@dataclass(slots=True, eq=False, repr=False)
class ShareGroupCurrentMemberAssignmentKey(Message):
    group_id: str = ""
    member_id: str = ""


@dataclass(slots=True, eq=False, repr=False)
class ShareGroupCurrentMemberAssignmentAssignedPartition(Struct):
    topic_id: bytes = ZERO_UUID
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ShareGroupCurrentMemberAssignmentValue(Message):
    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: int = 0
    assigned_partitions: list[ShareGroupCurrentMemberAssignmentAssignedPartition] = field(
        default_factory=list
    )


@dataclass(slots=True, eq=False, repr=False)
class ShareGroupStatePartitionMetadataKey(Message):
    group_id: str = ""


@dataclass(slots=True, eq=False, repr=False)
class ShareGroupStatePartitionMetadataInitializedTopic(Struct):
    topic_id: bytes = ZERO_UUID
    topic_name: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ShareGroupStatePartitionMetadataDeletingTopic(Struct):
    topic_id: bytes = ZERO_UUID
    topic_name: str = ""


@dataclass(slots=True, eq=False, repr=False)
class ShareGroupStatePartitionMetadataValue(Message):
    initialized_topics: list[ShareGroupStatePartitionMetadataInitializedTopic] = field(
        default_factory=list
    )
    deleting_topics: list[ShareGroupStatePartitionMetadataDeletingTopic] = field(
        default_factory=list
    )


@dataclass(slots=True, eq=False, repr=False)
class ConsumerGroupRegularExpressionKey(Message):
    group_id: str = ""
    regular_expression: str = ""


@dataclass(slots=True, eq=False, repr=False)
class ConsumerGroupRegularExpressionValue(Message):
    topics: list[str] = field(default_factory=list)
    version: int = 0
    timestamp: int = 0


SCHEMA: Final = """\
key OffsetCommitKey v0-1 rigid
    group: str
    topic: str
    partition: i32
value OffsetCommitValue v0-4 flexible 4+
    offset: i64
    leader_epoch: i32 = -1 @3+
    metadata: str
    commit_timestamp: i64
    expire_timestamp: i64 = -1 @1
key GroupMetadataKey v2-2 rigid
    group: str
value GroupMetadataValue v0-4 flexible 4+
    protocol_type: str
    generation: i32
    protocol: str?
    leader: str?
    current_state_timestamp: i64 = -1 @2+
    members: [GroupMetadataMember]
        member_id: str
        group_instance_id: str? = null @3+
        client_id: str
        client_host: str
        rebalance_timeout: i32 = -1 @1+
        session_timeout: i32
        subscription: bytes
        assignment: bytes
key ConsumerGroupMetadataKey v3-3 rigid
    group_id: str
value ConsumerGroupMetadataValue v0-0 flexible 0+
    epoch: i32
key ConsumerGroupPartitionMetadataKey v4-4 rigid
    group_id: str
value ConsumerGroupPartitionMetadataValue v0-0 flexible 0+
    topics: [ConsumerGroupPartitionMetadataTopic]
        topic_id: uuid
        topic_name: str
        num_partitions: i32
        partition_metadata: [ConsumerGroupPartitionMetadataPartitionMetadata]
            partition: i32
            racks: [str]
key ConsumerGroupMemberMetadataKey v5-5 rigid
    group_id: str
    member_id: str
value ConsumerGroupMemberMetadataValue v0-0 flexible 0+
    instance_id: str?
    rack_id: str?
    client_id: str
    client_host: str
    subscribed_topic_names: [str]
    subscribed_topic_regex: str?
    rebalance_timeout_ms: i32 = -1
    server_assignor: str?
    classic_member_metadata: ClassicMemberMetadata #0
        session_timeout_ms: i32
        supported_protocols: [ClassicMemberProtocol]
            name: str
            metadata: bytes
key ConsumerGroupTargetAssignmentMetadataKey v6-6 rigid
    group_id: str
value ConsumerGroupTargetAssignmentMetadataValue v0-0 flexible 0+
    assignment_epoch: i32
key ConsumerGroupTargetAssignmentMemberKey v7-7 rigid
    group_id: str
    member_id: str
value ConsumerGroupTargetAssignmentMemberValue v0-0 flexible 0+
    topic_partitions: [ConsumerGroupTargetAssignmentMemberTopicPartition]
        topic_id: uuid
        partitions: [i32]
key ConsumerGroupCurrentMemberAssignmentKey v8-8 rigid
    group_id: str
    member_id: str
value ConsumerGroupCurrentMemberAssignmentValue v0-0 flexible 0+
    member_epoch: i32
    previous_member_epoch: i32
    state: i8
    assigned_partitions: [ConsumerGroupCurrentMemberAssignmentAssignedPartition]
        topic_id: uuid
        partitions: [i32]
    partitions_pending_revocation: [ConsumerGroupCurrentMemberAssignmentPartitionsPendingRevocation]
        topic_id: uuid
        partitions: [i32]
key ShareGroupPartitionMetadataKey v9-9 rigid
    group_id: str
value ShareGroupPartitionMetadataValue v0-0 flexible 0+
    topics: [ShareGroupPartitionMetadataTopic]
        topic_id: uuid
        topic_name: str
        num_partitions: i32
        partition_metadata: [ShareGroupPartitionMetadataPartitionMetadata]
            partition: i32
            racks: [str]
key ShareGroupMemberMetadataKey v10-10 rigid
    group_id: str
    member_id: str
value ShareGroupMemberMetadataValue v0-0 flexible 0+
    rack_id: str?
    client_id: str
    client_host: str
    subscribed_topic_names: [str]
key ShareGroupMetadataKey v11-11 rigid
    group_id: str
value ShareGroupMetadataValue v0-0 flexible 0+
    epoch: i32
key ShareGroupTargetAssignmentMetadataKey v12-12 rigid
    group_id: str
value ShareGroupTargetAssignmentMetadataValue v0-0 flexible 0+
    assignment_epoch: i32
key ShareGroupTargetAssignmentMemberKey v13-13 rigid
    group_id: str
    member_id: str
value ShareGroupTargetAssignmentMemberValue v0-0 flexible 0+
    topic_partitions: [ShareGroupTargetAssignmentMemberTopicPartition]
        topic_id: uuid
        partitions: [i32]
key ShareGroupCurrentMemberAssignmentKey v14-14 rigid
    group_id: str
    member_id: str
value ShareGroupCurrentMemberAssignmentValue v0-0 flexible 0+
    member_epoch: i32
    previous_member_epoch: i32
    state: i8
    assigned_partitions: [ShareGroupCurrentMemberAssignmentAssignedPartition]
        topic_id: uuid
        partitions: [i32]
key ShareGroupStatePartitionMetadataKey v15-15 rigid
    group_id: str
value ShareGroupStatePartitionMetadataValue v0-0 flexible 0+
    initialized_topics: [ShareGroupStatePartitionMetadataInitializedTopic]
        topic_id: uuid
        topic_name: str
        partitions: [i32]
    deleting_topics: [ShareGroupStatePartitionMetadataDeletingTopic]
        topic_id: uuid
        topic_name: str
key ConsumerGroupRegularExpressionKey v16-16 rigid
    group_id: str
    regular_expression: str
value ConsumerGroupRegularExpressionValue v0-0 flexible 0+
    topics: [str]
    version: i64
    timestamp: i64
"""
