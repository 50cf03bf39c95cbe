"""AddRaftVoter, api key 80. Pure.

Made from schemas/add_raft_voter.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Struct


class AddRaftVoterListener(Struct):
    __slots__ = (
        "name",
        "host",
        "port",
    )

    def __init__(
        self,
        name: str = "",
        host: str = "",
        port: int = 0,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port


class AddRaftVoterRequest(ApiMessage):
    api_key: ClassVar[int] = 80
    name: ClassVar[str] = "AddRaftVoter"

    __slots__ = (
        "cluster_id",
        "timeout_ms",
        "voter_id",
        "voter_directory_id",
        "listeners",
        "ack_when_committed",
    )

    def __init__(
        self,
        cluster_id: str | None = None,
        timeout_ms: int = 0,
        voter_id: int = 0,
        voter_directory_id: bytes = ZERO_UUID,
        listeners: list[AddRaftVoterListener] = ABSENT,
        ack_when_committed: bool = True,
    ) -> None:
        self.cluster_id = cluster_id
        self.timeout_ms = timeout_ms
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.listeners = [] if listeners is ABSENT else listeners
        self.ack_when_committed = ack_when_committed


class AddRaftVoterResponse(ApiMessage):
    api_key: ClassVar[int] = 80
    name: ClassVar[str] = "AddRaftVoter"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message


SCHEMA: Final = """\
api 80 AddRaftVoter
request v0-1 flexible 0+
    cluster_id: str?
    timeout_ms: i32
    voter_id: i32
    voter_directory_id: uuid
    listeners: [AddRaftVoterListener]
        name: str
        host: str
        port: u16
    ack_when_committed: bool = true @1+
response v0-1 flexible 0+
    throttle_time_ms: i32
    error_code: i16
    error_message: str?
"""
