"""What there is to see of a node from outside: its disk, its replica, its state. Part of sim."""

from typing import NamedTuple

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.raft.hard_state import HardState
from ledgerstone.raft.leader import Leader
from ledgerstone.raft.node import RaftNode
from ledgerstone.raft.settings import Identity, Settings
from ledgerstone.raft.voter_history import VoterHistory
from ledgerstone.raft.voter_reader import read_history
from ledgerstone.raft.voters import VoterSet
from ledgerstone.sim.quorum.memory_log import MemoryLog
from ledgerstone.sim.quorum.memory_snapshots import MemorySnapshots
from ledgerstone.sim.quorum.state_machine import State


class Proposal(NamedTuple):
    """A record that a client waits for."""

    epoch: int
    end_offset: int
    crc: int


@dataclass(slots=True, kw_only=True)
class Host:
    number: int
    identity: Identity
    settings: Settings
    static_voters: VoterSet
    log: MemoryLog
    snapshots: MemorySnapshots
    state: State
    # What a completed store of quorum-state left on the platter.
    durable: HardState = field(default_factory=HardState)
    node: RaftNode | None = None

    @property
    def is_stopping(self) -> bool:
        return self.node is not None and self.node.quorum.is_stopping

    @property
    def leader(self) -> Leader | None:
        if self.node is None or not isinstance(self.node.role, Leader):
            return None
        return self.node.role

    def known_voters(self) -> VoterSet:
        """What it goes by, or would after a start."""
        if self.node is not None:
            return self.node.voters
        history = VoterHistory(self.static_voters)
        read_history(history, self.log, self.snapshots)
        return history.current

    def describe(self) -> str:
        if self.node is None:
            return f"n{self.number} down"
        role = self.node.role
        return (
            f"n{self.number} {type(role).__name__} epoch {role.epoch} hw {self.node.high_watermark}"
            f" end {self.log.end_offset} {self.node.voters}"
        )
