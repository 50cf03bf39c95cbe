"""Produce, api key 0. Pure.

Made from schemas/produce.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage, Struct
from ledgerstone.protocol.pieces import Records


@dataclass(slots=True, eq=False, repr=False)
class ProducePartitionData(Struct):
    index: int = 0
    records: Records = None


@dataclass(slots=True, eq=False, repr=False)
class ProduceTopicData(Struct):
    name: str = ""
    topic_id: bytes = ZERO_UUID
    partition_data: list[ProducePartitionData] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ProduceRequest(ApiMessage):
    api_key: ClassVar[int] = 0
    name: ClassVar[str] = "Produce"

    transactional_id: str | None = None
    acks: int = 0
    timeout_ms: int = 0
    topic_data: list[ProduceTopicData] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ProduceRecordError(Struct):
    batch_index: int = 0
    batch_index_error_message: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class ProduceCurrentLeader(Struct):
    leader_id: int = -1
    leader_epoch: int = -1


@dataclass(slots=True, eq=False, repr=False)
class ProducePartitionResponse(Struct):
    index: int = 0
    error_code: int = 0
    base_offset: int = 0
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: list[ProduceRecordError] = field(default_factory=list)
    error_message: str | None = None
    current_leader: ProduceCurrentLeader | None = None


@dataclass(slots=True, eq=False, repr=False)
class ProduceTopicResponse(Struct):
    name: str = ""
    topic_id: bytes = ZERO_UUID
    partition_responses: list[ProducePartitionResponse] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ProduceNodeEndpoint(Struct):
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class ProduceResponse(ApiMessage):
    api_key: ClassVar[int] = 0
    name: ClassVar[str] = "Produce"

    responses: list[ProduceTopicResponse] = field(default_factory=list)
    throttle_time_ms: int = 0
    node_endpoints: list[ProduceNodeEndpoint] = field(default_factory=list)


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
