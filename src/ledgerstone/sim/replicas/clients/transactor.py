"""A transactional producer on a cluster: records, group offsets, commit or abort. Part of sim.

It finds its coordinator, the leaders of its partitions and the coordinator of its group each time
they move. A transaction that it gives up is aborted by its next InitProducerId, unless a commit was
already asked for: then nobody can tell.
"""

from collections.abc import Callable
from typing import Any, Final

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ledgerstone.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ledgerstone.protocol.messages.end_txn import EndTxnRequest
from ledgerstone.protocol.messages.init_producer_id import InitProducerIdRequest
from ledgerstone.protocol.messages.produce import (
    ProducePartitionData,
    ProduceRequest,
    ProduceTopicData,
)
from ledgerstone.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ledgerstone.records.builder import build_batch
from ledgerstone.sim.clients.dialects import JAVA_3, JAVA_4, LATER, OVER
from ledgerstone.sim.clients.script import Asking, Resting, Script
from ledgerstone.sim.clients.transactional import code_of_add, code_of_offsets
from ledgerstone.sim.clients.wire import Wire
from ledgerstone.sim.clock import DEFAULT_START_MS
from ledgerstone.sim.history.operations import OffsetCommitted, OpOutcome, Sent, TxnEnded
from ledgerstone.sim.model import SERIAL_HEADER
from ledgerstone.sim.replicas.clients.reach import GROUP, TIMEOUT_MS, TRANSACTION, Reach
from ledgerstone.sim.replicas.clients.serials import Serials
from ledgerstone.sim.replicas.clients.writer import Patience
from ledgerstone.sim.world import Violation
from ledgerstone.types import TopicPartition

_TXN_TIMEOUT_MS: Final = 20_000
_MORE_LATER: Final = LATER | {
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.NOT_CONTROLLER,
}


# Only where a partition has lost records.
_FORGOTTEN: Final = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,)


class _Abandoned(Exception):
    """The transaction does not go on: refused, or the client's patience is over."""


@dataclass(slots=True)
class _Attempt:
    txn: str
    began_ms: int
    # What it wrote: place, serial, offset or None, outcome.
    sent: list[Sent] = field(default_factory=list)
    asked_commit: bool = False


