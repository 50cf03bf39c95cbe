"""InitializeShareGroupState, api key 83. Pure.

Made from schemas/initialize_share_group_state.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class InitializeShareGroupStateRequestPartition(Struct):
    partition: int = 0
    state_epoch: int = 0
    start_offset: int = 0


@dataclass(slots=True, eq=False, repr=False)
class InitializeShareGroupStateTopic(Struct):
    topic_id: bytes = ZERO_UUID
    partitions: list[InitializeShareGroupStateRequestPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class InitializeShareGroupStateRequest(ApiMessage):
    api_key: ClassVar[int] = 83
    name: ClassVar[str] = "InitializeShareGroupState"

    group_id: str = ""
    topics: list[InitializeShareGroupStateTopic] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class InitializeShareGroupStateResponsePartition(Struct):
    partition: int = 0
    error_code: int = 0
    error_message: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class InitializeShareGroupStateResult(Struct):
    topic_id: bytes = ZERO_UUID
    partitions: list[InitializeShareGroupStateResponsePartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class InitializeShareGroupStateResponse(ApiMessage):
    api_key: ClassVar[int] = 83
    name: ClassVar[str] = "InitializeShareGroupState"

    results: list[InitializeShareGroupStateResult] = field(default_factory=list)


SCHEMA: Final = """\
api 83 InitializeShareGroupState
request v0-0 flexible 0+
    group_id: str
    topics: [InitializeShareGroupStateTopic]
        topic_id: uuid
        partitions: [InitializeShareGroupStateRequestPartition]
            partition: i32
            state_epoch: i32
            start_offset: i64
response v0-0 flexible 0+
    results: [InitializeShareGroupStateResult]
        topic_id: uuid
        partitions: [InitializeShareGroupStateResponsePartition]
            partition: i32
            error_code: i16
            error_message: str? = null
"""
