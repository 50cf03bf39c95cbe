"""WriteShareGroupState, api key 85. Pure.

Made from schemas/write_share_group_state.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class WriteShareGroupStateStateBatch(Struct):
    first_offset: int = 0
    last_offset: int = 0
    delivery_state: int = 0
    delivery_count: int = 0


@dataclass(slots=True, eq=False, repr=False)
class WriteShareGroupStateRequestPartition(Struct):
    partition: int = 0
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = 0
    delivery_complete_count: int = -1
    state_batches: list[WriteShareGroupStateStateBatch] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class WriteShareGroupStateTopic(Struct):
    topic_id: bytes = ZERO_UUID
    partitions: list[WriteShareGroupStateRequestPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class WriteShareGroupStateRequest(ApiMessage):
    api_key: ClassVar[int] = 85
    name: ClassVar[str] = "WriteShareGroupState"

    group_id: str = ""
    topics: list[WriteShareGroupStateTopic] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class WriteShareGroupStateResponsePartition(Struct):
    partition: int = 0
    error_code: int = 0
    error_message: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class WriteShareGroupStateResult(Struct):
    topic_id: bytes = ZERO_UUID
    partitions: list[WriteShareGroupStateResponsePartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class WriteShareGroupStateResponse(ApiMessage):
    api_key: ClassVar[int] = 85
    name: ClassVar[str] = "WriteShareGroupState"

    results: list[WriteShareGroupStateResult] = field(default_factory=list)


SCHEMA: Final = """\
api 85 WriteShareGroupState
request v0-1 flexible 0+
    group_id: str
    topics: [WriteShareGroupStateTopic]
        topic_id: uuid
        partitions: [WriteShareGroupStateRequestPartition]
            partition: i32
            state_epoch: i32
            leader_epoch: i32
            start_offset: i64
            delivery_complete_count: i32 = -1 @1+
            state_batches: [WriteShareGroupStateStateBatch]
                first_offset: i64
                last_offset: i64
                delivery_state: i8
                delivery_count: i16
response v0-1 flexible 0+
    results: [WriteShareGroupStateResult]
        topic_id: uuid
        partitions: [WriteShareGroupStateResponsePartition]
            partition: i32
            error_code: i16
            error_message: str? = null
"""
