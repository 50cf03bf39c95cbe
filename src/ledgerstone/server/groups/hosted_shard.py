"""One group shard and the partition of __consumer_offsets that remembers it. Grade D.

Outcomes are appended as they are made, and wait here until the log is committed; then their records
are replayed and their answers leave, in order. So the offsets of a shard are always committed ones,
and no answer rests on a record that could still be lost.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from ledgerstone.coordinator.failures import refused_after_append
from ledgerstone.coordinator.shard import GroupShard
from ledgerstone.coordinator.turn import Answer, Now, TurnOutcome
from ledgerstone.errors import NotLeaderOrFollower
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.records.control import ControlType
from ledgerstone.records.validation import Origin
from ledgerstone.replication.partition import Partition
from ledgerstone.replication.replay_reader import replay_batches
from ledgerstone.replication.state_log import Appended, StateLog
from ledgerstone.types import NO_PRODUCER_ID


@dataclass(slots=True)
class InFlight:
    """An outcome that is not committed yet. Its answers are empty once their time was up."""

    outcome: TurnOutcome
    deadline_ms: int


class HostedShard:
    def __init__(self, shard: GroupShard, partition: Partition) -> None:
        self.shard = shard
        self.partition = partition
        self.is_loaded = False
        append = partial(partition.append, acks=-1, origin=Origin.COORDINATOR)
        self._log = StateLog[InFlight](append)

    @property
    def can_load(self) -> bool:
        """Once all that the log holds is committed: then nothing of it can be lost again, and
        whatever comes after is the shard's own."""
        log = self.partition.log
        return log.high_watermark >= log.log_end_offset

    @property
    def in_flight(self) -> int:
        return len(self._log)

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
        self.is_loaded = True

    def take(self, outcome: TurnOutcome, now: Now, timeout_ms: int) -> Appended | None:
        """Appends what the outcome wants remembered; what the log refuses raises."""
        waiting = InFlight(outcome, now.monotonic_ms + timeout_ms)
        if not outcome.records:
            if outcome.answers:
                self._log.after_pending(waiting)
            return None
        records = [(now.wall_ms, key, value, ()) for key, value in outcome.records]
        return self._log.append(records, waiting)

    def committed(self) -> list[Answer]:
        """Replays what is committed; the answers that may leave."""
        answers: list[Answer] = []
        for each in self._log.committed(self.partition.log.high_watermark):
            for record in each.outcome.records:
                self.shard.replay(record.key, record.value)
            answers += each.outcome.answers
        return answers

    def overdue(self, now: Now) -> list[Answer]:
        """Refusals of answers whose records took too long; these are replayed when they are
        committed all the same."""
        answers: list[Answer] = []
        for each in self._log.tokens():
            if each.deadline_ms > now.monotonic_ms:
                break
            answers += _refused(each, ErrorCode.REQUEST_TIMED_OUT)
            each.outcome = TurnOutcome(each.outcome.records, [])
        return answers

    @property
    def next_deadline_ms(self) -> int | None:
        deadline_ms = self.shard.next_deadline_ms
        if not len(self._log):
            return deadline_ms
        waiting = [each for each in self._log.tokens() if each.outcome.answers]
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
    return [
        Answer(token, refused_after_append(response, code))
        for token, response in waiting.outcome.answers
    ]
