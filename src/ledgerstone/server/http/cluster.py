"""The part of the JSON API that is about the cluster. Grade D.

GET /api/v1/cluster     nodes, the controller, counts of partitions, those not in sync, moves
GET /api/v1/lags        of the partitions led here: records that followers lack, by node, and
                        the largest lags one by one; without followers that have not fetched

The first is the same on every node. The second is of this node: whoever wants the lag of a broker
asks every leader and adds up.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from ledgerstone.replication.leader import Leader
from ledgerstone.server.broker import Broker
from ledgerstone.server.cluster_facts import ClusterFacts, cluster_facts
from ledgerstone.server.http.server import HttpRequest
from ledgerstone.types import NO_OFFSET

Calls = Mapping[str, Callable[[], object]]
LISTED: Final = 200


class ReplicaLag(NamedTuple):
    lag: int
    topic: str
    partition: int
    node: int


def calls(broker: Broker, request: HttpRequest, parts: list[str]) -> Calls | None:
    """None for a path that is not about the cluster."""
    match parts:
        case ["cluster"]:
            return {"GET": lambda: {"node": broker.config.node_id, **facts_of(broker).to_json()}}
        case ["lags"]:
            return {"GET": lambda: lags_json(broker)}
        case _:
            return None


def facts_of(broker: Broker) -> ClusterFacts:
    quorum = broker.quorum
    voters = [each.key.id for each in quorum.node.voters.voters]
    return cluster_facts(broker.image, quorum.leader_id, voters)


def lags_json(broker: Broker) -> dict[str, Any]:
    lags = list(_lags(broker))
    nodes: dict[str, int] = {}
    for each in lags:
        nodes[str(each.node)] = nodes.get(str(each.node), 0) + each.lag
    largest = heapq.nlargest(LISTED, (each for each in lags if each.lag))
    return {
        "node": broker.config.node_id,
        "nodes": nodes,
        "largest": [each._asdict() for each in largest],
    }


def _lags(broker: Broker) -> Iterator[ReplicaLag]:
    for partition in broker.partitions:
        role = partition.role
        if not isinstance(role, Leader):
            continue
        log = partition.log
        for node, follower in role.in_sync.followers.items():
            # A new leader does not know what a follower has before its first fetch.
            if follower.end_offset != NO_OFFSET:
                lag = max(log.log_end_offset - follower.end_offset, 0)
                yield ReplicaLag(lag, *partition.topic_partition, node)
