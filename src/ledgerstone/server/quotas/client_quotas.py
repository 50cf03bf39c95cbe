"""What clients use of a broker, request by request, and how long each has to wait. Pure.

The answer leaves first and names the throttle time; then its connection is muted (KIP-219). Produce
counts the bytes of requests, when their answer is built. Fetch counts the bytes of answers: one
that is too much is taken back, and an empty one leaves instead. Request time counts what the event
loop spends on a connection's turns; it is known when a turn is over, and counts for the next
request.
"""

from collections.abc import Callable, Mapping
from typing import Final

from ledgerstone.config.broker import BrokerConfig
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.protocol.api import ApiKey
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages import APIS
from ledgerstone.protocol.single_produce import with_throttle_time
from ledgerstone.quotas.counters import (
    MutationCounter,
    QuotaCounters,
    RateCounter,
    ThrottleNotes,
    mutation_counters,
    rate_counters,
)
from ledgerstone.quotas.entities import QuotaEntity, QuotaKey
from ledgerstone.quotas.mutations import MutationQuota
from ledgerstone.quotas.rate import NO_BOUND
from ledgerstone.quotas.windows import Windows
from ledgerstone.server.quotas.charges import Charges
from ledgerstone.server.request import Encoded, InnerRequest, Request, Response, outermost
from ledgerstone.server.session import Session
from ledgerstone.types import INT32_MAX

# All of the event loop is 100 %, and a second of it 10^9 ns.
NANOSECONDS_OF_A_PERCENT: Final = 10_000_000
# Answers that have no place for a throttle time, and brokers' own.
_EXEMPT: Final = frozenset(
    {
        int(ApiKey.SASL_HANDSHAKE),
        int(ApiKey.SASL_AUTHENTICATE),
        int(ApiKey.WRITE_TXN_MARKERS),
    }
)
# Bound once: asking an enum for a member costs as much as a function call.
_PRODUCE: Final = int(ApiKey.PRODUCE)
# From which version on clients understand THROTTLING_QUOTA_EXCEEDED.
_STRICT_FROM: Final[Mapping[int, int]] = {
    ApiKey.CREATE_TOPICS: 6,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.CREATE_PARTITIONS: 3,
}


