"""Workers over librdkafka (confluent-kafka). Shell."""

import time
from collections.abc import Sequence
from typing import Any, Final

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
)
from confluent_kafka import TopicPartition as ConfluentPartition

from bench.nemesis.clients import LOG, Worker, Write, Writer, confluent_settings, id_of, log_places
from bench.nemesis.recorder import Recorder, now_ms
from ledgerstone.sim.history.operations import (
    Assigned,
    OffsetCommitted,
    OffsetFetched,
    OpOutcome,
    RecordsRead,
    Seen,
    Sent,
    TxnEnded,
)
from ledgerstone.types import TopicPartition

DELIVERY_MS: Final = 15_000
FLUSH_S: Final = 30.0
END_LIMIT_S: Final = 60.0
MOST_AT_ONCE: Final = 500
# How often a member leaves its group and joins it again, by turns.
LEAVES: Final = 0.002
# confluent-kafka reports a delivery while its own exception is set, and Python makes that of it.
# What was handed over may have been sent all the same.
NOT_SENT: Final = (KafkaException, SystemError)


class Delivery:
    """Where librdkafka said that records are."""

    def __init__(self) -> None:
        self.offsets: dict[str, int] = {}

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.offsets[id_of(message.value(), message.headers())] = message.offset() or 0

    def sent(
        self, writes: Sequence[Write], client: str, start_ms: float, txn: str | None = None
    ) -> list[Sent]:
        end_ms = now_ms()
        return [
            Sent(
                client=client,
                start_ms=start_ms,
                end_ms=end_ms,
                place=each.place,
                id=each.id,
                outcome=OpOutcome.OK if each.id in self.offsets else OpOutcome.UNKNOWN,
                offset=self.offsets.get(each.id),
                key=each.key,
                deletes=each.deletes,
                txn=txn,
                order=each.order,
            )
            for each in writes
        ]


def produce(producer: Producer, write: Write, delivery: Delivery) -> None:
    producer.produce(
        write.place.topic,
        value=write.value,
        key=write.key_bytes,
        partition=write.place.partition,
        headers=dict(write.headers),
        on_delivery=delivery,
    )


class ConfluentAppender(Writer):
    """Idempotent, acks=all: the log and the table in turn."""

    def __init__(self, name: str, bootstrap: str, recorder: Recorder, seed: int) -> None:
        super().__init__(name, bootstrap, recorder, seed)
        self._producer = self._new_producer()

    def _new_producer(self) -> Producer:
        settings = confluent_settings(
            self.bootstrap,
            self.name,
            enable_idempotence=True,
            acks="all",
            linger_ms=2,
            message_timeout_ms=DELIVERY_MS,
        )
        return Producer(dict(settings))

    def turn(self) -> None:
        count = self.dice.randint(1, 8)
        is_table = self.dice.random() < 0.5
        writes = self.draw_table_writes(count) if is_table else self.draw_appends(count)
        delivery, start_ms = Delivery(), now_ms()
        try:
            for each in writes:
                produce(self._producer, each, delivery)
            self._producer.flush(FLUSH_S)
        except NOT_SENT:
            self._producer.purge()
        self.recorder.note(*delivery.sent(writes, self.client_name, start_ms))
        if len(delivery.offsets) < len(writes):
            self.new_life()
            self._producer.purge()
            self._producer.flush(1)
            self._producer = self._new_producer()


