"""Our replica of the quorum among Apache Kafka's controllers: votes, logs and snapshots.

The replica writes no metadata of its own: when it leads, it resigns, and Kafka goes on.
"""

import re
import shutil
from pathlib import Path
from typing import Final

import pytest

from golden.cluster_plan import BROKER, CONTROLLER, ClusterPlan, PlannedNode
from golden.kafka_broker import free_port
from golden.kafka_tools import fetch_jars
from ledgerstone.protocol.error_codes import ErrorCode
from tests.kit.bare_node import BareNode
from tests.kit.broker import wait_until
from tests.kit.nodes import BARE, KAFKA, Cluster, batches

pytestmark = [
    pytest.mark.slow,
    pytest.mark.kafka,
    pytest.mark.skipif(shutil.which("java") is None, reason="Kafka needs Java"),
]

OURS: Final = 3
BROKER_ID: Final = 4
ROUNDS: Final = 3


def _cluster(work: Path, *, is_dynamic: bool, **settings: str) -> Cluster:
    controllers = [
        PlannedNode(node_id=each, roles=CONTROLLER, port=0, controller_port=free_port())
        for each in (1, 2, OURS)
    ]
    broker = PlannedNode(node_id=BROKER_ID, roles=BROKER, port=free_port(), controller_port=0)
    plan = ClusterPlan(
        nodes=[*controllers, broker],
        is_dynamic=is_dynamic,
        settings={key.replace("_", "."): value for key, value in settings.items()},
    )
    kinds = {1: KAFKA, 2: KAFKA, OURS: BARE, BROKER_ID: KAFKA}
    cluster = Cluster(plan=plan, work=work, jars=fetch_jars(), kinds=kinds)
    cluster.format()
    return cluster


def _ours(cluster: Cluster) -> BareNode:
    node = cluster[OURS]
    assert isinstance(node, BareNode)
    return node


@pytest.mark.parametrize("is_dynamic", [True, False], ids=["dynamic", "static"])
def test_each_side_leads_in_turn_and_the_logs_agree(is_dynamic: bool, tmp_path: Path) -> None:
    with _cluster(tmp_path, is_dynamic=is_dynamic) as cluster:
        # Or our leader might be first, and a broker of Kafka ends where it finds no features.
        cluster.start(1, 2)
        cluster.start(BROKER_ID)
        cluster.start(OURS)
        led = set()
        for number in range(ROUNDS):
            former = cluster.wait_for_leader()
            if former.leader_id == OURS:
                _ours(cluster).resign()
                former = cluster.wait_for_leader(after=former.epoch)
            assert cluster.create_topic(f"topic-{number}", BROKER_ID) is ErrorCode.NONE
            victim = cluster[former.leader_id]
            victim.kill()
            # The other Kafka may be faster; then the next round has another chance.
            led.add(cluster.wait_for_leader(after=former.epoch).leader_id)
            victim.start()
        wait_until(lambda: OURS in led, "our replica has led", 1.0)
        cluster.assert_one_leader_an_epoch()
        cluster.kill()
        cluster.assert_logs_agree()


def test_our_replica_starts_from_a_snapshot_of_kafka(tmp_path: Path) -> None:
    small = {"metadata_log_max_record_bytes_between_snapshots": "1000"}
    with _cluster(tmp_path, is_dynamic=True, **small) as cluster:
        cluster.start(1, 2)
        cluster.start(BROKER_ID)
        for number in range(10):
            assert cluster.create_topic(f"topic-{number}", BROKER_ID) is ErrorCode.NONE
        leader = cluster.wait_for_leader()
        wait_until(lambda: _snapshots(cluster, leader.leader_id), "Kafka has a snapshot")

        cluster.start(OURS)
        said = _ours(cluster)
        wait_until(lambda: "loaded" in said.log_text, "it loaded a snapshot")
        wait_until(lambda: leader.leader_id in _caught_up(cluster), "it caught up")

        offset, count = _loaded(said.log_text)
        assert count > 0
        cluster.kill()
        snapshot = next(cluster[OURS].metadata.glob(f"{offset:020d}-*.checkpoint"))
        original = cluster[leader.leader_id].metadata / snapshot.name
        assert snapshot.read_bytes() == original.read_bytes()
        assert min(base for base, _ in batches(cluster[OURS].metadata)) >= offset
        cluster.assert_logs_agree()


def _snapshots(cluster: Cluster, node_id: int) -> list[Path]:
    found = cluster[node_id].metadata.glob("*.checkpoint")
    return [each for each in found if not each.name.startswith("0" * 20)]


def _caught_up(cluster: Cluster) -> set[int]:
    """Leaders whose log our replica holds to the end."""
    standing = cluster.leader()
    if standing is None:
        return set()
    ends = [base for base, _ in batches(cluster[OURS].metadata)]
    return {standing.leader_id} if ends and max(ends) >= standing.high_watermark - 5 else set()


def _loaded(text: str) -> tuple[int, int]:
    found = re.search(r"loaded (\d+)@\d+ with (\d+) records", text)
    assert found is not None
    return int(found[1]), int(found[2])
