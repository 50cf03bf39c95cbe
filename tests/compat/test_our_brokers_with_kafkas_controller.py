"""Brokers of ours under a controller of Apache Kafka: register, forward, leave, come back."""

import shutil
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from golden.cluster_plan import BROKER, CONTROLLER, ClusterPlan, PlannedNode
from golden.kafka_broker import free_port
from golden.kafka_tools import fetch_jars
from ledgerstone.protocol.error_codes import ErrorCode
from tests.kit.broker import wait_until
from tests.kit.nodes import KAFKA, LEDGERSTONE, Cluster

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("java") is None, reason="Kafka needs Java"),
]

KAFKAS: Final = 1
# Group protocols that our brokers do not speak yet: a cluster with them on refuses our brokers.
NOT_SPOKEN: Final = ("group.version=0", "share.version=0", "streams.version=0")


class _Plan(ClusterPlan):
    def format_arguments(self, node: PlannedNode) -> list[str]:
        arguments = super().format_arguments(node)
        if node.node_id == KAFKAS:
            arguments += [part for each in NOT_SPOKEN for part in ("--feature", each)]
        return arguments


def _node(node_id: int, roles: str) -> PlannedNode:
    return PlannedNode(node_id=node_id, roles=roles, port=free_port(), controller_port=free_port())


def _has_both(cluster: Cluster, node_id: int) -> bool:
    return set(cluster.topics(node_id) or ()) == {"a", "b"}


def test_brokers_of_ours_live_under_a_controller_of_kafka(tmp_path: Path) -> None:
    plan = _Plan(nodes=[_node(KAFKAS, CONTROLLER), _node(2, BROKER), _node(3, BROKER)])
    kinds = {KAFKAS: KAFKA, 2: LEDGERSTONE, 3: LEDGERSTONE}
    with Cluster(plan=plan, work=tmp_path, jars=fetch_jars(), kinds=kinds) as cluster:
        cluster.format()
        cluster.start()
        # In an Envelope, with its principal, to a controller that is not ours.
        assert cluster.create_topic("a", 2) is ErrorCode.NONE
        assert cluster.create_topic("b", 3) is ErrorCode.NONE
        assert cluster.create_topic("a", 3) is ErrorCode.TOPIC_ALREADY_EXISTS
        for node_id in (2, 3):
            wait_until(partial(_has_both, cluster, node_id), "both topics are there")
        known = cluster.topics(3)

        cluster.stop(2)
        assert "released=True" in cluster[2].log_text
        cluster.start(2)
        assert cluster.topics(2) == known
        # Brokers first: each asks the controller for leave, and gets it.
        cluster.stop(3)
        cluster.stop(2)
        cluster.stop(KAFKAS)
