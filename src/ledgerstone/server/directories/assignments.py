"""Tells the controller which log directory holds a replica: AssignReplicasToDirs. Pure.

One request in flight. Assignments that come meanwhile wait for the next one, and a later one of the
same partition replaces an earlier one. What fails is sent again, ever more slowly.
"""

from collections.abc import Callable, Mapping
from typing import Final

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectory,
    AssignReplicasToDirsRequestPartition,
    AssignReplicasToDirsRequestTopic,
    AssignReplicasToDirsResponse,
)
from ledgerstone.replication.directory_assignment import DirectoryAssignment
from ledgerstone.types import TopicPartition

# As many as Kafka's brokers put into one request.
MAX_ASSIGNMENTS: Final = 2250
_FIRST_PAUSE_MS: Final = 100
_LONGEST_PAUSE_MS: Final = 10_000
# The replica is gone, or its topic; if it comes back, it is assigned anew.
_OVER: Final = (
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)


class Assignments:
    def __init__(self) -> None:
        self._waiting: dict[TopicPartition, DirectoryAssignment] = {}
        self._in_flight: dict[TopicPartition, DirectoryAssignment] = {}
        self._due_ms = 0
        self._pause_ms = _FIRST_PAUSE_MS

    def __len__(self) -> int:
        return len(self._waiting) + len(self._in_flight)

    def add(self, assignments: Mapping[TopicPartition, DirectoryAssignment]) -> None:
        self._waiting.update(
            (tp, each) for tp, each in assignments.items() if self._in_flight.get(tp) != each
        )

    def next_deadline_ms(self) -> int | None:
        return self._due_ms if self._waiting and not self._in_flight else None

    def take_request(
        self,
        now_ms: int,
        *,
        broker_id: int,
        broker_epoch: int,
        is_true: Callable[[TopicPartition, DirectoryAssignment], bool],
    ) -> AssignReplicasToDirsRequest | None:
        """What is due. Assignments that are no longer true are dropped."""
        if self._in_flight or now_ms < self._due_ms:
            return None
        self._waiting = {tp: each for tp, each in self._waiting.items() if is_true(tp, each)}
        if not self._waiting:
            return None
        chosen = list(self._waiting.items())[:MAX_ASSIGNMENTS]
        directories: dict[bytes, dict[bytes, AssignReplicasToDirsRequestTopic]] = {}
        for tp, (topic_id, directory_id) in chosen:
            self._in_flight[tp] = self._waiting.pop(tp)
            topics = directories.setdefault(directory_id, {})
            topic = topics.setdefault(topic_id, AssignReplicasToDirsRequestTopic(topic_id))
            topic.partitions.append(AssignReplicasToDirsRequestPartition(tp.partition))
        return AssignReplicasToDirsRequest(
            broker_id=broker_id,
            broker_epoch=broker_epoch,
            directories=[
                AssignReplicasToDirsRequestDirectory(directory_id, list(topics.values()))
                for directory_id, topics in directories.items()
            ],
        )

    def answered(self, now_ms: int, answer: AssignReplicasToDirsResponse) -> list[TopicPartition]:
        """Returns the partitions whose assignment the controller has taken."""
        if answer.error_code:
            self.failed(now_ms)
            return []
        codes = {
            (topic.topic_id, each.partition_index): each.error_code
            for directory in answer.directories
            for topic in directory.topics
            for each in topic.partitions
        }
        sent, self._in_flight = self._in_flight, {}
        taken, again = [], {}
        for tp, each in sent.items():
            code = codes.get((each.topic_id, tp.partition), ErrorCode.UNKNOWN_SERVER_ERROR)
            if not code:
                taken.append(tp)
            elif code not in _OVER:
                again[tp] = each
        self._waiting = again | self._waiting
        if again:
            self._back_off(now_ms)
        else:
            self._due_ms, self._pause_ms = now_ms, _FIRST_PAUSE_MS
        return taken

    def failed(self, now_ms: int) -> None:
        """No answer, or one that says no to everything."""
        self._waiting = self._in_flight | self._waiting
        self._in_flight = {}
        self._back_off(now_ms)

    def _back_off(self, now_ms: int) -> None:
        self._due_ms = now_ms + self._pause_ms
        self._pause_ms = min(self._pause_ms * 2, _LONGEST_PAUSE_MS)
