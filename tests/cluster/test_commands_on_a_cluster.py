"""`why`, `tombstones` and `compact` speak of the leader, and of every replica if asked."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from ledgerstone.cli.main import app
from ledgerstone.testing.cluster import LedgerstoneCluster

TOPIC = "t"


@pytest.fixture
def cluster(ledgerstone_cluster: LedgerstoneCluster) -> LedgerstoneCluster:
    ledgerstone_cluster.topic(TOPIC, compacted=True, delete_retention_ms=60_000)
    ledgerstone_cluster.produce_batch(TOPIC, [("k", "1"), ("k", None), ("other", "1")])
    ledgerstone_cluster.wait_in_sync(TOPIC)
    return ledgerstone_cluster


def run(cluster: LedgerstoneCluster, *arguments: str) -> str:
    done = CliRunner().invoke(app, [*arguments, "--bootstrap", cluster.bootstrap])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


def rows(cluster: LedgerstoneCluster, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(each) for each in run(cluster, *arguments, "--json").splitlines()]


def test_leader_answers_wherever_it_is_and_every_replica_does_if_asked(
    cluster: LedgerstoneCluster,
) -> None:
    before = cluster.leader_of(TOPIC)
    first = rows(cluster, "why", TOPIC)
    cluster.stop(before)
    after = cluster.leader_of(TOPIC)
    second, every = rows(cluster, "why", TOPIC), rows(cluster, "why", TOPIC, "--replicas")
    said = run(cluster, "why", TOPIC, "--replicas")

    assert [(each["node_id"], each["is_leader"]) for each in first] == [(before, True)]
    assert [(each["node_id"], each["is_leader"]) for each in second] == [(after, True)]
    assert every[0] == {**every[0], "node_id": after, "is_leader": True}
    assert len(every) == 2
    assert f"t-0 on {after} (leader): " in said
    assert f"t partition 0 on {before}: broker {before} is away, or has no HTTP API" in said


def test_key_is_explained_by_the_replica_that_the_others_wait_for(
    cluster: LedgerstoneCluster,
) -> None:
    leader = cluster.leader_of(TOPIC)
    away = next(each for each in (1, 2, 3) if each != leader)
    cluster.kill(away)
    run(cluster, "compact", TOPIC, "--wait")
    cluster.clock.advance(minutes=2)

    lines = run(cluster, "why", TOPIC, "k").splitlines()

    assert lines[-1].startswith(f"t-0 on {leader} (leader) offset 1 tombstone: ")
    assert f"replica {away}" in lines[-1]


def test_pass_runs_on_every_replica_and_tombstones_are_those_of_the_leader(
    cluster: LedgerstoneCluster,
) -> None:
    leader = cluster.leader_of(TOPIC)

    passes = rows(cluster, "compact", TOPIC, "--wait")
    one, every = (
        rows(cluster, "tombstones", TOPIC),
        rows(cluster, "tombstones", TOPIC, "--replicas"),
    )

    assert [(each["node_id"], each["run"]["outcome"]) for each in passes] == [
        (1, "cleaned"), (2, "cleaned"), (3, "cleaned"),
    ]  # fmt: skip
    assert [each["node_id"] for each in one] == [leader]
    assert sorted(each["node_id"] for each in every) == [1, 2, 3]
    assert [len(each["pending"]) for each in every] == [1, 1, 1]
