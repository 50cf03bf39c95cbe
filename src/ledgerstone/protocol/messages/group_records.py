"""Group records. Pure.

Made from schemas/group_records.txt by tools/codegen.py.
"""

from typing import Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, Message, Struct


class OffsetCommitKey(Message):
    __slots__ = (
        "group",
        "topic",
        "partition",
    )

    def __init__(
        self,
        group: str = "",
        topic: str = "",
        partition: int = 0,
    ) -> None:
        self.group = group
        self.topic = topic
        self.partition = partition


class OffsetCommitValue(Message):
    __slots__ = (
        "offset",
        "leader_epoch",
        "metadata",
        "commit_timestamp",
        "expire_timestamp",
        "topic_id",
    )

    def __init__(
        self,
        offset: int = 0,
        leader_epoch: int = -1,
        metadata: str = "",
        commit_timestamp: int = 0,
        expire_timestamp: int = -1,
        topic_id: bytes = ZERO_UUID,
    ) -> None:
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.metadata = metadata
        self.commit_timestamp = commit_timestamp
        self.expire_timestamp = expire_timestamp
        self.topic_id = topic_id


class GroupMetadataKey(Message):
    __slots__ = ("group",)

    def __init__(
        self,
        group: str = "",
    ) -> None:
        self.group = group


