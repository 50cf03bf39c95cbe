"""What nodes show and what callers are answered, held against the truth. Part of sim."""

from collections import deque
from collections.abc import Callable

from ledgerstone.dataclasses import dataclass, field, fields
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.metadata.replay import apply
from ledgerstone.protocol.message import ApiMessage, MetadataRecord
from ledgerstone.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from ledgerstone.sim.controller.answers import AnswerBook, Ticket
from ledgerstone.sim.controller.facts import BrokerFact
from ledgerstone.sim.controller.scenario import Config
from ledgerstone.sim.controller.truth import CommittedIn, Truth
from ledgerstone.sim.quorum.checkers import Checkers
from ledgerstone.sim.world import Violation, World

# Sessions are looked at an eighth of one apart, and a decision takes a moment to be proposed.
_EARLY_MS = 200
# Whole images are compared this often; what a batch touched, after each.
_WHOLE_EVERY = 24


@dataclass(slots=True)
class _Contact:
    """The heartbeats of a broker that one leadership has heard."""

    epoch: int
    # When, the last ones: some may come after a decision and before its commit.
    times: deque[int] = field(default_factory=lambda: deque(maxlen=64))
    offset: int = -1
    wishes_to_go: bool = False


class ClusterJudge:
    def __init__(self, world: World, config: Config, checkers: Checkers, truth: Truth) -> None:
        self._world = world
        self._config = config
        self._checkers = checkers
        self.truth = truth
        self.answers = AnswerBook(world, truth)
        self._read = 0
        # Found where an exception would not get far: inside an answer.
        self._found: Violation | None = None
        # By quorum epoch: its active controller, and since when.
        self._active: dict[int, int] = {}
        self._since_ms: dict[int, int] = {}
        self._contacts: dict[tuple[int, int], _Contact] = {}
        self._proposed_ms: dict[tuple[int, int], int] = {}
        # How far the process of an incarnation has applied the metadata.
        self.progress_of: Callable[[bytes], int | None] = lambda incarnation: None
        truth.on_fenced = self._fenced
        truth.on_unfenced = self._unfenced

    # -- after every step ---------------------------------------------------------------------

    def look(self) -> None:
        """Reads on, as far as the log is committed."""
        if self._found is not None:
            raise self._found
        committed = self._checkers.logs.committed
        if self._read < len(committed):
            fresh = committed[self._read :]
            self._read = len(committed)
            self.truth.advance(fresh)

    def answered(self, ticket: Ticket, answer: ApiMessage) -> None:
        try:
            self.look()
            self.answers.answered(ticket, answer)
        except Violation as found:
            self._found = self._found or found
            raise

    # -- images -------------------------------------------------------------------------------

    def shown(self, number: int, image: MetadataImage, offset: int, *, whole: bool = False) -> None:
        """The image of a node that has consumed everything below `offset`."""
        self.look()
        moment = self.truth.moments.get(offset)
        if moment is None:
            raise Violation("ImagesAgree", f"n{number} is at {offset}, where no batch ends")
        if whole or self.truth.version % _WHOLE_EVERY == 0:
            self._same(number, image, moment.image, offset)
            return
        delta, right = moment.delta, moment.image
        names = [each.name for each in (*delta.topics_deleted, *delta.topics_created)]
        # By partition: a topic may have a hundred thousand of them.
        places = [
            (each.topic, each.partition)
            for each in (*delta.partitions_added, *delta.partitions_changed)
        ]
        is_same = (
            all(image.topics.get(name) == right.topics.get(name) for name in names)
            and all(image.partition(*each) == right.partition(*each) for each in places)
            and all(image.brokers.get(b) == right.brokers.get(b) for b in delta.brokers_changed)
            and all(image.config_of(r) == right.config_of(r) for r in delta.configs_changed)
            and len(image.topics) == len(right.topics)
            and len(image.brokers) == len(right.brokers)
            and image.features == right.features
            and image.next_producer_id == right.next_producer_id
        )
        if not is_same:
            self._same(number, image, right, offset)
            raise Violation("ImagesAgree", f"n{number} at {offset}: a part differs")

    def snapshot(self, number: int, offset: int, records: list[MetadataRecord]) -> None:
        """What a node writes down for those that come after it."""
        moment = self.truth.moments[offset]
        if moment.is_open:
            raise Violation("SnapshotsAreWhole", f"n{number} at {offset}, inside a transaction")
        image = apply(MetadataImage(cluster_id=moment.image.cluster_id), records).image
        self._same(number, image, moment.image, offset)

    def _same(self, number: int, image: MetadataImage, right: MetadataImage, offset: int) -> None:
        for each in fields(MetadataImage):
            if each.name == "open_transaction":
                # Shown to nobody; the truth has its own.
                continue
            found, expected = getattr(image, each.name), getattr(right, each.name)
            if found != expected:
                raise Violation(
                    "ImagesAgree",
                    f"n{number} at {offset}, {each.name}: {_difference(found, expected)}",
                )

    # -- leadership ---------------------------------------------------------------------------

    def leads(self, number: int, epoch: int) -> None:
        known = self._active.setdefault(epoch, number)
        if known != number:
            raise Violation("OneActiveController", f"epoch {epoch}: n{known} and n{number}")
        self._since_ms.setdefault(epoch, self._world.now_ms)
        if len(self._active) > 1:
            self._world.mark("another controller became active")

    def proposed(self, base_offset: int, epoch: int) -> None:
        self._proposed_ms[base_offset, epoch] = self._world.now_ms

    # -- brokers ------------------------------------------------------------------------------

    def heard(self, epoch: int, request: ApiMessage) -> None:
        """The active controller of this quorum epoch got a heartbeat."""
        if not isinstance(request, BrokerHeartbeatRequest):
            return
        key = (epoch, request.broker_id)
        contact = self._contacts.get(key)
        if contact is None or contact.epoch < request.broker_epoch:
            contact = self._contacts[key] = _Contact(request.broker_epoch)
        if contact.epoch != request.broker_epoch:
            return
        contact.times.append(self._world.now_ms)
        contact.offset = max(contact.offset, request.current_metadata_offset)
        contact.wishes_to_go |= request.want_shut_down or request.want_fence
        fact = self.truth.brokers.get(request.broker_id)
        if fact is None or fact.epoch != request.broker_epoch:
            return
        progress = self.progress_of(fact.incarnation)
        if progress is not None and request.current_metadata_offset > progress:
            raise Violation(
                "HeartbeatsTellTheTruth",
                f"broker {request.broker_id} says {request.current_metadata_offset}, is {progress}",
            )

    def _fenced(self, broker_id: int, fact: BrokerFact, batch: CommittedIn) -> None:
        """Only a broker that wished so, or that was silent for a session."""
        contact = self._contacts.get((batch.epoch, broker_id))
        since_ms = self._since_ms.get(batch.epoch)
        proposed_ms = self._proposed_ms.get((batch.base_offset, batch.epoch))
        if since_ms is None or proposed_ms is None:
            raise Violation("OnlyTheActiveFences", f"{broker_id} in epoch {batch.epoch}")
        is_same = contact is not None and contact.epoch == fact.epoch
        if contact is not None and is_same and contact.wishes_to_go:
            return
        times = contact.times if contact is not None and is_same else ()
        heard_ms = max((ms for ms in times if ms <= proposed_ms), default=since_ms)
        silent_ms = proposed_ms - max(heard_ms, since_ms)
        least_ms = self._config.session_ms * (1 - self._config.skew_ppm * 2 / 1_000_000) - _EARLY_MS
        if silent_ms < least_ms:
            raise Violation(
                "HeartbeatsKeepBrokers", f"{broker_id} is fenced {silent_ms} ms after a heartbeat"
            )
        self._world.mark("a silent broker was fenced")

    def _unfenced(self, broker_id: int, fact: BrokerFact, batch: CommittedIn) -> None:
        """Only a broker that has its own registration."""
        contact = self._contacts.get((batch.epoch, broker_id))
        if contact is None or contact.epoch != fact.epoch:
            raise Violation("UnfencedCaughtUp", f"{broker_id} was not heard in {batch.epoch}")
        if contact.offset < fact.offset:
            raise Violation(
                "UnfencedCaughtUp",
                f"{broker_id} is unfenced at {contact.offset}, registered at {fact.offset}",
            )


def _difference(found: object, expected: object) -> str:
    if isinstance(found, dict) or hasattr(found, "keys"):
        left, right = dict(found), dict(expected)  # type: ignore[call-overload]
        keys = [key for key in left.keys() | right.keys() if left.get(key) != right.get(key)]
        return "; ".join(f"{key!r}: {left.get(key)} / {right.get(key)}" for key in keys[:3])
    return f"{found} / {expected}"
