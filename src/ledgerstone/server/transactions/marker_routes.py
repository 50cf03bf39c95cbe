"""Markers on their way to the leaders of their partitions, on this broker or others. Grade D.

Metadata says who leads. Markers for partitions led here are written at once; the others are
gathered per broker. When a leader moves, its partitions are given back with
NOT_LEADER_OR_FOLLOWER, and the coordinator sends them to the new leader: it does not wait for an
answer of the old one, which may never come.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from ledgerstone.coordinator.transactions.transaction_records import by_topic
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.metadata.delta import Delta
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage, replace
from ledgerstone.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersRequestTopic,
    WriteTxnMarkersResponse,
)
from ledgerstone.raft.replica import Peer
from ledgerstone.server.broker_queues import BrokerQueues, peer_of
from ledgerstone.server.calls import CallFailed
from ledgerstone.server.controller_channel import AsksNodes
from ledgerstone.server.effects import Effect
from ledgerstone.server.markers import markers_response
from ledgerstone.server.results import Result
from ledgerstone.server.transactions.needs import OnMarkersWritten, WritesMarkers
from ledgerstone.types import TopicPartition

# Of markers in one request.
_MAX_BATCH: Final = 1000


@dataclass(slots=True, eq=False)
class _Errand:
    """One marker for the partitions that one broker leads; `left` are not answered yet."""

    marker: WriteTxnMarkersRequestMarker
    on_answer: OnMarkersWritten
    left: dict[TopicPartition, None]

    def answer(self, codes: Mapping[TopicPartition, int]) -> None:
        for each in codes:
            del self.left[each]
        if codes:
            self.on_answer(markers_response({self.marker.producer_id: codes}))


@dataclass(slots=True, kw_only=True)
class MarkerRoutes:
    """An agent (`server.agent`). `here` writes into partitions that this broker leads."""

    node_id: int
    listener: str | None  # of brokers
    image: Callable[[], MetadataImage]  # the newest
    here: WritesMarkers
    calls: AsksNodes
    _queues: BrokerQueues[_Errand] = field(init=False)

    def __post_init__(self) -> None:
        self._queues = BrokerQueues(self.calls, take_batch=_take_batch, on_answer=_answered)

    def write_markers(self, request: WriteTxnMarkersRequest, on_answer: OnMarkersWritten) -> None:
        """Answers once for each broker that leads some of the partitions, in any turn."""
        for marker in request.markers:
            self._route(marker, on_answer)

    def _route(self, marker: WriteTxnMarkersRequestMarker, on_answer: OnMarkersWritten) -> None:
        image = self.image()
        here: list[TopicPartition] = []
        unreachable: dict[TopicPartition, int] = {}
        elsewhere: dict[Peer, list[TopicPartition]] = {}
        for each in _partitions_of(marker):
            state = image.partition(*each)
            if state is None:
                unreachable[each] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif state.leader == self.node_id:
                here.append(each)
            elif (peer := peer_of(image, state.leader, self.listener)) is not None:
                elsewhere.setdefault(peer, []).append(each)
            else:
                unreachable[each] = ErrorCode.LEADER_NOT_AVAILABLE
        for peer, partitions in elsewhere.items():
            self._queues.put(peer, _Errand(marker, on_answer, dict.fromkeys(partitions)))
        if unreachable:
            on_answer(markers_response({marker.producer_id: unreachable}))
        if here:
            request = WriteTxnMarkersRequest(markers=[_narrowed(marker, here)])
            self.here.write_markers(request, on_answer)

    # -- as an agent --------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        return None

    def tick(self) -> list[Effect]:
        return []

    def completed(self, effect: Effect, result: Result) -> list[Effect]:
        raise AssertionError(f"marker routes asked for no {type(effect).__name__}")

    def metadata_changed(self, delta: Delta) -> list[Effect]:
        """Partitions whose leader moved are given back."""
        image = self.image()
        for node_id, errand in list(self._queues):
            moved: dict[TopicPartition, int] = {}
            for each in errand.left:
                state = image.partition(*each)
                if state is None:
                    moved[each] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif state.leader != node_id:
                    moved[each] = ErrorCode.NOT_LEADER_OR_FOLLOWER
            errand.answer(moved)
        return []


def _take_batch(waiting: deque[_Errand]) -> tuple[list[_Errand], ApiMessage]:
    """A producer comes once in a request: the answer tells markers apart by it."""
    taken: dict[int, _Errand] = {}
    later: list[_Errand] = []
    while waiting and len(taken) < _MAX_BATCH:
        errand = waiting.popleft()
        if not errand.left:
            continue
        if errand.marker.producer_id in taken:
            later.append(errand)
        else:
            taken[errand.marker.producer_id] = errand
    waiting.extendleft(reversed(later))
    errands = list(taken.values())
    return errands, WriteTxnMarkersRequest(
        markers=[_narrowed(each.marker, each.left) for each in errands]
    )


def _answered(errands: Sequence[_Errand], answer: ApiMessage | CallFailed) -> None:
    codes: dict[int, dict[TopicPartition, int]] = {}
    if isinstance(answer, WriteTxnMarkersResponse):
        for marker in answer.markers:
            found = codes.setdefault(marker.producer_id, {})
            for topic in marker.topics:
                for each in topic.partitions:
                    found[TopicPartition(topic.name, each.partition_index)] = each.error_code
    # What was not answered is sent again.
    failed = ErrorCode.NETWORK_EXCEPTION
    for errand in errands:
        found = codes.get(errand.marker.producer_id, {})
        errand.answer({each: found.get(each, failed) for each in errand.left})


def _partitions_of(marker: WriteTxnMarkersRequestMarker) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, number)
        for topic in marker.topics
        for number in topic.partition_indexes
    ]


def _narrowed(
    marker: WriteTxnMarkersRequestMarker, partitions: Iterable[TopicPartition]
) -> WriteTxnMarkersRequestMarker:
    topics = [
        WriteTxnMarkersRequestTopic(name=topic, partition_indexes=numbers)
        for topic, numbers in by_topic(partitions).items()
    ]
    return replace(marker, topics=topics)
