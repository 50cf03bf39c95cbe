"""Writes a micro-batch once: tasks prepare transactions, the driver decides. Shell over a `Client`.

1  A task writes its rows in a transaction of its own, adds "this task has written batch N" to it
   as the offset of a group, and leaves it open.
2  The driver writes the decision: batch N consists of these transactions.
3  The driver commits each of them.

After 2, the batch is decided: whoever runs it again only completes 3. If a decided transaction can
no longer be committed because it timed out or was fenced, the group's offset tells whether it was
committed before; if not, its task writes it again. docs/adr/0009 has the failures, one by one.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final

from ledgerstone.client.blocking import Client
from ledgerstone.client.committed import CommittedOffset
from ledgerstone.client.errors import CallTimedOut
from ledgerstone.client.offsets import commit_offsets, committed_offsets
from ledgerstone.client.transactions import ProducerTransactions, end_prepared
from ledgerstone.client.txn_errors import TransactionError
from ledgerstone.client.txn_session import Prepared, TxnState
from ledgerstone.errors import LedgerstoneError
from ledgerstone.spark.decision import (
    BatchDecision,
    WriteId,
    count_of_parts,
    deciding_id,
    decision_group,
    decoded,
    encoded,
)
from ledgerstone.spark.errors import WriteFailed
from ledgerstone.types import TopicPartition

# A decision takes a few round trips. A driver that needs longer is taken for dead; if it is alive
# after all, its query fails and is run again.
_DECIDING_MS: Final = 3_000

logger = logging.getLogger(__name__)


class Standing(Enum):
    WRITTEN = "an earlier attempt has written it, and that counts"
    OPEN = "its rows are to be written"


class TaskTransaction:
    """One attempt of a task. `begin` fences every earlier attempt."""

    def __init__(
        self, client: Client, task: WriteId, *, at: TopicPartition, timeout_ms: int
    ) -> None:
        self._client = client
        self._task = task
        self._at = at
        self.transactions = ProducerTransactions(
            client, task.transactional_id, timeout_ms=timeout_ms
        )

    def begin(self) -> Standing:
        """Call it once there is a row to write."""
        batch_id, partition_id = self._task.batch_id, self._task.partition_id
        decision = read_decision(self._client, self._task.query_id, self._at)
        _refuse_the_past(self._task, decision.batch_id)
        if decision.batch_id == batch_id:
            decided = decision.prepared.get(partition_id)
            # A decided batch has all of its rows, even if they were dealt to other tasks.
            if decided is None or _commits(self._client, decided):
                return Standing.WRITTEN
        # Crash from here on: the next attempt aborts what this one has written.
        self.transactions.start()
        written = written_batch(self._client, self._task, self._at)
        _refuse_the_past(self._task, written)
        if written == batch_id:
            return Standing.WRITTEN
        self.transactions.begin()
        return Standing.OPEN

    def prepare(self) -> Prepared:
        """Every row is acknowledged. The transaction stays open for the driver."""
        progress = {self._at: CommittedOffset(self._task.batch_id + 1)}
        self.transactions.send_offsets(self._task.group_id, progress)
        return self.transactions.prepared()

    def give_up(self) -> None:
        """Aborts an open transaction, so that readers need not wait until it times out."""
        if self.transactions.session.state not in (TxnState.OPEN, TxnState.BROKEN):
            return
        try:
            self.transactions.abort()
        except LedgerstoneError as error:
            logger.warning("%s: not aborted: %s", self._task.transactional_id, error)


def _refuse_the_past(task: WriteId, batch_id: int) -> None:
    if batch_id > task.batch_id:
        raise WriteFailed(
            f"query {task.query_id} has written batch {batch_id}; this task of batch "
            f"{task.batch_id} is a leftover of an earlier run"
        )


def written_batch(client: Client, task: WriteId, at: TopicPartition) -> int:
    """The last batch that this task has committed; -1 if none."""
    noted = _noted(client, task.group_id, at)
    return -1 if noted is None else noted.offset - 1


def _noted(
    client: Client, group_id: str, at: TopicPartition, *, timeout_ms: int | None = None
) -> CommittedOffset | None:
    # By its name: asked for all partitions, Kafka would not wait for an open transaction.
    return committed_offsets(client, group_id, [at], timeout_ms=timeout_ms).get(at)


def _commits(client: Client, decided: Prepared) -> bool:
    """False if the transaction is no longer there: committed before, timed out or fenced."""
    try:
        end_prepared(client, decided, commit=True)
    except TransactionError as error:
        logger.warning("%s: %s", decided, error)
        return False
    return True


def _was_committed(client: Client, task: WriteId, at: TopicPartition) -> bool:
    # An open transaction on the group would keep its offset from being read. Nobody needs one here.
    ProducerTransactions(client, task.transactional_id).start()
    return written_batch(client, task, at) >= task.batch_id


# -- the driver --------------------------------------------------------------------------------


def read_decision(client: Client, query_id: str, at: TopicPartition) -> BatchDecision:
    """Waits for a decision that is being committed, and ends one whose driver is gone."""
    try:
        first = _noted(client, decision_group(query_id), at, timeout_ms=_DECIDING_MS)
    except CallTimedOut:
        # A driver died while it decided. Taking over its id settles the matter: the decision was
        # committed, or never will be.
        ProducerTransactions(client, deciding_id(query_id)).start()
        first = _noted(client, decision_group(query_id), at)
    if first is None:
        return BatchDecision()
    parts = [first]
    for number in range(1, count_of_parts(first)):
        part = _noted(client, decision_group(query_id, number), at)
        if part is None:
            raise WriteFailed(f"query {query_id}: part {number} of its decision has expired")
        parts.append(part)
    return decoded(query_id, parts)


def commit_batch(
    client: Client,
    query_id: str,
    batch_id: int,
    mine: Mapping[int, Prepared],
    *,
    at: TopicPartition,
) -> None:
    """`mine` are the transactions that the tasks of this run have prepared."""
    listed = decide(client, query_id, batch_id, mine, at=at)
    # Crash here: the batch is decided, and its next run commits what is left.
    lost = [
        partition_id
        for partition_id, each in listed.items()
        if not _commits(client, each)
        and not _was_committed(client, WriteId(query_id, batch_id, partition_id), at)
    ]
    if lost:
        raise WriteFailed(
            f"query {query_id}, batch {batch_id}: the transactions of tasks {lost} timed out or "
            "were fenced before they could be committed. Run the query again: it writes them again"
        )


def commit_alone(client: Client, mine: Mapping[int, Prepared]) -> None:
    """For a write that is never run again, so that nobody would read its decision."""
    for partition_id, each in mine.items():
        if not _commits(client, each):
            raise WriteFailed(f"the transaction of task {partition_id} timed out or was fenced")


def decide(
    client: Client,
    query_id: str,
    batch_id: int,
    mine: Mapping[int, Prepared],
    *,
    at: TopicPartition,
) -> Mapping[int, Prepared]:
    """Decides the batch, unless that has happened; returns the transactions it consists of."""
    if not mine:
        known = read_decision(client, query_id, at)
        return known.prepared if known.batch_id == batch_id else {}
    # Taking over the id fences a driver that was thought dead. Its decision either is complete and
    # read here, or never becomes one.
    driver = ProducerTransactions(client, deciding_id(query_id))
    driver.start()
    known = read_decision(client, query_id, at)
    _refuse_the_past(WriteId(query_id, batch_id, 0), known.batch_id)
    if known.batch_id == batch_id:
        # Decided by an earlier run. Tasks wrote again what of it was lost.
        return {**known.prepared, **mine}
    driver.begin()
    for number, part in enumerate(encoded(BatchDecision(batch_id=batch_id, prepared=mine))):
        driver.send_offsets(decision_group(query_id, number), {at: part})
    driver.commit()
    return mine


def abort_alone(client: Client, tasks: Sequence[WriteId], *, at: TopicPartition) -> None:
    """For a write that is never run again, so that no later attempt would abort what is open.

    `tasks` are all of them: some have prepared a transaction, some failed, and Spark lets some go
    on, or even begin, although their job has failed. A note that the batch is written comes first.
    So a task that takes its id after us finds the note and writes nothing, and one that took it
    before us is fenced, and what it has written is aborted."""
    for task in tasks:
        try:
            commit_offsets(client, task.group_id, {at: CommittedOffset(task.batch_id + 1)})
            ProducerTransactions(client, task.transactional_id).start()
        except LedgerstoneError as error:
            # Of the job's failure Spark tells the cause, not this. What is open times out.
            logger.warning("%s: not fenced: %s", task.transactional_id, error)
            return


def abort_batch(
    client: Client,
    query_id: str,
    batch_id: int,
    mine: Mapping[int, Prepared],
    *,
    at: TopicPartition,
) -> None:
    """Spark calls this after a failed commit, too: then the batch may be decided."""
    if mine and read_decision(client, query_id, at).batch_id < batch_id:
        _abort(client, mine.values())


def _abort(client: Client, prepared: Iterable[Prepared]) -> None:
    for each in prepared:
        try:
            end_prepared(client, each, commit=False)
        except TransactionError as error:
            logger.warning("%s: not aborted: %s", each, error)
