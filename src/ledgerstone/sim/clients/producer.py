"""An idempotent producer: several batches in flight, retries with the very same bytes.

A batch that got no answer is sent again as it is, until it is acknowledged. Only when its broker
has forgotten the producer, which power loss may do, are the batches numbered anew under a new id.
"""

from ledgerstone.dataclasses import dataclass
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from ledgerstone.protocol.messages.produce import (
    ProducePartitionData,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicData,
)
from ledgerstone.records.batch import Codec
from ledgerstone.records.builder import build_batch
from ledgerstone.sim.clients.wire import Wire
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.model import SERIAL_HEADER, NodeModel
from ledgerstone.sim.world import Violation, World
from ledgerstone.types import TopicPartition

_PRODUCE_VERSION = 11
_INIT_VERSION = 4
_TIMEOUT_MS = 3_000
_BACKOFF_MS = 100
_FORGOTTEN = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)
_RETRIED = (
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.REQUEST_TIMED_OUT,
)


@dataclass(slots=True, eq=False)
class Batch:
    topic_partition: TopicPartition
    serials: list[int]
    codec: Codec
    created_ms: int
    sequence: int = -1
    data: bytes = b""
    is_in_flight: bool = False
    attempts: int = 0
    # Where the log ended when the batch was last sent: below it, the batch was there already.
    end_at_retry: int = 0


@dataclass(slots=True, kw_only=True)
class Keys:
    """What a producer writes about."""

    names: list[bytes]
    tombstone_percent: int


