"""Transactions on a compacted topic, from the producer's batch through real passes of a broker.

Single passes are in tests/unit/cleaner/test_scenarios_producers.py.
"""

import pytest

from ledgerstone.protocol.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
    DeleteRecordsResponse,
)
from ledgerstone.records.batch import BatchHeader, iter_headers
from ledgerstone.records.record import iter_records
from tests.kit.in_process import Client, InProcess
from tests.kit.logs import batch
from tests.unit.server.asks import TOPIC, create_topic, fetch, fetched
from tests.unit.server.test_cleaning import (
    DAY_MS,
    HOUR_MS,
    compact_now,
    compacted,
    log_of,
    put,
    roll,
)
from tests.unit.server.txn_asks import PRODUCER, ScriptedCoordinator, end_txn, produce_in_txn

Pairs = list[tuple[str, str | None]]


class Writer:
    """A transactional producer that counts its batches."""

    def __init__(self, machine: InProcess, client: Client, producer_id: int = PRODUCER) -> None:
        self.machine = machine
        self.client = client
        self.producer_id = producer_id
        self.sequence = 0

    def write(self, *pairs: tuple[str, str | None]) -> None:
        for pair in pairs:
            records = batch(
                pair,
                timestamp=self.machine.clock.now_ms(),
                producer_id=self.producer_id,
                producer_epoch=0,
                base_sequence=self.sequence,
                transactional=True,
            )
            assert produce_in_txn(self.client, records) == {0: 0}
            self.sequence += 1

    def end(self, *, commit: bool) -> None:
        assert end_txn(self.client, commit=commit, producer_id=self.producer_id) == 0


@pytest.fixture
def machine() -> InProcess:
    # Days pass here, and clients are not to be closed for being silent.
    return InProcess(settings={"connections.max.idle.ms": str(365 * DAY_MS)})


@pytest.fixture
def client(machine: InProcess) -> Client:
    client = machine.connect()
    compacted(client, delete_retention_ms=str(HOUR_MS))
    machine.broker.verification.coordinator = ScriptedCoordinator()
    return client


@pytest.fixture
def writer(machine: InProcess, client: Client) -> Writer:
    return Writer(machine, client)


def batches(machine: InProcess) -> list[tuple[BatchHeader, Pairs]]:
    found = []
    for segment in log_of(machine).segments:
        content = segment.file.pread(segment.size, 0)
        for position, header in iter_headers(content):
            found.append((header, [] if header.is_control else _pairs(content, position)))
    return found


def committed(client: Client) -> Pairs:
    """As a consumer reads committed data: by the lists of what was aborted."""
    found: Pairs = []
    position, end_offset = 0, 1
    while position < end_offset:
        answer = fetched(client, fetch({0: position}, isolation_level=1))
        end_offset = answer.last_stable_offset
        aborted = sorted(
            (each.first_offset, each.producer_id) for each in answer.aborted_transactions or []
        )
        data = answer.records
        assert isinstance(data, bytes | memoryview)
        skipped: set[int] = set()
        for at, header in iter_headers(data):
            while aborted and aborted[0][0] <= header.last_offset:
                skipped.add(aborted.pop(0)[1])
            if header.is_control:
                skipped.discard(header.producer_id)
            elif header.producer_id not in skipped:
                found += _pairs(data, at)
            position = header.next_offset
    return found


def _pairs(data: bytes | memoryview, position: int) -> Pairs:
    return [
        (
            bytes(record.key or b"").decode(),
            None if record.value is None else bytes(record.value).decode(),
        )
        for record in iter_records(data, position)
    ]


def kept(machine: InProcess) -> Pairs:
    return [pair for _, pairs in batches(machine) for pair in pairs]


def markers(machine: InProcess) -> list[int]:
    """Records left in each control batch."""
    return [header.record_count for header, _ in batches(machine) if header.is_control]


def test_aborted_tombstone_deletes_nothing(
    machine: InProcess, client: Client, writer: Writer
) -> None:
    put(machine, client, ("a", "1"))
    writer.write(("a", None))
    writer.end(commit=False)

    for _ in range(3):
        compact_now(machine)
        machine.jump(hours=2)

    assert kept(machine) == committed(client) == [("a", "1")]


def test_committed_tombstone_deletes_and_goes_after_its_horizon(
    machine: InProcess, client: Client, writer: Writer
) -> None:
    put(machine, client, ("a", "1"))
    writer.write(("a", None))
    writer.end(commit=True)

    compact_now(machine)
    first = committed(client)
    machine.jump(hours=2)
    compact_now(machine)

    assert first == [("a", None)]
    assert kept(machine) == []


