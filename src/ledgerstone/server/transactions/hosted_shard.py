"""One transaction shard and the partition of __transaction_state that remembers it. Grade D.

Changes are appended as they are decided, and wait here until the log is committed; only then are
they true, and answered.
"""

from collections.abc import Iterator
from functools import partial

from ledgerstone.coordinator.transactions.shard import TransactionShard
from ledgerstone.coordinator.transactions.turn import DecidedAnswer, TxnOutcome, refused
from ledgerstone.coordinator.turn import Now
from ledgerstone.dataclasses import dataclass
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.records.validation import Origin
from ledgerstone.replication.partition import Partition
from ledgerstone.replication.replay_reader import replay_batches
from ledgerstone.replication.state_log import Appended, StateLog


@dataclass(slots=True)
class _InFlight:
    """An outcome that is not committed yet."""

    outcome: TxnOutcome
    deadline_ms: int
    is_refused: bool = False  # Its answers have left: they waited for too long.


class HostedTransactions:
    def __init__(self, shard: TransactionShard, partition: Partition) -> None:
        self.shard = shard
        self.partition = partition
        # Leaders refuse markers of an older one.
        self.coordinator_epoch = partition.leader_epoch
        # Set by the agent, once `can_serve`.
        self.is_loaded = False
        # Where the replay ended; None before.
        self._replayed_to: int | None = None
        append = partial(partition.append, acks=-1, origin=Origin.COORDINATOR)
        self._log = StateLog[_InFlight](append)

    @property
    def can_serve(self) -> bool:
        """Once the log is replayed to its end and all of that is committed: then nothing of it can
        be lost again, and what was decided may be marked in other partitions."""
        replayed_to = self._replayed_to
        return replayed_to is not None and self.partition.log.high_watermark >= replayed_to

    @property
    def in_flight(self) -> int:
        return len(self._log)

    def load(self) -> Iterator[int]:
        """Replays the partition; yields the offset of each record before it is replayed."""
        for batch in replay_batches(self.partition.log):
            for record in batch.records:
                yield record.offset
                if record.key is not None:
                    self.shard.replay(record.key, record.value)
        self._replayed_to = self.partition.log.log_end_offset

    def take(self, outcome: TxnOutcome, now: Now) -> Appended:
        """Appends the outcome's changes; what the log refuses raises."""
        records = [(now.wall_ms, key, value, ()) for key, value in self.shard.records(outcome)]
        # As in Kafka, a transaction's own time-out; a tombstone has nobody waiting.
        timeouts_ms = [each.metadata.timeout_ms for each in outcome.changes if each.metadata]
        deadline_ms = now.monotonic_ms + min(timeouts_ms, default=0)
        return self._log.append(records, _InFlight(outcome, deadline_ms))

    def committed(self) -> list[TxnOutcome]:
        """What is committed by now, in order; without the answers that have left."""
        return [
            TxnOutcome(each.outcome.changes) if each.is_refused else each.outcome
            for each in self._log.committed(self.partition.log.high_watermark)
        ]

    def overdue(self, now: Now) -> list[DecidedAnswer]:
        """Refusals of answers whose records took too long. The change stays pending: its records
        are in the log, and may be committed yet."""
        answers: list[DecidedAnswer] = []
        for each in self._log.tokens():
            if not each.is_refused and each.deadline_ms <= now.monotonic_ms:
                each.is_refused = True
                answers += refused(each.outcome.answers, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return answers

    @property
    def next_deadline_ms(self) -> int | None:
        if not len(self._log):
            return None
        waiting = (
            each.deadline_ms
            for each in self._log.tokens()
            if not each.is_refused and each.outcome.answers
        )
        return min(waiting, default=None)

    def resign(self) -> list[DecidedAnswer]:
        """Leadership is lost: everybody is sent to the next coordinator, also those whose records
        it may still commit."""
        lost = [each.outcome.answers for each in self._log.lost() if not each.is_refused]
        self.shard.release()
        return [
            answer for answers in lost for answer in refused(answers, ErrorCode.NOT_COORDINATOR)
        ]