@dataclass(slots=True, kw_only=True)
class Transactor:
    reach: Reach
    serials: Serials
    transactional_id: str
    places: list[TopicPartition]
    group: str
    transactions: int
    abort_percent: int
    pace_ms: int
    is_second_protocol: bool
    patience: Patience
    _id: tuple[int, int] = (-1, -1)
    _sequences: dict[TopicPartition, int] = field(default_factory=dict)

    def script(self) -> Script[None]:
        reach, dice = self.reach, self.reach.dice
        yield Resting(dice.below(1_500))
        yield from self._init()
        for number in range(self.transactions):
            attempt = _Attempt(f"{self.transactional_id}/{number}", reach.world.now_ms)
            commits = not dice.chance(self.abort_percent)
            try:
                yield from self._work(attempt)
                yield from self._end(attempt, commits=commits)
            except _Abandoned:
                reach.world.mark("a transaction was given up")
                yield from self._init()
                if not attempt.asked_commit:
                    self._ended(attempt, OpOutcome.OK, commits=False)
            yield Resting(dice.below(2 * self.pace_ms + 1))

    # -- one transaction ----------------------------------------------------------------------

    def _work(self, attempt: _Attempt) -> Script[None]:
        dice = self.reach.dice
        places = list(dict.fromkeys(dice.pick(self.places) for _ in range(2)))
        if not self.is_second_protocol:
            yield from self._announce(attempt, places)
        for place in places:
            yield from self._write(attempt, place)
        if dice.chance(50):
            yield from self._send_offsets(attempt, dice.pick(self.places), dice.below(1_000_000))

    def _announce(self, attempt: _Attempt, places: list[TopicPartition]) -> Script[None]:
        topics: dict[str, list[int]] = {}
        for place in places:
            topics.setdefault(place.topic, []).append(place.partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._id[0],
            v3_and_below_producer_epoch=self._id[1],
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=each) for name, each in topics.items()
            ],
        )
        yield from self._coordinated(attempt, request, JAVA_3.add, code_of_add)

    def _write(self, attempt: _Attempt, place: TopicPartition) -> Script[None]:
        reach, world = self.reach, self.reach.world
        serials = [self.serials.take() for _ in range(reach.dice.between(1, 3))]
        began_ms = world.now_ms
        data = self._batch(place, serials)
        version = JAVA_4.produce if self.is_second_protocol else JAVA_3.produce
        part = ProducePartitionData(index=place.partition, records=bytearray(data))
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=TIMEOUT_MS // 2,
            topic_data=[ProduceTopicData(name=place.topic, partition_data=[part])],
        )
        offsets: list[int] = []

        def code_of(answer: Any) -> int:  # noqa: ANN401 - a response
            said = answer.responses[0].partition_responses[0]
            offsets[:] = [said.base_offset]
            return int(said.error_code)

        outcome = OpOutcome.UNKNOWN
        try:
            yield from self._insist(
                attempt,
                lambda: reach.leader_of(place),
                lambda: reach.forget_leader(place),
                request,
                version,
                code_of,
            )
            outcome = OpOutcome.OK
        finally:
            for index, serial in enumerate(serials):
                reach.history.add(
                    Sent(
                        client=reach.name,
                        start_ms=began_ms,
                        end_ms=world.now_ms if outcome is OpOutcome.OK else None,
                        place=place,
                        id=str(serial),
                        outcome=outcome,
                        offset=offsets[0] + index if outcome is OpOutcome.OK else None,
                        txn=attempt.txn,
                    )
                )

    def _send_offsets(
        self, attempt: _Attempt, place: TopicPartition, position: int
    ) -> Script[None]:
        reach = self.reach
        began_ms = reach.world.now_ms
        if not self.is_second_protocol:
            announced = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self._id[0],
                producer_epoch=self._id[1],
                group_id=self.group,
            )
            yield from self._coordinated(
                attempt, announced, JAVA_3.add, lambda answer: int(answer.error_code)
            )
        part = TxnOffsetCommitRequestPartition(
            partition_index=place.partition, committed_offset=position
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=self.group,
            producer_id=self._id[0],
            producer_epoch=self._id[1],
            topics=[TxnOffsetCommitRequestTopic(name=place.topic, partitions=[part])],
        )
        outcome = OpOutcome.UNKNOWN
        try:
            yield from self._insist(
                attempt,
                lambda: reach.coordinator_of(GROUP, self.group),
                lambda: reach.forget_coordinator(GROUP, self.group),
                request,
                JAVA_4.offsets if self.is_second_protocol else JAVA_3.offsets,
                code_of_offsets,
            )
            outcome = OpOutcome.OK
        finally:
            reach.history.add(
                OffsetCommitted(
                    client=reach.name,
                    start_ms=began_ms,
                    end_ms=reach.world.now_ms if outcome is OpOutcome.OK else None,
                    group=self.group,
                    place=place,
                    offset=position,
                    outcome=outcome,
                    txn=attempt.txn,
                )
            )

    def _end(self, attempt: _Attempt, *, commits: bool) -> Script[None]:
        """Until it is decided. A commit that was asked for is never called off."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._id[0],
            producer_epoch=self._id[1],
            committed=commits,
        )
        answers: list[Any] = []
        began_ms = self.reach.world.now_ms
        attempt.asked_commit = commits

        def code_of(answer: Any) -> int:  # noqa: ANN401 - a response
            answers[:] = [answer]
            return int(answer.error_code)

        version = JAVA_4.end if self.is_second_protocol else JAVA_3.end
        yield from self._coordinated(attempt, request, version, code_of)
        self._ended(attempt, OpOutcome.OK, commits=commits, began_ms=began_ms)
        if self.is_second_protocol:
            self._id = (answers[0].producer_id, answers[0].producer_epoch)
            self._sequences.clear()

    def _ended(
        self,
        attempt: _Attempt,
        outcome: OpOutcome,
        *,
        commits: bool,
        began_ms: int | None = None,
    ) -> None:
        self.reach.history.add(
            TxnEnded(
                client=self.reach.name,
                start_ms=attempt.began_ms if began_ms is None else began_ms,
                end_ms=self.reach.world.now_ms,
                txn=attempt.txn,
                commits=commits,
                outcome=outcome,
            )
        )

    # -- asking -------------------------------------------------------------------------------

    def _init(self) -> Script[None]:
        reach = self.reach
        while True:
            yield from self._wait_out()
            wire = yield from reach.coordinator_of(TRANSACTION, self.transactional_id)
            request = InitProducerIdRequest(
                transactional_id=self.transactional_id, transaction_timeout_ms=_TXN_TIMEOUT_MS
            )
            version = JAVA_4.init if self.is_second_protocol else JAVA_3.init
            answer = yield Asking(wire, request, version, TIMEOUT_MS)
            if answer is not None and answer.error_code == ErrorCode.NONE:
                self._id = (answer.producer_id, answer.producer_epoch)
                self._sequences.clear()
                return
            if answer is not None and answer.error_code not in _MORE_LATER:
                self._object("InitProducerId", answer.error_code)
            reach.forget_coordinator(TRANSACTION, self.transactional_id)
            yield reach.rest()

    def _coordinated(
        self, attempt: _Attempt, request: ApiMessage, version: int, code_of: Callable[[Any], int]
    ) -> Script[None]:
        reach, own = self.reach, self.transactional_id
        yield from self._insist(
            attempt,
            lambda: reach.coordinator_of(TRANSACTION, own),
            lambda: reach.forget_coordinator(TRANSACTION, own),
            request,
            version,
            code_of,
        )

    def _insist(
        self,
        attempt: _Attempt,
        find: Callable[[], Script[Wire]],
        forget: Callable[[], None],
        request: ApiMessage,
        version: int,
        code_of: Callable[[Any], int],
    ) -> Script[None]:
        """Until there is an answer that does not put it off."""
        world, began_ms = self.reach.world, self.reach.world.now_ms
        while True:
            yield from self._wait_out()
            wire = yield from find()
            answer = yield Asking(wire, request, version, TIMEOUT_MS)
            if answer is not None:
                code = code_of(answer)
                if code == ErrorCode.NONE:
                    return
                if code in OVER or (code in _FORGOTTEN and self.reach.excused):
                    world.mark(f"a transaction met {ErrorCode(code).name}")
                    raise _Abandoned
                if code not in _MORE_LATER:
                    self._object(type(request).__name__, code)
            limit_ms = self.patience.ms
            if limit_ms is not None and world.now_ms - began_ms > limit_ms:
                raise _Abandoned
            forget()
            yield self.reach.rest()

    def _wait_out(self) -> Script[None]:
        """In the first protocol a late EndTxn decides the next transaction (KAFKA-17754)."""
        while not self.is_second_protocol and any(
            wire.has_former_links for wire in self.reach.wires.values()
        ):
            yield self.reach.rest()

    def _object(self, what: str, code: int) -> None:
        raise Violation("TxnAnswers", f"{what} of {self.reach.name} got {ErrorCode(code).name}")

    def _batch(self, place: TopicPartition, serials: list[int]) -> bytes:
        sequence = self._sequences.get(place, 0)
        self._sequences[place] = sequence + len(serials)
        now_ms = DEFAULT_START_MS + self.reach.world.now_ms
        records = [(now_ms, b"k", b"v", ((SERIAL_HEADER, b"%d" % each),)) for each in serials]
        return bytes(
            build_batch(
                records,
                producer_id=self._id[0],
                producer_epoch=self._id[1],
                base_sequence=sequence,
                transactional=True,
            )
        )
