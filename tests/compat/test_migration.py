"""The commands of docs/migration.md: Kafka's nodes 1, 2 and 3 give way to our 4, 5 and 6.

Clients use the cluster all the time, and what they were told must hold at the end.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from bench.nemesis.clients import LOG, LOG_PARTITIONS, TABLE, TABLE_PARTITIONS, our_client
from bench.nemesis.episode import all_workers, await_progress, end_all
from bench.nemesis.last_look import compare_files, read_replicas, read_through_clients
from bench.nemesis.recorder import Recorder
from golden.cluster_plan import BROKER, COMBINED, ClusterPlan, PlannedNode
from golden.kafka_broker import free_port
from golden.kafka_tools import REPOSITORY, KafkaJars, fetch_jars
from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.sim.history.check import check
from tests.compat.mixed_story import SETTINGS
from tests.kit.broker import broker_environment, wait_until
from tests.kit.nodes import KAFKA, LEDGERSTONE, Cluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.kafka,
    pytest.mark.skipif(shutil.which("java") is None, reason="Kafka needs Java"),
]

DOCUMENT: Final = REPOSITORY / "docs" / "migration.md"
OLD: Final = (1, 2, 3)
NEW: Final = (4, 5, 6)
TOOLS: Final = {
    "kafka-cluster.sh": "org.apache.kafka.tools.ClusterTool",
    "kafka-features.sh": "org.apache.kafka.tools.FeatureCommand",
    "kafka-broker-api-versions.sh": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-reassign-partitions.sh": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-leader-election.sh": "org.apache.kafka.tools.LeaderElectionCommand",
}
BLOCK: Final = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
LIMIT_S: Final = 120.0


class Reader:
    """Types what the page says, block after block."""

    def __init__(self, cluster: Cluster, work: Path) -> None:
        self._blocks = iter(BLOCK.findall(DOCUMENT.read_text(encoding="utf-8")))
        self._work = work
        self._environment = broker_environment() | {
            "PATH": f"{work / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "KAFKA": cluster.plan.bootstrap,
        }
        for node_id in NEW:
            file = work / f"node-{node_id}.properties"
            cluster[node_id].work.mkdir(parents=True, exist_ok=True)  # type: ignore[attr-defined]
            cluster[node_id].write_properties()
            file.symlink_to(cluster[node_id].properties)

    def export(self) -> None:
        """The first block: its addresses are ours, its cluster id comes from the tool."""
        block = next(self._blocks)
        command = next(line for line in block.splitlines() if "CLUSTER_ID=" in line)
        found = self._run(f"{command}\necho $CLUSTER_ID").strip()
        self._environment["CLUSTER_ID"] = found

    def type(self, *, has: str) -> str:
        """The next block, which must be the one meant."""
        block = next(self._blocks)
        assert has in block, block
        return self._run(block)

    def type_until(self, said: str, times: int, *, has: str) -> None:
        """A block that is repeated until it says so often enough."""
        block = next(self._blocks)
        assert has in block, block
        wait_until(lambda: self._run(block).count(said) >= times, f"{times} × {said!r}", LIMIT_S)

    def is_at_the_end(self) -> bool:
        return next(self._blocks, None) is None

    def _run(self, block: str) -> str:
        done = subprocess.run(
            ["sh", "-e", "-c", block],
            cwd=self._work,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"
        return done.stdout


def _write_tools(jars: KafkaJars, directory: Path) -> None:
    directory.mkdir()
    programs = {name: jars.java(tool) for name, tool in TOOLS.items()}
    programs["ledgerstone"] = [sys.executable, "-m", "ledgerstone"]
    for name, command in programs.items():
        words = " ".join(f"'{each}'" for each in command)
        (directory / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        (directory / name).chmod(0o755)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Kafka runs, with the features of its release; ours are not formatted."""
    roles = {1: COMBINED, 2: BROKER, 3: BROKER, **dict.fromkeys(NEW, COMBINED)}
    nodes = [
        PlannedNode(node_id=each, roles=its, port=free_port(), controller_port=free_port())
        for each, its in roles.items()
    ]
    voters = [each for each in nodes if each.node_id == 1]
    settings = {
        **SETTINGS,
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.replication.factor": "3",
    }
    jars = fetch_jars()
    _write_tools(jars, tmp_path / "bin")
    # New controllers are no voters yet: the plan of the format names those of the old cluster.
    found = Cluster(
        plan=ClusterPlan(nodes=nodes, settings=settings),
        work=tmp_path,
        jars=jars,
        kinds={**dict.fromkeys(OLD, KAFKA), **dict.fromkeys(NEW, LEDGERSTONE)},
    )
    old = ClusterPlan(nodes=[*voters, nodes[1], nodes[2]], settings=settings)
    with found:
        for each in OLD:
            found[each].plan = old  # type: ignore[attr-defined]
            found[each].format()
        found.start(*OLD)
        yield found


def test_nodes_of_kafka_give_way_to_ours(cluster: Cluster, tmp_path: Path) -> None:
    with Recorder(tmp_path / "history.jsonl") as recorder:
        _create_topics(cluster, recorder)
        workers = all_workers(cluster.plan.bootstrap, recorder, 4)
        for each in workers:
            each.start()
        try:
            await_progress(recorder, "the start")
            _migrate(cluster, Reader(cluster, tmp_path), recorder)
        finally:
            end_all(workers, recorder)
        ends = read_through_clients(cluster.plan.bootstrap, recorder)
        cluster.kill()
        nodes = [cluster[each] for each in NEW]
        read_replicas(nodes, recorder, ends)
        compare_files(nodes, recorder, ends)
        assert [*map(str, check(recorder.history)), *recorder.complaints] == []


def _create_topics(cluster: Cluster, recorder: Recorder) -> None:
    with our_client(cluster.plan.bootstrap, "creator", 30_000) as client:
        for name, count, configs in (
            (LOG, LOG_PARTITIONS, {}),
            (TABLE, TABLE_PARTITIONS, {"cleanup.policy": "compact"}),
        ):
            topic = NewTopic(name=name, partitions=count, replication_factor=3, configs=configs)
            create_topic(client, topic)
    recorder.topic(LOG)
    recorder.topic(TABLE, compacted=True)


def _migrate(cluster: Cluster, reader: Reader, recorder: Recorder) -> None:
    partitions = LOG_PARTITIONS + TABLE_PARTITIONS + 4
    reader.export()
    said = reader.type(has="describe")
    assert "group.version" in said
    reader.type(has="format --config node-4")
    cluster.start(4)
    reader.type(has="kafka-broker-api-versions.sh")
    reader.type(has="--broker-list 4,2,3")
    reader.type_until("is completed", partitions, has="--verify")
    await_progress(recorder, "broker 4 has taken the place of broker 1")
    reader.type(has="kafka-leader-election.sh")
    await_progress(recorder, "broker 4 leads")

    reader.type(has="format --config node-5")
    cluster.start(5, 6)
    reader.type(has="--broker-list 4,5,6")
    reader.type_until("is completed", partitions, has="--verify")
    await_progress(recorder, "all replicas are on our brokers")

    reader.type(has="quorum add --config node-6")
    await_progress(recorder, "there are new controllers")
    cluster.stop(2, 3)
    reader.type(has="unregister")
    await_progress(recorder, "Kafka's brokers have stopped")
    cluster.stop(1)
    said = reader.type(has="quorum remove 1")
    assert "voters 3" in said, said
    await_progress(recorder, "the last node of Kafka has stopped")
    assert reader.is_at_the_end()
