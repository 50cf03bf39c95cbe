"""One look at a whole cluster, through Kafka's protocol and the nodes' HTTP APIs. Shell.

Every part may be missing: a node that is down does not report, and without a controller there is
no list of moves. What was found is shown; what was not is None, and `trouble` says why.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import TopicInfo
from ledgerstone.client.cluster_admin import (
    ClusterDescription,
    Reassignment,
    describe_cluster,
    list_reassignments,
)
from ledgerstone.client.quorum_admin import describe_quorum
from ledgerstone.client.security import ClientSecurity
from ledgerstone.cluster.lag_reports import LagReports
from ledgerstone.cluster.node_http import get_json, http_address
from ledgerstone.dataclasses import asdict, dataclass, field
from ledgerstone.errors import LedgerstoneError
from ledgerstone.types import TopicPartition


@dataclass(slots=True, kw_only=True)
class NodeStatus:
    id: int
    roles: str | None = None
    state: str = "unknown"
    pid: int | None = None
    bootstrap: str | None = None
    http: str | None = None
    rack: str | None = None
    leads: int | None = None
    replicas: int | None = None
    behind: int | None = None  # replicas that are not in sync
    lag: int | None = None  # records its replicas lack, all together
    restarts: int | None = None


@dataclass(slots=True, kw_only=True)
class MoveStatus:
    topic: str
    partition: int
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    # Records that the new replicas lack; None if they did not report.
    lag: int | None


@dataclass(slots=True, kw_only=True)
class LaggingPartition:
    topic: str
    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(slots=True, kw_only=True)
class ClusterStatus:
    cluster_id: str | None = None
    controller: int | None = None
    nodes: dict[int, NodeStatus] = field(default_factory=dict)
    partitions: int | None = None
    offline: int | None = None
    under_replicated: list[LaggingPartition] = field(default_factory=list)
    moves: list[MoveStatus] = field(default_factory=list)
    trouble: str | None = None

    @property
    def is_whole(self) -> bool:
        """Every node is up, every partition has a leader, and every replica is in sync."""
        return (
            self.trouble is None
            and self.controller is not None
            and all(each.state == "up" for each in self.nodes.values())
            and not (self.offline or self.under_replicated or self.moves)
        )

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "nodes": [asdict(each) for each in self.nodes.values()]}


def survey(
    client: Client, processes: Mapping[int, Mapping[str, Any]] | None = None
) -> ClusterStatus:
    """`processes` as a supervisor describes them; without one, brokers are asked where their HTTP
    API is."""
    status = ClusterStatus()
    for node_id, each in (processes or {}).items():
        status.nodes[node_id] = NodeStatus(
            id=node_id,
            roles=each["roles"],
            state=each["state"],
            pid=each["pid"],
            bootstrap=each["bootstrap"],
            http=each["http"],
            rack=each["rack"],
            restarts=each["restarts"],
        )
    try:
        found = describe_cluster(client)
        _add_brokers(status, found, is_supervised=processes is not None)
        _add_quorum(status, client)
        if processes is None:
            _add_addresses(client, status)
        reports = _reports(status, client.session.config.security)
        moving = list_reassignments(client)
        _add_partitions(status, client.all_topics(), moving)
        _add_lags(status, reports, moving)
    except LedgerstoneError as error:
        status.trouble = str(error)
    return status


def _add_quorum(status: ClusterStatus, client: Client) -> None:
    """DescribeCluster names any broker as controller; the quorum knows the real one."""
    quorum = describe_quorum(client)
    status.controller = None if quorum.leader_id < 0 else quorum.leader_id
    voters = {each.node_id for each in quorum.voters}
    for node in status.nodes.values():
        node.roles = node.roles or ("broker,controller" if node.id in voters else "broker")


def _add_brokers(status: ClusterStatus, found: ClusterDescription, *, is_supervised: bool) -> None:
    status.cluster_id = found.cluster_id
    for broker in found.brokers:
        node = status.nodes.setdefault(broker.id, NodeStatus(id=broker.id))
        node.rack = broker.rack
        node.bootstrap = node.bootstrap or f"{broker.host}:{broker.port}"
        if not is_supervised or node.state == "unknown":
            node.state = "fenced" if broker.is_fenced else "up"
        elif node.state == "up" and broker.is_fenced:
            node.state = "fenced"
    status.nodes = dict(sorted(status.nodes.items()))


def _add_addresses(client: Client, status: ClusterStatus) -> None:
    for node in status.nodes.values():
        if node.state == "up" and node.bootstrap is not None:
            host = node.bootstrap.rpartition(":")[0]
            node.http = http_address(client, node.id, host)


def _reports(status: ClusterStatus, security: ClientSecurity) -> LagReports:
    addresses = [each.http for each in status.nodes.values() if each.http and each.state == "up"]
    if not addresses:
        return LagReports()
    with ThreadPoolExecutor(min(len(addresses), 16)) as pool:
        found = list(pool.map(lambda at: get_json(at, "lags", security=security), addresses))
    return LagReports(each for each in found if each is not None)


def _add_partitions(
    status: ClusterStatus,
    topics: list[TopicInfo],
    moving: Mapping[TopicPartition, Reassignment],
) -> None:
    status.partitions = status.offline = 0
    for node in status.nodes.values():
        node.leads = node.replicas = node.behind = 0
    for topic in topics:
        for info in topic.partitions.values():
            status.partitions += 1
            status.offline += info.leader_id < 0
            _count(status, info.leader_id, info.replicas, info.isr)
            move = moving.get(TopicPartition(topic.name, info.partition))
            wanted = set(info.replicas) - set(() if move is None else move.adding)
            if not wanted <= set(info.isr):
                status.under_replicated.append(
                    LaggingPartition(
                        topic=topic.name,
                        partition=info.partition,
                        leader=None if info.leader_id < 0 else info.leader_id,
                        replicas=info.replicas,
                        isr=info.isr,
                    )
                )


def _count(
    status: ClusterStatus, leader: int, replicas: tuple[int, ...], isr: tuple[int, ...]
) -> None:
    for each in replicas:
        node = status.nodes.setdefault(each, NodeStatus(id=each))
        node.replicas = (node.replicas or 0) + 1
        node.behind = (node.behind or 0) + (each not in isr)
        node.leads = (node.leads or 0) + (each == leader)


def _add_lags(
    status: ClusterStatus, reports: LagReports, moving: Mapping[TopicPartition, Reassignment]
) -> None:
    for node_id, lag in reports.by_node.items():
        if node_id in status.nodes:
            status.nodes[node_id].lag = lag
    for partition, move in sorted(moving.items()):
        lags = [reports.of(partition, each) for each in move.adding]
        known = [each for each in lags if each is not None]
        status.moves.append(
            MoveStatus(
                topic=partition.topic,
                partition=partition.partition,
                adding=move.adding,
                removing=move.removing,
                lag=sum(known) if known else None,
            )
        )
