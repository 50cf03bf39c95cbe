"""Who is in a small cluster on the loopback: ids, roles, ports, directories. Pure.

Apache Kafka and we read the same `server.properties`, so the plan does not know which node runs
which program.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

CLUSTER_ID = "TGVkZ2Vyc3RvbmVHb2xkZQ"  # any 16 bytes in base64url; fixed, so that it repeats
BROKER = "broker"
CONTROLLER = "controller"
COMBINED = "broker,controller"

# A small machine runs several of these at once.
SMALL: Mapping[str, str] = {
    "num.network.threads": "1",
    "num.io.threads": "2",
    "num.recovery.threads.per.data.dir": "1",
    "background.threads": "2",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.threads": "1",
    "log.cleaner.dedupe.buffer.size": "4194304",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedNode:
    node_id: int
    roles: str
    # Where clients go; unused by a node that is a controller only.
    port: int
    # Unused by a node that is a broker only.
    controller_port: int
    # What other nodes dial instead, such as a proxy in between.
    advertised_controller_port: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    host: str = "127.0.0.1"

    @property
    def is_broker(self) -> bool:
        return BROKER in self.roles

    @property
    def is_controller(self) -> bool:
        return CONTROLLER in self.roles

    @property
    def directory_id(self) -> str:
        """Fixed by the node's id. The first 100 ids are reserved."""
        raw = bytes([0x10 + self.node_id]) * 16
        return base64.urlsafe_b64encode(raw).decode().rstrip("=")

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def controller(self) -> str:
        """Where it listens."""
        return f"{self.host}:{self.controller_port}"

    @property
    def dialled_controller(self) -> str:
        """Where others look for it."""
        return f"{self.host}:{self.advertised_controller_port or self.controller_port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    nodes: Sequence[PlannedNode]
    # kraft.version 1 with --initial-controllers; otherwise controller.quorum.voters.
    is_dynamic: bool = True
    settings: Mapping[str, str] = field(default_factory=dict)
    # Levels that the cluster begins with, where they are not those of the release.
    features: Mapping[str, int] = field(default_factory=dict)

    def __iter__(self) -> Iterator[PlannedNode]:
        return iter(self.nodes)

    def node(self, node_id: int) -> PlannedNode:
        return next(each for each in self.nodes if each.node_id == node_id)

    @property
    def controllers(self) -> list[PlannedNode]:
        return [each for each in self.nodes if each.is_controller]

    @property
    def bootstrap(self) -> str:
        return ",".join(each.bootstrap for each in self.nodes if each.is_broker)

    @property
    def bootstrap_controllers(self) -> str:
        return ",".join(each.dialled_controller for each in self.controllers)

    @property
    def initial_controllers(self) -> str:
        """For `format --initial-controllers`."""
        return ",".join(
            f"{each.node_id}@{each.dialled_controller}:{each.directory_id}"
            for each in self.controllers
        )

    def properties(self, node: PlannedNode, data: Path) -> dict[str, str]:
        """The node's server.properties."""
        listeners, advertised = [], []
        if node.is_broker:
            listeners.append(f"PLAINTEXT://{node.bootstrap}")
            advertised.append(f"PLAINTEXT://{node.bootstrap}")
        if node.is_controller:
            listeners.append(f"CONTROLLER://{node.controller}")
            advertised.append(f"CONTROLLER://{node.dialled_controller}")
        found = {
            "process.roles": node.roles,
            "node.id": str(node.node_id),
            "listeners": ",".join(listeners),
            "advertised.listeners": ",".join(advertised),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(data),
            **SMALL,
        }
        if self.is_dynamic:
            found["controller.quorum.bootstrap.servers"] = self.bootstrap_controllers
        else:
            found["controller.quorum.voters"] = ",".join(
                f"{each.node_id}@{each.dialled_controller}" for each in self.controllers
            )
        return {**found, **self.settings, **node.settings}

    def format_arguments(self, node: PlannedNode) -> list[str]:
        """Voters and features, as Kafka's storage tool and ours take them."""
        found = []
        for name, level in self.features.items():
            found += ["--feature", f"{name}={level}"]
        if not self.is_dynamic:
            return found
        if node.is_controller:
            return [*found, "--initial-controllers", self.initial_controllers]
        return [*found, "--no-initial-controllers"]


def properties_text(properties: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in properties.items())
