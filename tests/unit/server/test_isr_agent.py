"""How proposals reach the controller: together, one request at a time, until they are answered."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from ledgerstone.errors import LogStorageError
from ledgerstone.metadata.delta import Delta
from ledgerstone.metadata.image import ConfigResource, ResourceType
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartition,
    AlterPartitionResponseTopic,
)
from ledgerstone.protocol.messages.metadata_records import ConfigRecord
from ledgerstone.replication.isr import NEVER_MS
from ledgerstone.replication.partition import Partition
from ledgerstone.server.isr.agent import IsrAgent
from ledgerstone.types import TopicPartition
from tests.kit.in_process import Client, InProcess
from tests.kit.logs import batch
from tests.kit.roles import change_partition, followed, leader_of
from tests.unit.server.asks import TOPIC, create_topic
from tests.unit.server.leading_kit import SECOND_EPOCH, fence, register

OnAnswer = Callable[[ApiMessage], None]


@dataclass
class Desk:
    """The agent of a broker that leads two partitions, and what it asks the controller."""

    machine: InProcess
    asked: list[AlterPartitionRequest] = field(default_factory=list)
    answers: list[OnAnswer] = field(default_factory=list)
    moved: list[TopicPartition] = field(default_factory=list)
    refuses: Exception | None = None
    agent: IsrAgent = field(init=False)

    def __post_init__(self) -> None:
        broker = self.machine.broker
        self.agent = IsrAgent(
            config=broker.config,
            clock=broker.clock,
            partitions=broker.partitions,
            image=lambda: broker.image,
            ask=self._ask,
            counters=broker.counters,
            moved=self.moved.append,
        )

    def _ask(self, request: ApiMessage, on_answer: OnAnswer) -> None:
        assert isinstance(request, AlterPartitionRequest)
        if self.refuses is not None:
            raise self.refuses
        self.asked.append(request)
        self.answers.append(on_answer)

    def partition(self, number: int) -> Partition:
        return self.machine.broker.partitions.get(TopicPartition(TOPIC, number))

    def join(self, number: int) -> None:
        """Broker 2 has caught up."""
        partition = self.partition(number)
        followed(partition, 2, partition.log.log_end_offset)
        self.agent.offer(partition)

    def answer(self, *partitions: AlterPartitionResponsePartition, code: int = 0) -> None:
        topic_id = self.machine.broker.image.topics[TOPIC].topic_id
        topic = AlterPartitionResponseTopic(topic_id, list(partitions))
        response = AlterPartitionResponse(error_code=code, topics=[] if code else [topic])
        self.answers.pop(0)(response)

    def numbers(self) -> list[int]:
        """Of the newest request."""
        return [each.partition_index for each in self.asked[-1].topics[0].partitions]


def agreed(
    number: int, isr: tuple[int, ...] = (1, 2), epoch: int = 9
) -> AlterPartitionResponsePartition:
    return AlterPartitionResponsePartition(
        partition_index=number, leader_id=1, isr=list(isr), partition_epoch=epoch
    )


def refused(number: int, code: ErrorCode) -> AlterPartitionResponsePartition:
    return AlterPartitionResponsePartition(partition_index=number, error_code=code)


@pytest.fixture
def desk(machine: InProcess, client: Client) -> Desk:
    create_topic(client, partitions=2)
    register(machine, 2)
    for number in (0, 1):
        change_partition(machine, TopicPartition(TOPIC, number), isr=[1], replicas=[1, 2])
    return Desk(machine)


def test_proposals_leave_together_with_the_epochs_of_brokers(desk: Desk) -> None:
    desk.join(0)
    desk.join(1)

    desk.agent.send()

    (request,) = desk.asked
    own = desk.machine.broker.image.brokers[1].broker_epoch
    assert (request.broker_id, request.broker_epoch) == (1, own)
    assert desk.numbers() == [0, 1]
    members = request.topics[0].partitions[0].new_isr_with_epochs
    assert [(each.broker_id, each.broker_epoch) for each in members] == [(1, own), (2, -1)]
    assert own != SECOND_EPOCH


def test_one_request_is_under_way_and_the_next_takes_what_came_meanwhile(desk: Desk) -> None:
    desk.join(0)
    desk.agent.send()
    desk.join(1)
    desk.agent.send()
    alone = len(desk.asked)

    desk.answer(agreed(0))

    assert alone == 1
    assert desk.numbers() == [1]
    assert desk.partition(0).isr == (1, 2)
    assert desk.partition(0).partition_epoch == 9
    assert desk.machine.broker.counters.isr_expands == 1


def test_agreement_moves_the_high_watermark(desk: Desk) -> None:
    desk.agent.start()
    partition = desk.partition(0)
    change_partition(desk.machine, partition.topic_partition, isr=[1, 2])
    partition.append(batch(("key", "value")), acks=1)
    leader_of(partition).in_sync.followers[2].last_caught_up_ms = NEVER_MS
    desk.machine.clock.advance(ms=15_000)

    desk.agent.tick()
    before = partition.log.high_watermark
    desk.answer(agreed(0, (1,)))

    assert before == 0
    assert partition.log.high_watermark == 1
    assert desk.moved == [partition.topic_partition]
    assert desk.machine.broker.counters.isr_shrinks == 1


@pytest.mark.parametrize("is_disk", [False, True])
def test_request_that_fails_as_a_whole_is_sent_again(desk: Desk, is_disk: bool) -> None:
    desk.join(0)
    if is_disk:
        desk.refuses = LogStorageError("no room")
        desk.agent.send()
        desk.refuses = None
    else:
        desk.agent.send()
        desk.answer(code=ErrorCode.STALE_BROKER_EPOCH)
    desk.join(1)
    desk.agent.send()
    count = len(desk.asked)

    due_ms = desk.agent.next_deadline_ms
    desk.machine.clock.advance(ms=50)
    desk.agent.tick()

    assert due_ms == desk.machine.clock.monotonic_ms()
    assert len(desk.asked) == count + 1
    assert desk.numbers() == [0, 1]


def test_error_to_be_retried_is_and_others_are_not(desk: Desk) -> None:
    desk.join(0)
    desk.join(1)
    desk.agent.send()

    desk.answer(refused(0, ErrorCode.NOT_CONTROLLER), refused(1, ErrorCode.INVALID_UPDATE_VERSION))
    at_once = len(desk.asked)
    desk.machine.clock.advance(ms=50)
    desk.agent.tick()

    assert at_once == 1
    assert desk.numbers() == [0]
    assert leader_of(desk.partition(1)).in_sync.pending is not None
    assert desk.machine.broker.counters.isr_updates_failed == 2


def test_partition_left_out_of_an_answer_is_asked_about_again(desk: Desk) -> None:
    desk.join(0)
    desk.agent.send()

    desk.answer()
    desk.machine.clock.advance(ms=50)
    desk.agent.tick()

    assert len(desk.asked) == 2


def test_proposal_that_metadata_has_ended_is_not_sent(desk: Desk) -> None:
    desk.join(0)
    desk.agent.send()
    desk.join(1)
    change_partition(desk.machine, TopicPartition(TOPIC, 1), isr=[1, 2])

    desk.answer(agreed(0))

    assert len(desk.asked) == 1


def test_late_answer_says_nothing(desk: Desk) -> None:  # 77
    desk.join(0)
    desk.agent.send()
    change_partition(desk.machine, TopicPartition(TOPIC, 0), leader=2, isr=[2])

    desk.answer(agreed(0))

    assert desk.partition(0).isr == (2,)
    assert not desk.partition(0).is_leader


def test_lag_is_looked_at_every_half_of_its_limit(desk: Desk) -> None:  # 75
    for number in (0, 1):
        change_partition(desk.machine, TopicPartition(TOPIC, number), isr=[1, 2])
        followed(desk.partition(number), 2, 0)
        desk.partition(number).append(batch(("key", "value")), acks=1)
    desk.agent.start()
    began_ms = desk.machine.clock.monotonic_ms()
    looks = []
    while not desk.asked:
        due_ms = desk.agent.next_deadline_ms
        assert due_ms is not None
        desk.machine.clock.advance(ms=due_ms - desk.machine.clock.monotonic_ms())
        looks.append(due_ms - began_ms)
        desk.agent.tick()

    assert looks == [15_000, 30_000, 45_000]
    assert desk.numbers() == [0, 1]


def test_single_node_looks_at_nothing_by_the_clock(desk: Desk) -> None:
    assert desk.agent.next_deadline_ms is None


def test_follower_that_is_fenced_is_not_waited_for(desk: Desk) -> None:
    desk.agent.start()
    partition = desk.partition(0)
    partition.append(batch(("key", "value")), acks=1)
    desk.join(0)
    partition.append(batch(("key", "value")), acks=1)
    change_partition(desk.machine, TopicPartition(TOPIC, 0), isr=[1])
    before = partition.log.high_watermark

    fence(desk.machine, 2)
    desk.agent.metadata_changed(Delta(brokers_changed=(2,)))

    assert before == 1
    assert partition.log.high_watermark == 2
    assert desk.moved == [partition.topic_partition]


def test_lower_min_isr_commits_what_was_written_before(desk: Desk) -> None:
    desk.agent.start()
    partition, link = desk.partition(0), desk.machine.broker.controller_link
    link.write([ConfigRecord(ResourceType.TOPIC, TOPIC, "min.insync.replicas", "2")])
    partition.append(batch(("key", "value")), acks=1)
    before = partition.log.high_watermark

    link.write([ConfigRecord(ResourceType.TOPIC, TOPIC, "min.insync.replicas", "1")])
    topic = ConfigResource(ResourceType.TOPIC, TOPIC)
    desk.agent.metadata_changed(Delta(configs_changed=(topic,)))

    assert before == 0
    assert partition.log.high_watermark == 1
    assert desk.moved == [partition.topic_partition]
