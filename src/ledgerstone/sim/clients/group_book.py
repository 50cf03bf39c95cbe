"""What the members of one group know together: who led a generation, and who owned what in it."""

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.protocol.messages.join_group import JoinGroupResponse
from ledgerstone.sim.model import CommitModel, NodeModel
from ledgerstone.sim.world import Violation
from ledgerstone.types import TopicPartition


@dataclass(slots=True)
class GroupBook:
    group: str
    _losses: int = 0
    _leaders: dict[int, str] = field(default_factory=dict)
    _owners: dict[tuple[int, TopicPartition], str] = field(default_factory=dict)
    last_generation_id: int = 0

    def joined(self, response: JoinGroupResponse, model: NodeModel) -> None:
        if model.losses != self._losses:
            # Power loss may take a generation back, and its number comes again.
            self._losses = model.losses
            self._leaders.clear()
            self._owners.clear()
            self.last_generation_id = 0
        generation_id = self.last_generation_id = response.generation_id
        leader = self._leaders.get(generation_id)
        if leader not in (None, response.leader):
            detail = f"{self.group} {generation_id}: {leader} and {response.leader}"
            raise Violation("OneLeaderAGeneration", detail)

    def synced(
        self, generation_id: int, leader: str, member_id: str, owned: list[TopicPartition]
    ) -> None:
        """Only now is the generation in the log; before, a crash brings its number back."""
        self._leaders.setdefault(generation_id, leader)
        for tp in owned:
            owner = self._owners.setdefault((generation_id, tp), member_id)
            if owner != member_id:
                detail = f"{self.group} {generation_id} {tp}: {owner} and {member_id}"
                raise Violation("OneOwnerAGeneration", detail)

    def committed(self, commit: CommitModel, offset: int) -> None:
        """Acknowledged: what was tried before it no longer counts."""
        commit.acked = offset
        commit.is_open = False
        if offset in commit.attempts:
            commit.attempts = commit.attempts[commit.attempts.index(offset) + 1 :]
