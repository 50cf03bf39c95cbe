"""One group shard and the partition of __consumer_offsets that remembers it. Grade D.

Outcomes are appended as they are made, and wait here until the log is committed; then their records
are replayed and their answers leave, in order. So the offsets of a shard are always committed ones,
and no answer rests on a record that could still be lost. Offsets of a transaction go into a batch
with its producer's id; its end is a control batch.
"""

from collections.abc import Iterator
from functools import partial

from ledgerstone.coordinator.failures import refused_after_append
from ledgerstone.coordinator.shard import GroupShard
from ledgerstone.coordinator.turn import Answer, GroupRecord, Now, TurnOutcome, TxnMarker
from ledgerstone.dataclasses import dataclass, replace
from ledgerstone.errors import NotLeaderOrFollower
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.records.builder import RecordParts
from ledgerstone.records.control import ControlType
from ledgerstone.records.own_batch import own_batch, own_marker
from ledgerstone.records.validation import Origin
from ledgerstone.replication.partition import Partition
from ledgerstone.replication.replay_reader import replay_batches
from ledgerstone.replication.state_log import Appended, StateLog
from ledgerstone.storage.verification import TxnTerms
from ledgerstone.types import NO_PRODUCER_ID, TopicPartition


@dataclass(slots=True)
class InFlight:
    """An outcome that is not committed yet. Its answers are empty once their time was up."""

    outcome: TurnOutcome
    deadline_ms: int

    @property
    def is_over(self) -> bool:
        """Nothing of it would come of the commit."""
        outcome = self.outcome
        return not (outcome.records or outcome.marker or outcome.answers or outcome.late)


class HostedShard:
    def __init__(self, shard: GroupShard, partition: Partition) -> None:
        self.shard = shard
        self.partition = partition
        # Set by the agent, once `can_serve`.
        self.is_loaded = False
        # Topics that were deleted before: their offsets go as soon as they are known.
        self.deleted_meanwhile: dict[str, None] = {}
        # Where the replay ended; None before.
        self._replayed_to: int | None = None
        self._decided: list[TopicPartition] = []
        self._append = partial(partition.append, acks=-1, origin=Origin.COORDINATOR)
        self._log = StateLog[InFlight](self._append)

    @property
    def can_serve(self) -> bool:
        """Once the log is replayed to its end and all of that is committed: then nothing of it can
        be lost again, and whatever comes after is the shard's own."""
        replayed_to = self._replayed_to
        return replayed_to is not None and self.partition.log.high_watermark >= replayed_to

    @property
    def in_flight(self) -> int:
        return len(self._log)

    def records_in_flight(self) -> Iterator[GroupRecord]:
        """Appended and not committed yet, so that the shard does not know them."""
        for each in self._log.tokens():
            yield from each.outcome.records

    def load(self) -> Iterator[int]:
        """Replays the partition; yields the offset of each record before it is replayed."""
        for batch in replay_batches(self.partition.log):
            header, control = batch.header, batch.control
            if control is not None and control.type in (ControlType.COMMIT, ControlType.ABORT):
                yield header.base_offset
                is_commit = control.type is ControlType.COMMIT
                self.shard.replay_marker(header.producer_id, commit=is_commit)
            producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
            for record in batch.records:
                yield record.offset
                if record.key is not None:
                    self.shard.replay(record.key, record.value, producer_id)
        self._replayed_to = self.partition.log.log_end_offset

    def take(
        self, outcome: TurnOutcome, now: Now, timeout_ms: int, terms: TxnTerms | None = None
    ) -> Appended | None:
        """Appends what the outcome wants remembered; what the log refuses raises. `terms` are those
        of records in a transaction."""
        waiting = InFlight(outcome, now.monotonic_ms + timeout_ms)
        if outcome.marker is not None:
            return self._append_marker(outcome.marker, waiting, now)
        if not outcome.records:
            if outcome.answers or outcome.late:
                self._log.after_pending(waiting)
            return None
        records: list[RecordParts] = [
            (now.wall_ms, key, value, ()) for key, value in outcome.records
        ]
        producer = outcome.producer
        if producer is None:
            return self._log.append(records, waiting)
        batch = own_batch(
            records,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transactional=True,
        )
        append = partial(self._append, terms=terms)
        return self._log.append_batch(batch, waiting, append)

    def _append_marker(self, marker: TxnMarker, waiting: InFlight, now: Now) -> Appended:
        batch = own_marker(
            commit=marker.is_commit,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp=now.wall_ms,
        )
        terms = TxnTerms(transaction_version=marker.transaction_version)
        append = partial(self._append, terms=terms)
        return self._log.append_batch(batch, waiting, append)

    def committed(self) -> list[Answer]:
        """Replays what is committed; the answers that may leave."""
        answers: list[Answer] = []
        for each in self._log.committed(self.partition.log.high_watermark):
            outcome = each.outcome
            producer = outcome.producer
            producer_id = NO_PRODUCER_ID if producer is None else producer.producer_id
            for record in outcome.records:
                self.shard.replay(record.key, record.value, producer_id)
            if outcome.marker is not None:
                marker = outcome.marker
                won = self.shard.replay_marker(marker.producer_id, commit=marker.is_commit)
                self._decided += won
            answers += outcome.answers
            answers += (Answer(token, respond()) for token, respond in outcome.late)
        return answers

    def take_decided(self) -> list[TopicPartition]:
        """Partitions whose offsets were committed by markers since the last call."""
        decided, self._decided = self._decided, []
        return decided

    def overdue(self, now: Now) -> list[Answer]:
        """Refusals of answers whose records took too long; these are replayed when they are
        committed all the same. What has none is forgotten: requests come as long as they like
        while too few replicas are in sync, and must not gather here."""
        answers: list[Answer] = []
        for each in self._log.tokens():
            if each.deadline_ms > now.monotonic_ms:
                break
            answers += _refused(each, ErrorCode.REQUEST_TIMED_OUT)
            each.outcome = replace(each.outcome, answers=[], late=[])
        if answers:
            self._log.let_go(lambda each: each.is_over)
        return answers

    @property
    def next_deadline_ms(self) -> int | None:
        deadline_ms = self.shard.next_deadline_ms
        if not len(self._log):
            return deadline_ms
        waiting = [each for each in self._log.tokens() if each.outcome.answers or each.outcome.late]
        if not waiting:
            return deadline_ms
        first_ms = waiting[0].deadline_ms
        return first_ms if deadline_ms is None else min(first_ms, deadline_ms)

    def resign(self, now: Now) -> list[Answer]:
        """Leadership is lost: everybody is sent to the next coordinator, also those whose records
        it may still commit."""
        code = NotLeaderOrFollower.code
        answers = [answer for each in self._log.lost() for answer in _refused(each, code)]
        return answers + self.shard.resign(now).answers


def _refused(waiting: InFlight, code: int) -> list[Answer]:
    outcome = waiting.outcome
    late = [Answer(token, respond()) for token, respond in outcome.late]
    return [
        Answer(token, refused_after_append(response, code))
        for token, response in (*outcome.answers, *late)
    ]
