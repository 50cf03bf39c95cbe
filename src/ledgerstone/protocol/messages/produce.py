"""Produce, api key 0. Pure.

Made from schemas/produce.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Struct
from ledgerstone.protocol.pieces import Records


class ProducePartitionData(Struct):
    __slots__ = (
        "index",
        "records",
    )

    def __init__(
        self,
        index: int = 0,
        records: Records = None,
    ) -> None:
        self.index = index
        self.records = records


class ProduceTopicData(Struct):
    __slots__ = (
        "name",
        "topic_id",
        "partition_data",
    )

    def __init__(
        self,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partition_data: list[ProducePartitionData] = ABSENT,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_data = [] if partition_data is ABSENT else partition_data


class ProduceRequest(ApiMessage):
    api_key: ClassVar[int] = 0
    name: ClassVar[str] = "Produce"

    __slots__ = (
        "transactional_id",
        "acks",
        "timeout_ms",
        "topic_data",
    )

    def __init__(
        self,
        transactional_id: str | None = None,
        acks: int = 0,
        timeout_ms: int = 0,
        topic_data: list[ProduceTopicData] = ABSENT,
    ) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topic_data = [] if topic_data is ABSENT else topic_data


class ProduceRecordError(Struct):
    __slots__ = (
        "batch_index",
        "batch_index_error_message",
    )

    def __init__(
        self,
        batch_index: int = 0,
        batch_index_error_message: str | None = None,
    ) -> None:
        self.batch_index = batch_index
        self.batch_index_error_message = batch_index_error_message


class ProduceCurrentLeader(Struct):
    __slots__ = (
        "leader_id",
        "leader_epoch",
    )

    def __init__(
        self,
        leader_id: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class ProducePartitionResponse(Struct):
    __slots__ = (
        "index",
        "error_code",
        "base_offset",
        "log_append_time_ms",
        "log_start_offset",
        "record_errors",
        "error_message",
        "current_leader",
    )

    def __init__(
        self,
        index: int = 0,
        error_code: int = 0,
        base_offset: int = 0,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
        record_errors: list[ProduceRecordError] = ABSENT,
        error_message: str | None = None,
        current_leader: ProduceCurrentLeader | None = None,
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.record_errors = [] if record_errors is ABSENT else record_errors
        self.error_message = error_message
        self.current_leader = current_leader


class ProduceTopicResponse(Struct):
    __slots__ = (
        "name",
        "topic_id",
        "partition_responses",
    )

    def __init__(
        self,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partition_responses: list[ProducePartitionResponse] = ABSENT,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_responses = [] if partition_responses is ABSENT else partition_responses


class ProduceNodeEndpoint(Struct):
    __slots__ = (
        "node_id",
        "host",
        "port",
        "rack",
    )

    def __init__(
        self,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class ProduceResponse(ApiMessage):
    api_key: ClassVar[int] = 0
    name: ClassVar[str] = "Produce"

    __slots__ = (
        "responses",
        "throttle_time_ms",
        "node_endpoints",
    )

    def __init__(
        self,
        responses: list[ProduceTopicResponse] = ABSENT,
        throttle_time_ms: int = 0,
        node_endpoints: list[ProduceNodeEndpoint] = ABSENT,
    ) -> None:
        self.responses = [] if responses is ABSENT else responses
        self.throttle_time_ms = throttle_time_ms
        self.node_endpoints = [] if node_endpoints is ABSENT else node_endpoints


SCHEMA: Final = """\
api 0 Produce
request v3-13 flexible 9+
    transactional_id: str? = null
    acks: i16
    timeout_ms: i32
    topic_data: [ProduceTopicData]
        name: str @3-12
        topic_id: uuid @13+
        partition_data: [ProducePartitionData]
            index: i32
            records: records?
response v3-13 flexible 9+
    responses: [ProduceTopicResponse]
        name: str @3-12
        topic_id: uuid @13+
        partition_responses: [ProducePartitionResponse]
            index: i32
            error_code: i16
            base_offset: i64
            log_append_time_ms: i64 = -1
            log_start_offset: i64 = -1 @5+
            record_errors: [ProduceRecordError] @8+
                batch_index: i32
                batch_index_error_message: str? = null
            error_message: str? = null @8+
            current_leader: ProduceCurrentLeader #0 @10+
                leader_id: i32 = -1
                leader_epoch: i32 = -1
    throttle_time_ms: i32
    node_endpoints: [ProduceNodeEndpoint] #0 @10+
        node_id: i32
        host: str
        port: i32
        rack: str? = null
"""
