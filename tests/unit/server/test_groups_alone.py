"""Groups as an agent of its own: one partition, a clock and stand-ins for its needs, no broker."""

import pytest

from ledgerstone.config.broker import BrokerConfig
from ledgerstone.errors import CoordinatorNotAvailable, NotCoordinator
from ledgerstone.metadata.delta import Delta
from ledgerstone.metadata.image import MetadataImage, TopicImage
from ledgerstone.metadata.topic_names import CONSUMER_OFFSETS
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ledgerstone.replication.leadership import Leadership, LeadershipChanged
from ledgerstone.replication.partition import Partition
from ledgerstone.server.agent import Agent
from ledgerstone.server.controller_link import OnAnswer
from ledgerstone.server.effects import Resume
from ledgerstone.server.groups.agent import Groups
from ledgerstone.server.groups.shards import HostedShards
from ledgerstone.server.housekeeping.disk_watch import DiskWatch
from ledgerstone.server.request import ANSWERED_LATER, Answer, Request
from ledgerstone.server.results import Done
from ledgerstone.server.session import Session
from ledgerstone.sim.clock import VirtualClock
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_dir import open_log_dir
from ledgerstone.types import TopicPartition
from tests.kit.logs import T0
from tests.kit.roles import followed, led_by

GROUP, TOPIC = "readers", "table"
OFFSETS = TopicPartition(CONSUMER_OFFSETS, 0)


class Alone:
    """Stands in for all that groups need, and notes what they say. Broker 2 is in sync."""

    def __init__(self) -> None:
        self.clock, dice = VirtualClock(start_ms=T0), SeededDice(1)
        fs = SimFilesystem(dice=dice, clock=self.clock)
        log = open_log_dir(fs, self.clock, dice, "/data").create(OFFSETS, LogConfig())
        self.partition = Partition(log=log, topic_id=bytes(16), node_id=1)
        state = led_by(1, 0, (1, 2))
        self.partition.assume(state)
        topic = TopicImage(name=CONSUMER_OFFSETS, topic_id=bytes(16), partitions={0: state})
        self.image = MetadataImage(cluster_id="c", topics={CONSUMER_OFFSETS: topic})
        self.answered: list[tuple[Request, ApiMessage]] = []
        self.grown: list[TopicPartition] = []
        self.groups = Groups(
            config=BrokerConfig.from_raw({"node.id": "1", "log.dirs": "/data"}),
            clock=self.clock,
            dice=dice,
            image=lambda: self.image,
            partitions=self,
            controller=self,
            shards=HostedShards(lambda: self.image),
            cleaning=Tombstones(),
            disk=DiskWatch(),
            answers=self,
            appends=self,
            topics=self,
        )
        self.groups.leadership_changed(LeadershipChanged(OFFSETS, Leadership.GAINED, 0))
        self.groups.go_on_loading()

    def find(self, topic_partition: TopicPartition) -> Partition | None:
        return self.partition if topic_partition == OFFSETS else None

    def is_complete(self, topic: TopicImage) -> bool:
        return True

    def ask(self, request: ApiMessage, on_answer: OnAnswer) -> None:
        raise AssertionError("the topic is there")

    def host_topic(self, topic: str) -> None:
        raise AssertionError("the topic is there")

    def answer(self, request: Request, response: ApiMessage) -> None:
        self.answered.append((request, response))

    def appended(self, topic_partition: TopicPartition, size: int = 0) -> None:
        self.grown.append(topic_partition)

    def follower_fetches(self) -> None:
        followed(self.partition, 2, self.partition.log.log_end_offset)
        self.groups.high_watermark_moved(0)

    def commit(self, request: Request, offset: int) -> Answer:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])]
        message = OffsetCommitRequest(group_id=GROUP, topics=topics)
        return self.groups.ask(
            request, GROUP, lambda shard, *asked: shard.handle_offset_commit(message, *asked)
        )


class Tombstones:
    def appended(self, log: PartitionLog, tombstone_count: int) -> None:
        raise AssertionError("no offset was deleted")

    def offset_committed(self, tp: TopicPartition) -> None:
        raise AssertionError("no transaction was committed")


def a_request() -> Request:
    return Request(7, 8, 8, 1, "client", Session("127.0.0.1"), T0)


def code_of(response: ApiMessage) -> int:
    assert isinstance(response, OffsetCommitResponse)
    return response.topics[0].partitions[0].error_code


@pytest.fixture
def alone() -> Alone:
    return Alone()


def test_commit_is_answered_and_shown_once_the_follower_has_it(alone: Alone) -> None:
    request = a_request()

    said = alone.commit(request, 5)
    before = (list(alone.answered), alone.groups.shards.committed_on(TOPIC))
    alone.follower_fetches()

    assert said is ANSWERED_LATER
    assert before == ([], {})
    assert [(each is request, code_of(answer)) for each, answer in alone.answered] == [
        (True, ErrorCode.NONE)
    ]
    assert alone.groups.shards.committed_on(TOPIC)[GROUP][0].offset == 5
    assert alone.grown == [OFFSETS]
    alone.groups.check_invariants()


def test_commit_that_takes_too_long_is_refused_by_a_tick(alone: Alone) -> None:
    agent: Agent = alone.groups
    alone.commit(a_request(), 5)
    due_ms = agent.next_deadline_ms
    assert due_ms is not None

    alone.clock.advance(ms=due_ms - alone.clock.monotonic_ms())
    effects = agent.tick()

    assert effects == []
    assert [code_of(answer) for _, answer in alone.answered] == [
        ErrorCode.COORDINATOR_NOT_AVAILABLE
    ]


def test_lost_leadership_sends_everybody_to_the_next_coordinator(alone: Alone) -> None:
    alone.commit(a_request(), 5)
    state = led_by(2, 1, (1, 2))
    topic = TopicImage(name=CONSUMER_OFFSETS, topic_id=bytes(16), partitions={0: state})

    alone.partition.assume(state)
    alone.image = MetadataImage(cluster_id="c", topics={CONSUMER_OFFSETS: topic})
    alone.groups.leadership_changed(LeadershipChanged(OFFSETS, Leadership.LOST, 1))

    assert [code_of(answer) for _, answer in alone.answered] == [ErrorCode.NOT_COORDINATOR]
    assert alone.groups.next_deadline_ms is None
    with pytest.raises(NotCoordinator):
        alone.commit(a_request(), 6)


def test_partition_without_a_shard_has_no_coordinator(alone: Alone) -> None:
    alone.groups.shards.by_number.clear()
    alone.groups.metadata_changed(Delta())

    assert not alone.groups.shards.are_loaded()
    with pytest.raises(CoordinatorNotAvailable):
        alone.commit(a_request(), 5)


def test_result_of_an_effect_is_a_fault(alone: Alone) -> None:
    """Groups ask for none."""
    with pytest.raises(AssertionError, match="groups asked for no Resume"):
        alone.groups.completed(Resume(1), Done())
