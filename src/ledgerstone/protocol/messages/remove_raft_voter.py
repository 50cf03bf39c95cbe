"""RemoveRaftVoter, api key 81. Pure.

Made from schemas/remove_raft_voter.txt by tools/codegen.py.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage


@dataclass(slots=True, eq=False, repr=False)
class RemoveRaftVoterRequest(ApiMessage):
    api_key: ClassVar[int] = 81
    name: ClassVar[str] = "RemoveRaftVoter"

    cluster_id: str | None = None
    voter_id: int = 0
    voter_directory_id: bytes = ZERO_UUID


@dataclass(slots=True, eq=False, repr=False)
class RemoveRaftVoterResponse(ApiMessage):
    api_key: ClassVar[int] = 81
    name: ClassVar[str] = "RemoveRaftVoter"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None


SCHEMA: Final = """\
api 81 RemoveRaftVoter
request v0-0 flexible 0+
    cluster_id: str?
    voter_id: i32
    voter_directory_id: uuid
response v0-0 flexible 0+
    throttle_time_ms: i32
    error_code: i16
    error_message: str?
"""
