"""InitProducerId, api key 22. Pure.

Made from schemas/init_producer_id.txt by tools/codegen.py.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage


@dataclass(slots=True, eq=False, repr=False)
class InitProducerIdRequest(ApiMessage):
    api_key: ClassVar[int] = 22
    name: ClassVar[str] = "InitProducerId"

    transactional_id: str | None = None
    transaction_timeout_ms: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    enable_2pc: bool = False
    keep_prepared_txn: bool = False


@dataclass(slots=True, eq=False, repr=False)
class InitProducerIdResponse(ApiMessage):
    api_key: ClassVar[int] = 22
    name: ClassVar[str] = "InitProducerId"

    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = 0
    ongoing_txn_producer_id: int = -1
    ongoing_txn_producer_epoch: int = -1


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
