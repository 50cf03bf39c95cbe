"""The agent that follows other brokers, with leaders that are lists instead of nodes."""

from typing import Final

import pytest

from ledgerstone.metadata.delta import Delta
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.metadata.replay import apply
from ledgerstone.protocol.message import ApiMessage, MetadataRecord
from ledgerstone.protocol.messages.fetch import FetchRequest
from ledgerstone.protocol.messages.metadata_records import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerEndPoint,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from ledgerstone.raft.replica import Peer
from ledgerstone.replication.hosted_partitions import HostedPartitions
from ledgerstone.replication.throttle import ReplicationThrottle
from ledgerstone.server.calls import CallFailed, OnAnswer
from ledgerstone.server.replicating.agent import Replicating
from ledgerstone.server.replicating.view import samples
from ledgerstone.types import TopicPartition
from tests.kit.dumb_leader import DumbLeader, DumbLog
from tests.kit.followers import BROKER_EPOCH, SETTINGS, Disk

TOPIC_ID: Final = bytes(15) + b"\x07"
NODE: Final = 1
LISTENER: Final = "PLAINTEXT"


class Asked:
    """What left for a node, and who waits for the answer."""

    def __init__(self, peer: Peer, request: ApiMessage, on_answer: OnAnswer) -> None:
        self.peer = peer
        self.request = request
        self.on_answer = on_answer


