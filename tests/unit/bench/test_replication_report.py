"""Lines of the comparison of two clusters."""

from bench.peers.measures import Pair
from bench.replication.__main__ import line_of
from bench.replication.visits import FIGURES
from tests.kit.nodes import KAFKA, LEDGERSTONE


def test_line_pairs_what_was_measured_in_one_round() -> None:
    rounds = [{LEDGERSTONE: 2.0, KAFKA: 4.0}, {KAFKA: 9.0, LEDGERSTONE: 3.0}]
    line = line_of("longest produce gap, leader killed", rounds)
    assert line.rounds == (Pair(2.0, 4.0), Pair(3.0, 9.0))
    assert line.ratio is not None
    assert (line.ratio.low, line.ratio.high) == (2.0, 3.0)
    assert line.verdict == "ok"


def test_one_program_alone_is_compared_with_nothing() -> None:
    assert line_of("consume", [{KAFKA: 5.0}]).rounds == (Pair(5.0, None),)
    assert line_of("consume", [{LEDGERSTONE: 5.0}]).ratio is None


def test_every_figure_has_a_goal() -> None:
    assert all(each.target >= 1.0 for each in FIGURES.values())
    memory = FIGURES["memory of three nodes after the load"]
    assert (memory.target, memory.more_is_better) == (2.0, False)
