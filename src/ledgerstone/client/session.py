"""One logical client without sockets: what it knows, and where requests go. Pure.

All calls of a client share a `ClientSession`; `call` handles one request. These two decide
everything, so blocking and asynchronous shells behave alike and stay small. Time and randomness are
passed in; time is monotonic.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, assert_never

from ledgerstone.client.cluster import Endpoint, KnownCluster, ask_about
from ledgerstone.client.reactions import Reaction, reaction_to
from ledgerstone.client.routing import AnyBroker, Coordinator, Target, ToBroker, ToController
from ledgerstone.client.security import PLAIN_TEXT, ClientSecurity
from ledgerstone.clock import Dice
from ledgerstone.dataclasses import dataclass
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ledgerstone.protocol.messages.metadata import MetadataResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConfig:
    client_id: str = "ledgerstone"
    call_timeout_ms: int = 30_000
    # How long to look for a first broker. 0: one pass over the list.
    reach_timeout_ms: int = 5_000
    # How long a topic may be unknown; not every broker knows a new topic at once.
    unknown_topic_patience_ms: int = 1_000
    backoff_ms: int = 50
    max_backoff_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    security: ClientSecurity = PLAIN_TEXT


class Purpose(Enum):
    """What a connection is for. A parked fetch must not hold up requests to a coordinator."""

    DATA = "data"
    COORDINATOR = "coordinator"


class LinkId(NamedTuple):
    """The identity of a connection."""

    endpoint: Endpoint
    purpose: Purpose


class Backoff:
    """Doubling waits with up to a fifth of jitter, so that clients do not retry in step."""

    def __init__(self, config: SessionConfig, dice: Dice) -> None:
        self._config = config
        self._dice = dice

    def after(self, failures: int) -> int:
        doubled = self._config.backoff_ms << min(max(failures - 1, 0), 16)
        limit_ms = min(doubled, self._config.max_backoff_ms)
        return limit_ms - self._dice.below(limit_ms // 5 + 1)


class ClientSession:
    """Shared by calls: the known cluster, and endpoints that have failed."""

    def __init__(
        self, bootstrap: Sequence[Endpoint], dice: Dice, config: SessionConfig | None = None
    ) -> None:
        assert bootstrap, "a session without an endpoint to start from"
        self.config = config or SessionConfig()
        self.bootstrap = tuple(bootstrap)
        self.cluster = KnownCluster()
        self.backoff = Backoff(self.config, dice)
        self.was_reached = False
        self._is_stale = False  # brokers or the controller have changed: refresh before use
        self._coordinators: dict[Coordinator, Endpoint] = {}
        self._failures: dict[Endpoint, int] = {}
        self._down_until_ms: dict[Endpoint, int] = {}
        self._muted_until_ms: dict[LinkId, int] = {}

    # -- targets ------------------------------------------------------------------------------

    def resolve(self, target: Target) -> LinkId | ApiMessage | None:
        """The link to a target, or the lookup to do first; None stands for any working link."""
        match target:
            case AnyBroker():
                return None
            case ToController():
                return self._controller()
            case ToBroker(node_id=node_id):
                endpoint = None if self._is_stale else self.cluster.brokers.get(node_id)
                return ask_about([]) if endpoint is None else LinkId(endpoint, Purpose.DATA)
            case Coordinator():
                endpoint = self._coordinators.get(target)
                if endpoint is not None:
                    return LinkId(endpoint, Purpose.COORDINATOR)
                return FindCoordinatorRequest(
                    key=target.key, key_type=target.key_type, coordinator_keys=[target.key]
                )
            case _:
                assert_never(target)

    def _controller(self) -> LinkId | ApiMessage | None:
        if self._is_stale or not self.cluster.brokers:
            return ask_about([])
        endpoint = self.cluster.brokers.get(self.cluster.controller_id)
        # If controllers are not brokers, any broker forwards the request.
        return None if endpoint is None else LinkId(endpoint, Purpose.DATA)

    def any_link(self, now_ms: int) -> LinkId | int:
        """A link worth trying, or the time until there is one."""
        candidates = dict.fromkeys([*self.cluster.brokers.values(), *self.bootstrap])
        waits = {each: self._down_until_ms.get(each, 0) - now_ms for each in candidates}
        best = min(waits, key=lambda each: max(waits[each], 0))
        return waits[best] if waits[best] > 0 else LinkId(best, Purpose.DATA)

    def muted_ms(self, link: LinkId, now_ms: int) -> int:
        """How long a broker has asked for a pause."""
        return max(self._muted_until_ms.get(link, 0) - now_ms, 0)

    # -- what was learned ----------------------------------------------------------------------

    def reached(self, link: LinkId, response: ApiMessage, now_ms: int) -> None:
        self.was_reached = True
        self._failures.pop(link.endpoint, None)
        self._down_until_ms.pop(link.endpoint, None)
        throttle_ms: int = getattr(response, "throttle_time_ms", 0)
        if throttle_ms > 0:
            self._muted_until_ms[link] = now_ms + throttle_ms
        if isinstance(response, MetadataResponse):
            self.cluster.learn(response, now_ms=now_ms)
            self._is_stale = False

    def lost(self, link: LinkId, now_ms: int) -> None:
        """A connection failed: back off, and drop the knowledge that led to it."""
        failures = self._failures.get(link.endpoint, 0) + 1
        self._failures[link.endpoint] = failures
        self._down_until_ms[link.endpoint] = now_ms + self.backoff.after(failures)
        self._muted_until_ms.pop(link, None)
        self._is_stale = True
        for topic in list(self.cluster.topics):
            self.cluster.forget(topic)
        for coordinator in [c for c, e in self._coordinators.items() if e == link.endpoint]:
            del self._coordinators[coordinator]

    def react(self, code: int, target: Target) -> Reaction:
        """Drops knowledge that an error code proves wrong."""
        reaction = reaction_to(code)
        if reaction is Reaction.REFRESH_METADATA:
            self._is_stale = True
        elif reaction is Reaction.FIND_COORDINATOR and isinstance(target, Coordinator):
            self._coordinators.pop(target, None)
        return reaction

    def learn_coordinator(self, target: Coordinator, response: FindCoordinatorResponse) -> int:
        """Returns the error code of the response; versions below 4 have no list."""
        for each in response.coordinators:
            if each.key == target.key:
                if each.error_code == ErrorCode.NONE:
                    self._coordinators[target] = Endpoint(each.host, each.port)
                return each.error_code
        if response.error_code == ErrorCode.NONE and response.host:
            self._coordinators[target] = Endpoint(response.host, response.port)
        return response.error_code
