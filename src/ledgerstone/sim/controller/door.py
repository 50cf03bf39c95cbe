"""The metadata quorum of one simulated node, as the controller link sees it. Part of sim.

Contract: `server.quorum.door.MetadataQuorum`. The replica, its disk and its messages are those of
`sim.quorum`; a proposal is committed in a later event, even of a sole voter.
"""

from collections.abc import Callable, Sequence

from ledgerstone.errors import LedgerstoneError, NotController, NotLeaderOrFollower
from ledgerstone.raft.events import Resign
from ledgerstone.raft.node import RaftNode
from ledgerstone.raft.replica import Peer
from ledgerstone.records.builder import RecordParts
from ledgerstone.sim.quorum.machine import Machine
from ledgerstone.sim.world import Violation

CONTROLLER_PORT = 9093


class SimQuorum:
    def __init__(self, machine: Machine, on_proposed: Callable[[int, int], None]) -> None:
        """`on_proposed` hears where a batch begins, and its epoch."""
        self._machine = machine
        self._on_proposed = on_proposed

    @property
    def _node(self) -> RaftNode:
        node = self._machine.node
        assert node is not None
        return node

    @property
    def epoch(self) -> int:
        return 0 if self._machine.node is None else self._node.epoch

    @property
    def leader_id(self) -> int | None:
        return None if self._machine.node is None else self._node.role.leader_id

    @property
    def leader(self) -> Peer | None:
        leader_id = self.leader_id
        return None if leader_id is None else peer_of(leader_id)

    @property
    def end_offset(self) -> int:
        return self._machine.host.log.end_offset

    @property
    def high_watermark(self) -> int:
        return 0 if self._machine.node is None else self._node.high_watermark

    def propose(self, epoch: int, records: Sequence[RecordParts]) -> int:
        base_offset = self.end_offset
        try:
            end_offset = self._node.propose(self._machine.now(), epoch, records)
        except NotLeaderOrFollower as error:
            raise NotController(str(error)) from error
        except (LedgerstoneError, AssertionError, LookupError) as error:
            raise Violation("NodeFault", f"n{self._machine.number}: {error!r}") from error
        self._on_proposed(base_offset, epoch)
        return end_offset

    def advance(self) -> None:
        self._machine.settle()

    def resign(self, epoch: int) -> None:
        self._machine.tell(Resign(epoch))


def peer_of(node_id: int) -> Peer:
    return Peer(node_id, f"n{node_id}", CONTROLLER_PORT)
