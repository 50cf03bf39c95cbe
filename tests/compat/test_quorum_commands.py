"""The commands of docs/quorum.md on real processes: three nodes, growing from one, a lost disk."""

import json
from pathlib import Path

import pytest

from ledgerstone.cli.options import parse_bootstrap
from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.client.blocking import Client
from tests.kit.broker import wait_until
from tests.kit.quorum_processes import (
    NodeProcess,
    add_when_it_follows,
    nodes,
    quorum,
    replicas,
    voters,
)
from tests.kit.storage_tool import CLUSTER_ID, ledgerstone

pytestmark = pytest.mark.slow


def _topics(node: NodeProcess) -> list[str]:
    with Client(parse_bootstrap(node.bootstrap)) as client:
        return sorted(each.name for each in client.all_topics())


def _create(node: NodeProcess, name: str) -> None:
    with Client(parse_bootstrap(node.bootstrap)) as client:
        create_topic(client, NewTopic(name=name, partitions=1, configs={}))


def _cluster_id(node: NodeProcess) -> str:
    lines = (node.data / "meta.properties").read_text().splitlines()
    (found,) = [line.partition("=")[2] for line in lines if line.startswith("cluster.id=")]
    return found


def test_one_node_grows_into_three_and_loses_nothing(tmp_path: Path) -> None:
    with nodes(tmp_path, 3) as (first, second, third):
        roles = dict(first.settings)
        # Today's single node: no roles, no format.
        first.settings = {"listeners": f"PLAINTEXT://{first.bootstrap}"}
        first.write_properties()
        first.start()
        _create(first, "before")
        first.stop()

        first.settings = {
            **roles,
            "controller.quorum.bootstrap.servers": "",
            "controller.quorum.voters": f"1@{first.controller}",
        }
        first.write_properties()
        first.start()
        assert "kraft.version is 1" in quorum("upgrade", "--bootstrap", first.bootstrap)
        first.stop()
        first.settings = roles
        first.write_properties()
        first.start()
        for new in (second, third):
            new.format("--cluster-id", _cluster_id(first), "--no-initial-controllers")
            new.start()
            add_when_it_follows(first, new)
        assert voters(first.bootstrap) == [1, 2, 3]
        _create(second, "after")
        first.kill()

        wait_until(
            lambda: (
                ledgerstone("quorum", "status", "--bootstrap", second.bootstrap).returncode == 0
                and replicas(second.bootstrap)[2]["leader"] != 1
            ),
            "another node leads",
        )
        _create(third, "without-the-first")
        assert _topics(second) == ["after", "before", "without-the-first"]


def test_a_lost_disk_is_replaced(tmp_path: Path) -> None:
    with nodes(tmp_path, 3) as (first, second, third):
        first.format("--cluster-id", CLUSTER_ID, "--standalone")
        first.start()
        for new in (second, third):
            new.format("--cluster-id", CLUSTER_ID, "--no-initial-controllers")
            new.start()
            add_when_it_follows(first, new)
        lost = replicas(first.bootstrap)[3]["directory"]
        third.kill()
        third.wipe()

        # Without a format it does not start, and says why.
        refused = ledgerstone("up", "--config", str(third.properties))
        assert refused.returncode == 2
        assert "is not formatted" in refused.stderr

        said = quorum("remove", "3", "--bootstrap", second.bootstrap, "--json")
        assert json.loads(said) == {"change": "removed", "node": 3, "directory": lost}
        assert voters(first.bootstrap) == [1, 2]
        third.format("--cluster-id", CLUSTER_ID, "--no-initial-controllers")
        third.start()
        add_when_it_follows(first, third)

        now = replicas(first.bootstrap)[3]
        assert now["role"] == "voter"
        assert now["directory"] != lost


def test_three_formatted_with_one_list_elect_a_leader(tmp_path: Path) -> None:
    with nodes(tmp_path, 3) as made:
        ids = [ledgerstone("format", "--random-uuid").stdout.strip() for _ in made]
        listed = ",".join(
            f"{each.node_id}@{each.controller}:{directory}"
            for each, directory in zip(made, ids, strict=True)
        )
        for each in made:
            each.format("--cluster-id", CLUSTER_ID, "--initial-controllers", listed)
            each.start(waits=False)
        for each in made:
            each.wait_ready()

        controllers = ",".join(each.controller for each in made)
        shown = quorum("status", "--bootstrap-controller", controllers)
        assert "voters 3" in shown
        found = replicas(made[0].bootstrap)
        assert {found[each.node_id]["directory"] for each in made} == set(ids)
        assert [row["role"] for row in found.values()].count("leader") == 1


def test_changes_that_cannot_be_are_refused_with_a_reason(tmp_path: Path) -> None:
    with nodes(tmp_path, 2) as (first, second):
        first.format("--cluster-id", CLUSTER_ID, "--standalone")
        first.start()
        second.format("--cluster-id", CLUSTER_ID, "--no-initial-controllers")
        at = ("--bootstrap", first.bootstrap)

        # It does not run, so it cannot have caught up.
        absent = ledgerstone("quorum", "add", "--config", str(second.properties), *at)
        last = ledgerstone("quorum", "remove", "1", *at)
        unknown = ledgerstone("quorum", "remove", "7", *at)
        half = ledgerstone("quorum", "add", "--node-id", "2", *at)

        assert absent.returncode == 1
        assert "node 2 was not added" in absent.stderr
        assert last.returncode == 1
        assert "node 1 was not removed" in last.stderr
        assert unknown.returncode == 2
        assert "node 7 is not a voter; voters are 1" in unknown.stderr
        assert half.returncode == 2
        assert voters(first.bootstrap) == [1]
