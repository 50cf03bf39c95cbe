"""The other brokers of the cluster, as erasures ask them. Grade D.

A broker is asked over a connection of its own purpose, at the address that the metadata name. Its
answer counts only if it comes from the very life of the broker that the metadata know by then.
Contract: erasure/README.md, "Several brokers".
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.erasure.host_messages import WorkKind
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.erasure_work import ErasureWorkRequest, ErasureWorkResponse
from ledgerstone.server.broker_queues import peer_of
from ledgerstone.server.calls import CallFailed
from ledgerstone.server.controller_channel import AsksNodes
from ledgerstone.server.erasing.journal_topic import JOURNAL

TIMEOUT_MS: Final = 10_000
# A call of the JSON API waits for the journal at the other end.
API_TIMEOUT_MS: Final = 40_000
NO_EPOCH: Final = -1


class Unanswered(NamedTuple):
    """Why a broker gave no answer that counts."""

    reason: str
    code: int = 0
    is_unsupported: bool = False
    may_be_done: bool = True  # the request may have been served all the same


class Said(NamedTuple):
    size: int
    content: bytes


OnWord = Callable[[Said | Unanswered], None]


class Links(NamedTuple):
    """Of a node of a cluster. Calls of the JSON API have their own connection: they wait."""

    calls: AsksNodes
    api_calls: AsksNodes
    listener: str | None
    incarnation_id: bytes
    broker_epoch: Callable[[], int]


@dataclass(slots=True, kw_only=True)
class OtherBrokers:
    node_id: int
    cluster_id: Callable[[], str]
    image: Callable[[], MetadataImage]  # the newest
    links: Links | None = None  # None: a single node
    # Brokers, by id and incarnation, that do not know what we ask.
    unable: dict[tuple[int, bytes], str] = field(default_factory=dict)

    @property
    def identity(self) -> tuple[bytes, int]:
        """This life of this broker."""
        if self.links is not None:
            return self.links.incarnation_id, self.links.broker_epoch()
        own = self.image().brokers.get(self.node_id)
        return (bytes(16), NO_EPOCH) if own is None else (own.incarnation_id, own.broker_epoch)

    @property
    def ids(self) -> list[int]:
        """Every other broker that is registered, also those that are not reachable."""
        return sorted(each for each in self.image().brokers if each != self.node_id)

    @property
    def alive(self) -> set[int]:
        """This broker, and others that should answer."""
        return {self.node_id, *(each for each in self.ids if self.why_silent(each) is None)}

    def why_silent(self, broker_id: int) -> str | None:
        """Why a broker is not even asked."""
        registered = self.image().brokers.get(broker_id)
        if registered is None:
            return f"broker {broker_id} is not registered"
        if registered.fenced:
            return f"broker {broker_id} is fenced: it is down, or cut off"
        return self.unable.get((broker_id, registered.incarnation_id))

    def ask(
        self,
        broker_id: int,
        kind: WorkKind,
        on_word: OnWord,
        content: bytes = b"{}",
        *,
        job: int = 0,
        position: int = 0,
    ) -> None:
        """`on_word` is called once; at once where the broker is not asked at all."""
        image, links = self.image(), self.links
        silent = self.why_silent(broker_id)
        peer = None if links is None else peer_of(image, broker_id, links.listener)
        if silent is not None or links is None or peer is None:
            reason = silent or f"broker {broker_id} has no address for other brokers"
            on_word(Unanswered(reason, may_be_done=False))
            return
        journal = image.partition(*JOURNAL)
        request = ErasureWorkRequest(
            cluster_id=self.cluster_id(),
            broker_id=self.node_id,
            broker_epoch=links.broker_epoch(),
            journal_epoch=NO_EPOCH if journal is None else journal.leader_epoch,
            kind=kind,
            job=job,
            position=position,
            content=content,
        )
        is_api = kind is WorkKind.API
        (links.api_calls if is_api else links.calls).ask(
            peer,
            request,
            lambda answer: on_word(self._judged(broker_id, answer)),
            timeout_ms=API_TIMEOUT_MS if is_api else TIMEOUT_MS,
        )

    def _judged(self, broker_id: int, answer: ApiMessage | CallFailed) -> Said | Unanswered:
        who = f"broker {broker_id}"
        if isinstance(answer, CallFailed):
            if answer.is_unsupported:
                reason = f"{who} knows no erasures: it is no Ledgerstone broker, or an older one"
                if (registered := self.image().brokers.get(broker_id)) is not None:
                    self.unable[broker_id, registered.incarnation_id] = reason
                return Unanswered(reason, is_unsupported=True, may_be_done=False)
            return Unanswered(f"{who} does not answer: {answer.reason}")
        assert isinstance(answer, ErasureWorkResponse), answer
        if answer.error_code:
            # Whoever gave up waiting may have written something before.
            may_be_done = answer.error_code == ErrorCode.REQUEST_TIMED_OUT
            reason = f"{who} refused: {answer.error_message}"
            return Unanswered(reason, answer.error_code, may_be_done=may_be_done)
        registered = self.image().brokers.get(broker_id)
        life = (answer.broker_id, answer.incarnation_id, answer.broker_epoch)
        if registered is None or life != (
            broker_id,
            registered.incarnation_id,
            registered.broker_epoch,
        ):
            return Unanswered(f"{who} has been started again, or is not the one that is registered")
        return Said(answer.size, bytes(answer.content))
