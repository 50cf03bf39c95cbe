"""Three brokers with two log directories each: one that fails costs its replicas, not the data."""

import errno
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from ledgerstone.metadata.image import MetadataImage, PartitionImage
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterReassignmentsPartition,
    AlterReassignmentsTopic,
)
from ledgerstone.protocol.messages.produce import (
    ProducePartitionData,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicData,
)
from ledgerstone.server.broker import Broker
from ledgerstone.types import TopicPartition
from tests.kit.broker import wait_until
from tests.kit.logs import batch
from tests.kit.loopback_cluster import LoopbackCluster
from tests.kit.small_disk import SmallDisk, is_permitted

TOPIC = "orders"
TP = TopicPartition(TOPIC, 0)


class TwoDirectories(LoopbackCluster):
    def settings(self, node_id: int) -> dict[str, str]:
        first = self._work / f"node-{node_id}"
        return {
            **super().settings(node_id),
            "log.dirs": f"{first},{self.second(node_id)}",
            "replica.fetch.wait.max.ms": "100",
            "replica.lag.time.max.ms": "3000",
            **self.extra,
        }

    def second(self, node_id: int) -> Path:
        return self._work / f"node-{node_id}-second"

    # -- what is asked ------------------------------------------------------------------------

    def partition(self, number: int = 0, node_id: int | None = None) -> PartitionImage:
        through = next(iter(self.nodes)) if node_id is None else node_id
        return self.image(through).topics[TOPIC].partitions[number]

    def directory_of(self, node_id: int, number: int = 0) -> str | None:
        def look(broker: Broker) -> str | None:
            log_dir = broker.log_dirs.of(TopicPartition(TOPIC, number))
            return None if log_dir is None else log_dir.path

        return self.on(node_id, look)

    def write(self, value: str, number: int = 0) -> int:
        """With acks=all, to whichever broker leads; the error code."""
        leader = self.partition(number).leader
        if leader not in self.nodes:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        topic_id = self.image(leader).topics[TOPIC].topic_id
        data = ProducePartitionData(index=number, records=batch(("key", value)))
        topics = [ProduceTopicData(name=TOPIC, topic_id=topic_id, partition_data=[data])]
        request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=topics)
        answer = self.ask(leader, request)
        assert isinstance(answer, ProduceResponse)
        return answer.responses[0].partition_responses[0].error_code

    def write_until_taken(self, value: str, number: int = 0) -> None:
        wait_until(lambda: self.write(value, number) == 0, f"{value} is taken", 30)

    def is_taken(self, number: int) -> bool:
        return self.write("x" * 5000, number) == 0

    def in_sync(self, number: int, nodes: set[int]) -> None:
        def holds(image: MetadataImage) -> bool:
            return set(image.topics[TOPIC].partitions[number].isr) == nodes

        self.wait_for(f"partition {number} is in sync on {nodes}", holds)

    def end_offsets(self, number: int, nodes: set[int]) -> list[int]:
        def look(broker: Broker) -> int:
            return broker.partitions.get(TopicPartition(TOPIC, number)).log.log_end_offset

        return [self.on(each, look) for each in sorted(nodes)]

    def reassign(self, replicas: list[int], number: int = 0) -> int:
        wanted = AlterReassignmentsPartition(partition_index=number, replicas=replicas)
        topic = AlterReassignmentsTopic(name=TOPIC, partitions=[wanted])
        request = AlterPartitionReassignmentsRequest(timeout_ms=10_000, topics=[topic])
        answer = self.ask(next(iter(self.nodes)), request)
        assert isinstance(answer, AlterPartitionReassignmentsResponse)
        return answer.responses[0].partitions[0].error_code

    def reassigned(self, replicas: list[int], number: int = 0) -> None:
        def holds(image: MetadataImage) -> bool:
            found = image.topics[TOPIC].partitions[number]
            return set(found.replicas) == set(replicas) and not found.is_reassigning

        self.wait_for(f"replicas are {replicas}", holds)


def assigned_where_they_are(cluster: TwoDirectories) -> bool:
    """Whether the metadata has the directory of every replica."""
    for node_id in cluster.nodes:
        topic = cluster.image(node_id).topics.get(TOPIC)
        if topic is None:
            return False
        for number, state in topic.partitions.items():
            for replica in state.replicas:
                path = cluster.directory_of(replica, number)
                ids = cluster.on(
                    replica,
                    lambda broker: {
                        each.path: each.meta.directory_id for each in broker.log_dirs.online
                    },
                )
                if path is None or state.directory_of(replica) != ids[path]:
                    return False
    return True


def a_cluster(work: Path, partitions: int = 4, replicas: int = 3) -> TwoDirectories:
    cluster = TwoDirectories(work)
    cluster.start()
    assert cluster.create_topic(1, TOPIC, partitions=partitions, replicas=replicas) == 0
    wait_until(lambda: assigned_where_they_are(cluster), "all replicas are assigned", 30)
    return cluster


def fail(cluster: TwoDirectories, node_id: int, path: str) -> None:
    """As a failed fsync does it: the next look at the disk takes the directory offline."""

    def strike(broker: Broker) -> None:
        log_dir = broker.log_dirs.at(path)
        assert log_dir is not None
        log = next(log for tp, log in log_dir.logs.items() if tp.topic == TOPIC)
        log.fail("fsync failed", OSError(errno.EIO, "Input/output error"))

    cluster.on(node_id, strike)
    cluster.nodes[node_id].call(lambda running: running.runtime.wake())