def test_cleaning_does_not_pass_an_open_transaction(
    machine: InProcess, client: Client, writer: Writer
) -> None:
    put(machine, client, ("a", "1"), ("a", "2"))
    roll(machine)
    writer.write(("a", "3"))
    put(machine, client, ("a", "4"), ("a", "5"))

    compact_now(machine)
    held_back = kept(machine)
    writer.end(commit=True)
    compact_now(machine)

    assert held_back == [("a", "2"), ("a", "3"), ("a", "4"), ("a", "5")]
    assert kept(machine) == [("a", "5")]


def test_markers_leave_after_their_horizon_and_the_last_batch_stays_as_a_header(
    machine: InProcess, client: Client, writer: Writer
) -> None:
    writer.write(("a", "1"))
    writer.end(commit=True)
    writer.write(("b", "1"))
    writer.end(commit=False)
    put(machine, client, ("a", "2"), ("b", "2"))

    for _ in range(4):
        compact_now(machine)
        machine.jump(hours=2)

    left = [(header, pairs) for header, pairs in batches(machine) if header.producer_id == PRODUCER]
    (header, pairs), *_ = [each for each in left if not each[0].is_control]
    assert (header.base_sequence, header.record_count, pairs) == (1, 0, [])
    assert len(markers(machine)) == 1  # of the transaction whose header stays
    assert committed(client) == [("a", "2"), ("b", "2")]


def test_producer_goes_on_after_cleaning_and_a_restart(
    machine: InProcess, client: Client, writer: Writer
) -> None:
    writer.write(("a", "1"))
    writer.end(commit=True)
    put(machine, client, ("a", "2"))
    compact_now(machine)

    machine.kill()
    machine.broker.verification.coordinator = ScriptedCoordinator()
    writer.client = machine.connect()
    writer.write(("a", "3"))
    writer.end(commit=True)

    assert committed(writer.client)[-1] == ("a", "3")


def test_interleaved_transactions_leave_what_a_model_says(machine: InProcess) -> None:
    client = machine.connect()
    compacted(client, delete_retention_ms=str(HOUR_MS), segment_bytes="1000")
    machine.broker.verification.coordinator = ScriptedCoordinator()
    writers = [Writer(machine, client, producer_id) for producer_id in (7, 8, 9)]
    open_pairs: dict[int, Pairs] = {}
    decided: dict[str, str | None] = {}
    dice = machine.dice

    for number in range(120):
        writer = writers[dice.below(3)]
        mine = open_pairs.setdefault(writer.producer_id, [])
        key = f"key-{writer.producer_id}-{dice.below(4)}"  # writers do not share keys
        if mine and dice.below(3) == 0:
            commit = dice.below(2) == 0
            writer.end(commit=commit)
            if commit:
                decided.update(mine)
            open_pairs[writer.producer_id] = []
        else:
            pair = (key, None if dice.below(4) == 0 else f"value {number}")
            writer.write(pair)
            mine.append(pair)
        if number % 10 == 9:
            compact_now(machine)
    for writer in writers:
        if open_pairs.get(writer.producer_id):
            writer.end(commit=False)
    for _ in range(3):
        compact_now(machine)
        machine.jump(hours=2)

    living = {key: value for key, value in decided.items() if value is not None}
    assert dict(committed(client)) == living
    assert dict(kept(machine)) == living


def test_deleted_records_of_an_open_transaction_hold_readers_at_the_start(
    machine: InProcess,
) -> None:
    client = machine.connect()
    create_topic(client)
    machine.broker.verification.coordinator = ScriptedCoordinator()
    writer = Writer(machine, client)
    writer.write(("a", "1"), ("a", "2"))
    put(machine, client, ("a", "3"))
    asked = DeleteRecordsRequestPartition(partition_index=0, offset=2)
    request = DeleteRecordsRequest(topics=[DeleteRecordsRequestTopic(TOPIC, [asked])])
    assert client.ask(request, DeleteRecordsResponse).topics[0].partitions[0].error_code == 0

    assert log_of(machine).last_stable_offset == 2
    machine.advance(120_000)  # the start is written to disk now and then
    machine.kill()
    client = machine.connect()
    assert log_of(machine).last_stable_offset == 2
    assert end_txn(client, commit=False) == 0

    answer = fetched(client, fetch({0: 2}, isolation_level=1))
    assert answer.last_stable_offset == 4
    assert [each.first_offset for each in answer.aborted_transactions or []] == [0]
