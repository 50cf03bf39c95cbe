"""AlterPartition, api key 56. Pure.

Made from schemas/alter_partition.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class AlterPartitionNewIsrWithEpoch(Struct):
    broker_id: int = 0
    broker_epoch: int = -1


@dataclass(slots=True, eq=False, repr=False)
class AlterPartitionRequestPartition(Struct):
    partition_index: int = 0
    leader_epoch: int = 0
    new_isr: list[int] = field(default_factory=list)
    new_isr_with_epochs: list[AlterPartitionNewIsrWithEpoch] = field(default_factory=list)
    leader_recovery_state: int = 0
    partition_epoch: int = 0


@dataclass(slots=True, eq=False, repr=False)
class AlterPartitionRequestTopic(Struct):
    topic_id: bytes = ZERO_UUID
    partitions: list[AlterPartitionRequestPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class AlterPartitionRequest(ApiMessage):
    api_key: ClassVar[int] = 56
    name: ClassVar[str] = "AlterPartition"

    broker_id: int = 0
    broker_epoch: int = -1
    topics: list[AlterPartitionRequestTopic] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class AlterPartitionResponsePartition(Struct):
    partition_index: int = 0
    error_code: int = 0
    leader_id: int = 0
    leader_epoch: int = 0
    isr: list[int] = field(default_factory=list)
    leader_recovery_state: int = 0
    partition_epoch: int = 0


@dataclass(slots=True, eq=False, repr=False)
class AlterPartitionResponseTopic(Struct):
    topic_id: bytes = ZERO_UUID
    partitions: list[AlterPartitionResponsePartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class AlterPartitionResponse(ApiMessage):
    api_key: ClassVar[int] = 56
    name: ClassVar[str] = "AlterPartition"

    throttle_time_ms: int = 0
    error_code: int = 0
    topics: list[AlterPartitionResponseTopic] = field(default_factory=list)


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
