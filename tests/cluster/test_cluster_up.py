"""`ledgerstone cluster up`: real processes, their supervision and their end."""

import json
import os
import signal
import stat
from pathlib import Path

import pytest

from ledgerstone.cli.options import parse_bootstrap
from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.client.blocking import Client
from ledgerstone.client.fetcher import READ_COMMITTED
from ledgerstone.client.producer import NewRecord, Producer, ProducerConfig
from ledgerstone.testing.reading import read_topic
from tests.kit.broker import wait_until
from tests.kit.cluster_up import ClusterUp, is_alive
from tests.kit.command_line import ledgerstone


def test_three_nodes_are_up_until_one_interrupt(tmp_path: Path) -> None:
    with ClusterUp(tmp_path) as cluster:
        facts = cluster.facts
        assert list(facts["nodes"]) == ["1", "2", "3"]
        assert facts["bootstrap"] == ",".join(each["bootstrap"] for each in facts["nodes"].values())
        assert facts["http"] == facts["nodes"]["1"]["http"]
        pids = [each["pid"] for each in facts["nodes"].values()]
        assert all(map(is_alive, pids))
        for path in (cluster.ready_file, cluster.data / "control", cluster.data / "cluster.json"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
        with Client(parse_bootstrap(cluster.bootstrap)) as client:
            create_topic(client, NewTopic(name="kept", partitions=3, configs={}))
            replicas = [each.replicas for each in client.topic("kept").partitions.values()]
        assert [sorted(each) for each in replicas] == [[1, 2, 3]] * 3

        status = json.loads(cluster.command("status", "--json"))
        assert status["trouble"] is None
        assert [each["pid"] for each in status["nodes"]] == pids
        assert [(each["leads"], each["replicas"]) for each in status["nodes"]] == [(1, 3)] * 3
        assert [each["id"] for each in status["nodes"] if each["id"] == status["controller"]]

        cluster.interrupt()
        assert cluster.wait() == 0
        assert [each for each in pids if is_alive(each)] == []
        assert not cluster.ready_file.exists()
        # Nodes were let go by their controller, not killed.
        lines = cluster.text.splitlines()
        assert "SIGKILL" not in cluster.text
        assert sum(line.endswith("| stopped") for line in lines) == 4


def test_nodes_are_continued_restarted_and_end_with_their_supervisor(tmp_path: Path) -> None:
    cluster = ClusterUp(tmp_path, nodes=1)
    with cluster:
        first = cluster.facts
        with Client(parse_bootstrap(cluster.bootstrap)) as client:
            create_topic(client, NewTopic(name="kept", partitions=2, configs={}))
        second = cluster.run("up")
        assert second.code == 1
        assert "is run by another" in second.stderr
        cluster.interrupt()
        assert cluster.wait() == 0

    with cluster:
        assert cluster.facts["bootstrap"] == first["bootstrap"]
        assert "formatted" not in cluster.text
        with Client(parse_bootstrap(cluster.bootstrap)) as client:
            assert list(client.topic("kept").partitions) == [0, 1]

        # A killed node comes back, and the ready file follows.
        pid = cluster.pid(1)
        assert cluster.command("kill", "1") == f"sent SIGKILL to node 1, pid {pid}\n"
        cluster.wait_until_up(1, not_pid=pid)
        assert "node-1  | ended by SIGKILL, and starts again in 0.5 s\n" in cluster.text

        pid = cluster.pid(1)
        assert cluster.process is not None
        os.kill(cluster.process.pid, signal.SIGKILL)
        cluster.wait()
        wait_until(lambda: not is_alive(pid), "the node ends with its supervisor")


def test_commands_say_that_no_cluster_runs(tmp_path: Path) -> None:
    for arguments in (["kill", "1"], ["start", "1"]):
        done = ledgerstone("cluster", *arguments, "--data", str(tmp_path))

        assert done.code == 1
        assert f"no cluster runs in {tmp_path}" in done.stderr


def test_node_that_never_starts_ends_the_start_with_its_reason(tmp_path: Path) -> None:
    cluster = ClusterUp(tmp_path, nodes=1)
    cluster.data.mkdir()
    home = cluster.data / "node-1"
    home.mkdir()
    # The layout is made by the start; the properties of the node are already there.
    (home / "server.properties").write_text("process.roles=witness\n")
    cluster.launch()

    assert cluster.wait() == 1
    assert "process.roles" in cluster.text


def test_log_directory_of_a_broker_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\n")

    done = ledgerstone("cluster", "up", "--data", str(tmp_path))

    assert done.code == 1
    assert "is the log directory of a broker" in done.stderr
    assert not (tmp_path / "cluster.json").exists()


def test_places_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    missing = str(tmp_path / "missing" / "ready.json")

    under_a_file = ledgerstone("cluster", "up", "--data", str(file / "cluster"))
    nowhere = ledgerstone("cluster", "up", "--data", str(tmp_path / "c"), "--ready-file", missing)

    assert (under_a_file.code, nowhere.code) == (2, 2)
    assert "Not a directory" in under_a_file.stderr
    assert "is no directory" in nowhere.stderr


def test_signal_must_be_one(tmp_path: Path) -> None:
    done = ledgerstone("cluster", "kill", "1", "--signal", "HUH", "--data", str(tmp_path))

    assert done.code == 2
    assert "there is no signal HUH" in done.stderr


@pytest.mark.slow
def test_crash_loop_is_bounded_and_an_operator_can_end_it(tmp_path: Path) -> None:
    with ClusterUp(tmp_path) as cluster:
        properties = cluster.data / "node-3" / "server.properties"
        good = properties.read_text(encoding="utf-8")
        properties.write_text("process.roles=witness\n", encoding="utf-8")
        cluster.command("kill", "3")

        wait_until(lambda: "it is not started again" in cluster.text, "it is given up", 60)
        assert json.loads(cluster.ready_file.read_text())["nodes"]["3"]["up"] is False
        properties.write_text(good, encoding="utf-8")
        cluster.command("start", "3")
        cluster.wait_until_up(3)


@pytest.mark.slow
def test_node_that_was_frozen_stops_with_the_others(tmp_path: Path) -> None:
    with ClusterUp(tmp_path) as cluster:
        cluster.command("kill", "3", "--signal", "STOP")
        cluster.interrupt()

        assert cluster.wait() == 0
        assert "SIGKILL" not in cluster.text
        assert sum(line.endswith("| stopped") for line in cluster.text.splitlines()) == 4


@pytest.mark.slow
def test_second_interrupt_kills_what_does_not_stop(tmp_path: Path) -> None:
    with ClusterUp(tmp_path) as cluster:
        cluster.interrupt()
        wait_until(lambda: "Ctrl-C again" in cluster.text, "it says so")
        cluster.interrupt()

        assert cluster.wait(30) == 0
        assert "kills what still runs" in cluster.text
        pids = [each["pid"] for each in cluster.facts["nodes"].values()]
        assert [each for each in pids if is_alive(each)] == []


@pytest.mark.slow
def test_node_left_down_stays_down_until_it_is_started(tmp_path: Path) -> None:
    with ClusterUp(tmp_path) as cluster:
        cluster.command("kill", "2", "--no-restart")
        wait_until(lambda: not cluster.read()["nodes"]["2"]["up"], "it is down")

        assert cluster.command("start", "2") == "node 2 is up\n"
        assert cluster.read()["nodes"]["2"]["up"]


@pytest.mark.slow
def test_broker_that_is_down_can_be_removed(tmp_path: Path) -> None:
    with ClusterUp(tmp_path, nodes=4) as cluster:
        with Client(parse_bootstrap(cluster.bootstrap)) as client:
            create_topic(client, NewTopic(name="t", partitions=4, configs={}))
            records = [NewRecord("t", f"k{each}".encode(), b"v") for each in range(100)]
            answers = Producer(client, ProducerConfig()).send(records)
        assert [each for each in answers if isinstance(each, Exception)] == []

        cluster.command("kill", "4", "--no-restart")
        removed = cluster.command("remove", "4")

        assert "removed broker 4, moved 3 replicas of 3 partitions" in removed
        status = json.loads(cluster.command("status", "--wait", "30", "--json"))
        assert [each["replicas"] for each in status["nodes"]] == [4] * 3


@pytest.mark.slow
def test_broker_comes_gets_its_share_and_goes(tmp_path: Path) -> None:
    with ClusterUp(tmp_path) as cluster:
        with Client(parse_bootstrap(cluster.bootstrap)) as client:
            create_topic(client, NewTopic(name="t", partitions=8, configs={}))
            records = [NewRecord("t", f"k{each}".encode(), b"v" * 100) for each in range(2_000)]
            answers = Producer(client, ProducerConfig()).send(records)
            assert [each for each in answers if isinstance(each, Exception)] == []

        assert "added broker 4, moved 6 replicas" in cluster.command("add", "--spread")
        cluster.wait_until_up(4)
        status = json.loads(cluster.command("status", "--json"))
        assert [each["replicas"] for each in status["nodes"]] == [6] * 4
        assert [each["leads"] for each in status["nodes"]] == [2] * 4
        assert (status["under_replicated"], status["moves"]) == ([], [])

        home = cluster.data / "node-4"
        removed = cluster.command("remove", "4")
        assert f"its directory {home} is kept" in removed
        assert (home / "data" / "meta.properties").exists()
        status = json.loads(cluster.command("status", "--json"))
        assert [each["id"] for each in status["nodes"]] == [1, 2, 3]
        assert [each["replicas"] for each in status["nodes"]] == [8] * 3
        with Client(parse_bootstrap(cluster.read()["bootstrap"])) as client:
            found = {each.key for each in read_topic(client, "t", isolation_level=READ_COMMITTED)}
        assert found == {each.key for each in records}
