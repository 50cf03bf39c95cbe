"""What all processes of a simulated cluster share. Part of sim."""

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.sim.controller.judge import ClusterJudge
from ledgerstone.sim.controller.replication import Replication
from ledgerstone.sim.controller.scenario import Config
from ledgerstone.sim.quorum.machine import Machine
from ledgerstone.sim.quorum.network import Network
from ledgerstone.sim.world import World

CLUSTER_ID = "sim-controller"


@dataclass(slots=True, kw_only=True)
class SimStage:
    world: World
    network: Network
    config: Config
    judge: ClusterJudge
    replication: Replication
    fleet: list[Machine] = field(default_factory=list)
    # How long a node that was told to stop stays away.
    down_ms: dict[int, int] = field(default_factory=dict)
    # By node: the broker epoch that a clean stop has left on its disk.
    clean_epochs: dict[int, int] = field(default_factory=dict)
    is_healed: bool = False
    # Followers take the image of the truth at their offset, instead of replaying to it: for
    # clusters too large to keep an image for each node.
    shares_images: bool = False
