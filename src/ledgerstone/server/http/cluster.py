"""The part of the JSON API that is about the cluster. Grade D.

GET /api/v1/cluster     nodes, the controller, counts of partitions, those not in sync, moves
GET /api/v1/replicas[?topic=T]      of each partition hosted here: role, offsets, size

The first is the same on every node; the second is of this node. What one replica lacks is the
difference between its end and its leader's, so whoever wants lags asks both nodes.
"""

from collections.abc import Callable, Mapping

from ledgerstone.replication.partition import Partition
from ledgerstone.server.broker import Broker
from ledgerstone.server.cluster_facts import ClusterFacts, cluster_facts
from ledgerstone.server.http.server import HttpRequest

Calls = Mapping[str, Callable[[], object]]


def calls(broker: Broker, request: HttpRequest, parts: list[str]) -> Calls | None:
    """None for a path that is not about the cluster."""
    match parts:
        case ["cluster"]:
            return {"GET": lambda: {"node": broker.config.node_id, **facts_of(broker).to_json()}}
        case ["replicas"]:
            return {"GET": lambda: _replicas(broker, request.query.get("topic"))}
        case _:
            return None


def facts_of(broker: Broker) -> ClusterFacts:
    quorum = broker.quorum
    voters = [each.key.id for each in quorum.node.voters.voters]
    return cluster_facts(broker.image, quorum.leader_id, voters)


def _replicas(broker: Broker, topic: str | None) -> object:
    hosted = [each for each in broker.partitions if topic in (None, each.topic_partition.topic)]
    hosted.sort(key=lambda each: each.topic_partition)
    return {"node": broker.config.node_id, "replicas": [replica_json(each) for each in hosted]}


def replica_json(partition: Partition) -> dict[str, object]:
    log = partition.log
    return {
        "topic": partition.topic_partition.topic,
        "partition": partition.topic_partition.partition,
        "is_leader": partition.is_leader,
        "leader": partition.leader_id,
        "log_start_offset": log.log_start_offset,
        "high_watermark": log.high_watermark,
        "log_end_offset": log.log_end_offset,
        "size_bytes": log.size_bytes,
        "segments": len(log.segments),
        "failure": log.failure,
    }
