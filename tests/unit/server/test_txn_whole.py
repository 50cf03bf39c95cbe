"""Transactions from InitProducerId to the reader, with a coordinator, leaders and group shards that
are the broker's own."""

import pytest

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from ledgerstone.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ledgerstone.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ledgerstone.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ledgerstone.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from ledgerstone.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from ledgerstone.server.effects import Effect
from ledgerstone.storage.log import PartitionLog
from ledgerstone.types import TopicPartition
from tests.kit.in_process import Client, InProcess
from tests.unit.server.asks import TOPIC, create_topic, fetch, fetched, values_in
from tests.unit.server.txn_asks import TXN_ID, V1, V2, commit_in_txn, produce_in_txn, txn_batch


@pytest.fixture
def machine() -> InProcess:
    return InProcess(
        settings={
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
        }
    )


class Producer:
    """A client's side of a transaction, by either protocol."""

    def __init__(self, client: Client, *, version: int = 2) -> None:
        self.client = client
        self.is_version_2 = version == 2
        self.sequence: dict[int, int] = {}
        self.producer_id, self.epoch = -1, -1

    def init(self) -> None:
        request = FindCoordinatorRequest(key=TXN_ID, key_type=1, coordinator_keys=[TXN_ID])
        self.client.ask(request, FindCoordinatorResponse)
        answer = self.client.ask(InitProducerIdRequest(TXN_ID, 60_000), InitProducerIdResponse, 4)
        assert answer.error_code == 0
        self.producer_id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, {}

    def add(self, *partitions: int) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TXN_ID,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(TOPIC, list(partitions))],
        )
        answer = self.client.ask(request, AddPartitionsToTxnResponse, 3)
        (topic,) = answer.results_by_topic_v3_and_below
        assert [each.partition_error_code for each in topic.results_by_partition] == [
            0 for _ in partitions
        ]

    def add_offsets(self, group: str) -> None:
        request = AddOffsetsToTxnRequest(TXN_ID, self.producer_id, self.epoch, group)
        assert self.client.ask(request, AddOffsetsToTxnResponse).error_code == 0

    def write(self, partition: int = 0, version: int | None = None) -> int:
        """The error code; counts what was taken."""
        sequence = self.sequence.get(partition, 0)
        records = txn_batch(sequence, producer_id=self.producer_id, epoch=self.epoch)
        usual = V2 if self.is_version_2 else V1
        codes = produce_in_txn(self.client, {partition: records}, version or usual)
        if not codes[partition]:
            self.sequence[partition] = sequence + 1
        return codes[partition]

    def commit_offset(self, group: str, offset: int) -> int:
        return commit_in_txn(
            self.client,
            group,
            offset,
            version=5 if self.is_version_2 else 3,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
        )

    def end(self, *, commit: bool) -> int:
        request = EndTxnRequest(TXN_ID, self.producer_id, self.epoch, commit)
        answer = self.client.ask(request, EndTxnResponse, 5 if self.is_version_2 else 4)
        if self.is_version_2 and not answer.error_code:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequence = {}
        return answer.error_code


@pytest.fixture
def client(machine: InProcess) -> Client:
    client = machine.connect()
    create_topic(client, partitions=3)
    return client


def log_of(machine: InProcess, partition: int = 0) -> PartitionLog:
    return machine.broker.partitions.get(TopicPartition(TOPIC, partition)).log


def stable(client: Client, group: str = "g") -> dict[int, int]:
    """Offsets by partition; an unstable one as its error code."""
    groups = [OffsetFetchRequestGroup(group_id=group, topics=None)]
    request = OffsetFetchRequest(groups=groups, require_stable=True)
    topics = client.ask(request, OffsetFetchResponse, 8).groups[0].topics
    return {
        each.partition_index: each.error_code or each.committed_offset
        for topic in topics
        for each in topic.partitions
    }


def committed_values(client: Client) -> list[str]:
    answer = fetched(client, fetch(isolation_level=1))
    assert answer.aborted_transactions == []
    return values_in(answer)


@pytest.mark.parametrize("version", [1, 2])
def test_committed_writes_are_read_and_the_offsets_with_them(
    machine: InProcess, client: Client, version: int
) -> None:
    producer = Producer(client, version=version)
    producer.init()
    for number in range(3):
        if version == 1:
            producer.add(0, 2)
            producer.add_offsets("g")
        assert producer.write(0) == producer.write(2) == 0
        assert producer.commit_offset("g", number) == 0
        held_back = log_of(machine).last_stable_offset
        assert producer.end(commit=True) == 0

        assert held_back == number * 2
        assert log_of(machine).last_stable_offset == number * 2 + 2
        assert log_of(machine, 2).last_stable_offset == number * 2 + 2
        assert stable(client) == {0: number}
    assert log_of(machine, 1).log_end_offset == 0


@pytest.mark.parametrize("version", [1, 2])
def test_aborted_writes_and_offsets_never_count(
    machine: InProcess, client: Client, version: int
) -> None:
    producer = Producer(client, version=version)
    producer.init()
    if version == 1:
        producer.add(0)
        producer.add_offsets("g")
    assert producer.write() == 0
    assert producer.commit_offset("g", 5) == 0

    assert producer.end(commit=False) == 0

    answer = fetched(client, fetch(isolation_level=1))
    assert [each.first_offset for each in answer.aborted_transactions or []] == [0]
    assert stable(client) == {}


