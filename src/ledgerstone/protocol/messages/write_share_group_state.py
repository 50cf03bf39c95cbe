"""WriteShareGroupState, api key 85. Pure.

Made from schemas/write_share_group_state.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Struct


class WriteShareGroupStateStateBatch(Struct):
    __slots__ = (
        "first_offset",
        "last_offset",
        "delivery_state",
        "delivery_count",
    )

    def __init__(
        self,
        first_offset: int = 0,
        last_offset: int = 0,
        delivery_state: int = 0,
        delivery_count: int = 0,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.delivery_state = delivery_state
        self.delivery_count = delivery_count


class WriteShareGroupStateRequestPartition(Struct):
    __slots__ = (
        "partition",
        "state_epoch",
        "leader_epoch",
        "start_offset",
        "delivery_complete_count",
        "state_batches",
    )

    def __init__(
        self,
        partition: int = 0,
        state_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = 0,
        delivery_complete_count: int = -1,
        state_batches: list[WriteShareGroupStateStateBatch] = ABSENT,
    ) -> None:
        self.partition = partition
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        self.delivery_complete_count = delivery_complete_count
        self.state_batches = [] if state_batches is ABSENT else state_batches


class WriteShareGroupStateTopic(Struct):
    __slots__ = (
        "topic_id",
        "partitions",
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_UUID,
        partitions: list[WriteShareGroupStateRequestPartition] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is ABSENT else partitions


class WriteShareGroupStateRequest(ApiMessage):
    api_key: ClassVar[int] = 85
    name: ClassVar[str] = "WriteShareGroupState"

    __slots__ = (
        "group_id",
        "topics",
    )

    def __init__(
        self,
        group_id: str = "",
        topics: list[WriteShareGroupStateTopic] = ABSENT,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is ABSENT else topics


class WriteShareGroupStateResponsePartition(Struct):
    __slots__ = (
        "partition",
        "error_code",
        "error_message",
    )

    def __init__(
        self,
        partition: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message


class WriteShareGroupStateResult(Struct):
    __slots__ = (
        "topic_id",
        "partitions",
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_UUID,
        partitions: list[WriteShareGroupStateResponsePartition] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is ABSENT else partitions


class WriteShareGroupStateResponse(ApiMessage):
    api_key: ClassVar[int] = 85
    name: ClassVar[str] = "WriteShareGroupState"

    __slots__ = ("results",)

    def __init__(
        self,
        results: list[WriteShareGroupStateResult] = ABSENT,
    ) -> None:
        self.results = [] if results is ABSENT else results


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
