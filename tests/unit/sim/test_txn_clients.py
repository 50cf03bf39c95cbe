"""The parts that transactional clients are made of: filter, standstill, scripts, book."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ledgerstone.sim.attempts import TxnBook
from ledgerstone.sim.clients.committed_read import AbortedRange, deliver
from ledgerstone.sim.clients.gate import ClientProcess
from ledgerstone.sim.clients.script import Player, Resting, Script
from ledgerstone.sim.model import NodeModel
from ledgerstone.sim.node_clock import NodeClock
from ledgerstone.sim.world import Violation, World
from ledgerstone.types import TopicPartition
from tests.unit.sim.test_decisions import A, B, data, marker


def serials(found: list[Any]) -> list[int]:
    return [each.serial for each in found]


def test_an_aborted_producer_is_skipped_until_its_marker() -> None:
    log = data(0, [1], A) + data(1, [2], B) + marker(2, A, commit=False) + data(3, [3], A)
    found, position = deliver(log, 0, [AbortedRange(A, 0)])
    assert serials(found) == [2, 3]
    assert position == 4


def test_a_reader_in_the_middle_gets_nothing_from_before() -> None:
    found, position = deliver(data(0, [1, 2, 3], A), 1, [])
    assert serials(found) == [2, 3]
    assert position == 3


def test_markers_are_not_delivered_and_move_the_position_on() -> None:
    found, position = deliver(marker(5, A, commit=True), 5, [])
    assert found == []
    assert position == 6


def test_what_is_due_while_a_process_stands_still_happens_later_in_order() -> None:
    world = World(0)
    gate, told = ClientProcess(world, "c"), []
    gate.after(10, "a", lambda: told.append(("a", world.now_ms)))
    gate.after(20, "b", lambda: told.append(("b", world.now_ms)))
    gate.stand_still(50)
    world.run(40)
    assert told == []
    world.run(100)
    assert told == [("a", 50), ("b", 50)]


def test_a_dead_process_does_nothing() -> None:
    world = World(0)
    gate, told = ClientProcess(world, "c"), []
    gate.after(10, "a", lambda: told.append("a"))
    gate.die()
    world.run(100)
    assert told == []


def test_a_script_goes_on_after_its_rest() -> None:
    world, steps = World(0), []

    def script() -> Script[None]:
        steps.append(world.now_ms)
        yield Resting(30)
        steps.append(world.now_ms)

    player = Player(ClientProcess(world, "c"), script())
    world.run(100)
    assert steps == [0, 30]
    assert player.is_done


# -- the book ---------------------------------------------------------------------------------


@pytest.fixture
def book() -> TxnBook:
    world = World(0)
    node = SimpleNamespace(
        boot=1, clock=NodeClock(world), on_death=[], on_up=[], broker=None, name="n0"
    )
    return TxnBook(NodeModel(cast(Any, node), world, True, 0), 10**9)


def test_a_successor_makes_a_zombie(book: TxnBook) -> None:
    book.started("t", "old", 7, 0)
    assert book.replaced_ms("t", "old") is None
    book.model.world.run(50)
    book.started("t", "new", 7, 1)
    assert book.replaced_ms("t", "old") == 50
    assert book.replaced_ms("t", "new") is None


def test_what_a_zombie_sent_before_it_was_one_may_be_taken(book: TxnBook) -> None:
    book.started("t", "old", 7, 0)
    attempt = book.begin("t", "old")
    book.model.world.run(50)
    book.started("t", "new", 7, 1)
    book.check_accepted(attempt, "Produce", sent_ms=50)
    with pytest.raises(Violation, match="ZombiesAreFenced"):
        book.check_accepted(attempt, "Produce", sent_ms=51)


def test_an_epoch_is_given_once(book: TxnBook) -> None:
    book.started("t", "old", 7, 0)
    with pytest.raises(Violation, match="EpochsRise"):
        book.started("t", "new", 7, 0)
    with pytest.raises(Violation, match="ProducerIdsAreUnique"):
        book.started("other", "x", 7, 1)


def test_a_fence_needs_a_reason(book: TxnBook) -> None:
    book.started("t", "c", 7, 0)
    attempt = book.begin("t", "c")
    with pytest.raises(Violation, match="FencedForAReason"):
        book.check_fence(attempt, "PRODUCER_FENCED", 1000, is_forgotten=False)
    book.model.world.run(1000)
    book.check_fence(attempt, "PRODUCER_FENCED", 1000, is_forgotten=False)


def test_a_position_was_asked_for_and_is_not_behind_what_clients_were_told(book: TxnBook) -> None:
    tp = TopicPartition("input", 0)
    attempt = book.begin("t", "c")
    attempt.offsets = {tp: 5}
    with pytest.raises(Violation, match="never asked"):
        book.check_position("c", tp, 5, 0)
    book.ask_commit(attempt)
    book.check_position("c", tp, 5, 0)
    book.tell(attempt, "committed")
    assert book.committed_positions() == {tp: 5}
    with pytest.raises(Violation, match="PositionsStay"):
        book.check_position("c", tp, -1, 5)


def test_a_process_that_starts_again_has_its_id_again(book: TxnBook) -> None:
    for client, epoch in (("a", 0), ("b", 1), ("a", 2)):
        book.started("t", client, 7, epoch)
        book.model.world.run(book.model.world.now_ms + 10)
    assert book.replaced_ms("t", "a") is None
    assert book.replaced_ms("t", "b") == 20
    assert book.replaced_ms("t", "a", begun_ms=5) == 10


def test_a_zombie_that_asks_for_a_new_epoch_may_abort_its_successor(book: TxnBook) -> None:
    book.model.world.run(10)
    attempt = book.begin("t", "c")
    book.last_init_ms["t"] = 9
    with pytest.raises(Violation, match="FencedForAReason"):
        book.check_fence(attempt, "PRODUCER_FENCED", 1000, is_forgotten=False)
    book.last_init_ms["t"] = 10
    book.check_fence(attempt, "PRODUCER_FENCED", 1000, is_forgotten=False)


def test_an_answer_that_is_read_late_makes_no_successor(book: TxnBook) -> None:
    book.started("t", "new", 7, 1)
    book.model.world.run(10)
    book.started("t", "old", 7, 0)
    assert book.replaced_ms("t", "new") is None
    assert book.replaced_ms("t", "old") == 0
