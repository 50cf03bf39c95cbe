"""RemoveRaftVoter, api key 81. Pure.

Made from schemas/remove_raft_voter.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage


class RemoveRaftVoterRequest(ApiMessage):
    api_key: ClassVar[int] = 81
    name: ClassVar[str] = "RemoveRaftVoter"

    __slots__ = (
        "cluster_id",
        "voter_id",
        "voter_directory_id",
    )

    def __init__(
        self,
        cluster_id: str | None = None,
        voter_id: int = 0,
        voter_directory_id: bytes = ZERO_UUID,
    ) -> None:
        self.cluster_id = cluster_id
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id


class RemoveRaftVoterResponse(ApiMessage):
    api_key: ClassVar[int] = 81
    name: ClassVar[str] = "RemoveRaftVoter"

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
