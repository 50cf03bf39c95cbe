"""AlterPartition, api key 56. Pure.

Made from schemas/alter_partition.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Struct


class AlterPartitionNewIsrWithEpoch(Struct):
    __slots__ = (
        "broker_id",
        "broker_epoch",
    )

    def __init__(
        self,
        broker_id: int = 0,
        broker_epoch: int = -1,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch


class AlterPartitionRequestPartition(Struct):
    __slots__ = (
        "partition_index",
        "leader_epoch",
        "new_isr",
        "new_isr_with_epochs",
        "leader_recovery_state",
        "partition_epoch",
    )

    def __init__(
        self,
        partition_index: int = 0,
        leader_epoch: int = 0,
        new_isr: list[int] = ABSENT,
        new_isr_with_epochs: list[AlterPartitionNewIsrWithEpoch] = ABSENT,
        leader_recovery_state: int = 0,
        partition_epoch: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.leader_epoch = leader_epoch
        self.new_isr = [] if new_isr is ABSENT else new_isr
        self.new_isr_with_epochs = [] if new_isr_with_epochs is ABSENT else new_isr_with_epochs
        self.leader_recovery_state = leader_recovery_state
        self.partition_epoch = partition_epoch


class AlterPartitionRequestTopic(Struct):
    __slots__ = (
        "topic_id",
        "partitions",
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_UUID,
        partitions: list[AlterPartitionRequestPartition] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is ABSENT else partitions


class AlterPartitionRequest(ApiMessage):
    api_key: ClassVar[int] = 56
    name: ClassVar[str] = "AlterPartition"

    __slots__ = (
        "broker_id",
        "broker_epoch",
        "topics",
    )

    def __init__(
        self,
        broker_id: int = 0,
        broker_epoch: int = -1,
        topics: list[AlterPartitionRequestTopic] = ABSENT,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.topics = [] if topics is ABSENT else topics


class AlterPartitionResponsePartition(Struct):
    __slots__ = (
        "partition_index",
        "error_code",
        "leader_id",
        "leader_epoch",
        "isr",
        "leader_recovery_state",
        "partition_epoch",
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        leader_id: int = 0,
        leader_epoch: int = 0,
        isr: list[int] = ABSENT,
        leader_recovery_state: int = 0,
        partition_epoch: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.isr = [] if isr is ABSENT else isr
        self.leader_recovery_state = leader_recovery_state
        self.partition_epoch = partition_epoch


class AlterPartitionResponseTopic(Struct):
    __slots__ = (
        "topic_id",
        "partitions",
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_UUID,
        partitions: list[AlterPartitionResponsePartition] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is ABSENT else partitions


class AlterPartitionResponse(ApiMessage):
    api_key: ClassVar[int] = 56
    name: ClassVar[str] = "AlterPartition"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "topics",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        topics: list[AlterPartitionResponseTopic] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.topics = [] if topics is ABSENT else topics


SCHEMA: Final = """\
api 56 AlterPartition
request v2-3 flexible 2+
    broker_id: i32
    broker_epoch: i64 = -1
    topics: [AlterPartitionRequestTopic]
        topic_id: uuid
        partitions: [AlterPartitionRequestPartition]
            partition_index: i32
            leader_epoch: i32
            new_isr: [i32] @2
            new_isr_with_epochs: [AlterPartitionNewIsrWithEpoch] @3+
                broker_id: i32
                broker_epoch: i64 = -1
            leader_recovery_state: i8
            partition_epoch: i32
response v2-3 flexible 2+
    throttle_time_ms: i32
    error_code: i16
    topics: [AlterPartitionResponseTopic]
        topic_id: uuid
        partitions: [AlterPartitionResponsePartition]
            partition_index: i32
            error_code: i16
            leader_id: i32
            leader_epoch: i32
            isr: [i32]
            leader_recovery_state: i8
            partition_epoch: i32
"""
