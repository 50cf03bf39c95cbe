"""Requests to other brokers, gathered while one is in flight. Grade D.

Each broker has one request in flight at a time, as in Kafka; what is asked meanwhile leaves
together with the next one. An errand is answered exactly once: by the broker, by the failure of
the call, or by its owner, which may take it back when metadata names another broker.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Generic, TypeVar

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.metadata.reachable import endpoint_of
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.raft.replica import Peer
from ledgerstone.server.calls import CallFailed
from ledgerstone.server.controller_channel import AsksNodes

# request.timeout.ms of Kafka's brokers.
REQUEST_TIMEOUT_MS: Final = 30_000

T = TypeVar("T")
# Takes out of the queue what the next request carries, and makes the request.
TakeBatch = Callable[[deque[T]], tuple[list[T], ApiMessage]]
OnAnswer = Callable[[Sequence[T], ApiMessage | CallFailed], None]


@dataclass(slots=True)
class _Queue(Generic[T]):
    peer: Peer
    waiting: deque[T] = field(default_factory=deque)
    asked: Sequence[T] = ()


class BrokerQueues(Generic[T]):
    def __init__(
        self,
        calls: AsksNodes,
        *,
        take_batch: TakeBatch[T],
        on_answer: OnAnswer[T],
        least_version: int = 0,
    ) -> None:
        self._calls = calls
        self._take_batch = take_batch
        self._on_answer = on_answer
        self._least_version = least_version
        self._by_node: dict[int, _Queue[T]] = {}

    def put(self, peer: Peer, errand: T) -> None:
        queue = self._by_node.get(peer.id)
        if queue is None:
            queue = self._by_node[peer.id] = _Queue(peer)
        # A broker that was restarted may have another address.
        queue.peer = peer
        queue.waiting.append(errand)
        self._go_on(queue)

    def __iter__(self) -> Iterator[tuple[int, T]]:
        """Errands without an answer, each with its broker."""
        for node_id, queue in self._by_node.items():
            for errand in (*queue.asked, *queue.waiting):
                yield node_id, errand

    def _go_on(self, queue: _Queue[T]) -> None:
        if queue.asked or not queue.waiting:
            return
        errands, request = self._take_batch(queue.waiting)
        if not errands:
            return
        queue.asked = errands

        def answered(answer: ApiMessage | CallFailed) -> None:
            queue.asked = ()
            self._on_answer(errands, answer)
            self._go_on(queue)

        self._calls.ask(
            queue.peer,
            request,
            answered,
            timeout_ms=REQUEST_TIMEOUT_MS,
            least_version=self._least_version,
        )


def peer_of(image: MetadataImage, node_id: int, listener: str | None) -> Peer | None:
    """Where another broker is reached; a fenced one, too, while metadata names it leader."""
    broker = image.brokers.get(node_id)
    if broker is None or listener is None:
        return None
    endpoint = endpoint_of(broker, listener)
    return None if endpoint is None else Peer(node_id, endpoint.host, endpoint.port)