class Wires:
    """Takes requests; a test answers them."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []

    def ask(
        self,
        peer: Peer,
        request: ApiMessage,
        on_answer: OnAnswer,
        *,
        timeout_ms: int,
        least_version: int = 0,
    ) -> None:
        assert timeout_ms == 30_000
        assert least_version == 15 or not isinstance(request, FetchRequest)
        self.asked.append(Asked(peer, request, on_answer))


class Follows:
    """Broker 1 with a real disk; brokers 2 and 3 lead."""

    def __init__(self, fetchers: int = 1) -> None:
        self.disk = Disk()
        self.image = MetadataImage(cluster_id="c")
        self.hosted = HostedPartitions(self.disk.log_dir, NODE, {})
        self.wires = [Wires() for _ in range(fetchers)]
        self.express = Wires()
        self.leaders = {2: DumbLeader(), 3: DumbLeader()}
        self.grown: list[TopicPartition] = []
        self.moved: list[TopicPartition] = []
        self.failures: list[TopicPartition | None] = []
        self.agent = Replicating(
            clock=self.disk.clock,
            partitions=self.hosted,
            image=lambda: self.image,
            listener_name=LISTENER,
            broker_epoch=lambda: BROKER_EPOCH,
            calls=self.wires,
            express_calls=[self.express] * fetchers,
            settings=SETTINGS,
            timeout_ms=30_000,
            throttle=ReplicationThrottle(NODE, windows=11, window_ms=1000),
            static_values={},
        )
        self.agent.turn = self
        self.hosted.load(self.image)
        self.apply(*(a_broker(node_id) for node_id in (NODE, 2, 3)))

    # -- `ReplicatingTurn` ----------------------------------------------------------------------

    def replicated(self, topic_partition: TopicPartition) -> None:
        self.grown.append(topic_partition)

    def high_watermark_moved(self, topic_partition: TopicPartition) -> None:
        self.moved.append(topic_partition)

    def log_failed(self, topic_partition: TopicPartition | None, error: Exception) -> None:
        self.failures.append(topic_partition)

    # -- the world ------------------------------------------------------------------------------

    def apply(self, *records: MetadataRecord) -> Delta:
        self.image, delta = apply(self.image, records)
        self.hosted.apply(delta, self.image)
        self.agent.followings_changed(self.hosted.take_followings())
        self.agent.metadata_changed(delta)
        return delta

    def create(self, partitions: int = 1, leader: int = 2) -> None:
        name, replicas = "t", [leader, NODE]
        for number in range(partitions):
            self.leaders[leader].logs[TopicPartition(name, number)] = DumbLog()
        self.leaders[leader].topic_ids[TOPIC_ID] = name
        self.apply(
            TopicRecord(name=name, topic_id=TOPIC_ID),
            *(
                PartitionRecord(
                    partition_id=number,
                    topic_id=TOPIC_ID,
                    replicas=replicas,
                    isr=replicas,
                    leader=leader,
                    leader_epoch=0,
                    partition_epoch=0,
                )
                for number in range(partitions)
            ),
        )

    def add_partition(self, number: int) -> None:
        self.apply(
            PartitionRecord(
                partition_id=number,
                topic_id=TOPIC_ID,
                replicas=[2, NODE],
                isr=[2, NODE],
                leader=2,
                leader_epoch=0,
                partition_epoch=0,
            )
        )

    def change(self, leader: int, number: int = 0, replicas: list[int] | None = None) -> None:
        self.apply(
            PartitionChangeRecord(
                partition_id=number, topic_id=TOPIC_ID, leader=leader, replicas=replicas
            )
        )

    @property
    def in_flight(self) -> list[int]:
        """The nodes that were asked and have not answered."""
        return [each.peer.id for wires in self.wires for each in wires.asked]

    def answer(self, number: int = 0) -> ApiMessage:
        """The oldest request of a connection; returns it."""
        return self.answer_on(self.wires[number])

    def answer_on(self, wires: Wires) -> ApiMessage:
        asked = wires.asked.pop(0)
        asked.on_answer(self.leaders[asked.peer.id].answer(asked.request))
        return asked.request

    def fail(self, reason: str = "connection refused") -> None:
        self.wires[0].asked.pop(0).on_answer(CallFailed(reason))

    def wait(self, ms: int) -> None:
        self.disk.clock.advance(ms=ms)
        self.agent.tick()

    def end_offset(self, number: int = 0) -> int:
        return self.hosted.get(TopicPartition("t", number)).log.log_end_offset


def a_broker(node_id: int, port: int = 9092, name: str = LISTENER) -> MetadataRecord:
    endpoint = RegisterBrokerEndPoint(name=name, host="127.0.0.1", port=port + node_id)
    return RegisterBrokerRecord(broker_id=node_id, broker_epoch=1, end_points=[endpoint])


@pytest.fixture
def follows() -> Follows:
    found = Follows()
    found.agent.start()
    return found


def test_leader_is_asked_at_its_listener_and_what_it_answers_is_appended(follows: Follows) -> None:
    follows.create()
    follows.leaders[2].logs[TopicPartition("t", 0)].append(3)
    assert follows.wires[0].asked[0].peer == Peer(2, "127.0.0.1", 9094)
    follows.answer()

    assert follows.end_offset() == 3
    assert follows.moved == [TopicPartition("t", 0)]
    assert follows.grown == [TopicPartition("t", 0)]
    assert follows.in_flight == [2], "the next request leaves in the same turn"


def test_nothing_is_asked_before_the_first_publish() -> None:
    follows = Follows()
    follows.create()
    follows.agent.tick()
    assert (follows.in_flight, follows.agent.next_deadline_ms) == ([], None)
    follows.agent.start()

    assert follows.in_flight == [2]


def test_answer_after_the_stop_is_not_appended(follows: Follows) -> None:
    follows.create()
    follows.leaders[2].logs[TopicPartition("t", 0)].append(3)
    follows.agent.stop()
    follows.answer()

    assert (follows.end_offset(), follows.in_flight) == (0, [])


def test_partition_follows_its_new_leader_at_once(follows: Follows) -> None:
    follows.create()
    late = follows.wires[0].asked[0]
    follows.leaders[2].logs[TopicPartition("t", 0)].append(3)
    follows.leaders[3].topic_ids[TOPIC_ID] = "t"
    log = follows.leaders[3].logs[TopicPartition("t", 0)] = DumbLog()
    log.lead_next(1)
    log.append(1)
    follows.change(leader=3, replicas=[2, 3, NODE])
    assert follows.in_flight == [2, 3]
    late.on_answer(follows.leaders[2].answer(late.request))
    assert follows.end_offset() == 0, "the old leader's answer counts for nothing"
    follows.wires[0].asked.pop(0)
    follows.answer()

    assert follows.end_offset() == 1
    assert follows.in_flight == [3], "nothing is fetched from the old leader"


def test_partition_that_comes_while_the_leader_holds_a_request_does_not_wait(
    follows: Follows,
) -> None:
    follows.create()
    follows.leaders[2].logs[TopicPartition("t", 1)] = log = DumbLog()
    log.append(3)
    follows.add_partition(1)
    assert follows.in_flight == [2], "the request that the leader holds"
    request = follows.answer_on(follows.express)
    assert isinstance(request, FetchRequest)
    assert (request.session_id, request.session_epoch) == (0, -1), "the leader keeps nothing"
    assert follows.end_offset(1) == 3
    late = follows.express.asked.pop(0)

    log.append(2)
    follows.answer()
    (fetcher,) = follows.agent.fetchers.values()
    assert sorted(each.topic_partition.partition for each in fetcher) == [0, 1]
    late.on_answer(follows.leaders[2].answer(late.request))
    assert follows.end_offset(1) == 3, "it was taken over before the answer came"
    follows.answer()
    assert follows.end_offset(1) == 5
    assert follows.express.asked == []


def test_partition_that_fails_on_its_own_connection_is_let_go_later(follows: Follows) -> None:
    follows.create()
    follows.leaders[2].logs[TopicPartition("t", 1)] = log = DumbLog()
    log.lead_next(1)
    follows.add_partition(1)
    follows.answer_on(follows.express)
    follows.answer()
    assert [list(each.failed) for each in follows.agent.fetchers.values()] == [
        [TopicPartition("t", 1)]
    ]
    follows.change(leader=2, number=1)
    follows.answer()

    assert [each.failed for each in follows.agent.fetchers.values()] == [{}]


def test_leader_fetches_nothing(follows: Follows) -> None:
    follows.create()
    follows.change(leader=NODE)
    follows.answer()

    assert follows.in_flight == []
    assert follows.agent.fetchers == {}


def test_partition_without_a_leader_waits(follows: Follows) -> None:
    follows.create()
    follows.change(leader=-1)
    follows.answer()
    assert follows.in_flight == []
    follows.leaders[2].logs[TopicPartition("t", 0)].lead_next(2)
    follows.change(leader=2)

    assert follows.in_flight == [2]


def test_deleted_topic_is_fetched_no_longer(follows: Follows) -> None:
    follows.create()
    follows.apply(RemoveTopicRecord(topic_id=TOPIC_ID))
    follows.answer()

    assert follows.in_flight == []


def test_failed_call_is_repeated_after_the_back_off(follows: Follows) -> None:
    follows.create()
    follows.answer()
    follows.fail()
    assert follows.in_flight == []
    assert follows.agent.next_deadline_ms == follows.disk.clock.monotonic_ms() + 1000
    follows.wait(999)
    assert follows.in_flight == []
    follows.wait(1)

    assert follows.in_flight == [2]


def test_leader_that_has_no_such_listener_is_looked_for_again(follows: Follows) -> None:
    follows.apply(a_broker(2, name="OTHER"))
    follows.create()
    assert follows.in_flight == []
    follows.apply(a_broker(2))
    follows.wait(1000)

    assert follows.in_flight == [2]


def test_leader_is_asked_at_its_new_address(follows: Follows) -> None:
    follows.create()
    follows.fail()
    follows.apply(a_broker(2, port=19_000))
    follows.wait(1000)

    assert follows.wires[0].asked[0].peer.port == 19_002


def test_partitions_are_spread_over_the_fetchers() -> None:
    follows = Follows(fetchers=2)
    follows.agent.start()
    follows.create(partitions=4)

    # The first request left when the first partition came; the next one names them all.
    for number in range(2):
        follows.answer(number)
    named = [
        sorted(
            each.partition for topic in wires.asked[0].request.topics for each in topic.partitions
        )
        for wires in follows.wires
        if isinstance(wires.asked[0].request, FetchRequest)
    ]
    assert len(follows.agent.fetchers) == 2
    assert [len(fetcher) for fetcher in follows.agent.fetchers.values()] == [2, 2]
    assert all(len(each) <= 2 for each in named)


def test_partition_that_cannot_be_written_is_reported_and_the_others_go_on(
    follows: Follows,
) -> None:
    follows.create(partitions=2)
    follows.answer()
    for log in follows.leaders[2].logs.values():
        log.append(1)
    follows.hosted.get(TopicPartition("t", 0)).log.fail("fsync failed")
    follows.answer()
    follows.answer()

    assert follows.failures == [TopicPartition("t", 0)]
    assert follows.end_offset(1) == 1


def test_throttle_follows_the_settings(follows: Follows) -> None:
    follows.apply(
        ConfigRecord(
            resource_type=4,
            resource_name="1",
            name="follower.replication.throttled.rate",
            value="1",
        )
    )
    follows.create()
    follows.apply(
        ConfigRecord(
            resource_type=2,
            resource_name="t",
            name="follower.replication.throttled.replicas",
            value="0:1",
        ),
        PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=[2]),
    )
    log = follows.leaders[2].logs[TopicPartition("t", 0)]
    log.append(3)
    follows.answer()
    assert follows.end_offset() == 3
    log.append(3)
    log.high_watermark += 100
    follows.answer()
    assert follows.in_flight == [], "it lags, is not in sync, and had more than a byte a second"
    follows.apply(
        ConfigRecord(
            resource_type=4,
            resource_name="1",
            name="follower.replication.throttled.rate",
            value=None,
        )
    )
    follows.wait(1000)
    assert follows.in_flight == [2]


def test_topic_that_comes_back_under_its_name_is_not_throttled(follows: Follows) -> None:
    follows.apply(
        ConfigRecord(
            resource_type=4,
            resource_name="1",
            name="follower.replication.throttled.rate",
            value="1",
        )
    )
    follows.create()
    follows.apply(
        ConfigRecord(
            resource_type=2,
            resource_name="t",
            name="follower.replication.throttled.replicas",
            value="*",
        )
    )
    throttled = follows.agent._throttle.is_throttled(TopicPartition("t", 0))

    follows.apply(RemoveTopicRecord(topic_id=TOPIC_ID))
    follows.create()

    assert throttled
    assert not follows.agent._throttle.is_throttled(TopicPartition("t", 0))


def test_operators_see_lag_and_failures(follows: Follows) -> None:
    follows.create()
    log = follows.leaders[2].logs[TopicPartition("t", 0)]
    log.append(3)
    size = len(log.written[0].data)
    log.high_watermark = 10
    follows.answer()
    found = {each.name.rpartition("_")[2]: each for each in samples(follows.agent)}

    assert found["maxlag"].value == 7
    assert found["failedpartitionscount"].value == 0
    assert found["total"].value == size
    assert dict(found["consumerlag"].labels)["clientId"] == "ReplicaFetcherThread-0-2"
    assert [each.value for each in samples(None)] == [0, 0, 0]


def test_change_that_others_report_is_told_with_the_next_request(follows: Follows) -> None:
    follows.create()
    log = follows.leaders[2].logs[TopicPartition("t", 0)]
    log.append(3)
    for _ in range(2):
        follows.answer()
    follows.hosted.get(TopicPartition("t", 0)).log.raise_log_start_offset(2)
    follows.agent.report_changed(TopicPartition("t", 0))
    follows.agent.report_changed(TopicPartition("other", 0))
    follows.answer()
    request = follows.wires[0].asked[0].request

    assert isinstance(request, FetchRequest)
    assert [p.log_start_offset for t in request.topics for p in t.partitions] == [2]
