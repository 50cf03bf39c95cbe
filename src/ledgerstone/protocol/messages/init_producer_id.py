"""InitProducerId, api key 22. Pure.

Made from schemas/init_producer_id.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage


class InitProducerIdRequest(ApiMessage):
    api_key: ClassVar[int] = 22
    name: ClassVar[str] = "InitProducerId"

    __slots__ = (
        "transactional_id",
        "transaction_timeout_ms",
        "producer_id",
        "producer_epoch",
        "enable_2pc",
        "keep_prepared_txn",
    )

    def __init__(
        self,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
        enable_2pc: bool = False,
        keep_prepared_txn: bool = False,
    ) -> None:
        self.transactional_id = transactional_id
        self.transaction_timeout_ms = transaction_timeout_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.enable_2pc = enable_2pc
        self.keep_prepared_txn = keep_prepared_txn


class InitProducerIdResponse(ApiMessage):
    api_key: ClassVar[int] = 22
    name: ClassVar[str] = "InitProducerId"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "producer_id",
        "producer_epoch",
        "ongoing_txn_producer_id",
        "ongoing_txn_producer_epoch",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id: int = -1,
        producer_epoch: int = 0,
        ongoing_txn_producer_id: int = -1,
        ongoing_txn_producer_epoch: int = -1,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.ongoing_txn_producer_id = ongoing_txn_producer_id
        self.ongoing_txn_producer_epoch = ongoing_txn_producer_epoch


SCHEMA: Final = """\
api 22 InitProducerId
request v0-6 flexible 2+
    transactional_id: str?
    transaction_timeout_ms: i32
    producer_id: i64 = -1 @3+
    producer_epoch: i16 = -1 @3+
    enable_2pc: bool @6+
    keep_prepared_txn: bool @6+
response v0-6 flexible 2+
    throttle_time_ms: i32
    error_code: i16
    producer_id: i64 = -1
    producer_epoch: i16
    ongoing_txn_producer_id: i64 = -1 @6+
    ongoing_txn_producer_epoch: i16 = -1 @6+
"""
