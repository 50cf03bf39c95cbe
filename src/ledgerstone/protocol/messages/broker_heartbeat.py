"""BrokerHeartbeat, api key 63. Pure.

Made from schemas/broker_heartbeat.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage


@dataclass(slots=True, eq=False, repr=False)
class BrokerHeartbeatRequest(ApiMessage):
    api_key: ClassVar[int] = 63
    name: ClassVar[str] = "BrokerHeartbeat"

    broker_id: int = 0
    broker_epoch: int = -1
    current_metadata_offset: int = 0
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: list[bytes] = field(default_factory=list)
    cordoned_log_dirs: list[bytes] | None = None


@dataclass(slots=True, eq=False, repr=False)
class BrokerHeartbeatResponse(ApiMessage):
    api_key: ClassVar[int] = 63
    name: ClassVar[str] = "BrokerHeartbeat"

    throttle_time_ms: int = 0
    error_code: int = 0
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False


SCHEMA: Final = """\
api 63 BrokerHeartbeat
request v0-2 flexible 0+
    broker_id: i32
    broker_epoch: i64 = -1
    current_metadata_offset: i64
    want_fence: bool
    want_shut_down: bool
    offline_log_dirs: [uuid] #0 @1+
    cordoned_log_dirs: [uuid]? #1 = null @2+
response v0-2 flexible 0+
    throttle_time_ms: i32
    error_code: i16
    is_caught_up: bool
    is_fenced: bool = true
    should_shut_down: bool
"""
