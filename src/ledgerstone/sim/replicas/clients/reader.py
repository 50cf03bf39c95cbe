"""A consumer that reads partitions, commits positions for a group, and starts over. Part of sim."""

from typing import Final

from ledgerstone.dataclasses import dataclass
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ledgerstone.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
)
from ledgerstone.sim.clients.committed_read import AbortedRange, deliver
from ledgerstone.sim.clients.polling import FETCH_VERSION, fetch_request
from ledgerstone.sim.clients.script import Asking, Resting, Script
from ledgerstone.sim.history.operations import (
    Assigned,
    OffsetCommitted,
    OffsetFetched,
    OpOutcome,
    RecordsRead,
    Seen,
)
from ledgerstone.sim.replicas.clients.reach import GROUP, TIMEOUT_MS, Reach
from ledgerstone.sim.world import Violation
from ledgerstone.types import TopicPartition

_COMMIT_VERSION: Final = 8
_OFFSETS_VERSION: Final = 8
_MAX_BYTES: Final = 2_000
_WAIT_MS: Final = 200
# More answers in a row than metadata can be late.
_LONG_OUT_OF_RANGE: Final = 40
COORDINATOR_MOVED: Final = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
)
# Nothing was stored, for certain. NOT_COORDINATOR may come for a commit that was in the log when
# the lead was lost, and that the next leader has.
_NOT_STORED: Final = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,)
_NOT_A_MEMBER: Final = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
)
_LEADER_MOVED: Final = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT,
)


