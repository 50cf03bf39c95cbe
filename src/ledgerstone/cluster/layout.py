"""The nodes of a cluster on one machine: ids, roles, ports, directories. Pure.

A layout is decided once, when the directory is made, and then only grows. It is kept as
`cluster.json`, so that a later start continues the same nodes on the same ports. The id of a
removed node is not given out again: its directory still says who it was.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from ledgerstone.dataclasses import dataclass, field, replace
from ledgerstone.errors import LedgerstoneError

FORMAT: Final = 1
MOST_CONTROLLERS: Final = 3
DEFAULT_BASE_PORT: Final = 9092
# Between the first ports of two nodes: three are used, the rest is room.
PORT_STEP: Final = 10
# Between two places where a whole cluster may have its ports.
_BLOCK_STEP: Final = 100
_HIGHEST_PORT: Final = 32_000  # Above, the system takes ports for connections that go out.
# Settings of new topics: a broker that does not control is warned about them.
_FOR_CONTROLLERS: Final = ("num.partitions", "default.replication.factor")
_COMBINED: Final = "broker,controller"
_BROKER: Final = "broker"


class LayoutRefused(LedgerstoneError):
    """The nodes asked for cannot be had, or the file does not describe any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlace:
    """Where one node lives. Its ports follow one another: clients, HTTP, controllers."""

    node_id: int
    is_controller: bool
    first_port: int
    directory_id: str
    rack: str | None = None
    is_removed: bool = False

    @property
    def name(self) -> str:
        return f"node-{self.node_id}"

    @property
    def roles(self) -> str:
        return _COMBINED if self.is_controller else _BROKER

    @property
    def ports(self) -> tuple[int, int, int]:
        return self.first_port, self.first_port + 1, self.first_port + 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLayout:
    cluster_id: str
    host: str
    base_port: int
    nodes: tuple[NodePlace, ...]
    # Settings of every node, beside those made from the layout.
    settings: Mapping[str, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[NodePlace]:
        """Those that are not removed."""
        return (each for each in self.nodes if not each.is_removed)

    def node(self, node_id: int) -> NodePlace:
        for each in self:
            if each.node_id == node_id:
                return each
        known = ", ".join(str(each.node_id) for each in self)
        raise LayoutRefused(f"there is no node {node_id}; nodes are {known}")

    @property
    def controllers(self) -> list[NodePlace]:
        return [each for each in self if each.is_controller]

    def bootstrap_of(self, node: NodePlace) -> str:
        return f"{self.host}:{node.ports[0]}"

    def http_of(self, node: NodePlace) -> str:
        return f"{self.host}:{node.ports[1]}"

    def controller_of(self, node: NodePlace) -> str:
        return f"{self.host}:{node.ports[2]}"

    @property
    def initial_controllers(self) -> str:
        """For `ledgerstone format`: the same for every node that starts with the cluster."""
        return ",".join(
            f"{each.node_id}@{self.controller_of(each)}:{each.directory_id}"
            for each in self.controllers
        )

    def settings_of(self, node: NodePlace, data: str) -> dict[str, str]:
        """The node's server.properties. Clients and brokers share a listener."""
        name = self.settings.get("inter.broker.listener.name", "PLAINTEXT")
        listeners = [f"{name}://{self.bootstrap_of(node)}"]
        if node.is_controller:
            listeners.append(f"CONTROLLER://{self.controller_of(node)}")
        found = {
            "process.roles": node.roles,
            "node.id": str(node.node_id),
            "log.dirs": data,
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": ",".join(
                self.controller_of(each) for each in self.controllers
            ),
            "ledgerstone.http.listener": self.http_of(node),
        }
        if node.rack is not None:
            found["broker.rack"] = node.rack
        own = {
            key: value
            for key, value in self.settings.items()
            if node.is_controller or key not in _FOR_CONTROLLERS
        }
        return {**found, **own}

    # -- changes ------------------------------------------------------------------------------

    def with_node(
        self, *, directory_id: str, is_free: Callable[[int], bool], rack: str | None = None
    ) -> "ClusterLayout":
        """One broker more, with the next id."""
        node_id = max(each.node_id for each in self.nodes) + 1
        taken = {port for each in self for port in each.ports}
        port = self.base_port + PORT_STEP * (node_id - 1)
        while not all(each not in taken and is_free(each) for each in range(port, port + 3)):
            port += PORT_STEP
            if port > _HIGHEST_PORT:
                raise LayoutRefused(f"no free ports from {self.base_port} on")
        made = NodePlace(
            node_id=node_id,
            is_controller=False,
            first_port=port,
            directory_id=directory_id,
            rack=rack,
        )
        return replace(self, nodes=(*self.nodes, made))

    def without(self, node_id: int) -> "ClusterLayout":
        removed = self.node(node_id)
        if len(list(self)) == 1:
            raise LayoutRefused(f"node {node_id} is the last one")
        nodes = (replace(each, is_removed=True) if each is removed else each for each in self.nodes)
        return replace(self, nodes=tuple(nodes))

    # -- the file -----------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "cluster_id": self.cluster_id,
            "host": self.host,
            "base_port": self.base_port,
            "settings": dict(self.settings),
            "nodes": [
                {
                    "id": each.node_id,
                    "controller": each.is_controller,
                    "port": each.first_port,
                    "directory_id": each.directory_id,
                    "rack": each.rack,
                    "removed": each.is_removed,
                }
                for each in self.nodes
            ],
        }


