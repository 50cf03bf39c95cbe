"""A transactional producer in either protocol: it starts, and it plays one transaction at a time.

The first protocol (librdkafka, Java 3) announces partitions and groups before it writes to them,
and keeps its epoch. The second (Java 4) announces nothing and takes a new epoch from every EndTxn.

Every request is repeated with the same content until it is answered; each repetition goes over a
new connection, while the former one may still be on its way. In the first protocol a late EndTxn
decides the next transaction (KAFKA-17754), which no broker can mend: its clients wait until a
connection that they gave up is at its end.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ledgerstone.dataclasses import dataclass
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ledgerstone.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ledgerstone.protocol.messages.end_txn import EndTxnRequest
from ledgerstone.protocol.messages.find_coordinator import FindCoordinatorRequest
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
from ledgerstone.sim.attempts import TxnAttempt, TxnBook
from ledgerstone.sim.clients.dialects import LATER, OVER, REGROUPED, CannotCommit, Dialect, Fenced
from ledgerstone.sim.clients.script import Asking, AskingTogether, Resting, Script
from ledgerstone.sim.clients.wire import Wire
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.model import SERIAL_HEADER
from ledgerstone.sim.world import Violation
from ledgerstone.types import TopicPartition

_TIMEOUT_MS: Final = 3_000
_BACKOFF_MS: Final = 40
_FIND_VERSION: Final = 4
_TRANSACTION: Final = 1


@dataclass(slots=True, eq=False)
class Parcel:
    """A batch of a transaction."""

    topic_partition: TopicPartition
    serials: list[int]
    data: bytes = b""
    is_taken: bool = False
    sends: int = 0


class GroupPlace(NamedTuple):
    """Who sends offsets: KIP-447 fences by it."""

    group: str
    generation_id: int
    member_id: str


class TxnClient:
    """`id` is None until InitProducerId was answered, and after the producer was fenced."""

    def __init__(
        self,
        wire: Wire,
        book: TxnBook,
        *,
        client: str,
        transactional_id: str,
        dialect: Dialect,
        timeout_ms: int,
        impatience_percent: int,
        echoes: Wire,
        echo_percent: int,
        dice: SeededDice,
    ) -> None:
        self.wire, self.book = wire, book
        self._echoes, self._echo_percent = echoes, echo_percent
        self.client, self.transactional_id = client, transactional_id
        self.dialect = dialect
        self.timeout_ms = timeout_ms
        self._impatience_percent = impatience_percent
        self._dice = dice
        self._world = wire.world
        self.id: tuple[int, int] | None = None
        self._sequences: dict[TopicPartition, int] = {}

    # -- starting -----------------------------------------------------------------------------

    def start(self, *, bumps: bool = False) -> Script[None]:
        """`bumps`: says what it had, as the Java client does after an abortable error."""
        book, expected = self.book, self.id if bumps else None
        self.id = None
        yield from self._find()
        producer_id, epoch = expected or (-1, -1)
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        doubts = book.inits_in_doubt
        sent_ms = self._world.now_ms
        while True:
            yield from self._wait_out()
            # Until it is answered it may come at any time, and again after this process is gone.
            doubts[self.transactional_id] = doubts.get(self.transactional_id, 0) + 1
            book.last_init_ms[self.transactional_id] = self._world.now_ms
            answer = yield Asking(self.wire, request, self.dialect.init, self._patience_ms())
            if answer is None:
                yield Resting(self._backoff_ms())
                continue
            doubts[self.transactional_id] -= 1
            if answer.error_code == ErrorCode.NONE:
                break
            if answer.error_code in LATER:
                yield Resting(self._backoff_ms())
            elif answer.error_code in OVER and expected is not None:
                raise Fenced
            else:
                self._object("InitProducerId", answer.error_code)
        if expected is not None:
            is_same_id = answer.producer_id == expected[0]
            book.check_bump(self.transactional_id, self.client, sent_ms, is_same_id=is_same_id)
        self.id = (answer.producer_id, answer.producer_epoch)
        self._sequences.clear()
        book.started(self.transactional_id, self.client, *self.id)

    def start_again(self) -> Script[bool]:
        """After it was fenced. False: another process has its transactional id; this one ends."""
        is_replaced = self._is_replaced()
        bumps = self.id is not None and self._dice.chance(50)
        if is_replaced and not bumps:
            return False
        try:
            yield from self.start(bumps=bumps)
        except Fenced:
            if self._is_replaced():
                return False
            yield from self.start()
        return True

    def _is_replaced(self) -> bool:
        return self.book.replaced_ms(self.transactional_id, self.client) is not None

    def _find(self) -> Script[None]:
        request = FindCoordinatorRequest(
            key_type=_TRANSACTION, coordinator_keys=[self.transactional_id]
        )
        code = yield from self._insist(
            request, _FIND_VERSION, lambda answer: answer.coordinators[0].error_code
        )
        if code != ErrorCode.NONE:
            self._object("FindCoordinator", code)

    # -- one transaction ----------------------------------------------------------------------

    def announce(self, attempt: TxnAttempt, parcels: list[Parcel]) -> Script[None]:
        """AddPartitionsToTxn, which the second protocol does not need."""
        if self.dialect.ends_epoch:
            return
        topics: dict[str, list[int]] = {}
        for tp in dict.fromkeys(each.topic_partition for each in parcels):
            topics.setdefault(tp.topic, []).append(tp.partition)
        assert self.id is not None
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.id[0],
            v3_and_below_producer_epoch=self.id[1],
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=each) for name, each in topics.items()
            ],
        )
        yield from self._step(attempt, request, self.dialect.add, code_of_add)

    def write(self, attempt: TxnAttempt, parcels: list[Parcel]) -> Script[None]:
        """All of them at once; those that were not taken again, in order, until all were."""
        for parcel in parcels:
            self._seal(parcel)
        while left := [each for each in parcels if not each.is_taken]:
            yield from self._wait_out()
            sent_ms, patience_ms = self._world.now_ms, self._patience_ms()
            requests = [self._produce(each) for each in left]
            for request in requests:
                self._echo(request, self.dialect.produce)
            answers = yield AskingTogether(
                [Asking(self.wire, each, self.dialect.produce, patience_ms) for each in requests]
            )
            self._take(attempt, left, answers, sent_ms)
            if any(not each.is_taken for each in left):
                if self._gives_up():
                    raise CannotCommit
                yield Resting(self._backoff_ms())

    def _take(
        self, attempt: TxnAttempt, parcels: list[Parcel], answers: list[Any], sent_ms: int
    ) -> None:
        refused: dict[TopicPartition, None] = {}
        for parcel, answer in zip(parcels, answers, strict=True):
            tp = parcel.topic_partition
            if answer is None:
                refused[tp] = None
                continue
            said = answer.responses[0].partition_responses[0]
            code = said.error_code
            if code == ErrorCode.NONE:
                self.book.check_accepted(attempt, "Produce", sent_ms)
                if parcel.sends > 1:
                    self._world.mark("a retried batch of a transaction was taken")
                parcel.is_taken = True
                for place, serial in enumerate(parcel.serials):
                    self.book.model.learn(tp, said.base_offset + place, serial)
            elif code in LATER or (
                code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and tp in refused
            ):
                refused[tp] = None
            else:
                self._refused(attempt, "Produce", code)

    def send_offsets(self, attempt: TxnAttempt, place: GroupPlace) -> Script[None]:
        assert self.id is not None
        if not self.dialect.ends_epoch:
            request = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.id[0],
                producer_epoch=self.id[1],
                group_id=place.group,
            )
            yield from self._step(attempt, request, self.dialect.add, lambda m: int(m.error_code))
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for tp, position in attempt.offsets.items():
            topics.setdefault(tp.topic, []).append(
                TxnOffsetCommitRequestPartition(
                    partition_index=tp.partition,
                    committed_offset=position,
                    committed_metadata=str(attempt.number),
                )
            )
        commit = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=place.group,
            producer_id=self.id[0],
            producer_epoch=self.id[1],
            generation_id=place.generation_id,
            member_id=place.member_id,
            topics=[TxnOffsetCommitRequestTopic(name=n, partitions=p) for n, p in topics.items()],
        )
        yield from self._step(attempt, commit, self.dialect.offsets, code_of_offsets)

    def end(self, attempt: TxnAttempt, *, commit: bool) -> Script[None]:
        """Until it is decided. A commit that was asked for is never called off."""
        assert self.id is not None
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.id[0],
            producer_epoch=self.id[1],
            committed=commit,
        )
        answers: list[Any] = []
        attempt.is_ending = True
        if commit:
            self.book.ask_commit(attempt)

        def code_of(answer: Any) -> int:  # noqa: ANN401 - a response
            answers[:] = [answer]
            return int(answer.error_code)

        sent_ms = self._world.now_ms
        code = yield from self._insist(request, self.dialect.end, code_of)
        if code != ErrorCode.NONE:
            if commit and code == ErrorCode.INVALID_TXN_STATE:
                # Somebody else has aborted it.
                self.book.tell(attempt, "aborted")
            self._refused(attempt, "EndTxn", code)
        self.book.check_accepted(attempt, "EndTxn", sent_ms)
        self.book.tell(attempt, "committed" if commit else "aborted")
        if attempt.boot != self.book.model.node.boot and commit:
            self._world.mark("a transaction went on over a restart")
        if self.dialect.ends_epoch:
            self._next_epoch(answers[0].producer_id, answers[0].producer_epoch)

    def _next_epoch(self, producer_id: int, epoch: int) -> None:
        assert self.id is not None
        if producer_id == self.id[0] and epoch <= self.id[1]:
            raise Violation("EpochsRise", f"{self.client}: {self.id} became {producer_id, epoch}")
        self.id = (producer_id, epoch)
        self.book.known_ids[self.id] = None
        self._sequences.clear()

    # -- asking -------------------------------------------------------------------------------

    def _step(
        self, attempt: TxnAttempt, request: ApiMessage, version: int, code_of: Callable[[Any], int]
    ) -> Script[None]:
        sent_ms = self._world.now_ms
        code = yield from self._insist(request, version, code_of, may_give_up=True)
        if code != ErrorCode.NONE:
            self._refused(attempt, type(request).__name__.removesuffix("Request"), code)
        self.book.check_accepted(attempt, request.name, sent_ms)

    def _insist(
        self,
        request: ApiMessage,
        version: int,
        code_of: Callable[[Any], int],
        *,
        may_give_up: bool = False,
    ) -> Script[int]:
        """Until there is an answer that does not put it off."""
        self._echo(request, version)
        while True:
            yield from self._wait_out()
            answer = yield Asking(self.wire, request, version, self._patience_ms())
            if answer is not None:
                code = code_of(answer)
                if code not in LATER:
                    return code
            if may_give_up and self._gives_up():
                raise CannotCommit
            yield Resting(self._backoff_ms())

    def _echo(self, request: ApiMessage, version: int) -> None:
        """The request comes once more, perhaps when its transaction is long over."""
        if self.dialect.ends_epoch and self._dice.chance(self._echo_percent):
            delay_ms = self._dice.below(1_000)
            self._echoes.gate.after(
                delay_ms,
                f"{self._echoes.name} repeats",
                lambda: self._echoes.ask(request, version, lambda answer: None, _TIMEOUT_MS),
            )

    def _wait_out(self) -> Script[None]:
        while not self.dialect.ends_epoch and self.wire.has_former_links:
            yield Resting(_BACKOFF_MS)

    def _refused(self, attempt: TxnAttempt, what: str, code: int) -> None:
        name = ErrorCode(code).name
        if code in REGROUPED:
            self._world.mark("offsets of an earlier generation were refused")
            raise CannotCommit
        if code not in OVER:
            self._object(what, code)
        is_forgotten = code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        self.book.check_fence(
            attempt, f"{name} for {what}", self.timeout_ms, is_forgotten=is_forgotten
        )
        raise Fenced

    def _object(self, what: str, code: int) -> None:
        name = ErrorCode(code).name
        raise Violation("TxnAnswers", f"{what} of {self.client} got {name}")

    def _gives_up(self) -> bool:
        return self.dialect.ends_epoch and self._dice.chance(5)

    def _patience_ms(self) -> int:
        if self._dice.chance(self._impatience_percent):
            return self._dice.between(1, 60)
        return _TIMEOUT_MS

    def _backoff_ms(self) -> int:
        return self._dice.between(1, 2 * _BACKOFF_MS)

    # -- bytes --------------------------------------------------------------------------------

    def _seal(self, parcel: Parcel) -> None:
        assert self.id is not None
        tp = parcel.topic_partition
        sequence = self._sequences.get(tp, 0)
        self._sequences[tp] = sequence + len(parcel.serials)
        model = self.book.model
        created_ms = model.node.clock.now_ms()
        records = []
        for serial in parcel.serials:
            written = model.written[serial]
            header = ((SERIAL_HEADER, b"%d" % serial),)
            records.append((created_ms, written.key, written.value, header))
        parcel.data = bytes(
            build_batch(
                records,
                producer_id=self.id[0],
                producer_epoch=self.id[1],
                base_sequence=sequence,
                transactional=True,
            )
        )

    def _produce(self, parcel: Parcel) -> ProduceRequest:
        parcel.sends += 1
        tp = parcel.topic_partition
        data = ProducePartitionData(index=tp.partition, records=bytearray(parcel.data))
        return ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=_TIMEOUT_MS,
            topic_data=[ProduceTopicData(name=tp.topic, partition_data=[data])],
        )


def code_of_add(answer: Any) -> int:  # noqa: ANN401 - a response
    """The first that says why; the others were not attempted because of it."""
    codes = [
        int(each.partition_error_code)
        for topic in answer.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    ]
    causes = [code for code in codes if code not in (0, ErrorCode.OPERATION_NOT_ATTEMPTED)]
    return causes[0] if causes else max(codes, default=0)


def code_of_offsets(answer: Any) -> int:  # noqa: ANN401 - a response
    codes = [int(each.error_code) for topic in answer.topics for each in topic.partitions]
    return next((code for code in codes if code), 0)
