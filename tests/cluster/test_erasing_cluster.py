"""Erasures over replicas: one receipt for all brokers, across failovers."""

from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from ledgerstone.erasure.secrets_file import load_or_create
from ledgerstone.server.bootstrap import RunningBroker
from ledgerstone.server.effects import StartScan
from ledgerstone.server.erasing.scans import Scans
from ledgerstone.testing import passes
from ledgerstone.testing.cluster import LedgerstoneCluster
from ledgerstone.testing.local_api import CallRefused
from ledgerstone.testing.waiting import wait_until
from ledgerstone.uuid_text import uuid_to_text
from tests.cluster.erasing_story import KEY, Story


@pytest.fixture
def story(ledgerstone_cluster: LedgerstoneCluster) -> Story:
    return Story(ledgerstone_cluster)


def test_one_receipt_speaks_of_every_broker(story: Story) -> None:
    story.topic()
    story.put()
    assert len(story.files_with(KEY.encode())) == 3

    erasure_id = story.erase(2)
    ended = story.run(erasure_id)

    assert ended["stage"] == "receipted", ended
    receipt = story.receipt(erasure_id, 3)
    assert [each["node_id"] for each in receipt["replicas"]] == [1, 2, 3]
    assert all(each["records"] == 0 and each["residue"] == 0 for each in receipt["replicas"])
    assert all(each["incarnation_id"] for each in receipt["replicas"])
    assert all(each["hosted"][0]["log_end_offset"] == 4 for each in receipt["replicas"])
    assert receipt["lost_brokers"] == []
    assert story.files_with(KEY.encode()) == []
    secrets = {
        (node.directory / "erasure.keys").read_bytes() for node in story.cluster.nodes.values()
    }
    assert len(secrets) == 1


STAGES = ("requested", "tombstoned", "stamped", "removed", "unlinked")


def test_coordinator_is_replaced_at_every_stage(story: Story) -> None:
    story.topic(partitions=2)
    story.put()

    erasure_id = story.erase(1)
    for stage in STAGES:
        story.run(erasure_id, until=stage)
        lost = story.coordinator
        story.cluster.kill(lost)
        assert story.coordinator != lost
        story.cluster.start(lost)
        story.cluster.wait_in_sync()
    ended = story.run(erasure_id)

    assert ended["stage"] == "receipted", ended
    receipt = story.receipt(erasure_id)
    assert [each["node_id"] for each in receipt["replicas"]] == [1, 2, 3]
    assert story.files_with(KEY.encode()) == []
    journal = story.cluster.nodes[1].api.get("erasures-journal")
    assert journal["breaks"] == []


@pytest.mark.slow
def test_leader_of_the_partition_is_replaced_between_the_stages(story: Story) -> None:
    story.topic()
    story.put()
    leaders = []

    erasure_id = story.erase(3)
    for stage in ("tombstoned", "stamped", "removed"):
        story.run(erasure_id, until=stage)
        leaders.append(story.cluster.leader_of("customers"))
        story.cluster.stop(leaders[-1])
        story.cluster.start(leaders[-1])
        story.cluster.wait_in_sync()
    ended = story.run(erasure_id)

    assert ended["stage"] == "receipted", ended
    assert len({*leaders}) > 1
    story.receipt(erasure_id)
    assert story.files_with(KEY.encode()) == []


def test_replica_that_is_down_blocks_by_name_until_it_is_back(story: Story) -> None:
    story.topic()
    story.put()
    erasure_id = story.erase(1)
    story.run(erasure_id, until="tombstoned")
    down = next(each for each in (1, 2, 3) if each != story.coordinator)
    story.cluster.kill(down)

    waiting = story.wait_for(erasure_id, f"broker {down} is fenced")
    assert f"broker {down} is fenced" in waiting["blocked_by"]
    assert story.files_with(KEY.encode(), down)
    story.cluster.start(down)
    ended = story.run(erasure_id)

    assert ended["stage"] == "receipted", ended
    assert [each["node_id"] for each in story.receipt(erasure_id)["replicas"]] == [1, 2, 3]
    assert story.files_with(KEY.encode()) == []


