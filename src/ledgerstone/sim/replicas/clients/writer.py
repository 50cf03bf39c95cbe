"""An idempotent producer with acks=all that writes down what became of every record. Part of sim.

One batch is under way at a time: what was not acknowledged is sent again as it is. A producer whose
patience is over gives the batch up, unknown, and goes on under another producer id.
"""

from typing import Final

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.init_producer_id import InitProducerIdRequest
from ledgerstone.protocol.messages.produce import (
    ProducePartitionData,
    ProduceRequest,
    ProduceTopicData,
)
from ledgerstone.records.builder import build_batch
from ledgerstone.sim.clients.script import Asking, Resting, Script
from ledgerstone.sim.clock import DEFAULT_START_MS
from ledgerstone.sim.history.operations import OpOutcome, Sent
from ledgerstone.sim.model import SERIAL_HEADER
from ledgerstone.sim.replicas.clients.reach import TIMEOUT_MS, Reach
from ledgerstone.sim.replicas.clients.serials import Serials
from ledgerstone.sim.world import Violation
from ledgerstone.types import TopicPartition

_PRODUCE_VERSION: Final = 11
_INIT_VERSION: Final = 4
# Nothing was appended, for certain.
_REFUSED: Final = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
# The leader does not know the batch before, or knows a later one.
_FORGOTTEN: Final = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)
_RETRIED: Final = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_CONTROLLER,
)


@dataclass(slots=True)
class Patience:
    """How long a batch is tried. Without end once faults are over."""

    ms: int | None


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """One record of a batch."""

    serial: int
    key: bytes
    value: bytes | None
    order: int


@dataclass(slots=True, kw_only=True)
class Writer:
    reach: Reach
    serials: Serials
    places: list[TopicPartition]
    keys: list[bytes]
    tombstone_percent: int
    batches: int
    pace_ms: int
    patience: Patience
    _identity: tuple[int, int] | None = None
    _sequences: dict[TopicPartition, int] = field(default_factory=dict)
    _order: int = 0

    def script(self) -> Script[None]:
        dice = self.reach.dice
        yield Resting(dice.below(1_000))
        for _ in range(self.batches):
            place = dice.pick(self.places)
            yield from self._send(place, [dice.pick(self.keys) for _ in range(dice.between(1, 4))])
            yield Resting(dice.below(2 * self.pace_ms + 1))

    def write_key(self, key: bytes) -> Script[bool]:
        """Some values of it, among those of others; False where it is not known which are there."""
        dice = self.reach.dice
        place = dice.pick(self.places)
        for _ in range(dice.between(1, 3)):
            if not (yield from self._send(place, [dice.pick(self.keys), key])):
                return False
            yield Resting(dice.below(2 * self.pace_ms + 1))
        return True

    def _send(self, place: TopicPartition, keys: list[bytes]) -> Script[bool]:
        """False where the batch was given up."""
        dice = self.reach.dice
        if self._identity is None:
            self._identity = yield from self._init()
        records = []
        for key in keys:
            value = None if dice.chance(self.tombstone_percent) else b"%d" % dice.below(1 << 30)
            records.append(BatchRecord(self.serials.take(), key, value, self._order))
            self._order += 1
        base = self._sequences.get(place, 0)
        is_settled = yield from self._deliver(place, records, self._identity, base)
        if is_settled:
            self._sequences[place] = base + len(records)
        else:
            self._identity = None
            self._sequences.clear()
        return is_settled

    def _init(self) -> Script[tuple[int, int]]:
        while True:
            request = InitProducerIdRequest(transactional_id=None)
            answer = yield Asking(self.reach.any_wire(), request, _INIT_VERSION, TIMEOUT_MS)
            if answer is not None and answer.error_code == ErrorCode.NONE:
                return answer.producer_id, answer.producer_epoch
            yield self.reach.rest()

    def _deliver(
        self,
        place: TopicPartition,
        records: list[BatchRecord],
        identity: tuple[int, int],
        base_sequence: int,
    ) -> Script[bool]:
        """False where the batch was given up."""
        reach, world = self.reach, self.reach.world
        began_ms = world.now_ms
        data = _batch(records, identity, base_sequence, DEFAULT_START_MS + began_ms)
        may_be_there, is_first = False, True
        while True:
            wire = yield from reach.leader_of(place)
            part = ProducePartitionData(index=place.partition, records=bytearray(data))
            request = ProduceRequest(
                acks=-1,
                timeout_ms=TIMEOUT_MS // 2,
                topic_data=[ProduceTopicData(name=place.topic, partition_data=[part])],
            )
            answer = yield Asking(wire, request, _PRODUCE_VERSION, TIMEOUT_MS)
            code, offset = _outcome(answer)
            if code == ErrorCode.NONE:
                if not is_first:
                    world.mark("a retried batch was acknowledged")
                self._note(place, records, began_ms, OpOutcome.OK, offset)
                return True
            is_forgotten = code in _FORGOTTEN and place in reach.excused
            if not is_forgotten:
                self._check(code, place, is_first=is_first)
            may_be_there = may_be_there or code not in _REFUSED
            is_first = False
            reach.forget_leader(place)
            is_late = self.patience.ms is not None and world.now_ms - began_ms > self.patience.ms
            if is_forgotten or is_late:
                outcome = OpOutcome.UNKNOWN if may_be_there else OpOutcome.FAILED
                world.mark(f"a batch was given up, {outcome}")
                self._note(place, records, began_ms, outcome, None)
                return False
            yield reach.rest()

    def _check(self, code: int | None, place: TopicPartition, *, is_first: bool) -> None:
        if code is None or code in _RETRIED or code in _REFUSED:
            if code is not None:
                self.reach.world.mark(f"a producer met {ErrorCode(code).name}")
            return
        name = ErrorCode(code).name
        checker = "ProducerStateStays" if code in _FORGOTTEN else "ProduceAccepted"
        raise Violation(checker, f"{self.reach.name} got {name} for {place} first={is_first}")

    def _note(
        self,
        place: TopicPartition,
        records: list[BatchRecord],
        began_ms: int,
        outcome: OpOutcome,
        offset: int | None,
    ) -> None:
        for index, each in enumerate(records):
            self.reach.history.add(
                Sent(
                    client=self.reach.name,
                    start_ms=began_ms,
                    end_ms=None if outcome is OpOutcome.UNKNOWN else self.reach.world.now_ms,
                    place=place,
                    id=str(each.serial),
                    outcome=outcome,
                    offset=None if offset is None else offset + index,
                    key=each.key.decode(),
                    deletes=each.value is None,
                    # A late copy of a batch that was given up may come after its successors.
                    order=each.order if outcome is OpOutcome.OK else None,
                )
            )


def _batch(
    records: list[BatchRecord], identity: tuple[int, int], base_sequence: int, now_ms: int
) -> bytes:
    made = [
        (now_ms, each.key, each.value, ((SERIAL_HEADER, b"%d" % each.serial),)) for each in records
    ]
    return bytes(
        build_batch(
            made,
            producer_id=identity[0],
            producer_epoch=identity[1],
            base_sequence=base_sequence,
        )
    )


def _outcome(answer: object) -> tuple[int | None, int]:
    if answer is None:
        return None, -1
    part = answer.responses[0].partition_responses[0]  # type: ignore[attr-defined]
    return part.error_code, part.base_offset
