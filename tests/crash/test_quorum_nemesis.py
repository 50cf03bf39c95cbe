"""Three real nodes lose their leader in every way a machine allows, here and on Apache Kafka.

`tests.crash.failover` does the same many times over and measures.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.crash.failover import NODES, cluster_of_three
from tests.kit import namespaces, small_disk
from tests.kit.namespaces import Namespaces
from tests.kit.nemesis import Nemesis, TopicBook
from tests.kit.nodes import KAFKA, LEDGERSTONE, Cluster
from tests.kit.small_disk import SmallDisk

pytestmark = pytest.mark.slow

ROUNDS: Final = 2
DISK_MB: Final = 48
SMALL_INDEXES: Final = {"log.index.size.max.bytes": "4096"}
KINDS: Final = [
    LEDGERSTONE,
    pytest.param(
        KAFKA,
        marks=[
            pytest.mark.kafka,
            pytest.mark.skipif(shutil.which("java") is None, reason="Kafka needs Java"),
        ],
    ),
]


@pytest.fixture
def network() -> Iterator[Namespaces]:
    if not namespaces.is_permitted():
        pytest.skip("needs root for network namespaces")
    with Namespaces(len(NODES)) as found:
        yield found


def _begin(cluster: Cluster) -> Nemesis:
    cluster.start()
    nemesis = Nemesis(cluster, TopicBook(cluster))
    nemesis.book.until_created(list(NODES))
    return nemesis


def _end(nemesis: Nemesis) -> None:
    nemesis.book.check()
    nemesis.cluster.kill()
    nemesis.cluster.assert_logs_agree()


@pytest.mark.parametrize("kind", KINDS)
def test_killed_leaders_lose_no_topic(kind: str, tmp_path: Path) -> None:
    with cluster_of_three(kind, tmp_path) as cluster:
        nemesis = _begin(cluster)
        for _ in range(ROUNDS):
            nemesis.kill_the_leader()
            nemesis.book.check()
        _end(nemesis)


@pytest.mark.parametrize("kind", KINDS)
def test_paused_leader_commits_nothing_when_it_wakes(kind: str, tmp_path: Path) -> None:
    with cluster_of_three(kind, tmp_path) as cluster:
        nemesis = _begin(cluster)
        nemesis.pause_the_leader()
        _end(nemesis)


@pytest.mark.parametrize("kind", KINDS)
def test_leader_cut_off_from_the_others_gives_way(
    kind: str, tmp_path: Path, network: Namespaces
) -> None:
    with cluster_of_three(kind, tmp_path, network) as cluster:
        nemesis = _begin(cluster)
        nemesis.cut_off_the_leader(network)
        nemesis.book.check()
        nemesis.deafen_the_leader(network)
        _end(nemesis)


@pytest.mark.parametrize("kind", KINDS)
def test_leader_with_a_full_disk_gives_way(kind: str, tmp_path: Path) -> None:
    if not small_disk.is_permitted(tmp_path):
        pytest.skip("needs root for a small disk")
    with (
        SmallDisk(tmp_path / "node-1" / "data", DISK_MB) as disk,
        cluster_of_three(kind, tmp_path, settings=SMALL_INDEXES) as cluster,
    ):
        nemesis = _begin(cluster)
        # Only node 1 has a disk that can be filled.
        while cluster.wait_for_leader().leader_id != 1:
            nemesis.kill_the_leader()
        nemesis.fill_the_disk_of_the_leader(disk)
        _end(nemesis)
