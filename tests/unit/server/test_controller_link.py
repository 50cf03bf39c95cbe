"""Changes of the metadata on their way: decided at once, shown and answered once committed."""

import pytest

from ledgerstone.errors import LogStorageError
from ledgerstone.metadata.not_controller import not_controller
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
from ledgerstone.raft.settings import Settings
from ledgerstone.server.producer_ids import PATIENCE_MS, ProducerIds
from ledgerstone.sim.clock import VirtualClock
from tests.kit.controllers import ControllerDesk, register

FOLLOWER = 1


class Node:
    """The leader of three voters. The others are cut off: a test says what they acknowledge."""

    def __init__(self) -> None:
        self.desk = ControllerDesk()
        self.desk.start()
        self.desk.elect(0)
        node = self.desk.node(0)
        self.quorum, self.controller, self.link = node.quorum, node.controller, node.link
        register(self.desk, 0)
        self.desk.deliver()
        self.broker = node.broker
        self.broker.shown.clear()
        self.desk.isolate(0)

    def ask(self, request: ApiMessage) -> list[ApiMessage]:
        """What it is answered, now or later."""
        return self.desk.request(0, request)

    def commit_up_to(self, offset: int) -> None:
        self.desk.acknowledge(0, FOLLOWER, offset)

    @property
    def end(self) -> int:
        return self.quorum.end_offset

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

    node.desk.resign(0)
    later = node.ask(create("d"))

    assert codes(first) == [ErrorCode.NONE]
    assert codes(second) == [ErrorCode.NOT_CONTROLLER] * 2, "and never success afterwards"
    assert codes(later) == [ErrorCode.NOT_CONTROLLER]
    assert node.topics == ["a"]
    assert node.controller.decided is node.controller.committed
    assert not node.link.is_active


def test_append_that_fails_is_not_decided_and_disturbs_nothing_in_flight(node: Node) -> None:
    first = node.ask(create("a"))
    node.quorum.append_error = LogStorageError("No space left")

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
    node.quorum.sync_error = LogStorageError("Input/output error")

    with pytest.raises(LogStorageError, match="Input/output"):
        node.link.ask(create("b"), answers.append)

    assert codes(first) == [ErrorCode.NOT_CONTROLLER]
    assert answers == [], "the error is its answer"
    assert not node.link.is_active
    assert node.controller.decided is node.controller.committed
    assert node.topics == []


def test_decision_that_fits_no_batch_is_refused_and_changes_nothing(node: Node) -> None:
    node.desk[0].raft.quorum.settings = Settings(max_batch_bytes=1_000)
    answers = node.ask(create(*(f"topic-{number}" for number in range(20))))
    small = node.ask(create("a"))
    node.commit_up_to(node.end)

    assert codes(answers) == [ErrorCode.POLICY_VIOLATION] * 20
    assert codes(small) == [ErrorCode.NONE]
    assert node.topics == ["a"]
    assert node.broker.refusals == []


def test_change_asked_for_while_another_is_published_waits_for_its_turn() -> None:
    desk = one_voter()
    order: list[str] = []

    def and_then(_: ApiMessage) -> None:
        desk.node(0).link.ask(create("b"), lambda _: order.append("b"))
        order.append("a")

    desk.node(0).link.ask(create("a"), and_then)

    assert order == ["a", "b"]
    assert list(desk.node(0).image.topics) == ["a", "b"]


def one_voter() -> ControllerDesk:
    desk = ControllerDesk(voters=1)
    desk.start()
    register(desk, 0)
    return desk


def test_one_voter_shows_and_answers_in_the_same_turn() -> None:
    desk = one_voter()

    assert codes(desk.request(0, create("a"))) == [ErrorCode.NONE]
    assert list(desk.node(0).image.topics) == ["a"]


def test_producers_that_ask_while_a_block_is_on_its_way_share_it(node: Node) -> None:
    ids = ProducerIds(node.link.ask, lambda: node.link.image, 0, VirtualClock())
    drawn: list[int | None] = []
    for _ in range(3):
        ids.draw(drawn.append)
    waited = list(drawn)

    node.commit_up_to(node.end)

    assert waited == []
    assert drawn == [0, 1, 2]
    assert node.link.image.next_producer_id == 1000


def test_producers_do_not_wait_long_for_a_controller_that_does_not_answer(node: Node) -> None:
    clock = VirtualClock()
    ids = ProducerIds(node.link.ask, lambda: node.link.image, 0, clock)
    drawn: list[int | None] = []
    ids.draw(drawn.append)

    clock.advance(ms=PATIENCE_MS - 1)
    ids.tick()
    before = list(drawn)
    clock.advance(ms=1)
    ids.tick()
    told = list(drawn)
    node.commit_up_to(node.end)
    ids.draw(drawn.append)

    assert before == []
    assert told == [None]
    # The block that came too late serves the next one.
    assert drawn == [None, 0]
    assert ids.next_deadline_ms is None


def test_producers_get_no_id_from_a_controller_that_has_lost_leadership(node: Node) -> None:
    ids = ProducerIds(node.link.ask, lambda: node.link.image, 0, VirtualClock())
    drawn: list[int | None] = []
    ids.draw(drawn.append)

    node.desk.resign(0)
    assert drawn == [None]
    node.desk.heal()
    node.desk.elect(0)
    ids.draw(drawn.append)
    node.desk.run(1_000)

    # The first block was committed under the new epoch, but no id of it was given.
    assert drawn == [None, 1000]


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
    assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH


def test_disk_that_refuses_a_decision_due_by_the_clock_and_the_next_lead_ends_there(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sole voter that resigns leads again at once, which takes a record. Agents behind the
    controller in the same tick must not pay for that."""

    def refuse(*_: object) -> None:
        raise LogStorageError("no space left")

    monkeypatch.setattr(type(node.link), "_append", refuse)
    monkeypatch.setattr(type(node.quorum), "resign", refuse)
    assert node.link.act_on_time() is False