def test_broker_that_is_destroyed_is_named_in_the_receipt(story: Story) -> None:
    story.topic(ledgerstone_tombstone_replica_hold_max_ms=1000)
    story.put()
    erasure_id = story.erase(1)
    story.run(erasure_id, until="tombstoned")
    lost = next(each for each in (1, 2, 3) if each != story.coordinator)
    api = story.cluster.nodes[story.coordinator].api
    with pytest.raises(CallRefused, match=f"broker {lost} is alive"):
        api.post(f"erasures/{erasure_id}/accept", broker=lost, by="ops", reason="shredded")
    story.cluster.kill(lost)
    story.wait_for(erasure_id, f"broker {lost} is fenced")

    api.post(f"erasures/{erasure_id}/accept", broker=lost, by="ops", reason="shredded")
    ended = story.run(erasure_id)

    assert ended["stage"] == "receipted", ended
    receipt = story.receipt(erasure_id)
    assert [each["node_id"] for each in receipt["replicas"]] == sorted({1, 2, 3} - {lost})
    (named,) = receipt["lost_brokers"]
    assert (named["broker_id"], named["by"], named["reason"]) == (lost, "ops", "shredded")
    assert named["directory_ids"]
    assert any("given up" in each for each in receipt["not_covered"])


def test_key_that_only_a_follower_holds_is_found(story: Story) -> None:
    """The leader is compacted, the follower is not: the search has to look at both."""
    story.topic()
    story.put((KEY, "Ulm"), ("bob", "Bonn"))
    story.cluster.produce("customers", KEY, None)
    story.cluster.wait_in_sync("customers")
    leader = story.cluster.leader_of("customers")
    node = story.cluster.nodes[leader]
    passes.compact(node, "customers", 30)
    assert len(story.files_with(b"Ulm")) == 2

    erasure_id = story.erase(leader)
    ended = story.run(erasure_id)

    assert ended["stage"] == "receipted", ended
    assert story.files_with(KEY.encode()) == []
    assert story.files_with(b"Ulm") == []


def test_key_that_is_nowhere_is_said_of_every_replica(story: Story) -> None:
    story.topic(partitions=2)
    story.put(("bob", "Bonn"))

    erasure_id = story.erase(1)
    ended = story.run(erasure_id)

    assert ended["stage"] == "not_found"
    searched = story.receipt(erasure_id)["searched"]
    assert searched["node_ids"] == [1, 2, 3]
    assert (searched["partitions"], searched["records"]) == (2, 0)


def make_secrets(story: Story, node_id: int) -> bytes:
    """As a leader of the empty journal does, and is lost."""
    node = story.cluster.nodes[node_id]
    node.on_the_loop(
        lambda run: load_or_create(
            run.broker.log_dirs.fs,
            run.broker.erasing.keys_path,
            dice=run.broker.dice,
            now_ms=run.broker.clock.now_ms(),
        )
    )
    return (node.directory / "erasure.keys").read_bytes()


def kill_for_all(story: Story, node_id: int) -> None:
    """Until the others know: a journal that is made before might be led there."""
    story.cluster.kill(node_id)
    other = story.cluster.running[0]
    wait_until(
        lambda: story.cluster.on(other, lambda run: run.broker.image.brokers[node_id].fenced),
        f"broker {node_id} is fenced",
    )


def secrets_of(story: Story) -> list[bytes]:
    return [(each.directory / "erasure.keys").read_bytes() for each in story.cluster.nodes.values()]


def test_leader_without_secrets_takes_those_that_are_there_already(story: Story) -> None:
    story.topic()
    story.put()
    other = make_secrets(story, 3)

    erasure_id = story.erase(1)

    assert secrets_of(story) == [other, other, other]
    assert story.run(erasure_id)["stage"] == "receipted"


def test_leaders_of_an_empty_journal_that_each_made_secrets_come_to_one(story: Story) -> None:
    story.topic()
    story.put()
    made = [make_secrets(story, each) for each in (1, 2, 3)]

    erasure_id = story.erase(1)

    chosen = made[story.coordinator - 1]
    assert secrets_of(story) == [chosen] * 3
    aside = {
        path.read_bytes()
        for each in story.cluster.nodes.values()
        for path in each.directory.glob("erasure.keys.aside-*")
    }
    assert aside == {*made} - {chosen}
    assert story.run(erasure_id)["stage"] == "receipted"
    story.receipt(erasure_id)


@pytest.mark.slow
def test_broker_that_made_secrets_and_was_lost_takes_those_that_were_chosen(story: Story) -> None:
    """Also where it leads before anybody has offered them: then its followers do."""
    story.topic()
    story.put()
    late = make_secrets(story, 3)
    kill_for_all(story, 3)
    erasure_id = story.erase(1)
    story.run(erasure_id, until="tombstoned")
    story.cluster.start(3)
    story.cluster.wait_in_sync()
    keys = story.cluster.nodes[3].directory / "erasure.keys"
    wait_until(lambda: keys.exists() and keys.read_bytes() != late, "broker 3 has the chosen ones")

    # Nobody offers them while it is down, and it leads as soon as it is up.
    story.cluster.kill(3)
    keys.write_bytes(late)
    for lost in (1, 2):
        story.cluster.kill(lost)
    story.cluster.start()
    ended = story.run(erasure_id)

    assert ended["stage"] == "receipted", ended
    assert len({*secrets_of(story)}) == 1
    assert late not in secrets_of(story)


