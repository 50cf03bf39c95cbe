"""The part of the JSON API that is about the cluster. Grade D.

GET /api/v1/cluster     nodes, the controller, counts of partitions, those not in sync, moves
GET /api/v1/lags        of the partitions led here: records that followers lack, by node, and
                        the largest lags one by one; without followers that have not fetched

The first is the same on every node. The second is of this node: whoever wants the lag of a broker
asks every leader and adds up.
"""

import heapq
from collections.abc import Callable, Mapping
from typing import Any, Final

from ledgerstone.server.broker import Broker
from ledgerstone.server.cluster_facts import ClusterFacts, cluster_facts
from ledgerstone.server.follower_lags import follower_lags, lag_by_node
from ledgerstone.server.http.server import HttpRequest

Calls = Mapping[str, Callable[[], object]]
LISTED: Final = 200


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
    lags = list(follower_lags(broker.partitions))
    largest = heapq.nlargest(LISTED, (each for each in lags if each.lag))
    return {
        "node": broker.config.node_id,
        "nodes": {str(node): lag for node, lag in lag_by_node(lags).items()},
        "largest": [each._asdict() for each in largest],
    }
