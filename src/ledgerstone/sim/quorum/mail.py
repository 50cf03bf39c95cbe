"""Requests and answers of one node: sent, delivered, matched with who asked. Part of sim."""

from collections.abc import Callable
from typing import Protocol

from ledgerstone.dataclasses import dataclass
from ledgerstone.raft import messages
from ledgerstone.raft.events import Answered, Event, Failed, Reply, Send
from ledgerstone.sim.quorum.checkers import Checkers
from ledgerstone.sim.quorum.host import Host
from ledgerstone.sim.quorum.network import Network
from ledgerstone.sim.quorum.scenario import Config
from ledgerstone.sim.quorum.sightings import Sightings
from ledgerstone.sim.world import World


@dataclass(slots=True)
class Operator:
    """A request from outside, with what to do about its answer."""

    on_answer: Callable[[messages.Answer], None]


@dataclass(slots=True)
class Remote:
    """A request of another node: where its answer goes."""

    source: int
    incarnation: int
    peer_id: int
    correlation: int
    request: messages.Request


class Owner(Protocol):
    incarnation: int

    def step(self, event: Event) -> None: ...

    def asked(self, request: messages.Request, origin: "Remote | Operator") -> None: ...

    def when_awake(self, label: str, action: Callable[[], None]) -> None: ...


class Mail:
    def __init__(
        self,
        world: World,
        network: Network,
        config: Config,
        host: Host,
        checkers: Checkers,
        sightings: Sightings,
        owner: Owner,
    ) -> None:
        self._world = world
        self._network = network
        self._host = host
        self._checkers = checkers
        self._sightings = sightings
        self._owner = owner
        self._knows_pre_vote = not config.old_nodes >> host.number & 1
        self.boxes: list[Mail] = []
        self._tokens: dict[int, Remote | Operator] = {}
        self._next_token = 0

    def reset(self) -> None:
        self._tokens.clear()

    def token_for(self, origin: Remote | Operator) -> int:
        token = self._next_token
        self._next_token += 1
        self._tokens[token] = origin
        return token

    # -- requests -----------------------------------------------------------------------------

    def send(self, message: Send) -> None:
        self._checkers.sending(self._host, message.request)
        number = int(message.peer.host[1:])
        remote = Remote(
            self._host.number,
            self._owner.incarnation,
            message.peer.id,
            message.correlation,
            message.request,
        )
        kind = type(message.request).__name__
        label = f"n{self._host.number}>n{number} {kind} {message.correlation}"
        target = self.boxes[number]
        self._network.carry(self._host.number, number, label, lambda: target.arrive(remote))

    def arrive(self, remote: Remote) -> None:
        if self._host.node is None:
            self._refuse(remote)
            return
        self._owner.when_awake("late request", lambda: self._deliver(remote))

    def _deliver(self, remote: Remote) -> None:
        request = remote.request
        if isinstance(request, messages.Vote) and request.is_pre_vote and not self._knows_pre_vote:
            self._world.mark("a node knew no pre-vote")
            self._refuse(remote, is_unsupported=True)
            return
        self._owner.asked(request, remote)

    # -- answers ------------------------------------------------------------------------------

    def _refuse(self, remote: Remote, *, is_unsupported: bool = False) -> None:
        event = Failed(remote.peer_id, remote.correlation, is_unsupported)
        self._answer(remote, "refused", event)

    def reply(self, message: Reply) -> None:
        answer = message.answer
        self._checkers.replying(self._host, answer)
        origin = self._tokens.pop(message.token)
        if isinstance(origin, Operator):
            origin.on_answer(answer)
            return
        self._sightings.replied(origin.request, answer)
        self._checkers.replied(self._host, origin.request, answer)
        event = Answered(origin.peer_id, origin.correlation, answer)
        self._answer(origin, f"{type(answer).__name__} {answer.error.name}", event)

    def _answer(self, remote: Remote, what: str, event: Event) -> None:
        source = self.boxes[remote.source]
        label = f"n{self._host.number}>n{remote.source} {what} {remote.correlation}"
        self._network.carry_answer(
            self._host.number, remote.source, label, lambda: source.hear(remote, event)
        )

    def hear(self, remote: Remote, event: Event) -> None:
        """An answer, unless the process that asked is gone."""
        if self._host.node is not None and self._owner.incarnation == remote.incarnation:
            self._owner.when_awake("late answer", lambda: self._owner.step(event))
