"""Workers over our own client. Shell."""

import time
from typing import Final

from bench.nemesis.clients import (
    LOG,
    LOG_PARTITIONS,
    Worker,
    Write,
    Writer,
    id_of,
    log_places,
    our_client,
)
from bench.nemesis.recorder import Recorder, now_ms
from ledgerstone.client.committed import CommittedOffset
from ledgerstone.client.consumer import records_of
from ledgerstone.client.fetcher import FetchConfig, Fetcher
from ledgerstone.client.offsets import commit_offsets, committed_offsets
from ledgerstone.client.producer import NewRecord, Placed, Producer, ProducerConfig
from ledgerstone.client.transactions import TransactionalProducer
from ledgerstone.client.txn_errors import MustAbort, MustClose
from ledgerstone.errors import LedgerstoneError, OffsetOutOfRange
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

END_LIMIT_S: Final = 60.0
FAILURES: Final = (LedgerstoneError, OSError)


def new_record(write: Write) -> NewRecord:
    return NewRecord(
        write.place.topic,
        write.key_bytes,
        write.value,
        write.headers,
        partition=write.place.partition,
    )


class OurAppender(Writer):
    """Idempotent, acks=all: the log and the table in turn."""

    def __init__(self, name: str, bootstrap: str, recorder: Recorder, seed: int) -> None:
        super().__init__(name, bootstrap, recorder, seed)
        self._client = our_client(bootstrap, name)
        self._producer = self._new_producer()

    def _new_producer(self) -> Producer:
        return Producer(self._client, ProducerConfig(idempotent=True, timeout_ms=8_000))

    def turn(self) -> None:
        count = self.dice.randint(1, 5)
        is_table = self.dice.random() < 0.5
        writes = self.draw_table_writes(count) if is_table else self.draw_appends(count)
        start_ms = now_ms()
        outcomes: list[object]
        try:
            outcomes = list(self._producer.send([new_record(each) for each in writes]))
        except FAILURES as error:
            outcomes = [error] * len(writes)
        end_ms = now_ms()
        self.recorder.note(
            *(
                self._sent(write, outcome, start_ms, end_ms)
                for write, outcome in zip(writes, outcomes, strict=True)
            )
        )
        if not all(isinstance(each, Placed) for each in outcomes):
            self.new_life()
            self._producer = self._new_producer()

    def _sent(self, write: Write, outcome: object, start_ms: float, end_ms: float) -> Sent:
        placed = isinstance(outcome, Placed)
        return Sent(
            client=self.client_name,
            start_ms=start_ms,
            end_ms=end_ms,
            place=write.place,
            id=write.id,
            outcome=OpOutcome.OK if placed else OpOutcome.UNKNOWN,
            offset=outcome.offset if isinstance(outcome, Placed) else None,
            key=write.key,
            deletes=write.deletes,
            order=write.order,
        )

    def close(self) -> None:
        self._client.close()


class OurTransactions(Writer):
    """Records of several partitions and a group's offset, committed or aborted together."""

    def __init__(self, name: str, bootstrap: str, recorder: Recorder, seed: int) -> None:
        super().__init__(name, bootstrap, recorder, seed)
        self._client = our_client(bootstrap, name)
        self._group = f"group-of-{name}"
        self._producer = self._new_producer()
        self._transactions = 0

    def _new_producer(self) -> TransactionalProducer:
        return TransactionalProducer(
            self._client, self.name, ProducerConfig(timeout_ms=8_000), timeout_ms=20_000
        )

    def turn(self) -> None:
        self._transactions += 1
        txn = f"{self.name}-t{self._transactions}"
        writes = self.draw_appends(self.dice.randint(1, 4), (0, 1, 2))
        start_ms = now_ms()
        try:
            self._producer.begin()
        except FAILURES:
            self._start_anew()
            return
        placed: list[Placed] = []
        try:
            placed = self._producer.send([new_record(each) for each in writes])
            sent_all = True
        except FAILURES:
            sent_all = False
        end_ms = now_ms()
        self.recorder.note(
            *(
                Sent(
                    client=self.client_name,
                    start_ms=start_ms,
                    end_ms=end_ms,
                    place=write.place,
                    id=write.id,
                    outcome=OpOutcome.OK if sent_all else OpOutcome.UNKNOWN,
                    offset=placed[index].offset if sent_all else None,
                    txn=txn,
                )
                for index, write in enumerate(writes)
            )
        )
        sent_all = sent_all and self._send_offset(txn)
        self._end(txn, commits=sent_all and self.dice.random() < 0.8)

    def _send_offset(self, txn: str) -> bool:
        place = next(log_places())
        offsets = {place: CommittedOffset(self._transactions)}
        start_ms, outcome = now_ms(), OpOutcome.OK
        try:
            self._producer.send_offsets(self._group, offsets)
        except FAILURES:
            outcome = OpOutcome.UNKNOWN
        self.recorder.note(
            OffsetCommitted(
                client=self.client_name,
                start_ms=start_ms,
                end_ms=now_ms(),
                group=self._group,
                place=place,
                offset=self._transactions,
                outcome=outcome,
                txn=txn,
            )
        )
        return outcome is OpOutcome.OK

    def _end(self, txn: str, *, commits: bool) -> None:
        start_ms = now_ms()
        outcome = self._ended(commits=commits)
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
            self._start_anew()

    def _ended(self, *, commits: bool) -> OpOutcome:
        """A commit without an answer is repeated: it may have been carried out."""
        deadline = time.monotonic() + END_LIMIT_S
        while time.monotonic() < deadline and not self._is_over.is_set():
            try:
                if commits:
                    self._producer.commit()
                else:
                    self._producer.abort()
            except MustAbort:
                # The broker refused the commit: the transaction is aborted, now or by its time-out.
                return OpOutcome.UNKNOWN
            except MustClose:
                return OpOutcome.UNKNOWN
            except FAILURES:
                continue
            return OpOutcome.OK
        return OpOutcome.UNKNOWN

    def _start_anew(self) -> None:
        self.new_life()
        self._client.close()
        self._client = our_client(self.bootstrap, self.name)
        self._producer = self._new_producer()

    def close(self) -> None:
        self._client.close()


