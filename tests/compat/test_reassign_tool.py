"""`kafka-reassign-partitions` and `kafka-log-dirs` on three processes of ours with two directories.

Each reassignment is started, throttled, verified, cancelled or finished by Kafka's own tool. Needs
Java: `make kafka-reads`.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from golden.cluster_plan import COMBINED, ClusterPlan, PlannedNode
from golden.kafka_broker import free_port
from golden.kafka_tools import KafkaJars, fetch_jars
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
)
from ledgerstone.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from ledgerstone.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from ledgerstone.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ledgerstone.protocol.messages.produce import (
    ProducePartitionData,
    ProduceRequest,
    ProduceTopicData,
)
from tests.compat.wire import ask
from tests.kit.broker import wait_until
from tests.kit.logs import batch
from tests.kit.nodes import LEDGERSTONE, Cluster

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("java") is None, reason="needs Java"),
]

REASSIGN: Final = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
LOG_DIRS: Final = "org.apache.kafka.tools.LogDirsCommand"
RECORDS: Final = 80
RECORD_BYTES: Final = 100_000
SLOW: Final = 20_000  # bytes a second; a fetch has up to 1 MiB, then it waits
FAST: Final = 100_000_000
TOPIC_CONFIG, BROKER_CONFIG = 2, 4


@dataclass(slots=True)
class Tools:
    cluster: Cluster
    jars: KafkaJars
    work: Path
    written: dict[str, int] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        return self.cluster.plan.bootstrap

    def run(self, name: str, *arguments: str) -> str:
        command = self.jars.java(name, "--bootstrap-server", self.bootstrap, *arguments)
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def reassign(
        self, topic: str, replicas: list[int], action: str, *more: str, dirs: Any = None
    ) -> str:
        partition = {"topic": topic, "partition": 0, "replicas": replicas}
        if dirs is not None:
            partition["log_dirs"] = dirs
        file = self.work / "reassign.json"
        file.write_text(json.dumps({"version": 1, "partitions": [partition]}))
        return self.run(REASSIGN, "--reassignment-json-file", str(file), action, *more)

    # -- what is true, asked without Kafka's tools ----------------------------------------------

    def any_broker(self) -> str:
        return self.cluster.nodes[1].planned.bootstrap

    def partition(self, topic: str) -> Any:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        answer: Any = ask(self.any_broker(), request, 12)
        partitions = answer.topics[0].partitions
        return partitions[0] if partitions else None

    def create(self, topic: str, replicas: int = 2) -> list[int]:
        wanted = CreateTopicsRequestTopic(
            name=topic,
            num_partitions=1,
            replication_factor=replicas,
            # The records of the kit are old.
            configs=[CreateTopicsRequestConfig("retention.ms", "-1")],
        )
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=20_000)
        answer: Any = ask(self.any_broker(), request, 7)
        assert answer.topics[0].error_code == 0
        wait_until(lambda: self.partition(topic), "the topic is known")
        return list(self.partition(topic).replica_nodes)

    def fill(self, topic: str) -> None:
        for _ in range(RECORDS):
            wait_until(lambda: self._write(topic), "a record is taken", 30)

    def _write(self, topic: str) -> bool:
        leader = self.partition(topic).leader_id
        if leader < 0:
            return False
        data = ProducePartitionData(index=0, records=batch(("k", "v" * RECORD_BYTES)))
        request = ProduceRequest(
            acks=-1,
            timeout_ms=10_000,
            topic_data=[ProduceTopicData(name=topic, partition_data=[data])],
        )
        answer: Any = ask(self.cluster.nodes[leader].planned.bootstrap, request, 11)
        return bool(answer.responses[0].partition_responses[0].error_code == 0)

    def config(self, kind: int, name: str, key: str) -> str | None:
        resource = DescribeConfigsResource(kind, name, [key])
        broker = name if kind == BROKER_CONFIG else "1"
        address = self.cluster.nodes[int(broker)].planned.bootstrap
        answer: Any = ask(address, DescribeConfigsRequest(resources=[resource]), 4)
        found = answer.results[0].configs
        return found[0].value if found else None

    def is_reassigning(self) -> bool:
        answer: Any = ask(self.any_broker(), ListPartitionReassignmentsRequest(topics=None), 0)
        return bool(answer.topics)

    def settled(self, topic: str, replicas: list[int]) -> None:
        def holds() -> bool:
            found = self.partition(topic)
            return sorted(found.isr_nodes) == sorted(found.replica_nodes) == sorted(replicas)

        wait_until(holds, f"{topic} is on {replicas}", 60)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    work = tmp_path_factory.mktemp("reassign")
    nodes = [
        PlannedNode(
            node_id=each,
            roles=COMBINED,
            port=free_port(),
            controller_port=free_port(),
            settings={"log.dirs": ",".join(_dirs(work, each))},
        )
        for each in (1, 2, 3)
    ]
    plan = ClusterPlan(nodes=nodes)
    kinds = dict.fromkeys((1, 2, 3), LEDGERSTONE)
    jars = fetch_jars()
    with Cluster(plan=plan, work=work, jars=jars, kinds=kinds) as cluster:
        cluster.format()
        cluster.start()
        yield Tools(cluster, jars, work)
        for each in cluster.nodes.values():
            errors = [line for line in each.log_text.splitlines() if " ERROR " in line]
            assert errors == [], errors


def _dirs(work: Path, node_id: int) -> list[str]:
    return [f"{work}/node-{node_id}/{name}" for name in ("data", "second")]


def test_a_reassignment_is_started_verified_and_done(tools: Tools) -> None:
    before = tools.create("plain")
    tools.fill("plain")
    target = [before[0], next(each for each in (1, 2, 3) if each not in before)]

    said = tools.reassign("plain", target, "--execute")

    assert "Successfully started partition reassignment for plain-0" in said
    tools.settled("plain", target)
    assert "Reassignment of partition plain-0 is completed." in tools.reassign(
        "plain", target, "--verify"
    )
    gone = before[1]
    left = [
        name.name
        for path in _dirs(tools.work, gone)
        for name in Path(path).iterdir()
        if name.name.startswith("plain-0") and not name.name.endswith("-delete")
    ]
    assert left == []


def test_a_throttle_slows_a_reassignment_until_it_is_lifted(tools: Tools) -> None:
    before = tools.create("throttled")
    tools.fill("throttled")
    spare = next(each for each in (1, 2, 3) if each not in before)
    target = [before[0], spare]

    said = tools.reassign("throttled", target, "--execute", "--throttle", str(SLOW))

    assert "The inter-broker throttle limit was set to 20000 B/s" in said
    rate = "follower.replication.throttled.rate"
    wait_until(lambda: tools.config(BROKER_CONFIG, str(spare), rate) == str(SLOW), "it is set")
    replicas = tools.config(TOPIC_CONFIG, "throttled", "follower.replication.throttled.replicas")
    assert replicas == f"0:{spare}"
    assert "is still in progress" in tools.reassign("throttled", target, "--verify")
    assert tools.is_reassigning()
    tools.reassign("throttled", target, "--execute", "--additional", "--throttle", str(FAST))
    tools.settled("throttled", target)
    wait_until(lambda: not tools.is_reassigning(), "it is over")
    said = tools.reassign("throttled", target, "--verify")
    assert "is completed" in said
    assert "Clearing broker-level throttles" in said
    assert "Clearing topic-level throttles on topic throttled" in said
    assert tools.config(BROKER_CONFIG, str(spare), rate) in (None, str((1 << 63) - 1))


def test_a_reassignment_is_cancelled(tools: Tools) -> None:
    before = tools.create("cancelled")
    tools.fill("cancelled")
    spare = next(each for each in (1, 2, 3) if each not in before)
    tools.reassign("cancelled", [before[0], spare], "--execute", "--throttle", str(SLOW))
    assert tools.is_reassigning()

    said = tools.reassign("cancelled", [before[0], spare], "--cancel")

    assert "Successfully cancelled partition reassignment for: cancelled-0" in said
    tools.settled("cancelled", before)
    wait_until(
        lambda: (
            not [
                name
                for path in _dirs(tools.work, spare)
                for name in Path(path).iterdir()
                if name.name == "cancelled-0"
            ]
        ),
        "the copy is set aside",
    )


def test_a_replica_moves_between_directories_and_brokers_by_the_same_tool(tools: Tools) -> None:
    before = tools.create("dirs")
    tools.fill("dirs")
    leader, other = before
    held = _held(tools, "dirs")
    target_dir = next(path for path in _dirs(tools.work, leader) if path != held[leader])

    said = tools.reassign("dirs", before, "--execute", dirs=[target_dir, "any"])

    assert f"Successfully started moving log directory to {target_dir}" in said, said
    wait_until(lambda: _held(tools, "dirs")[leader] == target_dir, "it has moved", 60)
    said = tools.reassign("dirs", before, "--verify", dirs=[target_dir, "any"])
    assert f"replica dirs-0-{leader} completed successfully" in said, said
    assert _held(tools, "dirs")[other] == held[other]
    # To another broker, and there to a directory of choice.
    spare = next(each for each in (1, 2, 3) if each not in before)
    wanted = _dirs(tools.work, spare)[1]
    tools.reassign("dirs", [leader, spare], "--execute", dirs=["any", wanted])
    tools.settled("dirs", [leader, spare])
    wait_until(lambda: _held(tools, "dirs").get(spare) == wanted, "it is where it was wanted", 60)


def _held(tools: Tools, topic: str) -> dict[int, str]:
    """By Kafka's own tool: the directory of the topic's replica on each broker."""
    said = tools.run(LOG_DIRS, "--describe", "--topic-list", topic)
    found = json.loads(said[said.index('{"') :].splitlines()[0])
    assert [len(each["logDirs"]) for each in found["brokers"]] == [2, 2, 2]
    return {
        each["broker"]: log_dir["logDir"]
        for each in found["brokers"]
        for log_dir in each["logDirs"]
        for partition in log_dir["partitions"]
        if not partition["isFuture"]
    }
