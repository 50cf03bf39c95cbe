"""Plans carried out, and a look at the cluster, on nodes in this process."""

from collections.abc import Iterator

import pytest

from ledgerstone.cli.options import parse_bootstrap
from ledgerstone.client.blocking import Client
from ledgerstone.cluster.moves import Move
from ledgerstone.cluster.moving import Moving, assigned_partitions
from ledgerstone.cluster.survey import survey
from tests.kit.command_line import ledgerstone
from tests.kit.loopback_cluster import LoopbackCluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackCluster]:
    with LoopbackCluster(tmp_path_factory.mktemp("cluster")) as nodes:
        nodes.start()
        assert nodes.create_topic(1, "t", partitions=3, replicas=3) == 0
        nodes.wait_for("the topic is known", lambda image: "t" in image.topics)
        yield nodes


def bootstrap_of(cluster: LoopbackCluster) -> str:
    return ",".join(f"127.0.0.1:{port}" for port in cluster.client_ports.values())


def test_moves_are_carried_out_some_at_a_time(cluster: LoopbackCluster) -> None:
    said: list[str] = []
    with Client(parse_bootstrap(bootstrap_of(cluster))) as client:
        before = assigned_partitions(client)
        # Only the order changes, so nothing has to be copied.
        moves = [
            Move(each.topic, each.partition, each.replicas, each.replicas[::-1]) for each in before
        ]

        Moving(client, said.append, at_once=2).carry_out(moves)

        after = assigned_partitions(client)
        leaders = [each.leader_id for each in client.topic("t").partitions.values()]
    assert [each.replicas for each in after] == [each.after for each in moves]
    # The first replica leads at the end.
    assert leaders == [each.after[0] for each in moves]
    assert said[-1] == "moved 3 of 3 partitions"


def test_survey_counts_what_each_node_has(cluster: LoopbackCluster) -> None:
    with Client(parse_bootstrap(bootstrap_of(cluster))) as client:
        found = survey(client)

    assert found.trouble is None
    assert found.controller == cluster.active()
    assert found.partitions == 3
    assert [each.state for each in found.nodes.values()] == ["up"] * 3
    assert [each.replicas for each in found.nodes.values()] == [3] * 3
    assert sum(each.leads or 0 for each in found.nodes.values()) == 3
    assert (found.moves, found.under_replicated) == ([], [])


def test_drain_refuses_before_anything_moves(cluster: LoopbackCluster) -> None:
    done = ledgerstone("cluster", "drain", "3", "--bootstrap", bootstrap_of(cluster))

    assert done.code == 1
    assert "has 3 replicas, and 2 brokers would be left without broker 3" in done.stderr


@pytest.mark.parametrize("command", [["drain", "9"], ["spread", "9", "--wait", "0"]])
def test_command_about_an_unknown_broker_says_which_there_are(
    cluster: LoopbackCluster, command: list[str]
) -> None:
    done = ledgerstone("cluster", *command, "--bootstrap", bootstrap_of(cluster))

    assert done.code == 1
    assert "broker 9" in done.stderr
    assert "brokers are 1, 2, 3" in done.stderr


def test_status_of_any_cluster_is_shown(cluster: LoopbackCluster) -> None:
    done = ledgerstone("cluster", "status", "--bootstrap", bootstrap_of(cluster))

    assert done.code == 0
    head, titles, *rows = done.stdout.splitlines()
    assert "partitions 3  offline 0  under-replicated 0  moves 0" in head
    assert titles.split()[:3] == ["NODE", "ROLES", "STATE"]
    assert [row.split()[0] for row in rows] == ["1", "2", "3"]
    assert sum("up, active" in row for row in rows) == 1


def test_command_needs_to_know_which_cluster() -> None:
    done = ledgerstone("cluster", "status")

    assert done.code == 2
    assert "give --data, or --bootstrap" in done.stderr
