"""AddOffsetsToTxn, api key 25. Pure.

Made from schemas/add_offsets_to_txn.txt by tools/codegen.py.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage


@dataclass(slots=True, eq=False, repr=False)
class AddOffsetsToTxnRequest(ApiMessage):
    api_key: ClassVar[int] = 25
    name: ClassVar[str] = "AddOffsetsToTxn"

    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    group_id: str = ""


@dataclass(slots=True, eq=False, repr=False)
class AddOffsetsToTxnResponse(ApiMessage):
    api_key: ClassVar[int] = 25
    name: ClassVar[str] = "AddOffsetsToTxn"

    throttle_time_ms: int = 0
    error_code: int = 0


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
