"""Three brokers of Apache Kafka whose only controller is ours, and Kafka's tools for them.

They replicate, shrink and grow ISRs, ask for leave, die and come back. Everything they need of a
controller comes from ours.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from golden.cluster_plan import BROKER, CONTROLLER, ClusterPlan, PlannedNode
from golden.kafka_broker import free_port
from golden.kafka_tools import fetch_jars
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsAssignment,
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
)
from ledgerstone.protocol.messages.metadata import MetadataRequest
from tests.compat.mixed import round_trip
from tests.compat.wire import ask
from tests.kit.broker import wait_until
from tests.kit.nodes import KAFKA, LEDGERSTONE, Cluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.kafka,
    pytest.mark.skipif(shutil.which("java") is None, reason="Kafka needs Java"),
]

OURS: Final = 1
BROKERS: Final = (4, 5, 6)
TOPIC: Final = "replicated"
ASSIGNED: Final = ((4, 5, 6), (5, 6, 4), (6, 4, 5))
SETTINGS: Final = {
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "5000",
    "min.insync.replicas": "2",
    # The tool is to do it.
    "auto.leader.rebalance.enable": "false",
}


class State:
    """A partition as a client sees it."""

    def __init__(self, found: Any) -> None:
        self.leader: int = found.leader_id
        self.replicas: list[int] = found.replica_nodes
        self.isr: set[int] = set(found.isr_nodes)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    nodes = [PlannedNode(node_id=OURS, roles=CONTROLLER, port=0, controller_port=free_port())]
    nodes += [
        PlannedNode(node_id=each, roles=BROKER, port=free_port(), controller_port=0)
        for each in BROKERS
    ]
    found = Cluster(
        plan=ClusterPlan(nodes=nodes, settings=SETTINGS),
        work=tmp_path_factory.mktemp("brokers"),
        jars=fetch_jars(),
        kinds={OURS: LEDGERSTONE, **dict.fromkeys(BROKERS, KAFKA)},
    )
    found.format()
    with found:
        found.start(OURS)
        found.start(*BROKERS)
        _create(found)
        yield found


def _create(cluster: Cluster) -> None:
    assignments = [
        CreateTopicsAssignment(partition_index=index, broker_ids=list(each))
        for index, each in enumerate(ASSIGNED)
    ]
    topic = CreateTopicsRequestTopic(
        name=TOPIC, num_partitions=-1, replication_factor=-1, assignments=assignments
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
    said: Any = ask(cluster[BROKERS[0]].planned.bootstrap, request, 7)
    assert said.topics[0].error_code == ErrorCode.NONE, said


def _states(cluster: Cluster, via: int) -> dict[int, State]:
    said: Any = ask(cluster[via].planned.bootstrap, MetadataRequest(topics=None), 12)
    topic = next(each for each in said.topics if each.name == TOPIC)
    return {each.partition_index: State(each) for each in topic.partitions}


def _tool(cluster: Cluster, name: str, *arguments: str) -> str:
    assert cluster.jars is not None
    bootstrap = next(each.planned.bootstrap for each in cluster.running if each.planned.is_broker)
    command = cluster.jars.java(name, "--bootstrap-server", bootstrap, *arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_brokers_replicate(cluster: Cluster) -> None:
    round_trip(cluster, TOPIC)
    states = _states(cluster, 4)
    assert {index: each.leader for index, each in states.items()} == {0: 4, 1: 5, 2: 6}
    assert all(each.isr == set(BROKERS) for each in states.values())


def test_broker_that_asks_for_leave_gets_it_and_its_leaders_move(cluster: Cluster) -> None:
    cluster[4].stop()

    assert "The controller has asked us to exit controlled shutdown" in cluster[4].log_text
    states = _states(cluster, 5)
    assert states[0].leader in (5, 6)
    assert all(4 not in each.isr for each in states.values())
    round_trip(cluster, TOPIC)

    cluster.start(4)
    wait_until(lambda: _is_whole(cluster), "broker 4 is back in every ISR", 60.0)


def test_broker_that_dies_is_fenced_and_comes_back(cluster: Cluster) -> None:
    victim = _states(cluster, 4)[1].leader
    other = next(each for each in BROKERS if each != victim)
    cluster[victim].kill()

    def is_replaced() -> bool:
        states = _states(cluster, other)
        return all(each.leader not in (victim, -1) for each in states.values())

    wait_until(is_replaced, "its partitions have other leaders", 30.0)
    assert all(victim not in each.isr for each in _states(cluster, other).values())
    round_trip(cluster, TOPIC)
    cluster.start(victim)
    wait_until(lambda: _is_whole(cluster), "it is back in every ISR", 60.0)


def _is_whole(cluster: Cluster) -> bool:
    states = [_states(cluster, each) for each in BROKERS]
    return all(set(each.replicas) == each.isr for view in states for each in view.values())


def test_leader_election_tool_brings_preferred_leaders_back(cluster: Cluster) -> None:
    wait_until(lambda: _is_whole(cluster), "every ISR is whole", 60.0)
    said = _tool(
        cluster,
        "org.apache.kafka.tools.LeaderElectionCommand",
        *("--election-type", "preferred", "--all-topic-partitions"),
    )

    assert "Successfully completed" in said or "Valid replica already elected" in said
    wait_until(
        lambda: all(each.leader == each.replicas[0] for each in _states(cluster, 4).values()),
        "every partition is led by its first replica",
    )


def test_reassignment_tool_moves_replicas_and_sees_the_end(
    cluster: Cluster, tmp_path: Path
) -> None:
    wanted = {0: [5, 6], 1: [6, 4], 2: [4, 5]}
    plan = {
        "version": 1,
        "partitions": [
            {"topic": TOPIC, "partition": index, "replicas": replicas}
            for index, replicas in wanted.items()
        ],
    }
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan))
    name = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
    # Without --throttle: our controller does not know that setting of Kafka's brokers.
    said = _tool(cluster, name, "--reassignment-json-file", str(file), "--execute")
    assert "Successfully started partition reassignments" in said

    def is_complete() -> bool:
        said = _tool(cluster, name, "--reassignment-json-file", str(file), "--verify")
        return said.count("is completed") == len(wanted)

    wait_until(is_complete, "the tool says that it is done", 60.0)
    wait_until(
        lambda: {n: each.replicas for n, each in _states(cluster, 4).items()} == wanted,
        "the brokers know",
    )
    wait_until(lambda: _is_whole(cluster), "every ISR is whole", 30.0)
    assert all(each.leader in each.replicas for each in _states(cluster, 4).values())
    round_trip(cluster, TOPIC)
