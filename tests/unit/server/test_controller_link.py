"""Changes of the metadata on their way: decided at once, shown and answered once committed.

`SlowQuorum` is the metadata log of a quorum whose other voters a test lets answer."""

import errno

import pytest

from ledgerstone.config.broker import load_broker_config
from ledgerstone.errors import LogStorageError
from ledgerstone.metadata.broker_life import Registration
from ledgerstone.metadata.controller import Controller
from ledgerstone.metadata.image import Endpoint
from ledgerstone.metadata.not_controller import not_controller
from ledgerstone.metadata.records import bootstrap_records
from ledgerstone.metadata.replay import Replayed
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from ledgerstone.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from ledgerstone.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
)
from ledgerstone.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsTopic
from ledgerstone.protocol.messages.elect_leaders import ElectLeadersRequest
from ledgerstone.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from ledgerstone.server.controller_link import ControllerLink
from ledgerstone.server.metadata_log import MetadataLog
from ledgerstone.server.producer_ids import ProducerIds
from ledgerstone.sim.clock import VirtualClock
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem
from ledgerstone.storage.log_dir import open_log_dir
from tests.kit.logs import T0


class SlowQuorum(MetadataLog):
    """Own records are synced at once; the others' acknowledgements are the test's."""

    is_slow = False

    def sync(self) -> None:
        if self.is_slow:
            self.log.flush()
        else:
            super().sync()


class Follower:
    """A broker that follows the metadata: the images it was shown, in order."""

    def __init__(self) -> None:
        self.shown: list[Replayed] = []
        self.refusals: list[Exception] = []

    def metadata_committed(self, applied: Replayed) -> None:
        self.shown.append(applied)

    def metadata_refused(self, error: Exception) -> None:
        self.refusals.append(error)


class Node:
    def __init__(self) -> None:
        clock = VirtualClock(start_ms=T0)
        self.fs = SimFilesystem(dice=SeededDice(0), clock=clock)
        self.log = SlowQuorum(open_log_dir(self.fs, clock, SeededDice(1), "/data", node_id=1))
        config = load_broker_config().config
        self.controller = Controller("cluster", config, SeededDice(2))
        self.link = ControllerLink(self.log, self.controller)
        self.link.write(bootstrap_records())
        registration = Registration(
            broker_id=1, incarnation_id=bytes(16), endpoints=[Endpoint("PLAINTEXT", "h", 1, 0)]
        )
        epoch = self.log.log.log_end_offset
        self.link.write(self.controller.register_broker(registration, broker_epoch=epoch))
        self.link.write(self.controller.unfence_broker(1, broker_epoch=epoch))
        self.broker = self.link.subscriber = Follower()
        self.log.is_slow = True

    def ask(self, request: ApiMessage) -> list[ApiMessage]:
        """What it is answered, now or later."""
        answers: list[ApiMessage] = []
        self.link.ask(request, answers.append)
        return answers

    def commit_up_to(self, offset: int) -> None:
        self.log.log.advance_high_watermark(offset)
        self.link.settle()

    @property
    def end(self) -> int:
        return self.log.log.log_end_offset

    @property
    def topics(self) -> list[str]:
        """What everybody may see."""
        if self.broker.shown:
            assert self.link.image is self.broker.shown[-1].image
        return list(self.link.image.topics)


def create(*names: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[
            CreateTopicsRequestTopic(name=name, num_partitions=1, replication_factor=1)
            for name in names
        ]
    )


def codes(answers: list[ApiMessage]) -> list[int]:
    assert all(isinstance(each, CreateTopicsResponse) for each in answers)
    return [topic.error_code for each in answers for topic in each.topics]  # type: ignore[attr-defined]


@pytest.fixture
def node() -> Node:
    return Node()


def test_decisions_in_flight_build_on_each_other_and_are_shown_in_the_order_of_their_commit(
    node: Node,
) -> None:
    first = node.ask(create("a"))
    first_end = node.end
    again = node.ask(create("a"))
    second = node.ask(create("b"))
    assert (first, again, second, node.topics) == ([], [], [], [])

    node.commit_up_to(first_end)

    assert node.topics == ["a"]
    assert codes(first) == [ErrorCode.NONE]
    # It was decided on what was not committed yet, so it waited for that.
    assert codes(again) == [ErrorCode.TOPIC_ALREADY_EXISTS]
    assert second == []
    node.commit_up_to(node.end)
    assert codes(second) == [ErrorCode.NONE]
    assert node.topics == ["a", "b"]
    assert [len(each.delta.topics_created) for each in node.broker.shown] == [1, 1]
    assert node.controller.decided is node.controller.committed


def test_part_of_a_batch_commits_nothing(node: Node) -> None:
    answers = node.ask(create("a", "b"))

    node.commit_up_to(node.end - 1)

    assert answers == []
    assert node.topics == []


