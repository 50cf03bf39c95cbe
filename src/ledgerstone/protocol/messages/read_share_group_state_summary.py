"""ReadShareGroupStateSummary, api key 87. Pure.

Made from schemas/read_share_group_state_summary.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class ReadShareGroupStateSummaryRequestPartition(Struct):
    partition: int = 0
    leader_epoch: int = 0


@dataclass(slots=True, eq=False, repr=False)
class ReadShareGroupStateSummaryTopic(Struct):
    topic_id: bytes = ZERO_UUID
    partitions: list[ReadShareGroupStateSummaryRequestPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ReadShareGroupStateSummaryRequest(ApiMessage):
    api_key: ClassVar[int] = 87
    name: ClassVar[str] = "ReadShareGroupStateSummary"

    group_id: str = ""
    topics: list[ReadShareGroupStateSummaryTopic] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ReadShareGroupStateSummaryResponsePartition(Struct):
    partition: int = 0
    error_code: int = 0
    error_message: str | None = None
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = 0
    delivery_complete_count: int = -1


@dataclass(slots=True, eq=False, repr=False)
class ReadShareGroupStateSummaryResult(Struct):
    topic_id: bytes = ZERO_UUID
    partitions: list[ReadShareGroupStateSummaryResponsePartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ReadShareGroupStateSummaryResponse(ApiMessage):
    api_key: ClassVar[int] = 87
    name: ClassVar[str] = "ReadShareGroupStateSummary"

    results: list[ReadShareGroupStateSummaryResult] = field(default_factory=list)


SCHEMA: Final = """\
api 87 ReadShareGroupStateSummary
request v0-1 flexible 0+
    group_id: str
    topics: [ReadShareGroupStateSummaryTopic]
        topic_id: uuid
        partitions: [ReadShareGroupStateSummaryRequestPartition]
            partition: i32
            leader_epoch: i32
response v0-1 flexible 0+
    results: [ReadShareGroupStateSummaryResult]
        topic_id: uuid
        partitions: [ReadShareGroupStateSummaryResponsePartition]
            partition: i32
            error_code: i16
            error_message: str? = null
            state_epoch: i32
            leader_epoch: i32
            start_offset: i64
            delivery_complete_count: i32 = -1 @1+
"""
