"""Nodes of a cluster as processes: how they start, what they say, and how they end."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
)
from ledgerstone.protocol.messages.metadata import MetadataRequest
from tests.compat.wire import ask
from tests.crash.failover import NODES, cluster_of_three
from tests.kit.broker import broker_environment, wait_until
from tests.kit.nodes import LEDGERSTONE, Cluster

pytestmark = pytest.mark.slow

QUICK = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}


def metadata(cluster: Cluster, node_id: int) -> Any:
    return ask(cluster[node_id].planned.bootstrap, MetadataRequest(topics=None), 12)


def create(cluster: Cluster, node_id: int, name: str) -> int:
    topic = CreateTopicsRequestTopic(name=name, num_partitions=6, replication_factor=3)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=20_000)
    said: Any = ask(cluster[node_id].planned.bootstrap, request, 7, timeout_s=30)
    code: int = said.topics[0].error_code
    return code


def wait_for(cluster: Cluster, what: str, holds: Callable[[Any], bool]) -> None:
    """On every broker that runs."""
    ids = [each.node_id for each in cluster.running]
    wait_until(lambda: all(holds(metadata(cluster, each)) for each in ids), what, 30)


def leaders(said: Any) -> set[int]:
    return {part.leader_id for topic in said.topics for part in topic.partitions}


def brokers(said: Any) -> list[int]:
    return sorted(each.node_id for each in said.brokers)


def test_three_processes_from_start_to_stop(tmp_path: Path) -> None:
    with cluster_of_three(LEDGERSTONE, tmp_path, settings=QUICK) as cluster:
        cluster.start()
        for node_id in NODES:
            assert create(cluster, node_id, f"t{node_id}") == 0
        wait_for(cluster, "all topics are there", lambda said: len(said.topics) == len(NODES))

        killed = cluster.wait_for_leader()
        cluster[killed.leader_id].kill()
        left = [each for each in NODES if each != killed.leader_id]
        assert create(cluster, left[0], "after") == 0
        cluster.wait_for_leader(after=killed.epoch)
        wait_for(cluster, "it is fenced", lambda said: brokers(said) == left)
        wait_for(cluster, "it leads nothing", lambda said: leaders(said) == set(left))
        cluster.start(killed.leader_id)
        wait_for(cluster, "it is unfenced", lambda said: brokers(said) == list(NODES))

        # A follower of the quorum leaves, then its leader: each hands over first.
        stopped = next(each for each in left)
        cluster.stop(stopped)
        assert "released=True" in cluster[stopped].log_text
        wait_for(cluster, "it leads nothing", lambda said: stopped not in leaders(said) | {-1})
        cluster.start(stopped)
        cluster.assert_one_leader_an_epoch()
        cluster.stop()
        cluster.assert_logs_agree()


def test_node_alone_says_what_it_waits_for_and_ends_cleanly(tmp_path: Path) -> None:
    with cluster_of_three(LEDGERSTONE, tmp_path) as cluster:
        node = cluster[1]
        node.start()
        wait_until(
            lambda: "start waits for a controller to be elected" in node.log_text,
            "it says what it waits for",
        )
        # Exit code 0, which `stop` checks.
        node.stop()
        assert "stopped while it waited for a controller" in node.log_text


def test_broker_that_cannot_register_exits_with_a_reason(tmp_path: Path) -> None:
    settings = {"initial.broker.registration.timeout.ms": "2000"}
    with cluster_of_three(LEDGERSTONE, tmp_path, settings=settings) as cluster:
        command = [sys.executable, "-m", "ledgerstone", "up", "--config"]
        ended = subprocess.run(
            [*command, str(cluster[1].properties)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env=broker_environment(),
        )
        assert ended.returncode == 1
        assert "broker 1 could not register for 2000 ms" in ended.stderr
        assert "a controller to be elected" in ended.stderr
