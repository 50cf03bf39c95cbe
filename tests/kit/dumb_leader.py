"""A leader in a list: batches, epochs, a high watermark. It answers followers as Kafka does.

For tests of the follower's side. It keeps sessions in the plainest way: each is a dict of what was
asked, and an answer names what is not what it was.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.fetch import (
    FetchDivergingEpoch,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopicResponse,
)
from ledgerstone.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from ledgerstone.types import TopicPartition
from tests.kit.logs import batch

Key = tuple[bytes, int]


@dataclass(frozen=True, slots=True)
class Written:
    base_offset: int
    end_offset: int
    epoch: int
    data: bytes


@dataclass(slots=True)
class DumbLog:
    """One partition as its leader has it."""

    epoch: int = 0
    start_offset: int = 0
    high_watermark: int = 0
    written: list[Written] = field(default_factory=list)
    # Where each epoch begins; a leader notes its own before it writes.
    epochs: dict[int, int] = field(default_factory=lambda: {0: 0})
    # What the partition answers instead, once for each.
    errors: list[int] = field(default_factory=list)

    @property
    def end_offset(self) -> int:
        return self.written[-1].end_offset if self.written else self.start_offset

    def append(self, count: int = 1, *, commits: bool = True) -> None:
        base = self.end_offset
        data = batch(
            *((f"k{base + n}", f"epoch {self.epoch}") for n in range(count)),
            base_offset=base,
            leader_epoch=self.epoch,
        )
        self.written.append(Written(base, base + count, self.epoch, bytes(data)))
        if commits:
            self.high_watermark = self.end_offset

    def lead_next(self, epoch: int, *, keeps: int | None = None) -> None:
        """Another broker leads, whose log ends at or below `keeps`."""
        if keeps is not None:
            self.written = [each for each in self.written if each.end_offset <= keeps]
            self.high_watermark = min(self.high_watermark, self.end_offset)
        end_offset = self.end_offset
        self.epochs = {e: start for e, start in self.epochs.items() if start < end_offset}
        self.epoch = epoch
        self.epochs[epoch] = end_offset

    def delete_before(self, offset: int) -> None:
        end_offset = self.end_offset
        self.start_offset = offset
        self.written = [each for each in self.written if each.end_offset > offset]
        assert self.end_offset == end_offset
        before = [epoch for epoch, start in self.epochs.items() if start <= offset]
        for epoch in before[:-1]:
            del self.epochs[epoch]
        if before:
            self.epochs[before[-1]] = offset

    def end_of(self, epoch: int) -> tuple[int, int]:
        """The largest epoch at or below, and where it ends; (-1, -1) if that is not known."""
        known = sorted(self.epochs)
        if not known or epoch > known[-1]:
            return -1, -1
        if epoch == known[-1]:
            return epoch, self.end_offset
        higher = min(each for each in known if each > epoch)
        lower = [each for each in known if each <= epoch]
        return (lower[-1] if lower else epoch), self.epochs[higher]

    def read(self, asked: FetchPartition) -> FetchPartitionResponse:
        answer = FetchPartitionResponse(partition_index=asked.partition)
        answer.error_code = self._refusal(asked)
        if answer.error_code:
            answer.high_watermark = -1
            return answer
        answer.high_watermark, answer.log_start_offset = self.high_watermark, self.start_offset
        if asked.last_fetched_epoch >= 0:
            epoch, end_offset = self.end_of(asked.last_fetched_epoch)
            if epoch != asked.last_fetched_epoch or end_offset < asked.fetch_offset:
                answer.diverging_epoch = FetchDivergingEpoch(epoch, end_offset)
                answer.records = b""
                return answer
        found = b"".join(each.data for each in self.written if each.end_offset > asked.fetch_offset)
        answer.records = memoryview(found)[: asked.partition_max_bytes]
        return answer

    def _refusal(self, asked: FetchPartition) -> int:
        if self.errors:
            return self.errors.pop(0)
        if asked.current_leader_epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if asked.current_leader_epoch > self.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        is_known = asked.last_fetched_epoch < 0 or self.end_of(asked.last_fetched_epoch)[0] >= 0
        in_range = self.start_offset <= asked.fetch_offset
        if not is_known or not in_range:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        if asked.last_fetched_epoch < 0 and asked.fetch_offset > self.end_offset:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        return ErrorCode.NONE


class DumbLeader:
    def __init__(self) -> None:
        self.logs: dict[TopicPartition, DumbLog] = {}
        self.topic_ids: dict[bytes, str] = {}
        self.requests: list[ApiMessage] = []
        self._sessions: dict[int, tuple[int, dict[Key, FetchPartition]]] = {}
        self._next_session = 100
        self._told: dict[Key, tuple[int, int]] = {}

    def lose_sessions(self) -> None:
        self._sessions.clear()

    def answer(self, request: ApiMessage) -> FetchResponse | ListOffsetsResponse:
        self.requests.append(request)
        if isinstance(request, ListOffsetsRequest):
            return self._offsets(request)
        assert isinstance(request, FetchRequest), request
        return self._fetch(request)

    def _fetch(self, request: FetchRequest) -> FetchResponse:
        named = {
            (topic.topic_id, each.partition): each
            for topic in request.topics
            for each in topic.partitions
        }
        if request.session_epoch in (0, -1):
            self._sessions.pop(request.session_id, None)
            if request.session_epoch == -1:
                return self._answers(named, 0, lambda _: True)
            self._next_session += 1
            self._sessions[self._next_session] = (1, named)
            return self._answers(named, self._next_session, lambda _: True)
        epoch, wishes = self._sessions.get(request.session_id, (0, {}))
        if request.session_id not in self._sessions:
            return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if epoch != request.session_epoch:
            return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        wishes.update(named)
        for topic in request.forgotten_topics_data:
            for number in topic.partitions:
                wishes.pop((topic.topic_id, number), None)
        self._sessions[request.session_id] = (epoch + 1, wishes)
        return self._answers(wishes, request.session_id, self._is_news)

    def _is_news(self, answer: tuple[Key, FetchPartitionResponse]) -> bool:
        key, said = answer
        marks = said.high_watermark, said.log_start_offset
        return bool(
            said.error_code or said.records or said.diverging_epoch or self._told.get(key) != marks
        )

    def _answers(
        self,
        wishes: dict[Key, FetchPartition],
        session_id: int,
        is_named: Callable[[tuple[Key, FetchPartitionResponse]], bool],
    ) -> FetchResponse:
        responses = []
        for key, asked in wishes.items():
            name = self.topic_ids.get(key[0])
            if name is None:
                said = FetchPartitionResponse(
                    partition_index=asked.partition, error_code=ErrorCode.UNKNOWN_TOPIC_ID
                )
            else:
                said = self.logs[TopicPartition(name, key[1])].read(asked)
            if is_named((key, said)):
                responses.append(FetchTopicResponse(topic_id=key[0], partitions=[said]))
            self._told[key] = said.high_watermark, said.log_start_offset
        return FetchResponse(session_id=session_id, responses=responses)

    def _offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        topics = []
        for topic in request.topics:
            answers = []
            for asked in topic.partitions:
                log = self.logs[TopicPartition(topic.name, asked.partition_index)]
                said = ListOffsetsResponsePartition(partition_index=asked.partition_index)
                if log.errors:
                    said.error_code = log.errors.pop(0)
                elif asked.current_leader_epoch != log.epoch:
                    is_old = asked.current_leader_epoch < log.epoch
                    said.error_code = (
                        ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH
                    )
                else:
                    is_latest = asked.timestamp == -1
                    said.offset = log.end_offset if is_latest else log.start_offset
                answers.append(said)
            topics.append(ListOffsetsResponseTopic(name=topic.name, partitions=answers))
        return ListOffsetsResponse(topics=topics)
