"""Apache Kafka's controllers and ours in one quorum, Kafka's brokers and ours under both."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from golden.kafka_tools import DUMP_TOOL, fetch_jars
from ledgerstone.protocol.error_codes import ErrorCode
from tests.compat.mixed import KAFKA_BROKER, OUR_BROKER, loaded, mixed_cluster, replayed, round_trip
from tests.kit.broker import wait_until
from tests.kit.command_line import ledgerstone
from tests.kit.nodes import KAFKA, LEDGERSTONE, Cluster, batches

pytestmark = [
    pytest.mark.slow,
    pytest.mark.kafka,
    pytest.mark.skipif(shutil.which("java") is None, reason="Kafka needs Java"),
]

BROKERS: Final = (KAFKA_BROKER, OUR_BROKER)
# Each kill elects somebody; the odds that one side never leads fall below one in a thousand.
MOST_ROUNDS: Final = 14
SNAPSHOT_SETTINGS: Final = {"metadata.log.max.record.bytes.between.snapshots": "1500"}


# -- leading in turn ------------------------------------------------------------------------------


@pytest.mark.parametrize("is_dynamic", [True, False], ids=["dynamic", "static"])
@pytest.mark.parametrize("letters", ["kkl", "llk"])
def test_each_side_leads_and_both_logs_hold_the_same_bytes(
    letters: str, is_dynamic: bool, tmp_path: Path
) -> None:
    with mixed_cluster(letters, tmp_path, is_dynamic=is_dynamic) as cluster:
        cluster.start(1, 2, 3)
        cluster.start(*BROKERS)
        topics = dict(_lead_in_turn(cluster))
        assert set(topics) == {KAFKA, LEDGERSTONE}
        created = {name for names in topics.values() for name in names}
        for broker in BROKERS:
            wait_until(lambda b=broker: created == set(cluster.topics(b) or ()), "all are known")  # type: ignore[misc]
        for names in topics.values():
            for name in names:
                round_trip(cluster, name)
        high_watermark = cluster.wait_for_leader().high_watermark
        cluster.assert_one_leader_an_epoch()
        cluster.kill()
        cluster.assert_logs_agree()
    assert all(high_watermark > next(batches(node.metadata))[0] for node in cluster.nodes.values())
    _assert_both_read_all_logs(cluster, created)


def _lead_in_turn(cluster: Cluster) -> Iterator[tuple[str, list[str]]]:
    """Kills leaders until one of each kind has led; topics made under the first of each."""
    seen: set[str] = set()
    for _ in range(MOST_ROUNDS):
        former = cluster.wait_for_leader()
        kind = cluster.kinds[former.leader_id]
        if kind not in seen:
            seen.add(kind)
            names = [f"under-{kind}-via-{cluster.kinds[each]}" for each in BROKERS]
            for name, via in zip(names, BROKERS, strict=True):
                assert cluster.create_topic(name, via) is ErrorCode.NONE
            yield kind, names
        if len(seen) == 2:
            return
        victim = cluster[former.leader_id]
        victim.kill()
        cluster.wait_for_leader(after=former.epoch)
        victim.start()
        victim.wait_started()


def _assert_both_read_all_logs(cluster: Cluster, topics: set[str]) -> None:
    segment = "00000000000000000000.log"
    for node in cluster.nodes.values():
        by_kafka = _kafka_dump(node.metadata / segment)
        assert all(each in by_kafka for each in topics)
        assert ledgerstone("dump", "--records", str(node.metadata / segment)).code == 0
        assert topics <= set(replayed(node.metadata).topics)


def _kafka_dump(path: Path) -> str:
    command = fetch_jars().java(DUMP_TOOL, "--cluster-metadata-decoder", "--files", str(path))
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "isvalid: false" not in done.stdout
    return done.stdout


# -- snapshots ------------------------------------------------------------------------------------


@pytest.mark.parametrize("letters", ["kkl", "llk"])
def test_late_voter_starts_from_a_snapshot_of_the_other_kind(letters: str, tmp_path: Path) -> None:
    with mixed_cluster(letters, tmp_path, settings=SNAPSHOT_SETTINGS) as cluster:
        cluster.start(1, 2)
        cluster.start(*BROKERS)
        for number in range(12):
            assert cluster.create_topic(f"topic-{number}", KAFKA_BROKER) is ErrorCode.NONE
        leader = cluster.wait_for_leader()
        wait_until(lambda: _has_topics(cluster, leader.leader_id), "the leader has a snapshot")

        cluster.start(3)
        wait_until(lambda: _has_topics(cluster, 3), "the late one has a snapshot")
        # It leads with what it got from there.
        cluster[1 if leader.leader_id == 2 else 2].kill()
        wait_until(
            lambda: cluster.create_topic("later", OUR_BROKER) in _MADE, "a topic is made", 60.0
        )
        names = {f"topic-{number}" for number in range(12)} | {"later"}
        for broker in BROKERS:
            wait_until(lambda b=broker: set(cluster.topics(b) or ()) == names, "all are known")  # type: ignore[misc]
        cluster.kill()
        cluster.assert_logs_agree()
    for node_id in (1, 2, 3):
        newest = _snapshots(cluster, node_id)[-1]
        by_kafka = _kafka_dump(newest)
        assert "SnapshotFooter" in by_kafka
        assert "topic-0" in by_kafka
        assert "topic-0" in loaded(newest).topics


_MADE: Final = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


def _snapshots(cluster: Cluster, node_id: int) -> list[Path]:
    """Oldest first, without the one that a directory is formatted with."""
    found = sorted(cluster[node_id].metadata.glob("*.checkpoint"))
    return [each for each in found if not each.name.startswith("0" * 20)]


def _has_topics(cluster: Cluster, node_id: int) -> bool:
    return any("topic-0" in loaded(each).topics for each in _snapshots(cluster, node_id))
