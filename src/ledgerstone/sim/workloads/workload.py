"""What a cluster asks of the clients that a profile puts on it."""

from typing import Protocol

from ledgerstone.sim.clients.wire import Wire
from ledgerstone.sim.model import NodeModel
from ledgerstone.sim.network import Network
from ledgerstone.sim.node import Node
from ledgerstone.sim.scenario import Config
from ledgerstone.sim.script_text import Fault
from ledgerstone.sim.world import World


class WorldChecker(Protocol):
    """`step` after every event, `look` at quiet points; see `invariants`."""

    def step(self, model: NodeModel) -> None: ...

    def look(self, model: NodeModel) -> None: ...


class Scene(Protocol):
    """What a workload finds: the world and its network, and how the seed set them up."""

    world: World
    network: Network
    config: Config


class ClientWorkload(Protocol):
    checkers: list[WorldChecker]

    def settings(self) -> dict[str, str]:
        """Broker configuration, on top of what every profile has."""
        ...

    def add_clients(self, model: NodeModel) -> None:
        """Before the node starts for the first time."""
        ...

    def strike(self, fault: Fault) -> None:
        """A fault of a client."""
        ...

    def heal(self) -> None:
        """Nothing new is begun; what is under way comes to its end."""
        ...

    def unfinished(self) -> list[str]:
        """What has not come to its end yet."""
        ...

    def end(self, model: NodeModel) -> None:
        """Everything has come to its end: what must hold then."""
        ...


def wire_of(scene: Scene, name: str, node: Node) -> Wire:
    return Wire(scene.world, scene.network, name, node)
