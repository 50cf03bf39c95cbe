"""Quorum state. Pure.

Made from schemas/quorum_state.txt by tools/codegen.py.
"""

from typing import Final

from ledgerstone.protocol.message import ZERO_UUID, Message, Struct


class QuorumStateDataCurrentVoter(Struct):
    __slots__ = ("voter_id",)

    def __init__(
        self,
        voter_id: int = 0,
    ) -> None:
        self.voter_id = voter_id


class QuorumStateData(Message):
    __slots__ = (
        "cluster_id",
        "leader_id",
        "leader_epoch",
        "voted_id",
        "voted_directory_id",
        "applied_offset",
        "current_voters",
    )

    def __init__(
        self,
        cluster_id: str = "",
        leader_id: int = -1,
        leader_epoch: int = -1,
        voted_id: int = -1,
        voted_directory_id: bytes = ZERO_UUID,
        applied_offset: int = 0,
        current_voters: list[QuorumStateDataCurrentVoter] | None = None,
    ) -> None:
        self.cluster_id = cluster_id
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.voted_id = voted_id
        self.voted_directory_id = voted_directory_id
        self.applied_offset = applied_offset
        self.current_voters = current_voters


SCHEMA: Final = """\
data QuorumStateData v0-1 flexible 0+
    cluster_id: str @0
    leader_id: i32 = -1
    leader_epoch: i32 = -1
    voted_id: i32 = -1
    voted_directory_id: uuid @1+
    applied_offset: i64 @0
    current_voters: [QuorumStateDataCurrentVoter]? @0
        voter_id: i32
"""
