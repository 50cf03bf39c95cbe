"""A micro-batch is written once, whatever is killed: the table of docs/adr/0009, line by line.

A killed process is one that does nothing from a certain point on. Tasks and drivers are called
here as a sink calls them, so that every point can be the last.
"""

from dataclasses import dataclass

import numpy as np
import pytest

from ledgerstone.client.blocking import Client
from ledgerstone.client.transactions import ProducerTransactions, end_prepared
from ledgerstone.client.txn_errors import TransactionError
from ledgerstone.client.txn_session import Prepared
from ledgerstone.records.builder import build_batch
from ledgerstone.spark.decision import BatchDecision, WriteId, deciding_id, decision_group, encoded
from ledgerstone.spark.errors import WriteFailed
from ledgerstone.spark.producing import BatchProducer
from ledgerstone.spark.two_phase import (
    Standing,
    TaskTransaction,
    abort_alone,
    abort_batch,
    commit_batch,
    decide,
    read_decision,
)
from ledgerstone.types import TopicPartition
from tests.transactions.conftest import MakeTopic, NewName
from tests.transactions.kit import committed

TIMEOUT_MS = 600_000


@dataclass(slots=True)
class Query:
    """Two tasks; task P of batch N writes the key N-P."""

    client: Client
    query_id: str
    topic: str
    tasks: int = 2

    @property
    def at(self) -> TopicPartition:
        return TopicPartition(self.topic, 0)

    @property
    def decision(self) -> BatchDecision:
        return read_decision(self.client, self.query_id, self.at)

    def abort(self, batch_id: int, prepared: dict[int, Prepared]) -> None:
        abort_batch(self.client, self.query_id, batch_id, prepared, at=self.at)

    def key(self, batch_id: int, task: int) -> bytes:
        return f"{batch_id}-{task}".encode()

    def attempt(self, batch_id: int, task: int) -> TaskTransaction:
        write_id = WriteId(self.query_id, batch_id, task)
        return TaskTransaction(self.client, write_id, at=self.at, timeout_ms=TIMEOUT_MS)

    def write(self, attempt: TaskTransaction, batch_id: int, task: int) -> None:
        producer = BatchProducer(self.client, attempt.transactions)
        partition = TopicPartition(self.topic, task % 2)
        key = self.key(batch_id, task)
        producer.send({partition: (1, _batch(producer, partition, key))})

    def run_task(self, batch_id: int, task: int) -> Prepared | None:
        attempt = self.attempt(batch_id, task)
        if attempt.begin() is Standing.WRITTEN:
            return None
        self.write(attempt, batch_id, task)
        return attempt.prepare()

    def run_tasks(self, batch_id: int) -> dict[int, Prepared]:
        prepared = {task: self.run_task(batch_id, task) for task in range(self.tasks)}
        return {task: each for task, each in prepared.items() if each is not None}

    def commit(self, batch_id: int, prepared: dict[int, Prepared]) -> None:
        commit_batch(self.client, self.query_id, batch_id, prepared, at=self.at)

    def decide(self, batch_id: int, prepared: dict[int, Prepared]) -> None:
        decide(self.client, self.query_id, batch_id, prepared, at=self.at)

    def run(self, batch_id: int) -> None:
        self.commit(batch_id, self.run_tasks(batch_id))

    def assert_once(self, *batches: int) -> None:
        found = sorted(key for key, _ in committed(self.client, self.topic) if key is not None)
        assert found == sorted(self.key(b, task) for b in batches for task in range(self.tasks))


def _batch(producer: BatchProducer, partition: TopicPartition, key: bytes) -> bytearray:
    identity = producer.identity
    return build_batch(
        [(0, key, b"v", ())],
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        base_sequence=producer.next_sequence(partition),
        transactional=True,
    )


@pytest.fixture
def query(client: Client, make_topic: MakeTopic, new_name: NewName) -> Query:
    return Query(client, new_name("query"), make_topic("to", partitions=2))


@pytest.fixture
def again(query: Query, other: Client) -> Query:
    """The same query, run by another process."""
    return Query(other, query.query_id, query.topic)


def test_batches_without_failures(query: Query) -> None:
    for batch_id in range(3):
        query.run(batch_id)

    query.assert_once(0, 1, 2)
    assert query.decision.batch_id == 2


def test_task_killed_while_it_writes(query: Query, again: Query) -> None:
    killed = query.attempt(0, 0)
    assert killed.begin() is Standing.OPEN
    query.write(killed, 0, 0)

    again.run(0)

    again.assert_once(0)


def test_write_that_failed_and_is_never_run_again_leaves_nothing_open(
    query: Query, again: Query
) -> None:
    query.run_task(0, 0)
    still_runs = query.attempt(0, 1)
    assert still_runs.begin() is Standing.OPEN
    query.write(still_runs, 0, 1)

    tasks = [WriteId(query.query_id, 0, task) for task in range(3)]
    abort_alone(query.client, tasks, at=query.at)
    late = [again.run_task(0, task) for task in range(3)]

    # Its transactions would stay open for ten minutes.
    assert committed(query.client, query.topic) == []
    assert late == [None, None, None], "who begins after the end writes nothing"
    with pytest.raises(TransactionError):
        still_runs.prepare()


def test_task_killed_after_it_prepared(query: Query, again: Query) -> None:
    query.run_task(0, 0)

    again.run(0)

    again.assert_once(0)


def test_driver_killed_before_the_decision(query: Query, again: Query) -> None:
    query.run_tasks(0)

    again.run(0)

    again.assert_once(0)


