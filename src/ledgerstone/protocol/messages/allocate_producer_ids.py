"""AllocateProducerIds, api key 67. Pure.

Made from schemas/allocate_producer_ids.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage


class AllocateProducerIdsRequest(ApiMessage):
    api_key: ClassVar[int] = 67
    name: ClassVar[str] = "AllocateProducerIds"

    __slots__ = (
        "broker_id",
        "broker_epoch",
    )

    def __init__(
        self,
        broker_id: int = 0,
        broker_epoch: int = -1,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch


class AllocateProducerIdsResponse(ApiMessage):
    api_key: ClassVar[int] = 67
    name: ClassVar[str] = "AllocateProducerIds"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "producer_id_start",
        "producer_id_len",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id_start: int = 0,
        producer_id_len: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id_start = producer_id_start
        self.producer_id_len = producer_id_len


SCHEMA: Final = """\
api 67 AllocateProducerIds
request v0-0 flexible 0+
    broker_id: i32
    broker_epoch: i64 = -1
response v0-0 flexible 0+
    throttle_time_ms: i32
    error_code: i16
    producer_id_start: i64
    producer_id_len: i32
"""
