"""A part of a broker that fails over committed metadata: the others follow, and it is told."""

import logging
from pathlib import Path
from typing import Any

import pytest

from ledgerstone.errors import InvariantViolation
from ledgerstone.replication.partition import Partition
from ledgerstone.server.apply_faults import ApplyFaults
from ledgerstone.server.broker import Broker
from ledgerstone.server.cleaning.agent import Cleaning
from ledgerstone.server.http.monitor import readiness
from ledgerstone.server.quotas.agent import QuotaAgent
from ledgerstone.sim.clock import VirtualClock
from ledgerstone.types import TopicPartition
from tests.kit.in_process import InProcess
from tests.kit.loopback_cluster import BOTH, LoopbackCluster
from tests.unit.server.asks import TOPIC, create_topic
from tests.unit.server.test_monitor import figures

METRIC = "kafka_server_broker_metadata_metrics_metadata_apply_error_count"


def _raises(error: Exception) -> Any:
    def fail(*_: object) -> None:
        raise error

    return fail


def _hears(heard: list[object]) -> Any:
    def hear(_agent: object, delta: object) -> list[object]:
        heard.append(delta)
        return []

    return hear


def test_agent_that_fails_over_the_metadata_halts_no_broker_of_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def follows(broker: Broker) -> bool:
        found = broker.partitions.find(TopicPartition("t", 0))
        return broker.quorum.halted is None and found is not None

    with LoopbackCluster(tmp_path, roles=(BOTH, BOTH, BOTH)) as cluster:
        cluster.start()
        monkeypatch.setattr(Cleaning, "metadata_changed", _raises(ValueError("not a number")))

        assert cluster.create_topic(1, "t", replicas=3) == 0
        cluster.wait_for("the topic is there", lambda image: "t" in image.topics)

        assert all(cluster.on(each, follows) for each in (1, 2, 3))


def test_agents_behind_one_that_fails_are_told(
    machine: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[object] = []
    monkeypatch.setattr(Cleaning, "metadata_changed", _raises(KeyError("t")))
    monkeypatch.setattr(QuotaAgent, "metadata_changed", _hears(heard))

    create_topic(machine.connect())

    assert heard
    assert "Cleaning" in machine.broker.following.faults.by_part
    machine.broker.following.faults = ApplyFaults(machine.clock)


def test_fault_is_counted_and_makes_the_node_not_ready_but_is_logged_once(
    machine: InProcess, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Cleaning, "metadata_changed", _raises(ValueError("not a number")))
    client = machine.connect()

    create_topic(client)
    create_topic(client, "second")

    assert figures(machine)[METRIC] == machine.broker.following.faults.count >= 2
    page = readiness(machine.broker)
    assert page.status == 503
    assert "metadata: Cleaning did not take a change; ValueError: not a number" in str(page.body)
    lines = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert len(lines) == 1
    assert lines[0].exc_info is not None
    machine.broker.following.faults = ApplyFaults(machine.clock)


def test_partition_that_fails_keeps_no_other_from_being_made(
    machine: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure = Partition.configure

    def fails_over_one(partition: Partition, minimum: int) -> None:
        if partition.topic_partition.partition == 1:
            raise ValueError("not a number")
        configure(partition, minimum)

    monkeypatch.setattr(Partition, "configure", fails_over_one)

    create_topic(machine.connect(), partitions=3)

    partitions = machine.broker.partitions
    assert [each.topic_partition.partition for each in partitions] == [0, 2]
    assert list(partitions.offline) == [TopicPartition(TOPIC, 1)]
    machine.broker.following.faults = ApplyFaults(machine.clock)


@pytest.mark.parametrize("kind", [InvariantViolation, AssertionError])
def test_contradiction_is_no_fault_of_one_part(kind: type[Exception]) -> None:
    faults = ApplyFaults(VirtualClock())

    with pytest.raises(kind):
        faults.guard("Cleaning", "metadata", _raises(kind("it cannot be")))
    assert faults.count == 0