class Producer:
    def __init__(
        self,
        world: World,
        wire: Wire,
        model: NodeModel,
        *,
        partitions: list[TopicPartition],
        keys: Keys,
        batches: int,
        pace_ms: int,
        max_in_flight: int,
        codecs: tuple[Codec, ...],
    ) -> None:
        self.world, self.wire, self.model = world, wire, model
        self.name = wire.name
        self.keys = keys
        self._dice: SeededDice = world.dice(f"workload/{wire.name}")
        self._partitions = partitions
        self._left = batches
        self._pace_ms = pace_ms
        self._max_in_flight = max_in_flight
        self._codecs = codecs
        self._id: tuple[int, int] | None = None
        self._asks_id = False
        self._rest_until_ms = 0
        self._losses = 0
        self._next_sequence: dict[TopicPartition, int] = {}
        self.queues: dict[TopicPartition, list[Batch]] = {each: [] for each in partitions}
        world.after(self._dice.below(pace_ms + 1), f"{self.name} writes", self._write)

    @property
    def is_done(self) -> bool:
        return self._left == 0 and not any(self.queues.values())

    def stop(self) -> None:
        """Nothing new is written; what is under way is brought to its end."""
        self._left = 0

    def unresolved(self, key: bytes) -> bool:
        return any(
            self.model.written[serial].key == key
            for queue in self.queues.values()
            for batch in queue
            for serial in batch.serials
        )

    # -- making batches -----------------------------------------------------------------------

    def _write(self) -> None:
        if self._left == 0:
            return
        self._left -= 1
        dice = self._dice
        tp = dice.pick(self._partitions)
        serials = []
        for _ in range(dice.between(1, 4)):
            key = dice.pick(self.keys.names)
            is_tombstone = dice.chance(self.keys.tombstone_percent)
            value = None if is_tombstone else dice.random_bytes(dice.between(1, 40))
            if key not in self.model.doomed:
                serials.append(self.model.write(tp, key, value, self.name))
        if serials:
            codec = dice.pick(self._codecs)
            batch = Batch(tp, serials, codec, self.model.node.clock.now_ms())
            if self._id is not None:
                self._number(batch)
            self.queues[tp].append(batch)
        self._pump()
        self.world.after(dice.below(2 * self._pace_ms + 1), f"{self.name} writes", self._write)

    def _number(self, batch: Batch) -> None:
        assert self._id is not None
        tp = batch.topic_partition
        batch.sequence = self._next_sequence.get(tp, 0)
        self._next_sequence[tp] = batch.sequence + len(batch.serials)
        records = []
        for serial in batch.serials:
            _, key, value, *_ = self.model.written[serial]
            records.append((batch.created_ms, key, value, ((SERIAL_HEADER, b"%d" % serial),)))
        producer_id, epoch = self._id
        batch.data = bytes(
            build_batch(
                records,
                codec=batch.codec,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=batch.sequence,
            )
        )

    # -- sending ------------------------------------------------------------------------------

    def _pump(self) -> None:
        if self.world.now_ms < self._rest_until_ms:
            return
        if self._id is None:
            self._ask_id()
            return
        for queue in self.queues.values():
            for place, batch in enumerate(queue):
                if self.wire.waiting >= self._max_in_flight:
                    return
                # A batch is sent again only once those behind it have come back.
                if not batch.is_in_flight and not any(e.is_in_flight for e in queue[place:]):
                    self._send(batch)

    def _send(self, batch: Batch) -> None:
        batch.is_in_flight = True
        batch.attempts += 1
        tp = batch.topic_partition
        batch.end_at_retry = self.model.end_offset_of(tp)
        data = ProducePartitionData(index=tp.partition, records=bytearray(batch.data))
        topics = [ProduceTopicData(name=tp.topic, partition_data=[data])]
        request = ProduceRequest(acks=-1, timeout_ms=_TIMEOUT_MS, topic_data=topics)
        self.wire.ask(request, _PRODUCE_VERSION, lambda m: self._answered(batch, m), _TIMEOUT_MS)

    def _answered(self, batch: Batch, message: ApiMessage | None) -> None:
        batch.is_in_flight = False
        queue = self.queues[batch.topic_partition]
        if message is None:
            self._rest()
            return
        assert isinstance(message, ProduceResponse)
        answer = message.responses[0].partition_responses[0]
        code = answer.error_code
        if code == ErrorCode.NONE:
            if batch.attempts > 1:
                self.world.mark("a retried batch was acknowledged")
                if answer.base_offset < batch.end_at_retry:
                    self.world.mark("a retry was answered as a duplicate")
            for place, serial in enumerate(batch.serials):
                self.model.learn(batch.topic_partition, answer.base_offset + place, serial)
            if queue[0] is not batch:
                raise Violation("ProducerOrder", f"{self.name}: a later batch was taken first")
            queue.remove(batch)
            self._pump()
        elif code in _RETRIED or (code in _FORGOTTEN and queue[0] is not batch):
            self._rest()
        elif code in _FORGOTTEN:
            self._forgotten(batch, code)
        else:
            raise Violation("ProduceAccepted", f"{self.name} got {ErrorCode(code).name}")

    def _forgotten(self, batch: Batch, code: int) -> None:
        """The broker does not know the batch before. Only lost power excuses that; or, as in Kafka,
        a restart after a pass: of each producer's last batches a pass keeps one to know it by."""
        is_compact = batch.topic_partition.topic == "compact"
        is_thinned = is_compact and batch.attempts > 1 and self.model.node.boot > 1
        if self.model.losses == self._losses and not is_thinned:
            name = ErrorCode(code).name
            raise Violation("ProducerStateStays", f"{self.name} got {name} for {batch.sequence}")
        self.world.mark("a producer was forgotten")
        self._losses = self.model.losses
        self._id = None
        for queue in self.queues.values():
            for each in queue:
                if each.attempts and (each is not batch or is_thinned):
                    self.model.may_repeat.update(dict.fromkeys(each.serials))
        self.wire.hang_up()
        self._rest()

    def _rest(self) -> None:
        self._rest_until_ms = self.world.now_ms + _BACKOFF_MS
        self.world.after(_BACKOFF_MS, f"{self.name} retries", self._pump)

    # -- producer id --------------------------------------------------------------------------

    def _ask_id(self) -> None:
        if not self._asks_id:
            self._asks_id = True
            request = InitProducerIdRequest(transactional_id=None)
            self.wire.ask(request, _INIT_VERSION, self._got_id, _TIMEOUT_MS)

    def _got_id(self, message: ApiMessage | None) -> None:
        self._asks_id = False
        if message is None:
            self._rest()
            return
        assert isinstance(message, InitProducerIdResponse)
        if message.error_code != ErrorCode.NONE:
            self._rest()
            return
        self._id = (message.producer_id, message.producer_epoch)
        self.model.drew_producer_id(*self._id, self.name)
        self._next_sequence.clear()
        for queue in self.queues.values():
            for batch in queue:
                self._number(batch)
        self._pump()