class ClientQuotas:
    """`follow` says what is set; nothing else here costs anything while nothing is."""

    def __init__(self, config: BrokerConfig) -> None:
        samples = config.quota_window_num
        window_ms = config.quota_window_size_seconds * 1000
        self._window_s = (samples - 1) * config.quota_window_size_seconds
        self.produce = rate_counters(samples=samples, window_ms=window_ms)
        self.fetch = rate_counters(samples=samples, window_ms=window_ms)
        self.request = rate_counters(
            samples=samples,
            window_ms=window_ms,
            longest_ms=window_ms,
            scale=NANOSECONDS_OF_A_PERCENT,
        )
        self.mutations = mutation_counters(
            samples=config.controller_quota_window_num,
            window_ms=config.controller_quota_window_size_seconds * 1000,
        )
        # What the loop spends on brokers, and on connections that have not asked for anything yet.
        self.exempt = Windows(samples, window_ms)
        self.is_active = False
        self.counts_time = False
        # Answers to fetches are measured, and may have to be empty.
        self.counts_fetches = False
        self._generation = 0
        self._followed: Mapping[QuotaEntity, Mapping[str, float]] = {}

    def follow(self, image: MetadataImage) -> None:
        if image.client_quotas is self._followed:
            return
        self._followed = image.client_quotas
        for key, counters in self._by_key.items():
            bounds = {
                entity: values[key]
                for entity, values in image.client_quotas.items()
                if key in values
            }
            counters.follow(bounds)
        self.counts_time = self.request.is_active
        self.counts_fetches = self.fetch.is_active or self.counts_time
        self.is_active = any(each.is_active for each in self._by_key.values())
        self._renew()

    def _renew(self) -> None:
        """Counters that sessions remember may not be the right ones any more."""
        self._generation += 1

    @property
    def _by_key(
        self,
    ) -> Mapping[QuotaKey, QuotaCounters[RateCounter] | QuotaCounters[MutationCounter]]:
        return {
            QuotaKey.PRODUCER_BYTE_RATE: self.produce,
            QuotaKey.CONSUMER_BYTE_RATE: self.fetch,
            QuotaKey.REQUEST_PERCENTAGE: self.request,
            QuotaKey.CONTROLLER_MUTATION_RATE: self.mutations,
        }

    def forget_idle(self, now_ms: int) -> None:
        for counters in self._by_key.values():
            counters.forget_idle(now_ms)
        self._renew()

    # -- requests -----------------------------------------------------------------------------

    def answered(
        self, request: Request, answer: Response | None, now_ms: int
    ) -> tuple[Response | None, int]:
        """The answer, which says the throttle time where it has a place for it; and that time."""
        session = request.session
        if session.is_controller_listener or request.api_key in _EXEMPT:
            return answer, 0
        # A controller, or the handler, may have set one already.
        throttle_ms = 0
        if type(answer) is not bytes and answer is not None:
            throttle_ms = getattr(answer, "throttle_time_ms", 0)
        if request.is_charged:
            return answer, throttle_ms
        charges = session.charges
        if (
            charges is None
            or charges.generation != self._generation
            or charges.client_id != request.client_id
            or charges.principal is not session.principal
        ):
            charges = self._charges_of(session, request.client_id)
        slowest: RateCounter | None = None
        if charges.produce is not None and request.api_key == _PRODUCE:
            wait_ms = charges.produce.record(request.size, now_ms)
            if wait_ms > throttle_ms:
                throttle_ms, slowest = wait_ms, charges.produce
        if charges.request is not None and answer is not None:
            wait_ms = charges.request.record(0, now_ms)
            if wait_ms > throttle_ms:
                throttle_ms, slowest = wait_ms, charges.request
        if slowest is not None:
            note(slowest, throttle_ms, now_ms)
            answer = _with_throttle(request, answer, throttle_ms)
        return answer, throttle_ms

    def fetched(self, request: Request, size: int, now_ms: int) -> int:
        """How long the client of a fetch has to wait; then its answer must be empty. `size` is that
        of the answer."""
        request.is_charged = True
        if isinstance(request, InnerRequest):
            outermost(request).is_charged = True
        # Those of this request: `most_fetched` was asked before, and nothing was served since.
        charges = request.session.charges
        if charges is None or charges.generation != self._generation:
            charges = self._current(request)
        by_bytes = by_time = 0
        if (fetch := charges.fetch) is not None:
            by_bytes = fetch.windows.throttle_ms(size, fetch.bound, now_ms, fetch.longest_ms)
        if charges.request is not None:
            by_time = charges.request.record(0, now_ms)
        if not by_bytes and not by_time:
            return 0
        throttle_ms = max(by_bytes, by_time)
        if fetch is not None:
            fetch.record_only(-size, now_ms)
        if by_bytes > by_time:
            assert fetch is not None
            notes = note(fetch, throttle_ms, now_ms)
            if size > fetch.bound * self._window_s:
                # One batch: whatever the client waits, it will never pass.
                notes.too_large = max(notes.too_large, size)
        else:
            assert charges.request is not None
            note(charges.request, throttle_ms, now_ms)
        return throttle_ms

    def most_fetched(self, request: Request) -> int:
        """What a fetch may ask for without having to wait for certain."""
        session = request.session
        charges = session.charges
        if (
            charges is None
            or charges.generation != self._generation
            or charges.client_id != request.client_id
            or charges.principal is not session.principal
        ):
            charges = self._charges_of(session, request.client_id)
        return charges.most_fetched

    def turn_took(self, session: Session, spent_ns: int, now_ms: int) -> None:
        """The loop was busy with a connection for so long, whatever it did."""
        charges = session.charges
        if charges is None or charges.request is None:
            self.exempt.record(spent_ns, now_ms)
        else:
            charges.request.record_only(spent_ns, now_ms)

    def _current(self, request: Request) -> Charges:
        session = request.session
        charges = session.charges
        if (
            charges is not None
            and charges.client_id == request.client_id
            and charges.principal is session.principal
            and charges.generation == self._generation
        ):
            return charges
        return self._charges_of(session, request.client_id)

    def _charges_of(self, session: Session, client_id: str | None) -> Charges:
        user, name = session.principal.name, client_id or ""
        fetch = self.fetch.get(user, name) if self.fetch.is_active else None
        most_fetched = INT32_MAX
        if fetch is not None and fetch.bound < NO_BOUND:
            most_fetched = int(min(fetch.bound * self._window_s, INT32_MAX))
        charges = session.charges = Charges(
            session.principal,
            client_id,
            self._generation,
            self.produce.get(user, name) if self.produce.is_active else None,
            fetch,
            self.request.get(user, name) if self.request.is_active else None,
            most_fetched,
        )
        return charges

    # -- the controller -----------------------------------------------------------------------

    def mutation_quota(
        self, asked: ApiMessage, client: Request, image: MetadataImage, now_ms: Callable[[], int]
    ) -> MutationQuota | None:
        """What a client may change now; None: there is no limit."""
        strict_from = _STRICT_FROM.get(asked.api_key)
        self.follow(image)
        if strict_from is None or not self.mutations.is_active:
            return None
        counter = self.mutations.get(client.session.principal.name, client.client_id or "")
        # As in Kafka: a topic that a Metadata request makes is made by a CreateTopics of today.
        is_own = client.api_key == asked.api_key
        version = client.api_version if is_own else APIS[asked.api_key].last_version
        return MutationQuota(counter, now_ms, is_strict=version >= strict_from)


def note(counter: RateCounter | MutationCounter, throttle_ms: int, now_ms: int) -> ThrottleNotes:
    if counter.throttled is None:
        counter.throttled = ThrottleNotes()
    counter.throttled.note(throttle_ms, now_ms)
    return counter.throttled


def _with_throttle(request: Request, answer: Response | None, throttle_ms: int) -> Response | None:
    if isinstance(answer, bytes):
        return with_throttle_time(request.api_version, answer, throttle_ms)
    if isinstance(answer, ApiMessage) and hasattr(answer, "throttle_time_ms"):
        answer.throttle_time_ms = throttle_ms
    assert not isinstance(answer, Encoded), "charged before it was encoded"
    return answer
