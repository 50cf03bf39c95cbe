"""One node with two log directories, run by Apache Kafka and by us in turn, on the same files.

Both are asked the same about their directories and about moves between them, and both read what the
other wrote, copied and moved. Needs Java: `make kafka-reads`.
"""

import shutil
import struct
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from golden.cluster_plan import COMBINED, ClusterPlan, PlannedNode
from golden.kafka_broker import free_port
from golden.kafka_node import KafkaNode
from golden.kafka_tools import KafkaJars, fetch_jars, read_partition
from ledgerstone.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsTopic,
)
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
)
from ledgerstone.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsRequestTopic,
)
from ledgerstone.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ledgerstone.protocol.messages.produce import (
    ProducePartitionData,
    ProduceRequest,
    ProduceTopicData,
)
from ledgerstone.records.batch import iter_headers
from ledgerstone.records.record import iter_records
from tests.compat.mixed import WITHOUT_NEW_GROUPS
from tests.compat.wire import ask
from tests.kit.broker import wait_until
from tests.kit.ledgerstone_node import LedgerstoneNode
from tests.kit.logs import batch

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("java") is None, reason="Kafka needs Java"),
]

TOPIC: Final = "orders"
PARTITIONS: Final = 4
LONG: Final = "t" * 230


@dataclass(slots=True, kw_only=True)
class Pair:
    """The same directories and settings for either program."""

    jars: KafkaJars
    work: Path
    plan: ClusterPlan
    values: dict[int, list[str]]

    @property
    def node(self) -> PlannedNode:
        return self.plan.nodes[0]

    @property
    def paths(self) -> list[str]:
        return self.plan.settings["log.dirs"].split(",")

    def kafka(self) -> KafkaNode:
        return KafkaNode(jars=self.jars, plan=self.plan, planned=self.node, work=self.work)

    def ours(self) -> LedgerstoneNode:
        return LedgerstoneNode(plan=self.plan, planned=self.node, work=self.work)

    def ask(self, request: Any, version: int) -> Any:
        return ask(self.node.bootstrap, request, version)

    # -- topics and records -------------------------------------------------------------------

    def create(self, name: str = TOPIC, partitions: int = PARTITIONS) -> int:
        topic = CreateTopicsRequestTopic(name=name, num_partitions=partitions, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=20_000)
        return int(self.ask(request, 7).topics[0].error_code)

    def write(self, *values: str) -> None:
        for number in range(PARTITIONS):
            for value in values:
                wait_until(partial(self._write, number, value), f"{value} is taken", 30)
                self.values[number].append(value)

    def _write(self, number: int, value: str) -> bool:
        data = ProducePartitionData(index=number, records=batch(("key", value)))
        request = ProduceRequest(
            acks=-1,
            timeout_ms=10_000,
            topic_data=[ProduceTopicData(name=TOPIC, partition_data=[data])],
        )
        try:
            answer = self.ask(request, 11)
        except (OSError, struct.error):
            return False
        return bool(answer.responses[0].partition_responses[0].error_code == 0)

    def read(self, number: int) -> list[str]:
        wish = FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(
            topics=[FetchTopic(topic=TOPIC, partitions=[wish])], max_wait_ms=0, max_bytes=1 << 20
        )
        data = bytes(self.ask(request, 12).responses[0].partitions[0].records or b"")
        return [
            bytes(record.value or b"").decode()
            for position, header in iter_headers(data)
            if not header.is_control
            for record in iter_records(data, position)
        ]

    def check_records(self) -> None:
        found = {number: self.read(number) for number in range(PARTITIONS)}
        assert found == self.values

    # -- directories --------------------------------------------------------------------------

    def describe(self, *topics: str) -> Any:
        wanted = [DescribeLogDirsRequestTopic(each, list(range(PARTITIONS))) for each in topics]
        return self.ask(DescribeLogDirsRequest(wanted if topics else None), 4)

    def held(self) -> dict[str, list[int]]:
        return {
            result.log_dir: sorted(
                each.partition_index
                for topic in result.topics
                if topic.name == TOPIC
                for each in topic.partitions
                if not each.is_future_key
            )
            for result in self.describe().results
        }

    def move(self, path: str, number: int, topic: str = TOPIC) -> int:
        topics = [AlterReplicaLogDirsTopic(topic, [number])]
        request = AlterReplicaLogDirsRequest([AlterReplicaLogDirsDir(path, topics)])
        answer = self.ask(request, 2)
        return int(answer.results[0].partitions[0].error_code)

    def move_to_end(self, path: str, number: int) -> None:
        assert self.move(path, number) == 0
        wait_until(lambda: number in self.held()[path], f"partition {number} is in {path}", 60)

    def questions(self) -> dict[str, Any]:
        """What both must answer alike, on the same directories."""
        first, second = self.paths
        held = self.held()
        at_home = next(path for path in self.paths if 0 in held[path])
        described = self.describe(TOPIC)
        return {
            "held": held,
            "errors": [each.error_code for each in described.results],
            "paths": [each.log_dir for each in described.results],
            "sizes": sorted(
                (each.log_dir, part.partition_index, part.partition_size, part.offset_lag)
                for each in described.results
                for topic in each.topics
                for part in topic.partitions
            ),
            "has totals": [
                each.total_bytes > 0 and each.usable_bytes > 0 for each in described.results
            ],
            "unknown topic": [
                [topic.name for topic in each.topics] for each in self.describe("none").results
            ],
            "to another path": self.move("/nowhere", 0),
            "unknown partition": self.move(second, 77),
            "unknown topic moved": self.move(first, 0, "never"),
            "both unknown": self.move("/nowhere", 0, "never"),
            "too long": self.move(second, 0, LONG),
            "where it is": self.move(at_home, 0),
            "old answer": self.ask(DescribeLogDirsRequest(None), 1).results[0].error_code,
        }


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    work = tmp_path_factory.mktemp("several") / "node"
    node = PlannedNode(node_id=1, roles=COMBINED, port=free_port(), controller_port=free_port())
    plan = ClusterPlan(
        nodes=[node],
        settings={
            "log.dirs": f"{work}/data,{work}/second",
            "log.segment.delete.delay.ms": "100",
        },
        features=WITHOUT_NEW_GROUPS,
    )
    return Pair(
        jars=fetch_jars(),
        work=work,
        plan=plan,
        values={number: [] for number in range(PARTITIONS)},
    )


