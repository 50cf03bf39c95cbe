"""Heartbeat, api key 12. Pure.

Made from schemas/heartbeat.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage


class HeartbeatRequest(ApiMessage):
    api_key: ClassVar[int] = 12
    name: ClassVar[str] = "Heartbeat"

    __slots__ = (
        "group_id",
        "generation_id",
        "member_id",
        "group_instance_id",
    )

    def __init__(
        self,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id


class HeartbeatResponse(ApiMessage):
    api_key: ClassVar[int] = 12
    name: ClassVar[str] = "Heartbeat"

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
