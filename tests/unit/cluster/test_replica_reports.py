"""Who is behind whom, from what nodes report."""

from ledgerstone.cluster.replica_reports import ReplicaReport, ReplicaReports, parse_report
from ledgerstone.types import TopicPartition

TP = TopicPartition("t", 0)


def report(node: int, end: int, *, leads: bool = False, number: int = 0) -> ReplicaReport:
    return ReplicaReport(node, TopicPartition("t", number), leads, 0, 0, end, 100)


def test_lag_is_what_the_leader_has_and_the_replica_lacks() -> None:
    reports = ReplicaReports([report(1, 10, leads=True), report(2, 7), report(3, 10)])

    assert [reports.lag_of(TP, node) for node in (1, 2, 3)] == [0, 3, 0]


def test_replica_that_is_asked_later_is_not_ahead() -> None:
    reports = ReplicaReports([report(1, 10, leads=True), report(2, 12)])

    assert reports.lag_of(TP, 2) == 0


def test_no_lag_is_known_without_the_leader_or_the_replica() -> None:
    reports = ReplicaReports([report(2, 7)])

    assert reports.lag_of(TP, 2) is None
    assert reports.lag_of(TP, 3) is None
    assert reports.lag_of(TopicPartition("u", 0), 2) is None


def test_lags_of_a_node_add_up() -> None:
    reports = ReplicaReports(
        [
            report(1, 10, leads=True),
            report(2, 7),
            report(1, 5, number=1),
            report(2, 9, leads=True, number=1),
        ]
    )

    assert reports.lag_by_node() == {1: 4, 2: 3}


def test_report_that_is_none_is_empty() -> None:
    for content in ({}, {"node": 1}, {"node": 1, "replicas": [{}]}, {"node": "x", "replicas": []}):
        assert parse_report(content) == []