def test_refusal_on_committed_state_is_answered_at_once(node: Node) -> None:
    answers = node.ask(create("not/legal"))

    assert codes(answers) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert node.link.in_flight == 0


def test_lost_leadership_throws_the_decided_image_away_and_answers_not_controller(
    node: Node,
) -> None:
    first = node.ask(create("a"))
    first_end = node.end
    second = node.ask(create("b", "c"))
    node.commit_up_to(first_end)

    node.log.leader_id = 2
    node.link.leadership_lost()
    node.commit_up_to(node.end)
    later = node.ask(create("d"))

    assert codes(first) == [ErrorCode.NONE]
    assert codes(second) == [ErrorCode.NOT_CONTROLLER] * 2, "and never success afterwards"
    assert codes(later) == [ErrorCode.NOT_CONTROLLER]
    assert node.topics == ["a"]
    assert node.controller.decided is node.controller.committed
    assert node.link.controller_id == 2


def test_append_that_fails_is_not_decided_and_disturbs_nothing_in_flight(node: Node) -> None:
    first = node.ask(create("a"))
    node.fs.fail_matching("pwrite", "*/__cluster_metadata-0/*", errno.ENOSPC)

    with pytest.raises(LogStorageError, match="No space left"):
        node.ask(create("b"))
    third = node.ask(create("c"))
    node.commit_up_to(node.end)

    assert codes(first) == codes(third) == [ErrorCode.NONE]
    assert node.topics == ["a", "c"]
    assert len(node.broker.refusals) == 1


def test_sync_that_fails_gives_up_all_that_is_not_committed(node: Node) -> None:
    first = node.ask(create("a"))
    answers: list[ApiMessage] = []
    node.fs.fail_matching("fsync", "*/__cluster_metadata-0/*", errno.EIO)

    with pytest.raises(LogStorageError, match="Input/output"):
        node.link.ask(create("b"), answers.append)

    assert codes(first) == [ErrorCode.NOT_CONTROLLER]
    assert answers == [], "the error is its answer"
    assert node.controller.decided is node.controller.committed
    assert node.topics == []


def test_change_asked_for_while_another_is_published_waits_for_its_turn(node: Node) -> None:
    node.log.is_slow = False
    order: list[str] = []

    def and_then(_: ApiMessage) -> None:
        node.link.ask(create("b"), lambda _: order.append("b"))
        order.append("a")

    node.link.ask(create("a"), and_then)

    assert order == ["a", "b"]
    assert node.topics == ["a", "b"]


def test_one_voter_shows_and_answers_in_the_same_turn(node: Node) -> None:
    node.log.is_slow = False

    assert codes(node.ask(create("a"))) == [ErrorCode.NONE]
    assert node.topics == ["a"]


def test_producers_that_ask_while_a_block_is_on_its_way_share_it(node: Node) -> None:
    ids = ProducerIds(node.link.ask, lambda: node.link.image, 1)
    drawn: list[int | None] = []
    for _ in range(3):
        ids.draw(drawn.append)
    waited = list(drawn)

    node.commit_up_to(node.end)

    assert waited == []
    assert drawn == [0, 1, 2]
    assert node.link.image.next_producer_id == 1000


def test_producers_get_no_id_from_a_controller_that_has_lost_leadership(node: Node) -> None:
    ids = ProducerIds(node.link.ask, lambda: node.link.image, 1)
    drawn: list[int | None] = []
    ids.draw(drawn.append)

    node.link.leadership_lost()
    assert drawn == [None]
    node.log.is_slow = False
    ids.draw(drawn.append)

    # The first block may be committed by the next leader, but no id of it was given.
    assert drawn == [None, 0]


@pytest.mark.parametrize(
    "request_",
    [
        create("a"),
        DeleteTopicsRequest(topic_names=["a"]),
        DeleteTopicsRequest(topics=[DeleteTopicsTopic(name="a")]),
        CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="a", count=2)]),
        IncrementalAlterConfigsRequest(resources=[IncrementalAlterConfigsResource(2, "a")]),
        AlterConfigsRequest(resources=[AlterConfigsResource(2, "a")]),
        ElectLeadersRequest(),
        AllocateProducerIdsRequest(),
    ],
    ids=lambda each: each.name,
)
def test_every_request_for_the_controller_has_a_place_for_not_controller(
    request_: ApiMessage,
) -> None:
    answer = not_controller(request_)

    assert answer.api_key == request_.api_key
    assert "error_code=<ErrorCode.NOT_CONTROLLER: 41>" in repr(answer)


def test_producer_id_block_names_the_error_of_the_controller(node: Node) -> None:
    (answer,) = node.ask(AllocateProducerIdsRequest(broker_id=9, broker_epoch=0))

    assert isinstance(answer, AllocateProducerIdsResponse)
    assert answer.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
