"""AllocateProducerIds, api key 67. Pure.

Made from schemas/allocate_producer_ids.txt by tools/codegen.py.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage


@dataclass(slots=True, eq=False, repr=False)
class AllocateProducerIdsRequest(ApiMessage):
    api_key: ClassVar[int] = 67
    name: ClassVar[str] = "AllocateProducerIds"

    broker_id: int = 0
    broker_epoch: int = -1


@dataclass(slots=True, eq=False, repr=False)
class AllocateProducerIdsResponse(ApiMessage):
    api_key: ClassVar[int] = 67
    name: ClassVar[str] = "AllocateProducerIds"

    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id_start: int = 0
    producer_id_len: int = 0


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
