"""ReadShareGroupStateSummary, api key 87. Pure.

Made from schemas/read_share_group_state_summary.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Struct


class ReadShareGroupStateSummaryRequestPartition(Struct):
    __slots__ = (
        "partition",
        "leader_epoch",
    )

    def __init__(
        self,
        partition: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch


class ReadShareGroupStateSummaryTopic(Struct):
    __slots__ = (
        "topic_id",
        "partitions",
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_UUID,
        partitions: list[ReadShareGroupStateSummaryRequestPartition] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is ABSENT else partitions


class ReadShareGroupStateSummaryRequest(ApiMessage):
    api_key: ClassVar[int] = 87
    name: ClassVar[str] = "ReadShareGroupStateSummary"

    __slots__ = (
        "group_id",
        "topics",
    )

    def __init__(
        self,
        group_id: str = "",
        topics: list[ReadShareGroupStateSummaryTopic] = ABSENT,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is ABSENT else topics


class ReadShareGroupStateSummaryResponsePartition(Struct):
    __slots__ = (
        "partition",
        "error_code",
        "error_message",
        "state_epoch",
        "leader_epoch",
        "start_offset",
        "delivery_complete_count",
    )

    def __init__(
        self,
        partition: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        state_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = 0,
        delivery_complete_count: int = -1,
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        self.delivery_complete_count = delivery_complete_count


class ReadShareGroupStateSummaryResult(Struct):
    __slots__ = (
        "topic_id",
        "partitions",
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_UUID,
        partitions: list[ReadShareGroupStateSummaryResponsePartition] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is ABSENT else partitions


class ReadShareGroupStateSummaryResponse(ApiMessage):
    api_key: ClassVar[int] = 87
    name: ClassVar[str] = "ReadShareGroupStateSummary"

    __slots__ = ("results",)

    def __init__(
        self,
        results: list[ReadShareGroupStateSummaryResult] = ABSENT,
    ) -> None:
        self.results = [] if results is ABSENT else results


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
