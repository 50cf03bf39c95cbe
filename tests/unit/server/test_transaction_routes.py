"""Markers and questions on their way to other brokers: gathered, answered once, given back."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from ledgerstone.metadata.delta import Delta
from ledgerstone.metadata.image import BrokerImage, Endpoint, MetadataImage, TopicImage
from ledgerstone.metadata.topic_names import TRANSACTION_STATE
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ledgerstone.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersRequestTopic,
    WriteTxnMarkersResponse,
)
from ledgerstone.raft.replica import Peer
from ledgerstone.server.calls import CallFailed, OnAnswer
from ledgerstone.server.markers import markers_response
from ledgerstone.server.transactions.coordinator_routes import CoordinatorRoutes
from ledgerstone.server.transactions.marker_routes import MarkerRoutes
from ledgerstone.types import TopicPartition
from tests.kit.roles import led_by
from tests.unit.server.transactions_kit import MarkerWriter
from tests.unit.server.txn_asks import ScriptedCoordinator

LISTENER = "PLAINTEXT"
TOPIC = "t"
GONE = CallFailed("it hung up")


@dataclass
class Wires:
    """Stands in for `Calls`: requests wait until a test answers them."""

    asked: list[tuple[int, ApiMessage, OnAnswer]] = field(default_factory=list)
    least_versions: set[int] = field(default_factory=set)

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
        self.least_versions.add(least_version)
        self.asked.append((peer.id, request, on_answer))

    def answer(self, with_: Callable[[ApiMessage], ApiMessage | CallFailed]) -> None:
        """The oldest."""
        _, request, on_answer = self.asked.pop(0)
        on_answer(with_(request))


@dataclass
class Cluster:
    leaders: dict[int, int]
    coordinator: int = 2
    wires: Wires = field(default_factory=Wires)

    def image(self) -> MetadataImage:
        brokers = {
            number: BrokerImage(
                broker_id=number,
                incarnation_id=bytes(16),
                broker_epoch=0,
                endpoints=(Endpoint(LISTENER, f"host-{number}", 9092, 0),),
                fenced=number == 3,
            )
            for number in (1, 2, 3)
        }
        partitions = {
            number: led_by(leader, 0, (1, 2, 3)) for number, leader in self.leaders.items()
        }
        state = {0: led_by(self.coordinator, 0, (1, 2, 3))}
        return MetadataImage(
            cluster_id="c",
            brokers=brokers,
            topics={
                TOPIC: TopicImage(name=TOPIC, topic_id=bytes(16), partitions=partitions),
                TRANSACTION_STATE: TopicImage(
                    name=TRANSACTION_STATE, topic_id=bytes(15) + b"1", partitions=state
                ),
            },
        )


# -- markers --------------------------------------------------------------------------------------


@dataclass
class Markers:
    cluster: Cluster
    here: MarkerWriter = field(default_factory=MarkerWriter)
    answers: list[tuple[int, dict[int, int]]] = field(default_factory=list)
    routes: MarkerRoutes = field(init=False)

    def __post_init__(self) -> None:
        self.routes = MarkerRoutes(
            node_id=1,
            listener=LISTENER,
            image=self.cluster.image,
            here=self.here,
            calls=self.cluster.wires,
        )

    def write(self, producer_id: int, *partitions: int) -> None:
        topic = WriteTxnMarkersRequestTopic(name=TOPIC, partition_indexes=list(partitions))
        marker = WriteTxnMarkersRequestMarker(
            producer_id=producer_id,
            producer_epoch=1,
            transaction_result=True,
            topics=[topic],
            coordinator_epoch=7,
            transaction_version=2,
        )
        self.routes.write_markers(WriteTxnMarkersRequest(markers=[marker]), self._answered)

    def _answered(self, response: WriteTxnMarkersResponse) -> None:
        (marker,) = response.markers
        (topic,) = marker.topics
        codes = {each.partition_index: each.error_code for each in topic.partitions}
        self.answers.append((marker.producer_id, codes))

    @property
    def sent(self) -> list[tuple[int, dict[int, list[int]]]]:
        """By broker: the partitions of each producer."""
        found = []
        for node_id, request, _ in self.cluster.wires.asked:
            assert isinstance(request, WriteTxnMarkersRequest)
            assert all(each.coordinator_epoch == 7 for each in request.markers)
            by_producer = {
                each.producer_id: each.topics[0].partition_indexes for each in request.markers
            }
            found.append((node_id, by_producer))
        return found


def written(request: ApiMessage, code: int = 0) -> WriteTxnMarkersResponse:
    assert isinstance(request, WriteTxnMarkersRequest)
    return markers_response(
        {
            each.producer_id: {
                TopicPartition(topic.name, number): code
                for topic in each.topics
                for number in topic.partition_indexes
            }
            for each in request.markers
        }
    )


@pytest.fixture
def markers() -> Markers:
    return Markers(Cluster({0: 1, 1: 2, 2: 3, 3: -1, 4: 2}))


def test_each_leader_gets_its_partitions_and_answers_for_them(markers: Markers) -> None:
    markers.write(100, 0, 1, 2, 3, 4, 5)

    # Without a leader, or without the topic, there is nobody to ask; 3 is fenced, and still leads.
    assert markers.answers == [(100, {3: 5, 5: 3}), (100, {0: 0})]
    assert markers.here.marked == [[TopicPartition(TOPIC, 0)]]
    assert markers.sent == [(2, {100: [1, 4]}), (3, {100: [2]})]

    markers.cluster.wires.answer(written)
    markers.cluster.wires.answer(lambda request: written(request, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert markers.answers[2:] == [(100, {1: 0, 4: 0}), (100, {2: 6})]


def test_what_comes_while_a_broker_is_asked_leaves_together(markers: Markers) -> None:
    markers.write(100, 1)
    for producer_id in (101, 102, 101):
        markers.write(producer_id, 4)
    assert markers.sent == [(2, {100: [1]})]

    markers.cluster.wires.answer(written)

    # A producer comes once in a request.
    assert markers.sent == [(2, {101: [4], 102: [4]})]
    markers.cluster.wires.answer(written)
    assert markers.sent == [(2, {101: [4]})]
    markers.cluster.wires.answer(written)
    assert [producer_id for producer_id, _ in markers.answers] == [100, 101, 102, 101]


@pytest.mark.parametrize("answer", [GONE, WriteTxnMarkersResponse()])
def test_what_a_broker_does_not_answer_is_a_network_error(
    markers: Markers, answer: ApiMessage | CallFailed
) -> None:
    markers.write(100, 1, 4)

    markers.cluster.wires.answer(lambda request: answer)

    assert markers.answers == [(100, {1: 13, 4: 13})]


def test_a_leader_that_moved_is_not_waited_for(markers: Markers) -> None:
    markers.write(100, 1, 4)
    markers.write(101, 1)
    markers.cluster.leaders[1] = 3

    markers.routes.metadata_changed(Delta())

    # In flight or not. What the old leader says later is not heard.
    assert markers.answers == [(100, {1: 6}), (101, {1: 6})]
    markers.cluster.wires.answer(written)
    assert markers.answers[2:] == [(100, {4: 0})]
    assert markers.sent == []
    markers.write(101, 1)
    assert markers.sent == [(3, {101: [1]})]


def test_a_topic_that_is_deleted_is_given_back(markers: Markers) -> None:
    markers.write(100, 1)
    del markers.cluster.leaders[1]

    markers.routes.metadata_changed(Delta())

    assert markers.answers == [(100, {1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})]


# -- questions ------------------------------------------------------------------------------------


@dataclass
class Questions:
    cluster: Cluster
    here: ScriptedCoordinator = field(default_factory=ScriptedCoordinator)
    answers: list[tuple[str, dict[int, int]]] = field(default_factory=list)
    routes: CoordinatorRoutes = field(init=False)

    def __post_init__(self) -> None:
        self.routes = CoordinatorRoutes(
            node_id=1,
            listener=LISTENER,
            image=self.cluster.image,
            topic=self,
            here=self.here,
            calls=self.cluster.wires,
        )

    def number_for(self, transactional_id: str) -> int:
        return 0

    def ask(
        self, transactional_id: str, *partitions: int, epoch: int = 0, verify: bool = False
    ) -> None:
        topic = AddPartitionsToTxnTopic(name=TOPIC, partitions=list(partitions))
        asked = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=100,
            producer_epoch=epoch,
            verify_only=verify,
            topics=[topic],
        )
        request = AddPartitionsToTxnRequest(transactions=[asked])
        self.routes.add_partitions(request, self._answered)

    def _answered(self, response: AddPartitionsToTxnResponse) -> None:
        assert response.error_code == 0
        (result,) = response.results_by_transaction
        codes = {
            each.partition_index: each.partition_error_code
            for topic in result.topic_results
            for each in topic.results_by_partition
        }
        self.answers.append((result.transactional_id, codes))

    @property
    def sent(self) -> list[tuple[int, dict[str, list[int]]]]:
        found = []
        for node_id, request, _ in self.cluster.wires.asked:
            assert isinstance(request, AddPartitionsToTxnRequest)
            by_id = {
                each.transactional_id: each.topics[0].partitions for each in request.transactions
            }
            assert len(by_id) == len(request.transactions), "an id comes twice"
            found.append((node_id, by_id))
        return found

    def coordinate(self, **script: int) -> None:
        """The coordinator answers the oldest question, with a code for the ids in `script`."""

        def answer(request: ApiMessage) -> ApiMessage:
            assert isinstance(request, AddPartitionsToTxnRequest)
            answers: list[AddPartitionsToTxnResponse] = []
            for each in request.transactions:
                only = ScriptedCoordinator([script.get(each.transactional_id, 0)])
                only.add_partitions(AddPartitionsToTxnRequest(transactions=[each]), answers.append)
            results = [each.results_by_transaction[0] for each in answers]
            return AddPartitionsToTxnResponse(results_by_transaction=results)

        self.cluster.wires.answer(answer)


@pytest.fixture
def questions() -> Questions:
    return Questions(Cluster({0: 1, 1: 1, 2: 1}))


def test_questions_are_gathered_and_those_about_one_transaction_are_one(
    questions: Questions,
) -> None:
    questions.ask("a", 0)
    questions.ask("b", 0)
    questions.ask("b", 1, 0)
    questions.ask("c", 2)
    assert questions.sent == [(2, {"a": [0]})]
    assert questions.cluster.wires.least_versions == {4}

    questions.coordinate()
    assert questions.sent == [(2, {"b": [0, 1], "c": [2]})]
    questions.coordinate(b=ErrorCode.PRODUCER_FENCED)

    assert questions.answers == [
        ("a", {0: 0}),
        ("b", {0: 90}),
        ("b", {1: 90, 0: 90}),
        ("c", {2: 0}),
    ]


def test_another_epoch_or_purpose_waits_for_the_next_request(questions: Questions) -> None:
    questions.ask("a", 0)
    questions.ask("b", 0)
    questions.ask("b", 1, epoch=1)
    questions.ask("b", 2, verify=True)
    questions.coordinate()

    for expected in ([0], [1], [2]):
        assert questions.sent == [(2, {"b": expected})]
        questions.coordinate()
    assert questions.sent == []
    assert len(questions.answers) == 4


def test_a_coordinator_here_or_nowhere_is_not_called(questions: Questions) -> None:
    questions.cluster.coordinator = 1
    questions.ask("a", 0)
    questions.cluster.coordinator = -1
    questions.ask("b", 0)

    assert len(questions.here.asked) == 1
    assert questions.sent == []
    assert questions.answers == [("a", {0: 0}), ("b", {0: 15})]


def test_a_lost_connection_is_a_network_error(questions: Questions) -> None:
    questions.ask("a", 0, 1)

    questions.cluster.wires.answer(lambda request: GONE)

    assert questions.answers == [("a", {0: 13, 1: 13})]


def test_a_refused_request_refuses_its_transactions(questions: Questions) -> None:
    questions.ask("a", 0)
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    questions.cluster.wires.answer(lambda request: AddPartitionsToTxnResponse(error_code=code))

    assert questions.answers == [("a", {0: code})]


def test_a_coordinator_that_moved_is_not_waited_for(questions: Questions) -> None:
    questions.ask("a", 0)
    questions.ask("b", 0)
    questions.cluster.coordinator = 3

    questions.routes.metadata_changed(Delta())

    assert questions.answers == [("a", {0: 16}), ("b", {0: 16})]
    questions.coordinate()
    assert len(questions.answers) == 2
    questions.ask("b", 0)
    assert questions.sent == [(3, {"b": [0]})]
