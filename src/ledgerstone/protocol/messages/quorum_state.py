"""Quorum state. Pure.

Made from schemas/quorum_state.txt by tools/codegen.py.
"""

from dataclasses import dataclass
from typing import Final

from ledgerstone.protocol.message import ZERO_UUID, Message, Struct


@dataclass(slots=True, eq=False, repr=False)
class QuorumStateDataCurrentVoter(Struct):
    voter_id: int = 0


@dataclass(slots=True, eq=False, repr=False)
class QuorumStateData(Message):
    cluster_id: str = ""
    leader_id: int = -1
    leader_epoch: int = -1
    voted_id: int = -1
    voted_directory_id: bytes = ZERO_UUID
    applied_offset: int = 0
    current_voters: list[QuorumStateDataCurrentVoter] | None = None


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