@dataclass(slots=True, kw_only=True)
class PartitionReader:
    """Polls, commits, and writes down both."""

    reach: Reach
    group: str
    is_committed: bool
    _out_of_range: int = 0

    def assigned(self, place: TopicPartition, position: int) -> None:
        reach, now_ms = self.reach, self.reach.world.now_ms
        reach.history.add(
            Assigned(
                client=reach.name, start_ms=now_ms, end_ms=now_ms, place=place, position=position
            )
        )

    def poll(self, place: TopicPartition, position: int) -> Script[int]:
        reach = self.reach
        wire = yield from reach.leader_of(place)
        request = fetch_request(
            {place: position},
            is_committed=self.is_committed,
            max_bytes=_MAX_BYTES,
            wait_ms=_WAIT_MS,
        )
        began_ms = reach.world.now_ms
        answer = yield Asking(wire, request, FETCH_VERSION, TIMEOUT_MS)
        part = None if answer is None else answer.responses[0].partitions[0]
        if part is None or part.error_code in _LEADER_MOVED:
            reach.forget_leader(place)
            yield reach.rest()
            return position
        if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if place in reach.excused:
                self.assigned(place, 0)
                return 0
            # A follower says so, too, while its log is shorter; the leader is asked then.
            self._out_of_range += 1
            if self._out_of_range < _LONG_OUT_OF_RANGE:
                reach.forget_leader(place)
                yield reach.rest()
                return position
        if part.error_code != ErrorCode.NONE:
            name = ErrorCode(part.error_code).name
            raise Violation("ReadersGoOn", f"{reach.name} at {position} of {place}: {name}")
        self._out_of_range = 0
        aborted = [
            AbortedRange(each.producer_id, each.first_offset)
            for each in part.aborted_transactions or ()
        ]
        data = bytes(part.records or b"")
        records, after = deliver(data, position, aborted if self.is_committed else ())
        if after > position:
            reach.history.add(
                RecordsRead(
                    client=reach.name,
                    start_ms=began_ms,
                    end_ms=reach.world.now_ms,
                    place=place,
                    position=position,
                    next_position=after,
                    records=tuple(Seen(each.offset, str(each.serial)) for each in records),
                    committed=self.is_committed,
                )
            )
        return max(after, position)

    # -- group offsets ------------------------------------------------------------------------

    def stored(self, place: TopicPartition) -> Script[int | None]:
        reach = self.reach
        wire = yield from reach.coordinator_of(GROUP, self.group)
        topic = OffsetFetchRequestGroupTopic(name=place.topic, partition_indexes=[place.partition])
        group = OffsetFetchRequestGroup(group_id=self.group, topics=[topic])
        request = OffsetFetchRequest(groups=[group], require_stable=True)
        began_ms = reach.world.now_ms
        answer = yield Asking(wire, request, _OFFSETS_VERSION, TIMEOUT_MS)
        found = None if answer is None else answer.groups[0]
        if found is None or found.error_code in COORDINATOR_MOVED:
            reach.forget_coordinator(GROUP, self.group)
            return None
        if found.error_code != ErrorCode.NONE:
            self._object("OffsetFetch", found.error_code)
        part = found.topics[0].partitions[0]
        if part.error_code in COORDINATOR_MOVED:
            return None
        if part.error_code != ErrorCode.NONE:
            self._object("OffsetFetch", part.error_code)
        reach.history.add(
            OffsetFetched(
                client=reach.name,
                start_ms=began_ms,
                end_ms=reach.world.now_ms,
                group=self.group,
                place=place,
                offset=part.committed_offset,
            )
        )
        return int(part.committed_offset)

    def commit(
        self, place: TopicPartition, position: int, member: tuple[str, int] = ("", -1)
    ) -> Script[tuple[int | None, OpOutcome]]:
        """`member` is its id and its generation; without them it assigns itself."""
        reach = self.reach
        wire = yield from reach.coordinator_of(GROUP, self.group)
        part = OffsetCommitRequestPartition(
            partition_index=place.partition, committed_offset=position
        )
        request = OffsetCommitRequest(
            group_id=self.group,
            member_id=member[0],
            generation_id_or_member_epoch=member[1],
            topics=[OffsetCommitRequestTopic(name=place.topic, partitions=[part])],
        )
        began_ms = reach.world.now_ms
        answer = yield Asking(wire, request, _COMMIT_VERSION, TIMEOUT_MS)
        code = None if answer is None else answer.topics[0].partitions[0].error_code
        if code == ErrorCode.NONE:
            outcome = OpOutcome.OK
        elif code in _NOT_STORED or (code in _NOT_A_MEMBER and member[0]):
            outcome = OpOutcome.FAILED
        else:
            outcome = OpOutcome.UNKNOWN
        if code is None or code in COORDINATOR_MOVED:
            reach.forget_coordinator(GROUP, self.group)
        elif code != ErrorCode.NONE and outcome is not OpOutcome.FAILED:
            self._object("OffsetCommit", code)
        reach.history.add(
            OffsetCommitted(
                client=reach.name,
                start_ms=began_ms,
                end_ms=None if outcome is OpOutcome.UNKNOWN else reach.world.now_ms,
                group=self.group,
                place=place,
                offset=position,
                outcome=outcome,
            )
        )
        return code, outcome

    def _object(self, what: str, code: int) -> None:
        raise Violation("GroupsAnswer", f"{self.reach.name}: {what} {ErrorCode(code).name}")


@dataclass(slots=True, kw_only=True)
class GroupReader:
    """Assigns itself its partitions: commits go without a membership, as Kafka's `assign()` does.

    `is_over` is asked between polls: a reader goes on until the others are done.
    """

    reader: PartitionReader
    places: list[TopicPartition]
    is_over: list[bool]

    def script(self) -> Script[None]:
        yield Resting(self.reader.reach.dice.below(1_500))
        while not self.is_over[0]:
            for place in self.places:
                yield from self._life(place)

    def _life(self, place: TopicPartition) -> Script[None]:
        """From where the group stands, for some polls; then another process takes over."""
        reader, dice = self.reader, self.reader.reach.dice
        stored = yield from reader.stored(place)
        if stored is None:
            yield reader.reach.rest()
            return
        position = max(stored, 0)
        reader.assigned(place, position)
        for _ in range(dice.between(2, 8)):
            if self.is_over[0]:
                return
            position = yield from reader.poll(place, position)
            if dice.chance(40):
                yield from reader.commit(place, position)
            yield Resting(dice.below(200))