def test_replica_that_is_reassigned_away_is_scanned_too(story: Story) -> None:
    story.topic(replicas=2)
    story.put()
    before = story.replicas()
    (free,) = {1, 2, 3} - {*before}
    erasure_id = story.erase(1)
    story.run(erasure_id, until="tombstoned")

    moved = next(each for each in before if each != story.cluster.leader_of("customers"))
    story.reassign([each for each in before if each != moved] + [free])
    ended = story.run(erasure_id)

    assert ended["stage"] == "receipted", ended
    assert [each["node_id"] for each in story.receipt(erasure_id)["replicas"]] == [1, 2, 3]
    assert story.files_with(KEY.encode()) == []


@pytest.mark.slow
def test_cut_between_coordinator_and_a_replica_holds_it_up_and_no_longer(story: Story) -> None:
    story.topic()
    story.put()
    erasure_id = story.erase(1)
    story.run(erasure_id, until="stamped")
    there = story.coordinator
    other = next(each for each in (1, 2, 3) if each != there)
    story.asked_at = there

    story.cluster.cut(there, other)
    story.wait_for(erasure_id, f"broker {other}")
    story.cluster.heal()
    story.asked_at = None
    ended = story.run(erasure_id)

    assert ended["stage"] == "receipted", ended
    assert [each["node_id"] for each in story.receipt(erasure_id)["replicas"]] == [1, 2, 3]


def test_open_transaction_is_aborted_whichever_broker_coordinates_it(story: Story) -> None:
    story.topic()
    story.put()
    opened = story.cluster.begin("held", timeout_ms=600_000)
    opened.produce("customers", "carol", "open")
    erasure_id = story.erase(1)
    story.wait_for(erasure_id, "transaction")

    second = story.erase(1, key="bob", abort_open=True)
    ended = [story.run(each) for each in (second, erasure_id)]

    assert [each["stage"] for each in ended] == ["receipted", "receipted"]
    (aborted,) = ended[0]["aborted_transactions"]
    assert aborted["partition"] == 0
    assert story.files_with(KEY.encode()) == []


def test_group_that_reads_the_tombstone_is_known_whoever_coordinates_it(story: Story) -> None:
    story.topic()
    story.put()
    erasure_id = story.erase(1)
    tombstoned = story.run(erasure_id, until="tombstoned")
    (tombstone,) = tombstoned["tombstones"]
    for group, offset in (("readers", tombstone["offset"] + 1), ("sleepers", 0)):
        with story.cluster.begin(f"commits-{group}") as commits:
            commits.send_offsets(group, {("customers", 0): offset})
    # Before the tombstone goes: the clock of this test leaves little time in between.
    wait_until(
        lambda: {"readers", "sleepers"} <= {each["name"] for each in outputs(story, erasure_id)},
        "the coordinator knows both groups",
    )

    story.run(erasure_id)

    named = {each["name"]: each for each in story.receipt(erasure_id)["outputs"]}
    assert named["readers"]["status"] == "read"
    assert named["sleepers"]["status"] == "not_verified"


