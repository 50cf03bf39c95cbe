"""A consumer in a classic group: reads the partitions it is given, and commits.

What it reads becomes facts: nothing a reader has seen may change or vanish. What it commits must be
what the group finds again.
"""

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from ledgerstone.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ledgerstone.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
    OffsetFetchResponse,
)
from ledgerstone.records.batch import iter_headers
from ledgerstone.records.record import iter_records
from ledgerstone.sim.clients.group_book import GroupBook
from ledgerstone.sim.clients.membership import BACKOFF_MS, TIMEOUT_MS, WAIT, Membership
from ledgerstone.sim.clients.wire import Wire
from ledgerstone.sim.model import SERIAL_HEADER, NodeModel
from ledgerstone.sim.world import Violation, World
from ledgerstone.types import TopicPartition

_FETCH_WAIT_MS = 1_000


class Member:
    """`wire` is its membership's; a second link, `reading`, fetches meanwhile."""

    def __init__(
        self,
        world: World,
        wire: Wire,
        reading: Wire,
        model: NodeModel,
        *,
        book: GroupBook,
        partitions: list[TopicPartition],
        joins_at_ms: int,
    ) -> None:
        self.world, self.reading, self.model = world, reading, model
        self.name = wire.name
        self.book = book
        self._dice = world.dice(f"workload/{wire.name}")
        self.positions: dict[TopicPartition, int] = {}
        self.membership = Membership(
            world,
            wire,
            model,
            book=book,
            partitions=partitions,
            joins_at_ms=joins_at_ms,
            on_assigned=self._fetch_offsets,
        )

    def die(self, back_ms: int) -> None:
        """The process behind it ends without a word and comes back knowing nothing."""
        self.membership.stop()
        self.reading.hang_up()
        self.world.after(back_ms, f"{self.name} is back", self._come_back)

    def _come_back(self) -> None:
        self.membership.is_stopped = False
        self.membership.join()

    # -- offsets ------------------------------------------------------------------------------

    def _fetch_offsets(self, turn: int) -> None:
        topics: dict[str, list[int]] = {}
        for tp in self.membership.owned:
            topics.setdefault(tp.topic, []).append(tp.partition)
        group = OffsetFetchRequestGroup(
            group_id=self.book.group,
            topics=[
                OffsetFetchRequestGroupTopic(name=name, partition_indexes=numbers)
                for name, numbers in topics.items()
            ],
        )
        request = OffsetFetchRequest(groups=[group])
        self.reading.ask(request, 8, lambda m: self._know_offsets(turn, m), TIMEOUT_MS)

    def _know_offsets(self, turn: int, message: ApiMessage | None) -> None:
        if turn != self.membership.turn:
            return
        group = None if message is None else message.groups[0]  # type: ignore[attr-defined]
        if group is None or group.error_code in WAIT:
            label = f"{self.name} asks offsets"
            self.world.after(BACKOFF_MS, label, lambda: self._fetch_offsets(turn))
            return
        assert isinstance(message, OffsetFetchResponse)
        if group.error_code != ErrorCode.NONE:
            raise Violation("GroupAnswers", f"OffsetFetch got {ErrorCode(group.error_code).name}")
        for topic in group.topics:
            for each in topic.partitions:
                tp = TopicPartition(topic.name, each.partition_index)
                commit = self.model.commit_of(self.book.group, tp)
                if not commit.allows(each.committed_offset):
                    raise Violation(
                        "CommitsStay",
                        f"{self.book.group} {tp}: committed {commit.acked}, tried "
                        f"{commit.attempts}, found {each.committed_offset}",
                    )
                self.positions[tp] = max(each.committed_offset, 0)
        self._fetch(turn)

    # -- reading ------------------------------------------------------------------------------

    def _fetch(self, turn: int) -> None:
        if turn != self.membership.turn or self.membership.is_stopped:
            return
        topics: dict[str, list[FetchPartition]] = {}
        for tp in self.membership.owned:
            topics.setdefault(tp.topic, []).append(
                FetchPartition(
                    partition=tp.partition,
                    fetch_offset=self.positions.get(tp, 0),
                    partition_max_bytes=1 << 16,
                )
            )
        request = FetchRequest(
            max_wait_ms=_FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=[FetchTopic(topic=name, partitions=each) for name, each in topics.items()],
        )
        self.reading.ask(request, 12, lambda m: self._fetched(turn, m), TIMEOUT_MS)

    def _fetched(self, turn: int, message: ApiMessage | None) -> None:
        if turn != self.membership.turn:
            return
        has_news = False
        if message is not None:
            assert isinstance(message, FetchResponse)
            for topic in message.responses:
                for each in topic.partitions:
                    tp = TopicPartition(topic.topic, each.partition_index)
                    has_news = self._took(tp, each.error_code, each.records) or has_news
        if has_news and self._dice.chance(60):
            self._commit(turn)
            return
        delay_ms = BACKOFF_MS if message is None else self._dice.below(600)
        self.world.after(delay_ms, f"{self.name} reads", lambda: self._fetch(turn))

    def _took(self, tp: TopicPartition, code: int, records: object) -> bool:
        if code == ErrorCode.OFFSET_OUT_OF_RANGE and self.model.losses:
            self.positions[tp] = 0
            return False
        if code in WAIT:
            return False
        if code != ErrorCode.NONE:
            detail = f"{self.name} at {self.positions[tp]} of {tp}: {ErrorCode(code).name}"
            raise Violation("ReadersGoOn", detail)
        data = bytes(records or b"")  # type: ignore[call-overload]
        position = self.positions.get(tp, 0)
        for at, header in iter_headers(data):
            for record in iter_records(data, at):
                if record.offset >= position:
                    serial = int(bytes(dict(record.headers).get(SERIAL_HEADER) or b"-1"))
                    self.model.learn(tp, record.offset, serial)
            position = max(position, header.next_offset)
        is_new = position > self.positions.get(tp, 0)
        self.positions[tp] = position
        return is_new

    # -- committing ---------------------------------------------------------------------------

    def _commit(self, turn: int) -> None:
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        sent: dict[TopicPartition, int] = {}
        for tp in self.membership.owned:
            sent[tp] = self.positions.get(tp, 0)
            self.model.commit_of(self.book.group, tp).attempts.append(sent[tp])
            topics.setdefault(tp.topic, []).append(
                OffsetCommitRequestPartition(
                    partition_index=tp.partition, committed_offset=sent[tp]
                )
            )
        request = OffsetCommitRequest(
            group_id=self.book.group,
            generation_id_or_member_epoch=self.membership.generation_id,
            member_id=self.membership.member_id,
            topics=[OffsetCommitRequestTopic(name=n, partitions=p) for n, p in topics.items()],
        )
        self.reading.ask(request, 8, lambda m: self._committed(turn, sent, m), TIMEOUT_MS)

    def _committed(
        self, turn: int, sent: dict[TopicPartition, int], message: ApiMessage | None
    ) -> None:
        if message is None:
            for tp, offset in sent.items():
                self.model.commit_of(self.book.group, tp).unanswered.append(offset)
        else:
            assert isinstance(message, OffsetCommitResponse)
            for topic in message.topics:
                for each in topic.partitions:
                    tp = TopicPartition(topic.name, each.partition_index)
                    if each.error_code == ErrorCode.NONE:
                        self.book.committed(self.model.commit_of(self.book.group, tp), sent[tp])
        if turn == self.membership.turn:
            self._fetch(turn)
