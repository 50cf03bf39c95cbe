"""The lead of the metadata quorum moves while decisions are in flight.

A caller gets one answer: what was committed, or NOT_CONTROLLER. Every node ends with the same
image, and no topic exists twice.
"""

import itertools
from collections.abc import Iterator

import pytest

from ledgerstone.errors import InvariantViolation, NotController
from ledgerstone.metadata.controller import Controller
from ledgerstone.metadata.decision import Decision
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage, MetadataRecord
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
)
from ledgerstone.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsTopic
from ledgerstone.protocol.messages.metadata_records import (
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from ledgerstone.raft.events import Resign
from ledgerstone.raft.replica import OffsetAndEpoch
from ledgerstone.server.controller_link import OnAnswer
from ledgerstone.server.controlling.batches import MAX_BATCH_RECORDS
from ledgerstone.server.quorum.door import CommittedBatch
from ledgerstone.server.request import Request
from tests.kit.controllers import ControllerDesk, records_in, register


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
def desk() -> ControllerDesk:
    desk = ControllerDesk()
    desk.start()
    desk.elect(0)
    register(desk, 0, 0, 1, 2)
    desk.run(1_000)
    return desk


def same_images(desk: ControllerDesk) -> None:
    first, *others = [desk.nodes[each].image for each in range(len(desk.replicas))]
    for other in others:
        assert other == first
    first.check_invariants()


def test_every_node_follows_what_the_leader_writes(desk: ControllerDesk) -> None:
    answers = desk.request(0, create("a"))
    assert answers == []
    desk.run(1_000)

    assert codes(answers) == [ErrorCode.NONE]
    same_images(desk)
    assert list(desk.node(2).image.topics) == ["a"]
    assert desk.node(2).broker.shown[-1].delta.topics_created[0].name == "a"


def test_own_batches_are_not_decoded(desk: ControllerDesk) -> None:
    decoded = [desk.node(each).decoded for each in (0, 1)]
    desk.request(0, create("a"))
    desk.run(1_000)

    assert desk.node(0).decoded == decoded[0]
    assert desk.node(1).decoded == decoded[1] + 1


def test_first_leader_alone_writes_the_bootstrap_records(desk: ControllerDesk) -> None:
    features = desk.node(0).image.features
    written = desk[0].log.end_offset
    desk.resign(0)
    desk.run(1_000)

    assert features
    assert desk.leader_id in (1, 2)
    assert desk.node(1).image.features == features
    # The LeaderChange batch and nothing else.
    assert desk[1].log.end_offset == written + 1


def test_operation_that_was_not_committed_is_answered_not_controller_and_leaves_no_trace(
    desk: ControllerDesk,
) -> None:
    desk.isolate(0)
    answers = desk.request(0, create("a"))
    desk.run(10_000)
    leader = desk.leader_id
    assert leader in (1, 2)

    # Check-quorum has made the old leader resign.
    assert codes(answers) == [ErrorCode.NOT_CONTROLLER]
    desk.heal()
    desk.run(5_000)
    again = desk.request(leader, create("a"))
    desk.run(1_000)

    assert codes(again) == [ErrorCode.NONE]
    assert codes(answers) == [ErrorCode.NOT_CONTROLLER], "answered once"
    same_images(desk)


def test_operation_that_the_next_leader_commits_is_found_by_a_retry(desk: ControllerDesk) -> None:
    """Scenario 65: 41, then 36; never two topic ids."""
    desk[0].holds_sync = True
    for other in (1, 2):
        # The followers get the records; their acknowledgements are lost.
        desk.cut(other, 0)
    answers = desk.request(0, create("a"))
    desk.deliver()
    desk.heal()
    # Followers fetch the batch, then the leader resigns before anything is acknowledged.
    desk[1].holds_sync = desk[2].holds_sync = True
    desk.run(600)
    assert answers == []
    held = desk[1].log.end_offset
    desk.resign(0)
    assert codes(answers) == [ErrorCode.NOT_CONTROLLER]
    desk[0].holds_sync = False
    for other in (1, 2):
        desk.release_syncs(other)
    desk.run(10_000)
    leader = desk.leader_id
    assert leader is not None
    assert held == desk[0].log.entries_from(held - 1)[0].next_offset

    topic_id = desk.node(leader).image.topics["a"].topic_id
    again = desk.request(leader, create("a"))
    desk.run(1_000)

    assert codes(again) == [ErrorCode.TOPIC_ALREADY_EXISTS]
    assert codes(answers) == [ErrorCode.NOT_CONTROLLER]
    assert all(each.image.topics["a"].topic_id == topic_id for each in desk.nodes.values())
    same_images(desk)


def test_node_that_leads_again_after_its_tail_was_truncated(desk: ControllerDesk) -> None:
    desk.isolate(0)
    for number in range(5):
        desk.request(0, create(f"lost{number}"))
    lost_end = desk[0].log.end_offset
    desk.run(10_000)
    desk.heal()
    desk.run(5_000)
    assert desk[0].log.end_offset < lost_end
    for _ in range(30):
        leader = desk.wait_for_leader().identity.key.id
        if leader == 0:
            break
        desk.resign(leader)
        desk.run(3_000)
    answers = desk.request(0, create("a"))
    desk.run(1_000)

    assert codes(answers) == [ErrorCode.NONE]
    same_images(desk)


def _stories() -> Iterator[tuple[int, int, int]]:
    """In flight, acknowledged, and what comes after: all small combinations."""
    for count in (1, 2, 3):
        yield from itertools.product((count,), range(count + 1), (1, 2))


@pytest.mark.parametrize(("count", "acknowledged", "next_leader"), list(_stories()))
def test_failover_with_operations_in_flight(
    desk: ControllerDesk, count: int, acknowledged: int, next_leader: int
) -> None:
    """Some of the operations reach the next leader, the rest go down with the old one."""
    answers: dict[str, list[ApiMessage]] = {}
    other = 3 - next_leader
    for number in range(count):
        if number == acknowledged:
            desk.isolate(0)
        answers[f"t{number}"] = desk.request(0, create(f"t{number}"))
        if number < acknowledged:
            desk.run(600)
    desk.isolate(0)
    desk.cut(other, next_leader)
    desk.run(100)
    # An operation without records waits for what it has seen.
    seen = desk.request(0, create("t0"))
    assert codes(seen) == ([ErrorCode.TOPIC_ALREADY_EXISTS] if acknowledged == count else [])
    desk.cuts.discard((other, next_leader))
    desk.run(10_000)

    for number in range(count):
        expected = ErrorCode.NONE if number < acknowledged else ErrorCode.NOT_CONTROLLER
        assert codes(answers[f"t{number}"]) == [expected], number
    if acknowledged < count:
        assert codes(seen) == [ErrorCode.NOT_CONTROLLER]
    desk.heal()
    desk.run(5_000)
    leader = desk.leader_id
    assert leader is not None
    kept = set(desk.node(leader).image.topics)
    assert kept == {f"t{number}" for number in range(acknowledged)}
    retried = {name: desk.request(leader, create(name)) for name in answers}
    desk.run(1_000)
    for name, retry in retried.items():
        expected = ErrorCode.TOPIC_ALREADY_EXISTS if name in kept else ErrorCode.NONE
        assert codes(retry) == [expected]
    assert all(len(each) == 1 for each in answers.values()), "each answered once"
    same_images(desk)
    assert desk.node(leader).controller.decided is desk.node(leader).controller.committed


@pytest.mark.parametrize("crash_after", range(5))
def test_leader_that_dies_anywhere_in_a_chain_of_decisions(
    desk: ControllerDesk, crash_after: int
) -> None:
    """Create, delete and create again under the same name, each decided on the one before. The
    quorum keeps a prefix of them."""
    topic_ids: list[bytes] = []
    for step in range(crash_after):
        if step % 2:
            desk.request(0, DeleteTopicsRequest(topics=[DeleteTopicsTopic(name="a")]))
        else:
            desk.request(0, create("a"))
            topic_ids.append(desk.node(0).controller.decided.topics["a"].topic_id)
    desk.kill(0)
    desk.run(10_000)
    desk.start(0)
    desk.run(5_000)
    leader = desk.leader_id
    assert leader is not None
    topic = desk.node(leader).image.topics.get("a")
    assert topic is None or topic.topic_id in topic_ids
    again = desk.request(leader, create("a"))
    desk.run(1_000)

    expected = ErrorCode.NONE if topic is None else ErrorCode.TOPIC_ALREADY_EXISTS
    assert codes(again) == [expected]
    same_images(desk)


def test_node_that_does_not_lead_forwards(desk: ControllerDesk) -> None:
    forwarded: list[tuple[ApiMessage, bool]] = []

    class Recorded:
        def forward(
            self,
            request: ApiMessage,
            on_answer: OnAnswer,
            *,
            by_broker: bool = False,
            client: Request | None = None,
        ) -> None:
            forwarded.append((request, by_broker))

    request = create("a")
    assert codes(desk.request(1, request)) == [ErrorCode.NOT_CONTROLLER]
    desk.node(1).link.forwarder = Recorded()
    assert desk.request(1, request) == []
    assert forwarded == [(request, False)]
    with pytest.raises(NotController):
        desk.node(1).link.write([NoOpRecord()])


def test_decision_that_fails_costs_the_lead_and_nothing_else(
    desk: ControllerDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = desk.request(0, create("a"))

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(Controller, "create_topics", fail)
        answers = desk.request(0, create("b"))

    # A retry would meet the same fault on the next controller.
    assert codes(answers) == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert codes(waiting) == [ErrorCode.NOT_CONTROLLER]
    assert not desk.node(0).link.is_active
    desk.run(10_000)
    leader = desk.leader_id
    assert leader is not None
    assert codes(desk.request(leader, create("c"))) == []
    desk.run(1_000)
    assert "c" in desk.node(1).image.topics
    same_images(desk)


def test_committed_record_that_contradicts_the_image_is_fatal(desk: ControllerDesk) -> None:
    link = desk.node(1).link
    records = [RemoveTopicRecord(topic_id=bytes(range(16)))]
    offset = desk.node(1).consumed

    with pytest.raises(InvariantViolation):
        link.committed(CommittedBatch(offset, offset + 1, 9, 0, 100, lambda: list(records)))


def test_open_metadata_transaction_is_aborted_by_the_next_leader(desk: ControllerDesk) -> None:
    """Scenario 66: no trace of it in any image, and no snapshot while it is open."""
    topic = TopicRecord(name="half", topic_id=bytes(range(16)))
    desk.node(0).link.write([BeginTransactionRecord("half a change"), topic])
    desk.run(1_000)
    for node in desk.nodes.values():
        assert "half" not in node.image.topics
        assert node.image.open_transaction is not None
        assert node.link.snapshot() is None

    desk.kill(0)
    desk.run(10_000)
    desk.start(0)
    desk.run(5_000)
    leader = desk.leader_id
    assert leader is not None
    for node in desk.nodes.values():
        assert node.image.open_transaction is None
        assert "half" not in node.image.topics
        assert node.link.snapshot() is not None
    again = desk.request(leader, create("half"))
    desk.run(1_000)

    assert codes(again) == [ErrorCode.NONE]
    same_images(desk)


def test_bootstrap_records_are_one_transaction_of_the_first_leader(desk: ControllerDesk) -> None:
    batches = [list(records_in(each.data)) for each in desk[0].log.entries_from(0)]
    first = next(each for each in batches if each)

    assert isinstance(first[0], BeginTransactionRecord)
    assert first[0].name == "Bootstrap records"
    assert isinstance(first[1], FeatureLevelRecord)
    assert first[1].name == "metadata.version"
    assert isinstance(first[-1], EndTransactionRecord)
    assert sum(isinstance(each, BeginTransactionRecord) for batch in batches for each in batch) == 1


def test_snapshot_loads_to_the_image_of_the_log(desk: ControllerDesk) -> None:
    """Scenario 69, through the link: what a node that is far behind is shown."""
    for name in ("a", "b", "c"):
        desk.request(0, create(name))
    desk.request(0, DeleteTopicsRequest(topics=[DeleteTopicsTopic(name="b")]))
    desk.run(1_000)
    records = desk.node(0).link.snapshot()
    assert records is not None
    behind = ControllerDesk(voters=1, seed="behind")
    behind.start()
    node = behind.node(0)
    node.broker.shown.clear()
    end = OffsetAndEpoch(desk.node(0).consumed, desk[0].raft.epoch)

    node.link.load(end, iter(list(records)))

    assert node.image == desk.node(0).image
    assert [each.name for each in node.broker.shown[-1].delta.topics_created] == ["a", "c"]


def test_decision_that_need_not_be_atomic_is_cut_and_answered_after_its_last_batch(
    desk: ControllerDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    records: list[MetadataRecord] = [NoOpRecord()] * (2 * MAX_BATCH_RECORDS + 1)
    response = CreateTopicsResponse()
    decision = Decision(records, response, is_atomic=False)
    monkeypatch.setattr(Controller, "decide", lambda *_, **__: decision)
    end = desk[0].log.end_offset
    answers = desk.request(0, create("a"))
    sizes = [each.next_offset - each.base_offset for each in desk[0].log.entries_from(end)]
    assert sizes == [MAX_BATCH_RECORDS, MAX_BATCH_RECORDS, 1]
    assert answers == []
    desk.run(5_000)

    assert answers == [response]


def test_caller_that_fails_over_its_answer_does_not_stop_the_quorum(
    desk: ControllerDesk, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: ApiMessage) -> None:
        raise ZeroDivisionError

    desk.node(0).link.ask(create("a"), fail)
    others = desk.request(0, create("b"))
    desk.run(1_000)

    assert codes(others) == [ErrorCode.NONE]
    assert "answer of the controller not taken" in caplog.text
    same_images(desk)


def test_lead_that_is_gone_before_the_link_hears_of_it_is_no_disk_failure(
    desk: ControllerDesk,
) -> None:
    replica, link = desk[0], desk.node(0).link
    replica.raft.step(desk.now, Resign(replica.raft.epoch))
    assert link.is_active, "nothing was performed yet"

    answers = desk.request(0, create("a"))

    assert codes(answers) == [ErrorCode.NOT_CONTROLLER]
    assert desk.node(0).broker.refusals == []
