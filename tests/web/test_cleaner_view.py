"""The cleaner's page: queue, running passes, history, and why."""

import json
from typing import Any

import pytest

from ledgerstone.server.anatomy.queue import JUDGED_AT_ONCE, running_rows
from ledgerstone.server.cleaning.parts import PassFailed
from ledgerstone.server.http.asker import ANYBODY
from ledgerstone.types import TopicPartition
from ledgerstone.web.cleaner_view import (
    SHOWN_RUNS,
    cleaner_fragment,
    cleaner_ratios_fragment,
    cleaner_runs_fragment,
)
from tests.kit.in_process import InProcess
from tests.unit.server.asks import create_topic, delete_topic
from tests.unit.server.erasing_kit import ErasingMachine
from tests.web.kit import COMPACTED, Parsed, Visitor, append, header

TP = TopicPartition(COMPACTED, 0)


def compact(machine: InProcess, tp: TopicPartition = TP) -> None:
    machine.broker.cleaning.ask(tp)
    machine.tick()


def facts_of(machine: InProcess) -> dict[str, Any]:
    return dict(cleaner_fragment(machine.broker, "", ANYBODY).facts)


def test_broker_without_compacted_topics_has_nothing_to_clean(empty: InProcess) -> None:
    page = Parsed(Visitor(empty).shown("/cleaner"))

    assert "Nothing waits for a pass." in page.text
    assert "No passes yet." in page.text


def test_what_was_asked_for_is_first_in_the_queue(
    machine: ErasingMachine, visitor: Visitor
) -> None:
    machine.broker.cleaning.ask(TopicPartition(COMPACTED, 1))

    (row, *_) = facts_of(machine)["queue"]

    assert row.topic_partition == TopicPartition(COMPACTED, 1)
    assert "a pass was requested" in Parsed(visitor.shown("/cleaner")).text


def test_what_comes_later_has_its_time_and_reason(machine: ErasingMachine) -> None:
    append(machine, COMPACTED, b"dave", None, partition=1)

    rows = {row.topic_partition: row for row in facts_of(machine)["coming"]}

    due = rows[TopicPartition(COMPACTED, 1)].next_due
    assert due is not None
    assert due.at_ms > machine.clock.now_ms()
    assert due.reason.value == "a tombstone has waited for its first pass long enough"


def test_running_pass_tells_how_much_of_it_was_replaced(machine: ErasingMachine) -> None:
    machine.held_passes = []
    compact(machine)

    (before,) = running_rows(machine.broker.cleaning)
    machine.held_syncs = []
    machine.finish_pass(machine.held_passes.pop())
    after = running_rows(machine.broker.cleaning)
    for each in machine.held_syncs:
        machine.sync(each)

    assert before.topic_partition == TP
    assert before.swapped_bytes == 0
    assert before.size_bytes > 0
    assert not after


def test_history_shows_the_newest_pass_first(machine: ErasingMachine, visitor: Visitor) -> None:
    for number in range(3):
        append(machine, COMPACTED, b"alice", b"more %d" % number)
        machine.clock.advance(ms=60_000)
        compact(machine)

    runs: Any = cleaner_runs_fragment(machine.broker, "", ANYBODY).facts["runs"]

    ended = [row.run.ended_ms for row in runs]
    assert ended == sorted(ended, reverse=True)
    assert ended[0] == machine.clock.now_ms()
    assert "cleaned" in Parsed(visitor.shown("/cleaner")).text


def test_long_history_comes_in_pages(machine: ErasingMachine, visitor: Visitor) -> None:
    for tp in (TP, TopicPartition(COMPACTED, 1)):
        for number in range(SHOWN_RUNS):
            append(machine, COMPACTED, b"alice", b"%d" % number, partition=tp.partition)
            compact(machine, tp)

    first = Parsed(visitor.shown("/cleaner"))
    second = Parsed(visitor.shown("/cleaner?runs=2"))

    assert "/cleaner?runs=2" in [each["href"] for each in first.all("a")]
    assert "/cleaner?runs=1" in [each["href"] for each in second.all("a")]
    swaps = [each.get("sse-swap") for each in second.all("div")]
    assert "cleaner_runs" not in swaps


def test_uncleanable_partition_is_shown_with_its_reason(
    machine: ErasingMachine, visitor: Visitor
) -> None:
    failure = PassFailed("<b>a bad block</b>")
    machine.broker.cleaning.failed(TP, failure)

    page = Parsed(visitor.shown("/cleaner"))

    assert "<b>a bad block</b>" in page.text
    assert not page.all("b")


def test_why_shows_every_gate(visitor: Visitor) -> None:
    page = Parsed(visitor.shown(f"/cleaner?why={COMPACTED}-0"))

    for gate in ("policy", "cleaner", "active segment", "undecided", "dirty ratio", "horizon"):
        assert gate in page.text


@pytest.mark.parametrize("name", ["nothing-0", "customers", "customers-x", "-1", "<b>-0"])
def test_why_of_what_is_not_there_is_not_found(visitor: Visitor, name: str) -> None:
    assert visitor.get(f"/cleaner?why={name}").status == 404


def test_ratios_are_rows_for_a_chart(machine: ErasingMachine, visitor: Visitor) -> None:
    visitor.shown("/cleaner")
    machine.clock.advance(ms=5_000)
    facts_of(machine)

    text: Any = cleaner_ratios_fragment(machine.broker, "", ANYBODY).facts["ratios"]

    ratios = json.loads(text)
    assert f"{COMPACTED}-0" in ratios["names"]
    assert len(ratios["columns"]) == 1 + len(ratios["names"])
    assert len(ratios["columns"][0]) == 2
    assert all(len(column) == 2 for column in ratios["columns"])


def test_compact_now_comes_back_to_the_cleaner(machine: ErasingMachine, visitor: Visitor) -> None:
    page = visitor.post(f"/topics/{COMPACTED}/compact", {"back": "cleaner"})

    assert page.status == 303
    assert str(header(page, "location")).startswith("/cleaner")
    assert TP in machine.broker.cleaning.asked


def test_buttons_are_for_who_has_the_token(visitor: Visitor, stranger: Visitor) -> None:
    assert Parsed(visitor.shown("/cleaner")).all("button")
    assert not Parsed(stranger.shown("/cleaner")).all("button")


def test_look_at_many_partitions_judges_a_few_and_in_turn_all(empty: InProcess) -> None:
    create_topic(empty.connect(), "wide", 3 * JUDGED_AT_ONCE, cleanup_policy="compact")
    while empty.broker.partitions.backlog:
        empty.tick()
    look = empty.broker.anatomy.queue

    counts = [len(look.look()) for _ in range(4)]

    assert counts == [25, 50, 75, 75]


def test_partitions_of_a_deleted_topic_leave_the_queue(machine: ErasingMachine) -> None:
    facts_of(machine)
    rows = machine.broker.anatomy.queue.known()
    client = machine.connect()
    delete_topic(client, COMPACTED)
    facts_of(machine)

    assert TP in [row.topic_partition for row in rows]
    left = [row.topic_partition.topic for row in machine.broker.anatomy.queue.known()]
    assert COMPACTED not in left