class GroupMetadataMember(Struct):
    __slots__ = (
        "member_id",
        "group_instance_id",
        "client_id",
        "client_host",
        "rebalance_timeout",
        "session_timeout",
        "subscription",
        "assignment",
    )

    def __init__(
        self,
        member_id: str = "",
        group_instance_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        rebalance_timeout: int = -1,
        session_timeout: int = 0,
        subscription: bytes = b"",
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout = rebalance_timeout
        self.session_timeout = session_timeout
        self.subscription = subscription
        self.assignment = assignment


class GroupMetadataValue(Message):
    __slots__ = (
        "protocol_type",
        "generation",
        "protocol",
        "leader",
        "current_state_timestamp",
        "members",
    )

    def __init__(
        self,
        protocol_type: str = "",
        generation: int = 0,
        protocol: str | None = None,
        leader: str | None = None,
        current_state_timestamp: int = -1,
        members: list[GroupMetadataMember] = ABSENT,
    ) -> None:
        self.protocol_type = protocol_type
        self.generation = generation
        self.protocol = protocol
        self.leader = leader
        self.current_state_timestamp = current_state_timestamp
        self.members = [] if members is ABSENT else members


class ConsumerGroupMetadataKey(Message):
    __slots__ = ("group_id",)

    def __init__(
        self,
        group_id: str = "",
    ) -> None:
        self.group_id = group_id


class ConsumerGroupMetadataValue(Message):
    __slots__ = ("epoch",)

    def __init__(
        self,
        epoch: int = 0,
    ) -> None:
        self.epoch = epoch


class ConsumerGroupPartitionMetadataKey(Message):
    __slots__ = ("group_id",)

    def __init__(
        self,
        group_id: str = "",
    ) -> None:
        self.group_id = group_id


class ConsumerGroupPartitionMetadataPartitionMetadata(Struct):
    __slots__ = (
        "partition",
        "racks",
    )

    def __init__(
        self,
        partition: int = 0,
        racks: list[str] = ABSENT,
    ) -> None:
        self.partition = partition
        self.racks = [] if racks is ABSENT else racks


class ConsumerGroupPartitionMetadataTopic(Struct):
    __slots__ = (
        "topic_id",
        "topic_name",
        "num_partitions",
        "partition_metadata",
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_UUID,
        topic_name: str = "",
        num_partitions: int = 0,
        partition_metadata: list[ConsumerGroupPartitionMetadataPartitionMetadata] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.num_partitions = num_partitions
        self.partition_metadata = [] if partition_metadata is ABSENT else partition_metadata


class ConsumerGroupPartitionMetadataValue(Message):
    __slots__ = ("topics",)

    def __init__(
        self,
        topics: list[ConsumerGroupPartitionMetadataTopic] = ABSENT,
    ) -> None:
        self.topics = [] if topics is ABSENT else topics


class ConsumerGroupMemberMetadataKey(Message):
    __slots__ = (
        "group_id",
        "member_id",
    )

    def __init__(
        self,
        group_id: str = "",
        member_id: str = "",
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id


class ClassicMemberProtocol(Struct):
    __slots__ = (
        "name",
        "metadata",
    )

    def __init__(
        self,
        name: str = "",
        metadata: bytes = b"",
    ) -> None:
        self.name = name
        self.metadata = metadata


class ClassicMemberMetadata(Struct):
    __slots__ = (
        "session_timeout_ms",
        "supported_protocols",
    )

    def __init__(
        self,
        session_timeout_ms: int = 0,
        supported_protocols: list[ClassicMemberProtocol] = ABSENT,
    ) -> None:
        self.session_timeout_ms = session_timeout_ms
        self.supported_protocols = [] if supported_protocols is ABSENT else supported_protocols


class ConsumerGroupMemberMetadataValue(Message):
    __slots__ = (
        "instance_id",
        "rack_id",
        "client_id",
        "client_host",
        "subscribed_topic_names",
        "subscribed_topic_regex",
        "rebalance_timeout_ms",
        "server_assignor",
        "classic_member_metadata",
    )

    def __init__(
        self,
        instance_id: str | None = None,
        rack_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] = ABSENT,
        subscribed_topic_regex: str | None = None,
        rebalance_timeout_ms: int = -1,
        server_assignor: str | None = None,
        classic_member_metadata: ClassicMemberMetadata | None = None,
    ) -> None:
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = (
            [] if subscribed_topic_names is ABSENT else subscribed_topic_names
        )
        self.subscribed_topic_regex = subscribed_topic_regex
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.server_assignor = server_assignor
        self.classic_member_metadata = classic_member_metadata


class ConsumerGroupTargetAssignmentMetadataKey(Message):
    __slots__ = ("group_id",)

    def __init__(
        self,
        group_id: str = "",
    ) -> None:
        self.group_id = group_id


class ConsumerGroupTargetAssignmentMetadataValue(Message):
    __slots__ = ("assignment_epoch",)

    def __init__(
        self,
        assignment_epoch: int = 0,
    ) -> None:
        self.assignment_epoch = assignment_epoch


class ConsumerGroupTargetAssignmentMemberKey(Message):
    __slots__ = (
        "group_id",
        "member_id",
    )

    def __init__(
        self,
        group_id: str = "",
        member_id: str = "",
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id


class ConsumerGroupTargetAssignmentMemberTopicPartition(Struct):
    __slots__ = (
        "topic_id",
        "partitions",
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_UUID,
        partitions: list[int] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is ABSENT else partitions


class ConsumerGroupTargetAssignmentMemberValue(Message):
    __slots__ = ("topic_partitions",)

    def __init__(
        self,
        topic_partitions: list[ConsumerGroupTargetAssignmentMemberTopicPartition] = ABSENT,
    ) -> None:
        self.topic_partitions = [] if topic_partitions is ABSENT else topic_partitions


class ConsumerGroupCurrentMemberAssignmentKey(Message):
    __slots__ = (
        "group_id",
        "member_id",
    )

    def __init__(
        self,
        group_id: str = "",
        member_id: str = "",
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id


class ConsumerGroupCurrentMemberAssignmentAssignedPartition(Struct):
    __slots__ = (
        "topic_id",
        "partitions",
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_UUID,
        partitions: list[int] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is ABSENT else partitions


class ConsumerGroupCurrentMemberAssignmentPartitionsPendingRevocation(Struct):
    __slots__ = (
        "topic_id",
        "partitions",
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_UUID,
        partitions: list[int] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is ABSENT else partitions


class ConsumerGroupCurrentMemberAssignmentValue(Message):
    __slots__ = (
        "member_epoch",
        "previous_member_epoch",
        "state",
        "assigned_partitions",
        "partitions_pending_revocation",
    )

    def __init__(
        self,
        member_epoch: int = 0,
        previous_member_epoch: int = 0,
        state: int = 0,
        assigned_partitions: list[ConsumerGroupCurrentMemberAssignmentAssignedPartition] = ABSENT,
        partitions_pending_revocation: list[
            ConsumerGroupCurrentMemberAssignmentPartitionsPendingRevocation
        ] = ABSENT,
    ) -> None:
        self.member_epoch = member_epoch
        self.previous_member_epoch = previous_member_epoch
        self.state = state
        self.assigned_partitions = [] if assigned_partitions is ABSENT else assigned_partitions
        self.partitions_pending_revocation = (
            [] if partitions_pending_revocation is ABSENT else partitions_pending_revocation
        )


class ShareGroupPartitionMetadataKey(Message):
    __slots__ = ("group_id",)

    def __init__(
        self,
        group_id: str = "",
    ) -> None:
        self.group_id = group_id


class ShareGroupPartitionMetadataPartitionMetadata(Struct):
    __slots__ = (
        "partition",
        "racks",
    )

    def __init__(
        self,
        partition: int = 0,
        racks: list[str] = ABSENT,
    ) -> None:
        self.partition = partition
        self.racks = [] if racks is ABSENT else racks


class ShareGroupPartitionMetadataTopic(Struct):
    __slots__ = (
        "topic_id",
        "topic_name",
        "num_partitions",
        "partition_metadata",
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_UUID,
        topic_name: str = "",
        num_partitions: int = 0,
        partition_metadata: list[ShareGroupPartitionMetadataPartitionMetadata] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.num_partitions = num_partitions
        self.partition_metadata = [] if partition_metadata is ABSENT else partition_metadata


class ShareGroupPartitionMetadataValue(Message):
    __slots__ = ("topics",)

    def __init__(
        self,
        topics: list[ShareGroupPartitionMetadataTopic] = ABSENT,
    ) -> None:
        self.topics = [] if topics is ABSENT else topics


class ShareGroupMemberMetadataKey(Message):
    __slots__ = (
        "group_id",
        "member_id",
    )

    def __init__(
        self,
        group_id: str = "",
        member_id: str = "",
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id


class ShareGroupMemberMetadataValue(Message):
    __slots__ = (
        "rack_id",
        "client_id",
        "client_host",
        "subscribed_topic_names",
    )

    def __init__(
        self,
        rack_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] = ABSENT,
    ) -> None:
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = (
            [] if subscribed_topic_names is ABSENT else subscribed_topic_names
        )


class ShareGroupMetadataKey(Message):
    __slots__ = ("group_id",)

    def __init__(
        self,
        group_id: str = "",
    ) -> None:
        self.group_id = group_id


class ShareGroupMetadataValue(Message):
    __slots__ = ("epoch",)

    def __init__(
        self,
        epoch: int = 0,
    ) -> None:
        self.epoch = epoch


class ShareGroupTargetAssignmentMetadataKey(Message):
    __slots__ = ("group_id",)

    def __init__(
        self,
        group_id: str = "",
    ) -> None:
        self.group_id = group_id


class ShareGroupTargetAssignmentMetadataValue(Message):
    __slots__ = ("assignment_epoch",)

    def __init__(
        self,
        assignment_epoch: int = 0,
    ) -> None:
        self.assignment_epoch = assignment_epoch


class ShareGroupTargetAssignmentMemberKey(Message):
    __slots__ = (
        "group_id",
        "member_id",
    )

    def __init__(
        self,
        group_id: str = "",
        member_id: str = "",
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id


class ShareGroupTargetAssignmentMemberTopicPartition(Struct):
    __slots__ = (
        "topic_id",
        "partitions",
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_UUID,
        partitions: list[int] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is ABSENT else partitions


class ShareGroupTargetAssignmentMemberValue(Message):
    __slots__ = ("topic_partitions",)

    def __init__(
        self,
        topic_partitions: list[ShareGroupTargetAssignmentMemberTopicPartition] = ABSENT,
    ) -> None:
        self.topic_partitions = [] if topic_partitions is ABSENT else topic_partitions


class ShareGroupCurrentMemberAssignmentKey(Message):
    __slots__ = (
        "group_id",
        "member_id",
    )

    def __init__(
        self,
        group_id: str = "",
        member_id: str = "",
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id


class ShareGroupCurrentMemberAssignmentAssignedPartition(Struct):
    __slots__ = (
        "topic_id",
        "partitions",
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_UUID,
        partitions: list[int] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is ABSENT else partitions


class ShareGroupCurrentMemberAssignmentValue(Message):
    __slots__ = (
        "member_epoch",
        "previous_member_epoch",
        "state",
        "assigned_partitions",
    )

    def __init__(
        self,
        member_epoch: int = 0,
        previous_member_epoch: int = 0,
        state: int = 0,
        assigned_partitions: list[ShareGroupCurrentMemberAssignmentAssignedPartition] = ABSENT,
    ) -> None:
        self.member_epoch = member_epoch
        self.previous_member_epoch = previous_member_epoch
        self.state = state
        self.assigned_partitions = [] if assigned_partitions is ABSENT else assigned_partitions


class ShareGroupStatePartitionMetadataKey(Message):
    __slots__ = ("group_id",)

    def __init__(
        self,
        group_id: str = "",
    ) -> None:
        self.group_id = group_id


class ShareGroupStatePartitionMetadataInitializedTopic(Struct):
    __slots__ = (
        "topic_id",
        "topic_name",
        "partitions",
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_UUID,
        topic_name: str = "",
        partitions: list[int] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.partitions = [] if partitions is ABSENT else partitions


class ShareGroupStatePartitionMetadataDeletingTopic(Struct):
    __slots__ = (
        "topic_id",
        "topic_name",
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_UUID,
        topic_name: str = "",
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name


class ShareGroupStatePartitionMetadataValue(Message):
    __slots__ = (
        "initialized_topics",
        "deleting_topics",
    )

    def __init__(
        self,
        initialized_topics: list[ShareGroupStatePartitionMetadataInitializedTopic] = ABSENT,
        deleting_topics: list[ShareGroupStatePartitionMetadataDeletingTopic] = ABSENT,
    ) -> None:
        self.initialized_topics = [] if initialized_topics is ABSENT else initialized_topics
        self.deleting_topics = [] if deleting_topics is ABSENT else deleting_topics


class ConsumerGroupRegularExpressionKey(Message):
    __slots__ = (
        "group_id",
        "regular_expression",
    )

    def __init__(
        self,
        group_id: str = "",
        regular_expression: str = "",
    ) -> None:
        self.group_id = group_id
        self.regular_expression = regular_expression


class ConsumerGroupRegularExpressionValue(Message):
    __slots__ = (
        "topics",
        "version",
        "timestamp",
    )

    def __init__(
        self,
        topics: list[str] = ABSENT,
        version: int = 0,
        timestamp: int = 0,
    ) -> None:
        self.topics = [] if topics is ABSENT else topics
        self.version = version
        self.timestamp = timestamp


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
    topic_id: uuid #0 @4+
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