@pytest.mark.parametrize(
    ("version", "told"), [(10, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)]
)
def test_partition_that_was_not_added_takes_nothing_in_version_1(
    machine: InProcess, client: Client, version: int, told: int
) -> None:
    producer = Producer(client, version=1)
    producer.init()
    producer.add(1)

    assert producer.write(0, version) == told

    assert log_of(machine).log_end_offset == log_of(machine).last_stable_offset == 0


def test_late_batch_and_late_offsets_of_an_ended_transaction_are_refused_in_version_2(
    machine: InProcess, client: Client
) -> None:
    producer = Producer(client)
    producer.init()
    assert producer.write() == 0
    assert producer.commit_offset("g", 5) == 0
    late = Producer(client)
    late.producer_id, late.epoch, late.sequence = producer.producer_id, producer.epoch, {0: 1}
    assert producer.end(commit=True) == 0

    assert late.write() == ErrorCode.INVALID_PRODUCER_EPOCH
    assert late.commit_offset("g", 9) == ErrorCode.INVALID_PRODUCER_EPOCH

    assert stable(client) == {0: 5}
    assert log_of(machine).last_stable_offset == log_of(machine).log_end_offset == 2


def test_replaced_producer_writes_nothing_any_more(machine: InProcess, client: Client) -> None:
    first, second = Producer(client), Producer(client)
    first.init()
    assert first.write() == 0
    answer = client.ask(InitProducerIdRequest(TXN_ID, 60_000), InitProducerIdResponse, 4)
    assert answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS  # what was open is aborted first
    second.init()

    assert first.write() == ErrorCode.INVALID_PRODUCER_EPOCH
    assert first.write(1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert first.commit_offset("g", 5) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert second.write() == 0
    assert second.end(commit=True) == 0

    assert stable(client) == {}
    assert log_of(machine).last_stable_offset == log_of(machine).log_end_offset


@pytest.mark.parametrize("version", [1, 2])
def test_open_transaction_goes_on_after_a_restart(machine: InProcess, version: int) -> None:
    client = machine.connect()
    create_topic(client, partitions=3)
    producer = Producer(client, version=version)
    producer.init()
    if version == 1:
        producer.add(0)
        producer.add_offsets("g")
    assert producer.write() == 0
    assert producer.commit_offset("g", 5) == 0

    machine.kill()
    client = producer.client = machine.connect()

    assert log_of(machine).last_stable_offset == 0
    assert producer.write() == 0
    assert producer.end(commit=True) == 0
    assert stable(client) == {0: 5}
    assert len(committed_values(client)) == 2


def test_transaction_that_nobody_ends_is_aborted_after_its_time(
    machine: InProcess, client: Client
) -> None:
    producer = Producer(client)
    producer.init()
    assert producer.write() == 0
    assert producer.commit_offset("g", 5) == 0

    machine.advance(75_000)

    assert log_of(machine).last_stable_offset == log_of(machine).log_end_offset == 2
    assert stable(client) == {}
    assert producer.write() == ErrorCode.INVALID_PRODUCER_EPOCH


# -- the answer, then the markers -----------------------------------------------------------------


def asked_to_commit(machine: InProcess, client: Client) -> list[Effect]:
    """What the broker wants done once it has read EndTxn."""
    producer = Producer(client, version=1)
    producer.init()
    producer.add(0)
    assert producer.write() == 0
    _, data = client.frame(EndTxnRequest(TXN_ID, producer.producer_id, producer.epoch, True), 4)
    return machine.broker.receive(client.number, memoryview(bytearray(data)))


def test_a_commit_is_answered_before_its_markers_are_written(
    machine: InProcess, client: Client
) -> None:
    answer, *rest = asked_to_commit(machine, client)

    machine.perform([answer])
    assert client.take(EndTxnResponse).error_code == 0
    assert log_of(machine).last_stable_offset == 0

    machine.perform(rest)
    assert log_of(machine).last_stable_offset == log_of(machine).log_end_offset == 2


def test_a_commit_that_was_answered_survives_a_kill_before_its_markers(
    machine: InProcess, client: Client
) -> None:
    answer, *_ = asked_to_commit(machine, client)
    machine.perform([answer])

    machine.kill()
    machine.tick()

    assert log_of(machine).last_stable_offset == log_of(machine).log_end_offset == 2
    assert len(committed_values(machine.connect())) == 1


def test_requests_sent_ahead_do_not_meet_the_transaction_before_them(
    machine: InProcess, client: Client
) -> None:
    producer = Producer(client, version=1)
    producer.init()
    producer.add(0)
    assert producer.write() == 0
    begun = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=TXN_ID,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(TOPIC, [1])],
    )
    end = EndTxnRequest(TXN_ID, producer.producer_id, producer.epoch, True)

    client.feed(b"".join((client.frame(end, 4)[1], client.frame(begun, 3)[1])))

    assert client.take(EndTxnResponse).error_code == 0
    (topic,) = client.take(AddPartitionsToTxnResponse).results_by_topic_v3_and_below
    assert [each.partition_error_code for each in topic.results_by_partition] == [0]
    assert log_of(machine).last_stable_offset == 2
