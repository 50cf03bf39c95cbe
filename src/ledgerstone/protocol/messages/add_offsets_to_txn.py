"""AddOffsetsToTxn, api key 25. Pure.

Made from schemas/add_offsets_to_txn.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage


class AddOffsetsToTxnRequest(ApiMessage):
    api_key: ClassVar[int] = 25
    name: ClassVar[str] = "AddOffsetsToTxn"

    __slots__ = (
        "transactional_id",
        "producer_id",
        "producer_epoch",
        "group_id",
    )

    def __init__(
        self,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        group_id: str = "",
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.group_id = group_id


class AddOffsetsToTxnResponse(ApiMessage):
    api_key: ClassVar[int] = 25
    name: ClassVar[str] = "AddOffsetsToTxn"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code


SCHEMA: Final = """\
api 25 AddOffsetsToTxn
request v0-4 flexible 3+
    transactional_id: str
    producer_id: i64
    producer_epoch: i16
    group_id: str
response v0-4 flexible 3+
    throttle_time_ms: i32
    error_code: i16
"""
