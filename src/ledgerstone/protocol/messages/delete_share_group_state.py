"""DeleteShareGroupState, api key 86. Pure.

Made from schemas/delete_share_group_state.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class DeleteShareGroupStateRequestPartition(Struct):
    partition: int = 0


@dataclass(slots=True, eq=False, repr=False)
class DeleteShareGroupStateTopic(Struct):
    topic_id: bytes = ZERO_UUID
    partitions: list[DeleteShareGroupStateRequestPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class DeleteShareGroupStateRequest(ApiMessage):
    api_key: ClassVar[int] = 86
    name: ClassVar[str] = "DeleteShareGroupState"

    group_id: str = ""
    topics: list[DeleteShareGroupStateTopic] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class DeleteShareGroupStateResponsePartition(Struct):
    partition: int = 0
    error_code: int = 0
    error_message: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class DeleteShareGroupStateResult(Struct):
    topic_id: bytes = ZERO_UUID
    partitions: list[DeleteShareGroupStateResponsePartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class DeleteShareGroupStateResponse(ApiMessage):
    api_key: ClassVar[int] = 86
    name: ClassVar[str] = "DeleteShareGroupState"

    results: list[DeleteShareGroupStateResult] = field(default_factory=list)


SCHEMA: Final = """\
api 86 DeleteShareGroupState
request v0-0 flexible 0+
    group_id: str
    topics: [DeleteShareGroupStateTopic]
        topic_id: uuid
        partitions: [DeleteShareGroupStateRequestPartition]
            partition: i32
response v0-0 flexible 0+
    results: [DeleteShareGroupStateResult]
        topic_id: uuid
        partitions: [DeleteShareGroupStateResponsePartition]
            partition: i32
            error_code: i16
            error_message: str? = null
"""
