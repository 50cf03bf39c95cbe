"""AddRaftVoter, api key 80. Pure.

Made from schemas/add_raft_voter.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class AddRaftVoterListener(Struct):
    name: str = ""
    host: str = ""
    port: int = 0


@dataclass(slots=True, eq=False, repr=False)
class AddRaftVoterRequest(ApiMessage):
    api_key: ClassVar[int] = 80
    name: ClassVar[str] = "AddRaftVoter"

    cluster_id: str | None = None
    timeout_ms: int = 0
    voter_id: int = 0
    voter_directory_id: bytes = ZERO_UUID
    listeners: list[AddRaftVoterListener] = field(default_factory=list)
    ack_when_committed: bool = True


@dataclass(slots=True, eq=False, repr=False)
class AddRaftVoterResponse(ApiMessage):
    api_key: ClassVar[int] = 80
    name: ClassVar[str] = "AddRaftVoter"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None


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