class ConfluentTransactions(Writer):
    def __init__(self, name: str, bootstrap: str, recorder: Recorder, seed: int) -> None:
        super().__init__(name, bootstrap, recorder, seed)
        self._producer: Producer | None = None
        self._transactions = 0

    def _open_producer(self) -> Producer | None:
        if self._producer is not None:
            return self._producer
        settings = confluent_settings(
            self.bootstrap,
            self.name,
            transactional_id=self.name,
            transaction_timeout_ms=20_000,
            message_timeout_ms=DELIVERY_MS,
            linger_ms=2,
        )
        self.new_life()
        producer = Producer(dict(settings))
        try:
            producer.init_transactions(10)
        except KafkaException:
            return None
        self._producer = producer
        return producer

    def turn(self) -> None:
        producer = self._open_producer()
        if producer is None:
            return
        self._transactions += 1
        txn = f"{self.name}-t{self._transactions}"
        writes = self.draw_appends(self.dice.randint(1, 6), (0, 1, 2))
        delivery, start_ms = Delivery(), now_ms()
        is_whole = True
        try:
            producer.begin_transaction()
            for each in writes:
                produce(producer, each, delivery)
            producer.flush(FLUSH_S)
        except NOT_SENT:
            is_whole = False
        self.recorder.note(*delivery.sent(writes, self.client_name, start_ms, txn))
        is_whole = is_whole and len(delivery.offsets) == len(writes)
        self._end(producer, txn, commits=is_whole and self.dice.random() < 0.8)

    def _end(self, producer: Producer, txn: str, *, commits: bool) -> None:
        start_ms = now_ms()
        outcome = self._ended(producer, commits=commits)
        self.recorder.note(
            TxnEnded(
                client=self.client_name,
                start_ms=start_ms,
                end_ms=now_ms(),
                txn=txn,
                commits=commits,
                outcome=outcome,
            )
        )
        if outcome is OpOutcome.UNKNOWN:
            self._producer = None

    def _ended(self, producer: Producer, *, commits: bool) -> OpOutcome:
        deadline = time.monotonic() + END_LIMIT_S
        is_aborting = not commits
        while time.monotonic() < deadline and not self._is_over.is_set():
            try:
                if is_aborting:
                    producer.abort_transaction(10)
                else:
                    producer.commit_transaction(10)
            except KafkaException as failure:
                error: KafkaError = failure.args[0]
                if error.txn_requires_abort() and not is_aborting:
                    is_aborting = True
                elif not error.retriable():
                    return OpOutcome.UNKNOWN
                continue
            # A commit that had to be aborted failed, and nothing of it may be seen.
            return OpOutcome.FAILED if commits and is_aborting else OpOutcome.OK
        return OpOutcome.UNKNOWN


class ConfluentReader(Worker):
    """Reads all records of the log, aborted ones too; begins anew when it has read far."""

    def __init__(self, name: str, bootstrap: str, recorder: Recorder, seed: int) -> None:
        super().__init__(name, bootstrap, recorder, seed)
        self._consumer: Consumer | None = None
        self._positions: dict[TopicPartition, int] = {}

    def _assigned(self) -> Consumer:
        if self._consumer is not None:
            return self._consumer
        settings = confluent_settings(
            self.bootstrap,
            self.name,
            group_id=self.name,
            enable_auto_commit=False,
            auto_offset_reset="error",
            isolation_level="read_uncommitted",
        )
        self._consumer = Consumer(dict(settings))
        self._positions = dict.fromkeys(log_places(), 0)
        self._consumer.assign([ConfluentPartition(*each, 0) for each in self._positions])
        now = now_ms()
        self.recorder.note(
            *(
                Assigned(client=self.name, start_ms=now, end_ms=now, place=each, position=0)
                for each in self._positions
            )
        )
        return self._consumer

    def turn(self) -> None:
        consumer = self._assigned()
        start_ms = now_ms()
        found: dict[TopicPartition, list[Seen]] = {}
        for message in consumer.consume(MOST_AT_ONCE, 0.2):
            if (error := message.error()) is not None:
                self._judge(error)
                continue
            place, seen = seen_in(message)
            found.setdefault(place, []).append(seen)
        self.recorder.note(*polled(found, self._positions, self.name, start_ms, committed=False))

    def _judge(self, error: KafkaError) -> None:
        out_of_range = (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET)
        if error.code() in out_of_range:
            self.recorder.complain(f"{self.name} at {self._positions}: {error.str()}")
            self.close()

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


def seen_in(message: Message) -> tuple[TopicPartition, Seen]:
    place = TopicPartition(message.topic() or "", message.partition() or 0)
    return place, Seen(message.offset() or 0, id_of(message.value(), message.headers()))


