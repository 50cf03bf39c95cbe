"""A broker that dies at any operation on its disk while transactions are under way.

Every crash point of coordinator/transactions/README.md is among them: between a record and its
answer, between the decision and its markers, between one marker and the next, and before Complete.
Whatever dies, a transaction is in both partitions and in the group's offsets, or in none of them;
what was answered stays; and no transaction is left open.
"""

from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from ledgerstone.protocol.messages.txn_offset_commit import TxnOffsetCommitResponse
from ledgerstone.records.control import ControlType
from ledgerstone.replication.replay_reader import replay_batches
from ledgerstone.sim.filesystem import SimulatedCrash
from ledgerstone.types import TopicPartition
from tests.kit.in_process import InProcess
from tests.kit.logs import batch
from tests.unit.server.asks import TOPIC, commit_offset, committed_offset, create_topic
from tests.unit.server.transactions_kit import TxnProducer, find_coordinator
from tests.unit.server.txn_asks import TXN_ID, produce_in_txn, txn_offsets

P0, P1 = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
GROUP = "readers"
CONCURRENT = 51
# Every n-th operation; the slow ones take them all.
STEP = 4
CLASSIC, EPOCHS = "classic", "version 2"


@dataclass(slots=True)
class Story:
    """Transactions, each with a record in both partitions and an offset; every third aborts."""

    machine: InProcess
    protocol: str
    began: list[int] = field(default_factory=list)
    committed: list[int] = field(default_factory=list)  # as answered
    aborted: list[int] = field(default_factory=list)
    last: TxnProducer | None = None

    def run(self) -> None:
        producer = self.last = TxnProducer(self.machine.connect(), TXN_ID)
        assert producer.init() == 0
        for number in (1, 2, 3):
            self._transaction(producer, number)

    def _transaction(self, producer: TxnProducer, number: int) -> None:
        is_classic = self.protocol == CLASSIC
        sequence = number - 1 if is_classic else 0
        self.began.append(number)
        if is_classic:
            assert producer.add(P0, P1) == 0
            assert producer.add_offsets(GROUP) == 0
        for partition in (0, 1):
            records = batch(
                ("key", str(number)),
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                base_sequence=sequence,
                transactional=True,
            )
            version = 11 if is_classic else 12
            assert produce_in_txn(producer.client, {partition: records}, version) == {partition: 0}
        offsets = txn_offsets(
            GROUP,
            number,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
        )
        answer = producer.client.ask(offsets, TxnOffsetCommitResponse, 3 if is_classic else 5)
        assert answer.topics[0].partitions[0].error_code == 0
        commit = number % 3 != 0
        assert producer.end(commit=commit, version=4 if is_classic else 5) == 0
        (self.committed if commit else self.aborted).append(number)


def visible(machine: InProcess, topic_partition: TopicPartition) -> list[int]:
    """What a read_committed reader sees, as plainly as it can be said."""
    log = machine.broker.partitions.get(topic_partition).log
    open_of: dict[int, list[int]] = {}
    seen: list[int] = []
    for found in replay_batches(log):
        producer_id = found.header.producer_id
        if found.control is None:
            values = [int(each.value or b"0") for each in found.records]
            open_of.setdefault(producer_id, []).extend(values)
        else:
            written = open_of.pop(producer_id, [])
            seen += written if found.control.type is ControlType.COMMIT else []
    assert not any(open_of.values()), "a transaction hangs"
    assert log.last_stable_offset == log.high_watermark
    return seen


def prepared() -> InProcess:
    machine = InProcess()
    client = machine.connect()
    create_topic(client, partitions=2)
    assert find_coordinator(client, TXN_ID) == 0
    assert commit_offset(client, GROUP, 0) == 0
    for partition in machine.broker.partitions:
        partition.log.flush()
    return machine


def operations_of_a_story(protocol: str) -> int:
    machine = prepared()
    before = machine.fs.operation_count
    Story(machine, protocol).run()
    return machine.fs.operation_count - before


def restarted(machine: InProcess, story: Story) -> TxnProducer:
    """The same producer again: it waits for what was decided, and ends what was not."""
    before = story.last
    producer = TxnProducer(machine.connect(), TXN_ID)
    for _ in range(100):
        code = producer.init()
        if code == 0:
            break
        assert code == CONCURRENT
        machine.advance(20)
    assert code == 0
    if before is not None and before.producer_id == producer.producer_id:
        assert producer.producer_epoch > before.producer_epoch, "nobody is shut out"
    return producer


def check_death_at(operation: int, protocol: str) -> None:
    machine = prepared()
    story = Story(machine, protocol)
    machine.fs.crash_at(machine.fs.operation_count + operation, torn=operation % 2 == 1)
    with suppress(SimulatedCrash):
        story.run()

    machine.kill()
    restarted(machine, story)

    first, second = visible(machine, P0), visible(machine, P1)
    assert first == second, operation
    assert set(story.committed) <= set(first), operation
    assert not set(story.aborted) & set(first), operation
    assert set(first) <= set(story.began), operation
    offset = committed_offset(machine.connect(), GROUP)
    assert offset == max([0, *first]), (operation, "offsets and records went different ways")
    # A second life changes nothing of it.
    machine.kill()
    restarted(machine, Story(machine, protocol))
    assert visible(machine, P0) == visible(machine, P1) == first
    machine.check_invariants()


@pytest.mark.parametrize("protocol", [CLASSIC, EPOCHS])
def test_without_a_crash_all_is_as_it_was_said(protocol: str) -> None:
    machine = prepared()
    story = Story(machine, protocol)

    story.run()

    assert visible(machine, P0) == visible(machine, P1) == [1, 2]
    assert committed_offset(machine.connect(), GROUP) == 2


@pytest.mark.parametrize("start", range(2))
@pytest.mark.parametrize("protocol", [CLASSIC, EPOCHS])
def test_death_at_some_operations_tears_no_transaction(protocol: str, start: int) -> None:
    for operation in range(1 + start * STEP // 2, operations_of_a_story(protocol), STEP):
        check_death_at(operation, protocol)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [CLASSIC, EPOCHS])
def test_death_at_any_operation_tears_no_transaction(protocol: str) -> None:
    for operation in range(1, operations_of_a_story(protocol)):
        check_death_at(operation, protocol)