def outputs(story: Story, erasure_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = story.look(erasure_id)["outputs"]
    return found


def test_topic_that_is_deleted_in_the_middle_is_gone_from_every_broker(story: Story) -> None:
    story.topic()
    story.put()
    erasure_id = story.erase(1)
    story.run(erasure_id, until="stamped")

    story.cluster.delete_topic("customers")
    ended = story.run(erasure_id)

    assert ended["stage"] == "receipted", ended
    assert [each["node_id"] for each in story.receipt(erasure_id)["replicas"]] == [1, 2, 3]
    assert story.files_with(KEY.encode()) == []


class HeldScans(Scans):
    """Takes searches and scans, and begins none."""

    __slots__ = ()

    @property
    def has_wanted(self) -> bool:
        return False

    def take_wanted(self) -> list[StartScan]:
        return []


def hold_scans(running: RunningBroker) -> None:
    running.broker.erasing.scans.__class__ = HeldScans


@pytest.mark.slow
def test_broker_that_dies_in_the_middle_of_its_scan_scans_again(story: Story) -> None:
    story.topic()
    story.put()
    erasure_id = story.erase(1)
    story.run(erasure_id, until="removed")
    other = next(each for each in (1, 2, 3) if each != story.coordinator)
    story.asked_at = story.coordinator
    before = story.cluster.on(other, lambda run: run.broker.erasing.others.identity[0])
    story.cluster.on(other, hold_scans)

    story.wait_for(erasure_id, "a scan of every file is under way")
    story.cluster.kill(other)
    story.wait_for(erasure_id, f"broker {other}")
    story.cluster.start(other)
    ended = story.run(erasure_id)

    assert ended["stage"] == "receipted", ended
    lives = {each["node_id"]: each for each in story.receipt(erasure_id)["replicas"]}
    assert list(lives) == [1, 2, 3]
    # It is the scan of the second life that was signed.
    assert lives[other]["incarnation_id"] != uuid_to_text(before)


@pytest.mark.slow
def test_broker_that_was_away_gets_the_secrets_and_can_take_over(story: Story) -> None:
    story.topic()
    story.put()
    kill_for_all(story, 3)
    erasure_id = story.erase(1)
    story.run(erasure_id, until="tombstoned")
    keys = story.cluster.nodes[3].directory / "erasure.keys"
    assert not keys.exists()

    story.cluster.start(3)
    story.cluster.wait_in_sync()
    wait_until(keys.exists, "broker 3 has the secrets")
    assert keys.stat().st_mode & 0o777 == 0o600
    for lost in (1, 2):
        if story.coordinator != 3:
            story.cluster.kill(lost)
            assert story.coordinator != lost
            story.cluster.start(lost)
            story.cluster.wait_in_sync()
    ended = story.run(erasure_id)

    assert ended["stage"] == "receipted", ended
    assert len(story.receipt(erasure_id)["replicas"]) == 3


@pytest.mark.slow
def test_pages_of_every_node_show_the_erasure_and_its_receipt(story: Story) -> None:
    story.topic()
    story.put()
    erasure_id = story.erase(1)
    story.run(erasure_id)

    shown = {}
    for node in story.cluster.nodes.values():
        for path in ("erasures", f"erasures/{erasure_id}", f"erasures/{erasure_id}/receipt.txt"):
            with urlopen(f"{node.http}/{path}", timeout=30) as answer:
                shown[node.id, path] = answer.read().decode()

    assert all(erasure_id in text for text in shown.values())
    receipts = {text for (_, path), text in shown.items() if path.endswith(".txt")}
    assert len(receipts) == 1


def test_residue_is_accepted_for_the_broker_that_has_it(story: Story) -> None:
    story.topic()
    story.put()
    for each in (2, 3):
        (story.cluster.nodes[each].directory / "notes.txt").write_bytes(b"of " + KEY.encode())
    erasure_id = story.erase(1)
    story.run(erasure_id, until="unlinked")
    api = story.cluster.nodes[1].api

    found = story.wait_for(erasure_id, "outside of records")
    files = [(each["file"], each["node_id"]) for each in found["found"]["residue_files"]]
    assert (found["status"], files) == (
        "residue found",
        [("0/notes.txt", 2), ("0/notes.txt", 3)],
    )
    said = {"file": "0/notes.txt", "by": "ops", "reason": "a court file"}
    with pytest.raises(CallRefused, match="brokers 2, 3 have such a file"):
        api.post(f"erasures/{erasure_id}/accept", **said)
    for each in (2, 3):
        api.post(f"erasures/{erasure_id}/accept", **said, broker=each)
    ended = story.run(erasure_id)

    assert ended["stage"] == "receipted", ended
    receipt = story.receipt(erasure_id)
    assert [each["accepted"] for each in receipt["replicas"]] == [0, 1, 1]
    assert [(each["node_id"], each["hits"]) for each in receipt["exceptions"]] == [(2, 1), (3, 1)]


@pytest.mark.slow
def test_broker_that_joins_in_the_middle_is_scanned_too(tmp_path: Path) -> None:
    cluster = LedgerstoneCluster(tmp_path, size=4)
    try:
        cluster.start(1, 2, 3)
        story = Story(cluster)
        story.topic()
        story.put()
        erasure_id = story.erase(1)
        story.run(erasure_id, until="stamped")

        cluster.start(4)
        leader = cluster.leader_of("customers")
        story.reassign([leader, 4, next(each for each in (1, 2, 3) if each != leader)])
        ended = story.run(erasure_id)

        assert ended["stage"] == "receipted", ended
        replicas = story.receipt(erasure_id)["replicas"]
        assert [each["node_id"] for each in replicas] == [1, 2, 3, 4]
        assert [each["hosted_in_all"] for each in replicas].count(1) == 3
        assert story.files_with(KEY.encode()) == []
    finally:
        cluster.close()