def polled(
    found: dict[TopicPartition, list[Seen]],
    positions: dict[TopicPartition, int],
    client: str,
    start_ms: float,
    *,
    committed: bool,
) -> list[RecordsRead]:
    """Moves the positions behind what was found."""
    end_ms = now_ms()
    lines = []
    for place, records in found.items():
        position = positions.get(place, records[0].offset)
        positions[place] = records[-1].offset + 1
        lines.append(
            RecordsRead(
                client=client,
                start_ms=start_ms,
                end_ms=end_ms,
                place=place,
                position=position,
                next_position=positions[place],
                records=tuple(records),
                committed=committed,
            )
        )
    return lines


class ConfluentMember(Worker):
    """A member of a group that reads the log and commits what it read."""

    GROUP: Final = "members"

    def __init__(self, name: str, bootstrap: str, recorder: Recorder, seed: int) -> None:
        super().__init__(name, bootstrap, recorder, seed)
        self._consumer: Consumer | None = None
        self._positions: dict[TopicPartition, int] = {}
        # Read, and not yet in the history.
        self._found: dict[TopicPartition, list[Seen]] = {}
        self._start_ms = now_ms()

    def _subscribed(self) -> Consumer:
        if self._consumer is None:
            settings = confluent_settings(
                self.bootstrap,
                self.name,
                group_id=self.GROUP,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
                session_timeout_ms=6_000,
                heartbeat_interval_ms=1_000,
            )
            self._consumer = Consumer(dict(settings))
            self._consumer.subscribe([LOG], on_assign=self._on_assign, on_revoke=self._on_revoke)
        return self._consumer

    def _on_assign(self, consumer: Consumer, partitions: list[ConfluentPartition]) -> None:
        """Starts where the group is; the history gets what the coordinator said."""
        self._note_found()
        start_ms = now_ms()
        try:
            stored = consumer.committed(partitions, 5) if partitions else []
        except KafkaException:
            # Without the group's positions nothing may be read.
            consumer.assign([])
            return
        lines: list[Any] = []
        for each in stored:
            place = TopicPartition(each.topic, each.partition)
            is_none = each.offset == OFFSET_INVALID
            position = 0 if is_none else each.offset
            self._positions[place] = each.offset = position
            times: Any = {"client": self.name, "start_ms": start_ms, "end_ms": now_ms()}
            offset = -1 if is_none else position
            lines.append(OffsetFetched(**times, group=self.GROUP, place=place, offset=offset))
            lines.append(Assigned(**times, place=place, position=position))
        self.recorder.note(*lines)
        consumer.assign(stored)

    def _on_revoke(self, consumer: Consumer, _: list[ConfluentPartition]) -> None:
        self._note_found()
        self._positions.clear()
        consumer.unassign()

    def turn(self) -> None:
        consumer = self._subscribed()
        self._start_ms, wait_s = now_ms(), 0.2
        # One by one: a rebalance happens inside poll(), and what came before it was read before it.
        while sum(map(len, self._found.values())) < MOST_AT_ONCE:
            message = consumer.poll(wait_s)
            if message is None:
                break
            wait_s = 0.0
            if message.error() is None:
                place, seen = seen_in(message)
                if place in self._positions:
                    self._found.setdefault(place, []).append(seen)
        if self._found:
            places = list(self._found)
            self._note_found()
            self._commit(consumer, places)
        if self.dice.random() < LEAVES:
            self.close()

    def _note_found(self) -> None:
        found, self._found = self._found, {}
        lines = polled(found, self._positions, self.name, self._start_ms, committed=True)
        self.recorder.note(*lines)

    def _commit(self, consumer: Consumer, places: Sequence[TopicPartition]) -> None:
        positions = {each: self._positions[each] for each in places if each in self._positions}
        offsets = [ConfluentPartition(*each, position) for each, position in positions.items()]
        start_ms = now_ms()
        try:
            answers = consumer.commit(offsets=offsets, asynchronous=False) or []
            done = {TopicPartition(a.topic, a.partition) for a in answers if a.error is None}
        except KafkaException:
            done = set()
        self.recorder.note(
            *(
                OffsetCommitted(
                    client=self.name,
                    start_ms=start_ms,
                    end_ms=now_ms(),
                    group=self.GROUP,
                    place=each,
                    offset=position,
                    outcome=OpOutcome.OK if each in done else OpOutcome.UNKNOWN,
                )
                for each, position in positions.items()
            )
        )

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
            self._positions.clear()