def test_a_failed_directory_costs_its_replicas_and_not_the_data(tmp_path: Path) -> None:
    with a_cluster(tmp_path) as cluster:
        numbers = [n for n in range(4) if cluster.directory_of(1, n) == str(cluster.second(1))]
        others = [n for n in range(4) if n not in numbers]
        assert numbers
        assert others
        for number in range(4):
            cluster.write_until_taken("before", number)
            cluster.in_sync(number, {1, 2, 3})

        fail(cluster, 1, str(cluster.second(1)))

        for number in numbers:
            cluster.in_sync(number, {2, 3})
            cluster.write_until_taken("after", number)
            assert cluster.partition(number).leader in (2, 3)
            assert cluster.on(1, lambda broker: len(broker.partitions.offline)) == len(numbers)
        for number in others:
            cluster.write_until_taken("after", number)
            cluster.in_sync(number, {1, 2, 3})
        # After a restart the directory is there again, and its replicas catch up.
        cluster.stop(1)
        cluster.start(1)
        for number in range(4):
            cluster.in_sync(number, {1, 2, 3})
            ends = cluster.end_offsets(number, {1, 2, 3})
            assert len(set(ends)) == 1, ends


def test_a_broker_without_its_metadata_directory_ends(tmp_path: Path) -> None:
    with a_cluster(tmp_path, partitions=2) as cluster:
        halted: list[str] = []
        cluster.nodes[2].call(lambda running: _listen(running.runtime, halted))

        fail(cluster, 2, str(tmp_path / "node-2"))

        wait_until(lambda: bool(halted), "the process ends", 10)
        assert str(tmp_path / "node-2") in halted[0]


def _listen(runtime: object, halted: list[str]) -> None:
    def halt(effect: object) -> None:
        halted.append(str(effect))

    setattr(runtime, "halt", halt)  # noqa: B010 - instead of ending the test's process


def test_a_full_disk_moves_leaders_to_other_brokers(
    tmp_path: Path,
    disk_permitted: Callable[[], None],
) -> None:
    disk_permitted()
    cluster = TwoDirectories(tmp_path)
    with SmallDisk(cluster.second(1), 16) as disk, cluster:
        cluster.start()
        assert cluster.create_topic(1, TOPIC, partitions=4, replicas=3) == 0
        wait_until(lambda: assigned_where_they_are(cluster), "all replicas are assigned", 30)
        numbers = [n for n in range(4) if cluster.directory_of(1, n) == str(cluster.second(1))]
        for number in range(4):
            cluster.write_until_taken("before", number)
            cluster.in_sync(number, {1, 2, 3})

        disk.fill()
        for number in numbers:
            wait_until(partial(cluster.is_taken, number), "it is taken", 30)

        for number in numbers:
            cluster.in_sync(number, {2, 3})
            assert cluster.partition(number).leader in (2, 3)
        cluster.kill(1)


@pytest.fixture
def disk_permitted(tmp_path: Path) -> Callable[[], None]:
    def check() -> None:
        if not is_permitted(tmp_path):
            pytest.skip("mounting a small disk needs root")

    return check


# -- reassignment, from the broker's side -------------------------------------------------------


def names_of(cluster: TwoDirectories, node_id: int) -> list[str]:
    return [
        name
        for path in (cluster._work / f"node-{node_id}", cluster.second(node_id))
        for name in (each.name for each in path.iterdir())
        if name.startswith(f"{TOPIC}-0")
    ]


def test_a_replica_that_is_assigned_away_is_deleted_and_comes_back_from_nothing(
    tmp_path: Path,
) -> None:
    with a_cluster(tmp_path, partitions=1, replicas=2) as cluster:
        replicas = list(cluster.partition().replicas)
        spare = next(each for each in (1, 2, 3) if each not in replicas)
        kept, moved = replicas
        for number in range(20):
            cluster.write_until_taken(f"v{number}")

        assert cluster.reassign([kept, spare]) == 0
        cluster.reassigned([kept, spare])
        wait_until(
            lambda: all(name.endswith("-delete") for name in names_of(cluster, moved)),
            "the replica is set aside",
        )
        assert cluster.directory_of(moved) is None
        cluster.write_until_taken("between")
        assert cluster.reassign([kept, moved]) == 0
        cluster.reassigned([kept, moved])

        cluster.in_sync(0, {kept, moved})
        assert cluster.end_offsets(0, {kept, moved}) == [21, 21]


def test_a_replica_that_was_away_and_back_while_its_broker_was_down_starts_from_nothing(
    tmp_path: Path,
) -> None:
    """The old directory is wiped: what it has may have been deleted long since."""
    with a_cluster(tmp_path, partitions=1, replicas=2) as cluster:
        leader = cluster.partition().leader
        away = next(each for each in cluster.partition().replicas if each != leader)
        spare = next(each for each in (1, 2, 3) if each not in (leader, away))
        for number in range(5):
            cluster.write_until_taken(f"v{number}")
        cluster.in_sync(0, {leader, away})
        old = cluster.directory_of(away)
        cluster.stop(away)
        # Its topic id and name are right, and its records are another story.
        marker = Path(str(old)) / f"{TOPIC}-0" / "00000000000000000000.log"
        assert marker.stat().st_size > 0

        assert cluster.reassign([leader, spare]) == 0
        cluster.reassigned([leader, spare])
        assert cluster.reassign([leader, spare, away]) == 0
        cluster.start(away)

        cluster.reassigned([leader, spare, away])
        cluster.in_sync(0, {leader, spare, away})
        assert cluster.end_offsets(0, {away}) == [5]
        assert any("-delete" in name for name in names_of(cluster, away))
