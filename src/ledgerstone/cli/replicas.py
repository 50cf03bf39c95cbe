"""What each replica of a topic says of itself, over the HTTP APIs of its brokers. Shell."""

from typing import Annotated, Any, NamedTuple

import typer

from ledgerstone.cli.admin_http import AdminApi, AdminCallFailed, apis_by_node, topic_path
from ledgerstone.client.blocking import Client

ReplicasOption = Annotated[
    bool, typer.Option("--replicas", help="Every replica, not only the leader.")
]


class ReplicaStatus(NamedTuple):
    node_id: int
    is_leader: bool
    is_alone: bool  # the partition has one replica
    status: dict[str, Any]

    @property
    def name(self) -> str:
        """What it is called beside the others; nothing if there are none."""
        if self.is_alone:
            return ""
        return f" on {self.node_id}{' (leader)' if self.is_leader else ''}"

    def to_json(self) -> dict[str, Any]:
        return {**self.status, "node_id": self.node_id, "is_leader": self.is_leader}


class SilentReplica(NamedTuple):
    partition: int
    node_id: int
    reason: str

    def __str__(self) -> str:
        return f"partition {self.partition} on {self.node_id}: {self.reason}"


class ReplicaStatuses(NamedTuple):
    """By partition, the leader first."""

    found: list[ReplicaStatus]
    silent: list[SilentReplica]

    def chosen(self, *, every: bool) -> list[ReplicaStatus]:
        """Every replica, or one of each partition: its leader, if that answers."""
        if every:
            return self.found
        first: dict[int, ReplicaStatus] = {}
        for each in self.found:
            first.setdefault(int(each.status["partition"]), each)
        return list(first.values())


def replica_statuses(
    client: Client, topic: str, what: str, *, partition: int | None = None
) -> ReplicaStatuses:
    partitions = client.topic(topic).partitions
    if partition is not None and partition not in partitions:
        raise AdminCallFailed(f"topic {topic} has no partition {partition}")
    apis = apis_by_node(client)
    said: dict[int, dict[int, dict[str, Any]]] = {}
    reasons: dict[int, str] = {}
    for node_id in sorted({node for info in partitions.values() for node in info.replicas}):
        try:
            said[node_id] = _ask(apis, node_id, topic_path(topic, what))
        except AdminCallFailed as error:
            reasons[node_id] = str(error)
    if not said:
        raise AdminCallFailed("; ".join(reasons.values()))
    found, silent = [], []
    for number, info in partitions.items():
        if partition not in (None, number):
            continue
        leader = info.leader_id
        for node_id in sorted(info.replicas, key=lambda each: (each != leader, each)):
            status = said.get(node_id, {}).get(number)
            if status is None:
                reason = reasons.get(node_id, "it does not have the partition")
                silent.append(SilentReplica(number, node_id, reason))
            else:
                is_alone = len(info.replicas) == 1
                found.append(ReplicaStatus(node_id, node_id == leader, is_alone, status))
    return ReplicaStatuses(found, silent)


def _ask(apis: dict[int, AdminApi], node_id: int, path: str) -> dict[int, dict[str, Any]]:
    api = apis.get(node_id)
    if api is None:
        raise AdminCallFailed(f"broker {node_id} is away, or has no HTTP API")
    return {int(each["partition"]): each for each in api.get(path)["partitions"]}
