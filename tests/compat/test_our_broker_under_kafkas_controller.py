"""A broker of ours whose only controller is Kafka's: it registers, serves, leaves and returns."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from golden.cluster_plan import BROKER, CONTROLLER, ClusterPlan, PlannedNode
from golden.kafka_broker import free_port
from golden.kafka_node import KafkaNode
from golden.kafka_tools import fetch_jars
from ledgerstone.protocol.error_codes import ErrorCode
from tests.compat.mixed import WITHOUT_NEW_GROUPS, round_trip
from tests.kit.nodes import KAFKA, LEDGERSTONE, Cluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.kafka,
    pytest.mark.skipif(shutil.which("java") is None, reason="Kafka needs Java"),
]

THEIRS: Final = 1
OURS: Final = 5
SETTINGS: Final = {"broker.session.timeout.ms": "4000", "broker.heartbeat.interval.ms": "500"}
GRANTED: Final = re.compile(r"broker 5 .*(granted|to shut down)")
FENCED: Final = re.compile(r"Fencing broker 5")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    nodes = [
        PlannedNode(node_id=THEIRS, roles=CONTROLLER, port=0, controller_port=free_port()),
        PlannedNode(node_id=OURS, roles=BROKER, port=free_port(), controller_port=0),
    ]
    found = Cluster(
        plan=ClusterPlan(nodes=nodes, settings=SETTINGS, features=WITHOUT_NEW_GROUPS),
        work=tmp_path,
        jars=fetch_jars(),
        kinds={THEIRS: KAFKA, OURS: LEDGERSTONE},
    )
    found.format()
    with found:
        found.start()
        yield found


def _controller(cluster: Cluster) -> KafkaNode:
    node = cluster[THEIRS]
    assert isinstance(node, KafkaNode)
    return node


def test_broker_serves_leaves_and_comes_back(cluster: Cluster) -> None:
    assert cluster.create_topic("before", OURS) is ErrorCode.NONE
    round_trip(cluster, "before")

    cluster[OURS].stop()
    _controller(cluster).wait_for(GRANTED)
    cluster.start(OURS)
    assert cluster.create_topic("after", OURS) is ErrorCode.NONE
    round_trip(cluster, "after")

    cluster[OURS].kill()
    _controller(cluster).wait_for(FENCED)
    cluster.start(OURS)
    assert set(cluster.topics(OURS) or ()) == {"before", "after"}
    assert cluster.create_topic("last", OURS) is ErrorCode.NONE
    round_trip(cluster, "last")
