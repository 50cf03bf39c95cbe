"""BrokerHeartbeat, api key 63. Pure.

Made from schemas/broker_heartbeat.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage


class BrokerHeartbeatRequest(ApiMessage):
    api_key: ClassVar[int] = 63
    name: ClassVar[str] = "BrokerHeartbeat"

    __slots__ = (
        "broker_id",
        "broker_epoch",
        "current_metadata_offset",
        "want_fence",
        "want_shut_down",
        "offline_log_dirs",
        "cordoned_log_dirs",
    )

    def __init__(
        self,
        broker_id: int = 0,
        broker_epoch: int = -1,
        current_metadata_offset: int = 0,
        want_fence: bool = False,
        want_shut_down: bool = False,
        offline_log_dirs: list[bytes] = ABSENT,
        cordoned_log_dirs: list[bytes] | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.current_metadata_offset = current_metadata_offset
        self.want_fence = want_fence
        self.want_shut_down = want_shut_down
        self.offline_log_dirs = [] if offline_log_dirs is ABSENT else offline_log_dirs
        self.cordoned_log_dirs = cordoned_log_dirs


class BrokerHeartbeatResponse(ApiMessage):
    api_key: ClassVar[int] = 63
    name: ClassVar[str] = "BrokerHeartbeat"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "is_caught_up",
        "is_fenced",
        "should_shut_down",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        is_caught_up: bool = False,
        is_fenced: bool = True,
        should_shut_down: bool = False,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.is_caught_up = is_caught_up
        self.is_fenced = is_fenced
        self.should_shut_down = should_shut_down


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
