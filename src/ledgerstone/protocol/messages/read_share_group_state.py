"""ReadShareGroupState, api key 84. Pure.

Made from schemas/read_share_group_state.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class ReadShareGroupStateRequestPartition(Struct):
    partition: int = 0
    leader_epoch: int = 0


@dataclass(slots=True, eq=False, repr=False)
class ReadShareGroupStateTopic(Struct):
    topic_id: bytes = ZERO_UUID
    partitions: list[ReadShareGroupStateRequestPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ReadShareGroupStateRequest(ApiMessage):
    api_key: ClassVar[int] = 84
    name: ClassVar[str] = "ReadShareGroupState"

    group_id: str = ""
    topics: list[ReadShareGroupStateTopic] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ReadShareGroupStateStateBatch(Struct):
    first_offset: int = 0
    last_offset: int = 0
    delivery_state: int = 0
    delivery_count: int = 0


@dataclass(slots=True, eq=False, repr=False)
class ReadShareGroupStateResponsePartition(Struct):
    partition: int = 0
    error_code: int = 0
    error_message: str | None = None
    state_epoch: int = 0
    start_offset: int = 0
    state_batches: list[ReadShareGroupStateStateBatch] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ReadShareGroupStateResult(Struct):
    topic_id: bytes = ZERO_UUID
    partitions: list[ReadShareGroupStateResponsePartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ReadShareGroupStateResponse(ApiMessage):
    api_key: ClassVar[int] = 84
    name: ClassVar[str] = "ReadShareGroupState"

    results: list[ReadShareGroupStateResult] = field(default_factory=list)


SCHEMA: Final = """\
api 84 ReadShareGroupState
request v0-0 flexible 0+
    group_id: str
    topics: [ReadShareGroupStateTopic]
        topic_id: uuid
        partitions: [ReadShareGroupStateRequestPartition]
            partition: i32
            leader_epoch: i32
response v0-0 flexible 0+
    results: [ReadShareGroupStateResult]
        topic_id: uuid
        partitions: [ReadShareGroupStateResponsePartition]
            partition: i32
            error_code: i16
            error_message: str? = null
            state_epoch: i32
            start_offset: i64
            state_batches: [ReadShareGroupStateStateBatch]
                first_offset: i64
                last_offset: i64
                delivery_state: i8
                delivery_count: i16
"""
