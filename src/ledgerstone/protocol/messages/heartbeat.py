"""Heartbeat, api key 12. Pure.

Made from schemas/heartbeat.txt by tools/codegen.py.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage


@dataclass(slots=True, eq=False, repr=False)
class HeartbeatRequest(ApiMessage):
    api_key: ClassVar[int] = 12
    name: ClassVar[str] = "Heartbeat"

    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class HeartbeatResponse(ApiMessage):
    api_key: ClassVar[int] = 12
    name: ClassVar[str] = "Heartbeat"

    throttle_time_ms: int = 0
    error_code: int = 0


SCHEMA: Final = """\
api 12 Heartbeat
request v0-4 flexible 4+
    group_id: str
    generation_id: i32
    member_id: str
    group_instance_id: str? = null @3+
response v0-4 flexible 4+
    throttle_time_ms: i32 @1+
    error_code: i16
"""
