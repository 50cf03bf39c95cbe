"""The fixture `ledgerstone_cluster`: three brokers in this process, stopped, killed and cut."""

from pathlib import Path

import pytest

from ledgerstone.server.cluster_view import state_of
from ledgerstone.testing.cluster import LedgerstoneCluster
from ledgerstone.testing.waiting import wait_until


def test_records_are_on_every_broker(ledgerstone_cluster: LedgerstoneCluster) -> None:
    cluster = ledgerstone_cluster
    cluster.topic("t", partitions=2)
    cluster.produce_batch("t", [(f"k{each}", "v") for each in range(20)])

    cluster.wait_in_sync("t")

    ends = [
        cluster.on(each, lambda run: sum(part.log.log_end_offset for part in run.broker.partitions))
        for each in (1, 2, 3)
    ]
    assert ends == [20, 20, 20]
    assert len(cluster.records("t")) == 20


def test_another_broker_leads_after_a_clean_stop_and_after_a_kill(
    ledgerstone_cluster: LedgerstoneCluster,
) -> None:
    cluster = ledgerstone_cluster
    cluster.topic("t")
    cluster.produce("t", "a", "1")
    first = cluster.leader_of("t")

    cluster.stop(first)
    second = cluster.leader_of("t")
    cluster.produce("t", "b", "2")
    cluster.start(first)
    cluster.wait_in_sync()
    cluster.kill(second)
    third = cluster.leader_of("t")
    cluster.produce("t", "c", "3")

    assert first != second != third
    assert cluster.state("t") == {b"a": b"1", b"b": b"2", b"c": b"3"}
    cluster.start(second)
    cluster.wait_in_sync()
    assert cluster.running == [1, 2, 3]


def test_leader_that_is_cut_off_is_replaced_and_follows_after_the_heal(
    ledgerstone_cluster: LedgerstoneCluster,
) -> None:
    cluster = ledgerstone_cluster
    cluster.topic("t")
    cluster.produce("t", "a", "1")
    cluster.wait_in_sync()
    old = cluster.leader_of("t")

    cluster.isolate(old)
    wait_until(lambda: cluster.leader_of("t") != old, "another leads")
    cluster.heal()
    cluster.produce("t", "b", "2")

    cluster.wait_in_sync()
    assert cluster.state("t") == {b"a": b"1", b"b": b"2"}


def test_what_is_cut_one_way_still_passes_the_other(
    ledgerstone_cluster: LedgerstoneCluster,
) -> None:
    cluster = ledgerstone_cluster
    controller = cluster.controller
    deaf, third = (each for each in (1, 2, 3) if each != controller)
    before = state(cluster, controller)

    # It hears nobody and wants an election. Its voice reaches the others, who hear their leader.
    cluster.cut(controller, deaf, one_way=True)
    cluster.cut(third, deaf, one_way=True)
    wait_until(lambda: state(cluster, deaf)[0] == "prospective", "it misses its leader")
    asked = cluster.on(controller, lambda run: run.broker.quorum.epoch)
    cluster.heal()

    wait_until(lambda: state(cluster, deaf) == ("follower", before[1]), "it has its leader again")
    assert state(cluster, controller) == before
    assert asked == before[1]


def state(cluster: LedgerstoneCluster, node: int) -> tuple[str, int]:
    """Of the quorum, as the node sees it."""
    return cluster.on(node, lambda run: (state_of(run.broker.quorum), run.broker.quorum.epoch))


def test_clock_is_one_for_all(ledgerstone_cluster: LedgerstoneCluster) -> None:
    cluster = ledgerstone_cluster
    before = cluster.clock.now_ms

    cluster.clock.advance(days=2)

    for each in (1, 2, 3):
        now_ms = cluster.on(each, lambda run: run.broker.clock.now_ms())
        assert now_ms - before >= 2 * 86_400_000


def test_compaction_of_every_replica(ledgerstone_cluster: LedgerstoneCluster) -> None:
    cluster = ledgerstone_cluster
    cluster.topic("t", compacted=True)
    for number in range(5):
        cluster.produce("t", "a", str(number))
    cluster.wait_in_sync()

    results = cluster.compact("t")

    assert {each: found[0].superseded for each, found in results.items()} == {1: 4, 2: 4, 3: 4}


def test_wait_that_is_in_vain_says_what_is_missing(
    ledgerstone_cluster: LedgerstoneCluster,
) -> None:
    with pytest.raises(AssertionError, match="nothing is not known"):
        ledgerstone_cluster.wait_in_sync("nothing", timeout_s=0.1)


def test_setting_that_no_broker_has_is_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(ValueError, match=r"did you mean 'num\.partitions'"):
        LedgerstoneCluster(tmp_path_factory.mktemp("c"), {"num_partitons": 3})


def test_node_that_cannot_be_ended_leaves_no_other_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = LedgerstoneCluster(tmp_path, size=2)
    cluster.start()
    kill = cluster.kill

    def refuse(*node_ids: int) -> None:
        kill(*node_ids)
        if node_ids == (1,):
            raise TimeoutError("it hangs")

    monkeypatch.setattr(cluster, "kill", refuse)

    with pytest.raises(TimeoutError, match="it hangs"):
        cluster.close()

    assert cluster.running == []
