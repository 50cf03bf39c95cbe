"""EndTxn, api key 26. Pure.

Made from schemas/end_txn.txt by tools/codegen.py.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage


@dataclass(slots=True, eq=False, repr=False)
class EndTxnRequest(ApiMessage):
    api_key: ClassVar[int] = 26
    name: ClassVar[str] = "EndTxn"

    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    committed: bool = False


@dataclass(slots=True, eq=False, repr=False)
class EndTxnResponse(ApiMessage):
    api_key: ClassVar[int] = 26
    name: ClassVar[str] = "EndTxn"

    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = -1


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
