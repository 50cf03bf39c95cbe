"""How far replicas are behind, from what leaders report."""

import pytest

from ledgerstone.cluster.lag_reports import LagReports
from ledgerstone.types import TopicPartition

ONE = {
    "node": 1,
    "nodes": {"2": 5, "3": 0},
    "largest": [{"topic": "t", "partition": 0, "node": 2, "lag": 5}],
}
TWO = {
    "node": 2,
    "nodes": {"1": 7, "3": 1},
    "largest": [{"topic": "u", "partition": 3, "node": 1, "lag": 7}],
}


def test_lags_of_a_node_add_up_over_its_leaders() -> None:
    assert LagReports([ONE, TWO]).by_node == {1: 7, 2: 5, 3: 1}


def test_large_lags_are_known_by_replica() -> None:
    reports = LagReports([ONE, TWO])

    assert reports.of(TopicPartition("t", 0), 2) == 5
    assert reports.of(TopicPartition("u", 3), 1) == 7
    assert reports.of(TopicPartition("t", 0), 3) is None


@pytest.mark.parametrize(
    "rubbish",
    [{}, {"nodes": []}, {"nodes": {"x": 1}, "largest": []}, {"nodes": {}, "largest": [1]}],
)
def test_rubbish_is_left_out(rubbish: dict[str, object]) -> None:
    assert LagReports([rubbish, ONE]).by_node == {2: 5, 3: 0}