def test_both_run_on_the_same_two_directories_in_turn(pair: Pair) -> None:
    kafka = pair.kafka()
    kafka.format()
    kafka.start()
    try:
        kafka.wait_started()
        assert pair.create() == 0
        assert pair.create(LONG, 1) == 0
        pair.write("by kafka", "again")
        spread = pair.held()
        assert sorted(len(each) for each in spread.values()) == [2, 2]
        # A copy that Kafka made is one that we read.
        number = spread[pair.paths[0]][0]
        pair.move_to_end(pair.paths[1], number)
        pair.write("moved by kafka")
        by_kafka = pair.questions()
        pair.check_records()
    finally:
        kafka.stop()

    ours = pair.ours()
    ours.start()
    try:
        ours.wait_started()
        pair.check_records()
        by_us = pair.questions()
        assert by_us == by_kafka
        pair.write("by us")
        pair.move_to_end(pair.paths[0], number)
        pair.write("moved by us")
        pair.check_records()
        assert pair.create("more", 3) == 0
        held = pair.held()
    finally:
        ours.stop()
    for path, numbers in held.items():
        for each in numbers:
            assert read_partition(pair.jars, Path(path) / f"{TOPIC}-{each}").problems == []

    again = pair.kafka()
    again.start()
    try:
        again.wait_started()
        assert pair.held() == held
        pair.check_records()
        pair.write("by kafka at last")
        pair.check_records()
        for line in again.log_text.splitlines():
            assert "Recovering unflushed segment" not in line or TOPIC not in line, line
    finally:
        again.stop()
