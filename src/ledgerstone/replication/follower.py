"""What a broker is for a partition that another one leads, or nobody does. Pure.

It serves no clients. Its fetch loop and truncation will live here.
"""

from dataclasses import dataclass

from ledgerstone.metadata.image import NO_LEADER, PartitionImage
from ledgerstone.types import NO_LEADER_EPOCH


@dataclass(slots=True, kw_only=True)
class Follower:
    leader_id: int = NO_LEADER
    leader_epoch: int = NO_LEADER_EPOCH
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()

    def assume(self, state: PartitionImage) -> None:
        self.leader_id, self.leader_epoch = state.leader, state.leader_epoch
        self.replicas, self.isr = state.replicas, state.isr
