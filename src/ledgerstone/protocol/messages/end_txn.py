"""EndTxn, api key 26. Pure.

Made from schemas/end_txn.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage


class EndTxnRequest(ApiMessage):
    api_key: ClassVar[int] = 26
    name: ClassVar[str] = "EndTxn"

    __slots__ = (
        "transactional_id",
        "producer_id",
        "producer_epoch",
        "committed",
    )

    def __init__(
        self,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        committed: bool = False,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.committed = committed


class EndTxnResponse(ApiMessage):
    api_key: ClassVar[int] = 26
    name: ClassVar[str] = "EndTxn"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "producer_id",
        "producer_epoch",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch


SCHEMA: Final = """\
api 26 EndTxn
request v0-5 flexible 3+
    transactional_id: str
    producer_id: i64
    producer_epoch: i16
    committed: bool
response v0-5 flexible 3+
    throttle_time_ms: i32
    error_code: i16
    producer_id: i64 = -1 @5+
    producer_epoch: i16 = -1 @5+
"""
