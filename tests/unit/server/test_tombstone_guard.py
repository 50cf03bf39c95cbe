"""Holds, margins and missed deletes over a whole broker without sockets, on a virtual clock."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ledgerstone.server.cleaning.agent import Cleaning
from ledgerstone.server.http.api import handle
from ledgerstone.server.http.monitor import samples
from ledgerstone.server.http.server import HttpRequest
from ledgerstone.types import TopicPartition
from tests.kit.in_process import Client, InProcess
from tests.kit.logs import batch
from tests.unit.server.asks import TOPIC, commit_offset, create_topic, produced
from tests.unit.server.erasing_kit import ErasingMachine
from tests.unit.server.test_cleaning import alter, compact_now, on_disk
from tests.unit.server.txn_asks import ScriptedCoordinator, commit_in_txn, end_txn

TP = TopicPartition(TOPIC, 0)
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
TOPIC_RESOURCE = 2
# So that clients are there after a long time.
SETTINGS = {"connections.max.idle.ms": str(1 << 40)}
HISTORY = f"/data/{TOPIC}-0/cleaning-history.json"


@pytest.fixture
def machine() -> Iterator[InProcess]:
    machine = InProcess(settings=SETTINGS)
    yield machine
    machine.check_invariants()


def call(machine: InProcess, method: str, path: str, **content: Any) -> tuple[int, Any]:
    body = json.dumps(content).encode() if method == "POST" else b""
    page = handle(machine.broker, HttpRequest(method, f"/api/v1/{path}", {}, {}, body))
    assert page is not None
    return page.status, json.loads(page.body)


def tombstones(machine: InProcess) -> dict[str, Any]:
    status, answer = call(machine, "GET", f"topics/{TOPIC}/tombstones")
    assert status == 200
    (partition,) = answer["partitions"]
    found: dict[str, Any] = partition
    return found


def put(machine: InProcess, client: Client, *pairs: tuple[str, str | None]) -> None:
    for pair in pairs:
        records = batch(pair, timestamp=machine.clock.now_ms())
        assert produced(client, records).error_code == ErrorCode.NONE


def stamped(machine: InProcess, client: Client, **configs: str) -> None:
    """`a` was written at offset 0 and deleted at 1, `b` written at 2; a pass has seen it all."""
    given = {"cleanup_policy": "compact", "delete_retention_ms": str(HOUR_MS), **configs}
    create_topic(client, TOPIC, 1, **given)
    put(machine, client, ("a", "1"), ("a", None), ("b", "1"))
    compact_now(machine)
    assert on_disk(machine) == [("a", None), ("b", "1")]


def held(machine: InProcess, client: Client, groups: str, **configs: str) -> None:
    stamped(machine, client, ledgerstone_tombstone_hold_groups=groups, **configs)


def gate(machine: InProcess) -> dict[str, Any] | None:
    _, answer = call(machine, "GET", f"topics/{TOPIC}/cleaning")
    return next((each for each in answer["partitions"][0]["gates"] if each["name"] == "hold"), None)


def delete_group(client: Client, group: str) -> None:
    answer = client.ask(DeleteGroupsRequest(groups_names=[group]), DeleteGroupsResponse)
    assert answer.results[0].error_code == ErrorCode.NONE


# -- holds ----------------------------------------------------------------------------------------


def test_tombstone_stays_past_its_horizon_while_a_named_group_has_not_read_it(
    machine: InProcess, client: Client
) -> None:
    held(machine, client, "sink")
    commit_offset(client, "sink", 1)

    machine.jump(hours=30)

    assert on_disk(machine) == [("a", None), ("b", "1")]


def test_commit_past_the_tombstone_makes_the_pass_due_at_once(
    machine: InProcess, client: Client
) -> None:
    held(machine, client, "sink")
    commit_offset(client, "sink", 1)
    machine.jump(hours=30)

    commit_offset(client, "sink", 2)
    machine.tick()

    assert on_disk(machine) == [("b", "1")]


@pytest.mark.parametrize("is_committed", [False, True])
def test_commit_in_a_transaction_counts_once_that_is_committed(
    machine: InProcess, client: Client, is_committed: bool
) -> None:
    held(machine, client, "sink")
    machine.broker.verification.coordinator = ScriptedCoordinator()
    commit_offset(client, "sink", 1)
    machine.jump(hours=30)

    client = machine.connect()
    number = machine.broker.groups.number_for("sink")
    assert commit_in_txn(client, "sink", 2) == 0
    machine.tick()
    assert on_disk(machine) == [("a", None), ("b", "1")]
    ended = end_txn(client, topic="__consumer_offsets", partitions=(number,), commit=is_committed)
    machine.tick()

    assert ended == 0
    assert on_disk(machine) == ([("b", "1")] if is_committed else [("a", None), ("b", "1")])


def test_hold_starts_no_pass_that_could_do_nothing(machine: InProcess, client: Client) -> None:
    held(machine, client, "sink")
    commit_offset(client, "sink", 1)
    machine.jump(hours=2)
    passes = machine.broker.cleaning.totals.passes

    for _ in range(5):
        machine.jump(hours=10)

    assert machine.broker.cleaning.totals.passes == passes


def test_named_group_without_a_commit_holds_from_the_start_until_the_maximum(
    machine: InProcess, client: Client
) -> None:
    held(machine, client, "never-seen", ledgerstone_tombstone_hold_max_ms=str(2 * DAY_MS))
    machine.jump(hours=48)
    before = on_disk(machine)

    machine.jump(hours=2)

    assert before == [("a", None), ("b", "1")]
    assert on_disk(machine) == [("b", "1")]


def test_star_stands_for_every_group_with_commits_on_the_topic(
    machine: InProcess, client: Client
) -> None:
    held(machine, client, "*")
    commit_offset(client, "fast", 3)
    commit_offset(client, "slow", 1)
    machine.jump(hours=2)
    before = on_disk(machine)

    commit_offset(client, "slow", 3)
    machine.tick()

    assert before == [("a", None), ("b", "1")]
    assert on_disk(machine) == [("b", "1")]


def test_star_without_any_group_holds_nothing(machine: InProcess, client: Client) -> None:
    held(machine, client, "*")

    machine.jump(hours=2)

    assert on_disk(machine) == [("b", "1")]


def test_deleted_group_no_longer_counts_for_the_star(machine: InProcess, client: Client) -> None:
    held(machine, client, "*")
    commit_offset(client, "slow", 1)
    machine.jump(hours=2)

    delete_group(client, "slow")
    machine.advance(16_000)

    assert on_disk(machine) == [("b", "1")]


def test_deleted_group_that_is_named_holds_on(machine: InProcess, client: Client) -> None:
    held(machine, client, "slow")
    commit_offset(client, "slow", 3)

    delete_group(client, "slow")
    machine.jump(hours=2)

    assert on_disk(machine) == [("a", None), ("b", "1")]


def test_hold_that_is_taken_back_lets_the_tombstone_go(machine: InProcess, client: Client) -> None:
    held(machine, client, "sink")
    machine.jump(hours=2)

    alter(client, TOPIC_RESOURCE, TOPIC, ledgerstone_tombstone_hold_groups="")
    machine.tick()

    assert on_disk(machine) == [("b", "1")]


def test_pass_that_is_asked_for_respects_holds(machine: InProcess, client: Client) -> None:
    held(machine, client, "sink")
    machine.jump(hours=2)

    ticket = compact_now(machine)

    assert ticket.run is not None
    assert ticket.run.stats.tombstones_held == 1
    assert on_disk(machine) == [("a", None), ("b", "1")]


def test_tombstones_below_the_slowest_group_go_and_those_above_stay(
    machine: InProcess, client: Client
) -> None:
    create_topic(
        client, TOPIC, 1, cleanup_policy="compact", delete_retention_ms=str(HOUR_MS),
        ledgerstone_tombstone_hold_groups="sink",
    )  # fmt: skip
    put(machine, client, ("a", None), ("b", None), ("c", None), ("d", "1"))
    compact_now(machine)
    commit_offset(client, "sink", 2)

    machine.jump(hours=2)

    assert on_disk(machine) == [("c", None), ("d", "1")]


def test_hold_survives_a_restart(machine: InProcess, client: Client) -> None:
    held(machine, client, "sink", ledgerstone_tombstone_hold_max_ms=str(10 * DAY_MS))
    commit_offset(client, "sink", 1)
    machine.jump(hours=2)
    machine.advance(10_000)

    machine.kill()
    machine.jump(hours=30)
    kept = on_disk(machine)
    machine.jump(days=10)

    assert kept == [("a", None), ("b", "1")]
    assert on_disk(machine) == [("b", "1")]


def test_why_names_the_group_its_offset_and_the_end_of_the_hold(
    machine: InProcess, client: Client
) -> None:
    held(machine, client, "sink,other", ledgerstone_tombstone_hold_max_ms=str(DAY_MS))
    commit_offset(client, "sink", 1)
    commit_offset(client, "other", 3)
    horizon_ms = machine.clock.now_ms() + HOUR_MS
    before = gate(machine)

    machine.jump(hours=2)
    after = gate(machine)

    assert before is not None
    assert before["is_open"]
    assert after is not None
    assert not after["is_open"]
    assert (
        "offset 1 to 1 are past their horizon and held: group sink has committed offset 1"
        in (after["text"])
    )
    assert after["opens_at_ms"] == horizon_ms + DAY_MS


def test_topic_without_holds_has_no_such_gate(machine: InProcess, client: Client) -> None:
    stamped(machine, client)

    assert gate(machine) is None


def test_internal_topics_are_held_by_nobody(machine: InProcess, client: Client) -> None:
    create_topic(client)
    commit_offset(client, "sink", 1)
    log = machine.broker.partitions.get(TopicPartition("__consumer_offsets", 0)).log

    holds = machine.broker.cleaning.holds_of(log)

    assert holds.groups == ()


# -- margins --------------------------------------------------------------------------------------


def test_margin_is_the_time_until_an_unread_tombstone_may_go(
    machine: InProcess, client: Client
) -> None:
    stamped(machine, client)
    commit_offset(client, "behind", 1)
    commit_offset(client, "ahead", 2)
    commit_offset(client, "done", 3)

    machine.clock.advance(ms=1000)

    assert tombstones(machine)["margins"] == [
        {"group": "behind", "committed_offset": 1, "margin_ms": HOUR_MS - 1000},
        {"group": "ahead", "committed_offset": 2, "margin_ms": None},
        {"group": "done", "committed_offset": 3, "margin_ms": None},
    ]


def test_fresh_tombstone_leaves_at_least_its_retention(machine: InProcess, client: Client) -> None:
    create_topic(client, TOPIC, 1, cleanup_policy="compact", delete_retention_ms=str(HOUR_MS))
    put(machine, client, ("a", "1"), ("a", None))
    commit_offset(client, "behind", 1)

    found = tombstones(machine)

    assert found["fresh_tombstones"] == 1
    assert [each["margin_ms"] for each in found["margins"]] == [HOUR_MS]


def test_hold_of_its_own_adds_to_a_groups_margin(machine: InProcess, client: Client) -> None:
    held(machine, client, "sink", ledgerstone_tombstone_hold_max_ms=str(DAY_MS))
    commit_offset(client, "sink", 1)
    commit_offset(client, "other", 1)

    margins = {each["group"]: each["margin_ms"] for each in tombstones(machine)["margins"]}

    assert margins == {"other": HOUR_MS, "sink": HOUR_MS + DAY_MS}


def test_margins_and_missed_deletes_are_metrics(machine: InProcess, client: Client) -> None:
    stamped(machine, client)
    commit_offset(client, "behind", 1)
    before = {each.name: each for each in samples(machine.broker)}

    machine.jump(hours=2)
    after = {each.name: each for each in samples(machine.broker)}

    labels = (("group", "behind"), ("topic", TOPIC), ("partition", "0"))
    assert before["ledgerstone_group_tombstone_margin_seconds"].value == 3600
    assert before["ledgerstone_group_tombstone_margin_seconds"].labels == labels
    assert "ledgerstone_group_missed_deletes" not in before
    assert after["ledgerstone_group_missed_deletes"].labels == labels
    assert "ledgerstone_group_tombstone_margin_seconds" not in after


# -- missed deletes -------------------------------------------------------------------------------


def missed(machine: InProcess) -> list[tuple[str, int, int]]:
    return [
        (each["group"], each["first_offset"], each["last_offset"])
        for each in tombstones(machine)["missed"]
    ]


def gone(machine: InProcess, client: Client, group: str = "behind", offset: int = 1) -> None:
    """The tombstone at 1 went while the group was at `offset`."""
    stamped(machine, client)
    commit_offset(client, group, offset)
    machine.jump(hours=2)
    assert on_disk(machine) == [("b", "1")]


def test_group_that_had_not_read_a_removed_tombstone_is_told(
    machine: InProcess, client: Client
) -> None:
    stamped(machine, client)
    commit_offset(client, "behind", 1)
    commit_offset(client, "ahead", 2)
    commit_offset(client, "at-the-start", 0)

    machine.jump(hours=2)

    found = tombstones(machine)
    assert missed(machine) == [("behind", 1, 1)]
    assert found["removed_below_offset"] == 2
    assert found["removed_at_ms"] == machine.clock.now_ms()
    assert found["pending"] == []


def test_missed_deletes_survive_a_restart(machine: InProcess, client: Client) -> None:
    gone(machine, client)
    machine.advance(10_000)

    machine.kill()

    assert missed(machine) == [("behind", 1, 1)]
    assert tombstones(machine)["removed_below_offset"] == 2


class Died(Exception):
    """The process, in the middle of a pass."""


def test_kill_between_the_swap_and_the_end_of_the_pass_forgets_nobody(
    machine: InProcess, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamped(machine, client)
    commit_offset(client, "behind", 1)
    commit_offset(client, "ahead", 2)

    def die(*_: object) -> None:
        raise Died

    monkeypatch.setattr(Cleaning, "ended", die)

    with pytest.raises(Died):
        machine.jump(hours=2)
    machine.kill()

    assert on_disk(machine) == [("b", "1")]
    assert missed(machine) == [("behind", 1, 1)]
    # Pipelines go by this; the next pass does not meet the tombstone any more.
    assert tombstones(machine)["removed_below_offset"] == 2


def test_pass_under_way_has_taken_nothing_away_yet(machine: InProcess, client: Client) -> None:
    stamped(machine, client)
    commit_offset(client, "behind", 1)
    machine.held_passes = []

    machine.jump(hours=2)

    assert len(machine.held_passes) == 1
    assert missed(machine) == []
    written = json.loads(machine.fs.files()[HISTORY])["tombstones"]["missed"]
    assert [(each["group_id"], each["is_announced"]) for each in written] == [("behind", True)]


def test_group_that_passes_the_tombstone_while_it_is_removed_may_have_missed_it(
    machine: InProcess, client: Client
) -> None:
    stamped(machine, client)
    commit_offset(client, "behind", 1)
    machine.held_passes = []
    machine.jump(hours=2)
    (held_pass,) = machine.held_passes

    commit_offset(client, "behind", 3)
    machine.finish_pass(held_pass)

    assert missed(machine) == [("behind", 1, 1)]


def test_group_at_which_the_log_starts_by_now_has_not_started_over(
    machine: InProcess, client: Client
) -> None:
    gone(machine, client)
    log = machine.broker.partitions.get(TP).log

    log.raise_log_start_offset(2)
    machine.advance(61_000)

    assert missed(machine) == [("behind", 1, 1)]


def test_group_that_starts_over_is_no_longer_listed(machine: InProcess, client: Client) -> None:
    gone(machine, client)

    commit_offset(client, "behind", 0)
    commit_offset(client, "behind", 3)

    assert missed(machine) == []


def test_group_that_goes_back_only_a_little_stays_listed(
    machine: InProcess, client: Client
) -> None:
    create_topic(client, TOPIC, 1, cleanup_policy="compact", delete_retention_ms=str(HOUR_MS))
    put(machine, client, ("b", "1"), ("a", "1"), ("a", None), ("c", "1"))
    compact_now(machine)
    commit_offset(client, "behind", 2)
    machine.jump(hours=2)

    commit_offset(client, "behind", 1)

    assert missed(machine) == [("behind", 2, 2)]


def test_group_that_only_moves_on_stays_listed(machine: InProcess, client: Client) -> None:
    gone(machine, client)

    commit_offset(client, "behind", 3)

    assert missed(machine) == [("behind", 1, 1)]


def test_deleted_group_is_no_longer_listed(machine: InProcess, client: Client) -> None:
    gone(machine, client)

    delete_group(client, "behind")

    assert missed(machine) == []


def test_what_was_acknowledged_is_no_longer_listed_and_stays_so(
    machine: InProcess, client: Client
) -> None:
    gone(machine, client)
    path = f"topics/{TOPIC}/tombstones/ack"

    other = call(machine, "POST", path, group="behind", partition=7)
    first = call(machine, "POST", path, group="behind")
    again = call(machine, "POST", path, group="behind")
    machine.advance(10_000)
    machine.kill()

    assert other == (200, {"acknowledged": 0})
    assert first == (200, {"acknowledged": 1})
    assert again == (200, {"acknowledged": 0})
    assert missed(machine) == []


@pytest.mark.parametrize("content", [{}, {"group": 1}, {"group": "g", "partition": "0"}])
def test_acknowledgement_of_nobody_is_refused(
    machine: InProcess, client: Client, content: dict[str, Any]
) -> None:
    stamped(machine, client)

    status, answer = call(machine, "POST", f"topics/{TOPIC}/tombstones/ack", **content)

    assert status == 400
    assert "must be" in answer["error"]


def test_misses_of_several_passes_become_one_entry(machine: InProcess, client: Client) -> None:
    gone(machine, client)
    put(machine, client, ("c", "1"), ("c", None), ("d", "1"))
    compact_now(machine)

    machine.jump(hours=2)

    assert missed(machine) == [("behind", 1, 4)]
    assert tombstones(machine)["removed_below_offset"] == 5


def test_one_group_is_shown_with_its_margins_and_what_it_missed(
    machine: InProcess, client: Client
) -> None:
    gone(machine, client)

    status, answer = call(machine, "GET", "groups/behind/tombstones")

    (row,) = answer["partitions"]
    assert status == 200
    assert (row["topic"], row["partition"], row["committed_offset"]) == (TOPIC, 0, 1)
    assert row["margin_ms"] is None
    assert (row["missed"]["first_offset"], row["missed"]["last_offset"]) == (1, 1)


def test_topic_that_is_not_here_is_refused(machine: InProcess) -> None:
    status, _ = call(machine, "GET", "topics/nothing/tombstones")

    assert status == 404


# -- erasures -------------------------------------------------------------------------------------


def test_erasure_that_waits_for_a_hold_names_the_group_and_goes_on_when_it_has_read() -> None:
    machine = ErasingMachine(settings=SETTINGS)
    client = machine.connect()
    create_topic(
        client, TOPIC, 1, cleanup_policy="compact", delete_retention_ms="1000",
        ledgerstone_tombstone_hold_groups="sink",
    )  # fmt: skip
    put(machine, client, ("alice@example.org", "1"), ("b", "1"))
    commit_offset(client, "sink", 1)
    erasure_id = machine.erase(topic=TOPIC)

    machine.run(erasure_id, days=1)
    waiting = machine.call("GET", f"erasures/{erasure_id}")
    commit_offset(client, "sink", 3)
    done = machine.run(erasure_id, days=1)

    assert "held: group sink has committed offset 1" in json.dumps(waiting)
    assert done.is_over