def test_driver_killed_while_it_decides(query: Query, again: Query) -> None:
    prepared = query.run_tasks(0)
    driver = ProducerTransactions(query.client, deciding_id(query.query_id))
    driver.begin()
    (part,) = encoded(BatchDecision(batch_id=0, prepared=prepared))
    driver.send_offsets(decision_group(query.query_id), {query.at: part})

    # The open decision of the dead driver must not hold up the tasks of the next run.
    again.run(0)

    again.assert_once(0)


def test_driver_killed_after_the_decision(query: Query, again: Query) -> None:
    prepared = query.run_tasks(0)
    query.decide(0, prepared)

    redone = again.run_tasks(0)
    again.commit(0, redone)

    assert redone == {}, "a decided batch is not written again"
    again.assert_once(0)


def test_driver_killed_between_two_commits(query: Query, again: Query) -> None:
    prepared = query.run_tasks(0)
    query.decide(0, prepared)
    end_prepared(query.client, prepared[0], commit=True)

    again.run(0)

    again.assert_once(0)


def test_driver_killed_before_spark_notes_the_batch(query: Query, again: Query) -> None:
    query.run(0)

    assert again.run_tasks(0) == {}
    again.commit(0, {})
    again.run(1)

    again.assert_once(0, 1)


def test_decided_batch_is_complete_even_if_rows_are_dealt_anew(query: Query, again: Query) -> None:
    query.decide(0, query.run_tasks(0))
    again.tasks = 5

    assert again.run_tasks(0) == {}
    again.commit(0, {})

    query.assert_once(0)


def test_decided_task_that_has_no_rows_now_is_committed_by_the_driver(
    query: Query, again: Query
) -> None:
    query.decide(0, query.run_tasks(0))

    again.commit(0, {})

    query.assert_once(0)


def test_decided_transaction_that_timed_out_is_written_again(query: Query, again: Query) -> None:
    prepared = query.run_tasks(0)
    query.decide(0, prepared)
    end_prepared(query.client, prepared[0], commit=True)
    end_prepared(query.client, prepared[1], commit=False)  # as a coordinator does

    redone = again.run_tasks(0)
    again.commit(0, redone)

    assert list(redone) == [1]
    again.assert_once(0)


def test_decided_transaction_that_is_lost_fails_the_commit(query: Query, again: Query) -> None:
    prepared = query.run_tasks(0)
    query.decide(0, prepared)
    end_prepared(query.client, prepared[1], commit=False)

    with pytest.raises(WriteFailed, match=r"tasks \[1\]"):
        again.commit(0, {})
    again.run(0)

    again.assert_once(0)


def test_zombie_task_cannot_write_after_its_successor(query: Query, again: Query) -> None:
    zombie = query.attempt(0, 0)
    assert zombie.begin() is Standing.OPEN
    again.run(0)

    with pytest.raises(TransactionError):
        query.write(zombie, 0, 0)

    again.assert_once(0)


def test_zombie_task_that_begins_late_writes_nothing(query: Query, again: Query) -> None:
    again.run(0)

    assert query.attempt(0, 0).begin() is Standing.WRITTEN
    again.run(1)
    with pytest.raises(WriteFailed, match="leftover"):
        query.attempt(0, 0).begin()

    again.assert_once(0, 1)


def test_speculative_attempt_takes_over(query: Query, again: Query) -> None:
    first = query.attempt(0, 0)
    assert first.begin() is Standing.OPEN
    query.write(first, 0, 0)

    prepared = again.run_tasks(0)
    with pytest.raises(TransactionError):
        first.prepare()
    first.give_up()
    again.commit(0, prepared)

    again.assert_once(0)


def test_speculative_attempt_after_the_winner_prepared(query: Query, again: Query) -> None:
    prepared = query.run_tasks(0)
    loser = again.run_task(0, 1)  # fences the winner, then is killed
    assert loser is not None

    with pytest.raises(WriteFailed, match=r"tasks \[1\]"):
        query.commit(0, prepared)
    query.abort(0, prepared)
    again.run(0)

    again.assert_once(0)


def test_zombie_driver_decides_nothing_after_its_successor(query: Query, again: Query) -> None:
    prepared = query.run_tasks(0)
    again.run(0)
    again.run(1)

    with pytest.raises(WriteFailed, match="leftover"):
        query.commit(0, prepared)
    query.abort(0, prepared)

    again.assert_once(0, 1)


def test_zombie_driver_in_the_middle_of_its_successors_batch(query: Query, again: Query) -> None:
    prepared = query.run_tasks(0)
    first = again.run_task(0, 0)
    assert first is not None

    # Task 0 belongs to the successor now, task 1 still to the zombie.
    with pytest.raises(WriteFailed, match=r"tasks \[0\]"):
        query.commit(0, prepared)
    again.run(0)

    again.assert_once(0)


def test_failed_job_leaves_nothing_visible(query: Query, again: Query) -> None:
    prepared = query.run_tasks(0)

    query.abort(0, prepared)

    assert committed(query.client, query.topic) == []
    again.run(0)
    again.assert_once(0)


def test_decision_of_a_thousand_tasks_is_read_back(query: Query) -> None:
    dice = np.random.default_rng(1)
    prepared = {
        task: Prepared(
            f"ledgerstone-{query.query_id}-{task}", int(dice.integers(10**6)), task % 100
        )
        for task in range(1_000)
    }

    query.decide(3, prepared)

    found = query.decision
    assert (found.batch_id, dict(found.prepared)) == (3, prepared)
