"""Partitions whose offset the leader does not have: its end decides, then its start. Pure.

A log that is longer than the leader's is cut to it. One that ends before the leader's begins starts
over there. Otherwise it goes on at its own end.
"""

from collections.abc import Callable, Iterator

from ledgerstone.errors import CorruptRecord
from ledgerstone.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
)
from ledgerstone.replication.fetching.followed import (
    FetchNote,
    FetchNoteKind,
    FetchOutcome,
    FetchStage,
    FollowedPartition,
)
from ledgerstone.replication.fetching.places import FetchPlaces
from ledgerstone.replication.fetching.wire import offsets_request
from ledgerstone.types import TopicPartition

_Answer = tuple[FollowedPartition, ListOffsetsResponsePartition | None]


class OffsetQuestions:
    """One request asks for all partitions, each for what it needs next."""

    def __init__(self, places: FetchPlaces) -> None:
        self._places = places
        # Partitions in the last request, with what was asked: epoch and stage.
        self._asked: list[tuple[FollowedPartition, int, FetchStage]] = []

    def request(self, replica_id: int) -> ListOffsetsRequest:
        asking = self._places.asking.values()
        self._asked = [(each, each.leader_epoch, each.stage) for each in asking]
        return offsets_request(asking, replica_id)

    def answered(self, answer: ListOffsetsResponse) -> Iterator[_Answer]:
        """What the leader said of each partition that still wants to know it."""
        told = {
            TopicPartition(topic.name, each.partition_index): each
            for topic in answer.topics
            for each in topic.partitions
        }
        asked, self._asked = self._asked, []
        for followed, epoch, stage in asked:
            is_asking = self._places.asking.get(followed.key) is followed
            if is_asking and (followed.leader_epoch, followed.stage) == (epoch, stage):
                yield followed, told.get(followed.topic_partition)

    def settling(
        self, followed: FollowedPartition, offset: int, outcome: FetchOutcome
    ) -> Callable[[], None]:
        """What to do now that the leader's end or start is known."""
        if followed.stage is FetchStage.ASKS_LATEST:
            return lambda: self._told_latest(followed, offset, outcome)
        return lambda: self._told_earliest(followed, offset, outcome)

    def _told_latest(self, followed: FollowedPartition, offset: int, outcome: FetchOutcome) -> None:
        if offset >= followed.replica.log.log_end_offset:
            followed.stage = FetchStage.ASKS_EARLIEST
            return
        followed.truncate_to(offset, outcome, f"the leader's log ends at {offset}")
        followed.lag = 0
        self._places.make_ready(followed)

    def _told_earliest(
        self, followed: FollowedPartition, offset: int, outcome: FetchOutcome
    ) -> None:
        before, end_offset = followed.fetch_offset, followed.replica.log.log_end_offset
        if offset > end_offset:
            followed.replica.restart_at(offset)
            text = f"at {offset}: the leader's log begins there, this one ended at {end_offset}"
            outcome.notes.append(FetchNote(FetchNoteKind.RESTARTED, followed.topic_partition, text))
        followed.go_on_at_end()
        self._places.make_ready(followed)
        if followed.fetch_offset == before:
            raise CorruptRecord(f"offset {before} is refused, and lies in the leader's range")