def layout_from_json(content: object) -> ClusterLayout:
    """LayoutRefused for anything that `to_json` did not make."""
    try:
        assert isinstance(content, dict)
        if content["format"] != FORMAT:
            raise LayoutRefused(f"format {content['format']!r} is not known to this version")
        nodes = tuple(
            NodePlace(
                node_id=int(each["id"]),
                is_controller=bool(each["controller"]),
                first_port=int(each["port"]),
                directory_id=str(each["directory_id"]),
                rack=None if each["rack"] is None else str(each["rack"]),
                is_removed=bool(each["removed"]),
            )
            for each in content["nodes"]
        )
        return ClusterLayout(
            cluster_id=str(content["cluster_id"]),
            host=str(content["host"]),
            base_port=int(content["base_port"]),
            settings={str(key): str(value) for key, value in content["settings"].items()},
            nodes=nodes,
        )
    except (AssertionError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise LayoutRefused(f"does not describe a cluster: {error!r}") from error


def new_layout(
    *,
    node_count: int,
    cluster_id: str,
    directory_ids: Sequence[str],
    host: str,
    base_port: int | None,
    is_free: Callable[[int], bool],
    racks: Sequence[str] = (),
    settings: Mapping[str, str] | None = None,
) -> ClusterLayout:
    """The first three nodes are brokers and controllers, the others brokers only."""
    if node_count < 1:
        raise LayoutRefused("a cluster has at least one node")
    base = _base_port(node_count, base_port, is_free)
    nodes = tuple(
        NodePlace(
            node_id=number + 1,
            is_controller=number < MOST_CONTROLLERS and not (node_count == 2 and number == 1),
            first_port=base + PORT_STEP * number,
            directory_id=directory_ids[number],
            rack=racks[number % len(racks)] if racks else None,
        )
        for number in range(node_count)
    )
    return ClusterLayout(
        cluster_id=cluster_id,
        host=host,
        base_port=base,
        nodes=nodes,
        settings={**replication_settings(node_count), **(settings or {})},
    )


def _base_port(node_count: int, wanted: int | None, is_free: Callable[[int], bool]) -> int:
    """The wanted one must do; without one, the first block of free ports."""

    def taken(base: int) -> list[int]:
        firsts = range(base, base + PORT_STEP * node_count, PORT_STEP)
        return [port for first in firsts for port in range(first, first + 3) if not is_free(port)]

    if wanted is not None:
        if not 0 < wanted <= 65_535 - PORT_STEP * node_count:
            raise LayoutRefused(f"--base-port {wanted} leaves no room for {node_count} nodes")
        if in_use := taken(wanted):
            raise LayoutRefused(f"--base-port {wanted}: port {in_use[0]} is in use")
        return wanted
    for base in range(DEFAULT_BASE_PORT, _HIGHEST_PORT, _BLOCK_STEP):
        if not taken(base):
            return base
    raise LayoutRefused(f"no free ports from {DEFAULT_BASE_PORT} on")


def replication_settings(brokers: int) -> dict[str, str]:
    """Every record three times where there are three brokers, and acknowledged once two have it."""
    factor = min(brokers, 3)
    in_sync = max(factor - 1, 1)
    return {
        "default.replication.factor": str(factor),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.replication.factor": str(factor),
        "transaction.state.log.replication.factor": str(factor),
        "transaction.state.log.min.isr": str(in_sync),
    }