class OurReader(Worker):
    """Reads committed records of the log; begins anew from time to time."""

    def __init__(self, name: str, bootstrap: str, recorder: Recorder, seed: int) -> None:
        super().__init__(name, bootstrap, recorder, seed)
        self._client = our_client(bootstrap, name)
        self._fetcher = Fetcher(self._client, FetchConfig(max_wait_ms=300))
        self._positions: dict[TopicPartition, int] = {}

    def turn(self) -> None:
        if not self._positions:
            self._positions = dict.fromkeys(log_places(), 0)
            now = now_ms()
            self.recorder.note(
                *(
                    Assigned(client=self.name, start_ms=now, end_ms=now, place=each, position=0)
                    for each in log_places()
                )
            )
        start_ms = now_ms()
        try:
            fetched = self._fetcher.fetch(self._positions)
        except OffsetOutOfRange as error:
            # Nothing is ever trimmed here.
            self.recorder.complain(f"{self.name} at {self._positions}: {error}")
            self._positions = {}
            return
        except FAILURES:
            return
        for each in fetched:
            records = tuple(Seen(r.offset, id_of(r.value, r.headers)) for r in records_of(each))
            if each.next_offset == each.fetch_offset:
                continue
            self.recorder.note(
                RecordsRead(
                    client=self.name,
                    start_ms=start_ms,
                    end_ms=now_ms(),
                    place=TopicPartition(each.partition.topic, each.partition.partition),
                    position=each.fetch_offset,
                    next_position=each.next_offset,
                    records=records,
                    committed=True,
                )
            )
            self._positions[each.partition] = each.next_offset

    def close(self) -> None:
        self._client.close()


class OurCommitter(Worker):
    """Commits a growing offset outside of any membership, and asks for it."""

    def __init__(self, name: str, bootstrap: str, recorder: Recorder, seed: int) -> None:
        super().__init__(name, bootstrap, recorder, seed)
        self._client = our_client(bootstrap, name)
        self._offset = 0

    def turn(self) -> None:
        place = TopicPartition(LOG, self.dice.randrange(LOG_PARTITIONS))
        start_ms = now_ms()
        if self.dice.random() < 0.5:
            self._offset += 1
            outcome = OpOutcome.OK
            try:
                commit_offsets(self._client, self.name, {place: CommittedOffset(self._offset)})
            except FAILURES:
                outcome = OpOutcome.UNKNOWN
            self.recorder.note(
                OffsetCommitted(
                    client=self.name,
                    start_ms=start_ms,
                    end_ms=now_ms(),
                    group=self.name,
                    place=place,
                    offset=self._offset,
                    outcome=outcome,
                )
            )
            return
        try:
            found = committed_offsets(self._client, self.name, [place])
        except FAILURES:
            return
        offset = found[place].offset if place in found else -1
        self.recorder.note(
            OffsetFetched(
                client=self.name,
                start_ms=start_ms,
                end_ms=now_ms(),
                group=self.name,
                place=place,
                offset=offset,
            )
        )

    def close(self) -> None:
        self._client.close()
