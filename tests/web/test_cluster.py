"""The pages that show a whole cluster, on three brokers in this process."""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.request import urlopen

import pytest

from ledgerstone.server.anatomy.partition import anatomy_from_json
from ledgerstone.testing.cluster import LedgerstoneCluster
from ledgerstone.testing.waiting import wait_until
from tests.kit.in_process import InProcess
from tests.web.kit import Visitor


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LedgerstoneCluster]:
    with LedgerstoneCluster(tmp_path_factory.mktemp("cluster")) as nodes:
        nodes.topic("orders", compacted=True, partitions=2)
        nodes.produce_batch("orders", [(f"k{each % 7}", "v" * 50) for each in range(60)])
        nodes.wait_in_sync()
        yield nodes


def shown(cluster: LedgerstoneCluster, path: str, node: int = 1) -> str:
    with urlopen(f"{cluster.nodes[node].http}{path}", timeout=20) as answer:
        page: str = answer.read().decode()
    return " ".join(re.sub(r"<[^>]*>", " ", page).split())


def asked(cluster: LedgerstoneCluster, path: str, node: int = 1) -> dict[str, Any]:
    with urlopen(f"{cluster.nodes[node].http}/api/v1/{path}", timeout=20) as answer:
        found: dict[str, Any] = json.loads(answer.read())
    return found


def test_page_shows_every_node_and_who_leads(cluster: LedgerstoneCluster) -> None:
    text = shown(cluster, "/cluster", node=2)

    assert "All replicas are in sync" in text
    assert "3 of 3 nodes up" in text
    assert f"{cluster.controller} active controller" in text
    assert "2 controller this one" in text or "2 active controller this one" in text
    for each in cluster.nodes.values():
        assert each.bootstrap in text
        # The address of its page was asked of the node itself.
        assert each.http.removeprefix("http://") in text
    # Every leader has said that nobody lacks anything.
    assert len(re.findall(r"up \d 2 0 0 –", text)) == 3


def test_cluster_is_the_same_on_every_node(cluster: LedgerstoneCluster) -> None:
    facts = [asked(cluster, "cluster", node=each) for each in (1, 2, 3)]

    for each in facts:
        del each["node"]
    assert facts[0] == facts[1] == facts[2]
    assert facts[0]["partitions"] == 2


def test_replicas_are_shown_side_by_side(cluster: LedgerstoneCluster) -> None:
    text = shown(cluster, "/topics/orders/replicas?partition=1")

    assert "Partition 1 on every node that hosts it" in text
    assert "did not answer" not in text
    leader = cluster.leader_of("orders", 1)
    assert f"Node {leader} leader" in text
    for each in (1, 2, 3):
        assert re.search(rf"Node {each}\b", text)
    ends = [
        cluster.on(each, lambda run: run.broker.partition_of("orders", 1).log.log_end_offset)
        for each in (1, 2, 3)
    ]
    rows = re.findall(rf"(?:leader|in sync) 0 {ends[0]} {ends[0]} 0 ", text)
    assert len(set(ends)) == 1
    assert len(rows) == 3


def test_anatomy_of_another_node_comes_back_from_its_json(cluster: LedgerstoneCluster) -> None:
    found = asked(cluster, "topics/orders/anatomy?partition=0", node=3)
    (only,) = found["partitions"]

    assert anatomy_from_json(only).to_json() == only
    with pytest.raises(ValueError, match="not an anatomy"):
        anatomy_from_json({**only, "segments": [{}]})


def test_partition_that_does_not_exist_is_not_shown(cluster: LedgerstoneCluster) -> None:
    with pytest.raises(OSError, match="404"):
        shown(cluster, "/topics/orders/replicas?partition=9")


def test_page_of_a_single_broker_is_not_in_the_way(empty: InProcess) -> None:
    visitor = Visitor(empty)

    assert "1 of 1" in visitor.shown("/cluster")
    assert "/cluster" not in str(visitor.get("/").body)


def test_node_that_stops_is_missed_at_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    with LedgerstoneCluster(tmp_path_factory.mktemp("stopped")) as cluster:
        cluster.topic("t")
        cluster.produce("t", "a", "1")
        away = next(each for each in (1, 2, 3) if each != cluster.leader_of("t"))
        seer = cluster.leader_of("t")
        cluster.stop(away)
        cluster.produce("t", "b", "2")

        wait_until(lambda: "1 partition is" in shown(cluster, "/cluster", seer), "it is seen")
        text = shown(cluster, "/cluster", seer)
        replicas = shown(cluster, "/topics/t/replicas", seer)

    assert "2 of 3 nodes up" in text
    assert re.search(rf"t-0 {seer} [\d, ]+ [\d, ]+ {away} 1\b", text)
    assert "not in sync did not answer" in replicas
