"""Requests of one node to the controller on another, over the simulated network. Part of sim.

Stands for `server.calls.Calls`: each question is answered once, or fails.
"""

from collections.abc import Callable
from typing import Protocol

from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from ledgerstone.protocol.messages.broker_registration import BrokerRegistrationRequest
from ledgerstone.raft.replica import Peer
from ledgerstone.server.calls import CallFailed, OnAnswer
from ledgerstone.sim.controller.stage import SimStage
from ledgerstone.sim.quorum.machine import Machine

_LATE_MS = (200, 1_000, 4_000, 11_000)


class Server(Protocol):
    """A process that takes requests at its controller listener."""

    def when_awake(self, action: Callable[[], None]) -> None: ...

    def serve(self, request: ApiMessage, on_answer: Callable[[ApiMessage], None]) -> None: ...


class SimCalls:
    """`AsksNodes` of one process."""

    def __init__(
        self, machine: Machine, stage: SimStage, process_of: Callable[[int], Server | None]
    ) -> None:
        self._machine = machine
        self._stage = stage
        self._network = stage.network
        self._dice = stage.world.dice(f"exchange{machine.number}/{machine.incarnation}")
        self._process_of = process_of

    def _send(self, request: ApiMessage, leave: Callable[[], None]) -> None:
        """Requests of brokers about themselves are one at a time, in order. Others may be held up
        on their way, or arrive once more by a connection that was given up; so may heartbeats,
        whose process may have died, and registered anew, by then."""
        world, late_percent = self._stage.world, self._stage.config.late_percent
        is_late = not self._stage.is_healed and self._dice.chance(late_percent)
        if not is_late or isinstance(request, BrokerRegistrationRequest):
            leave()
            return
        delay_ms = self._dice.pick(_LATE_MS)
        if isinstance(request, BrokerHeartbeatRequest) or self._dice.chance(50):
            leave()
        world.mark("a request for the controller came late")
        world.after(delay_ms, f"late {request.name}", leave)

    def ask(
        self,
        peer: Peer,
        request: ApiMessage,
        on_answer: OnAnswer,
        *,
        timeout_ms: int,
        least_version: int = 0,
    ) -> None:
        machine, source, target = self._machine, self._machine.number, peer.id
        incarnation = machine.incarnation
        is_over = False

        def end(answer: ApiMessage | CallFailed) -> None:
            """In the process that asked, if it is still there."""
            nonlocal is_over
            if is_over or machine.incarnation != incarnation or machine.node is None:
                return
            is_over = True
            on_answer(answer)

        def come_back(answer: ApiMessage | CallFailed) -> None:
            what = answer.reason if isinstance(answer, CallFailed) else "answer"
            self._network.carry_answer(
                target,
                source,
                f"n{target}>n{source} {request.name} {what}",
                lambda: machine.when_awake("late answer", lambda: end(answer)),
            )

        def arrive() -> None:
            process = self._process_of(target)
            if process is None:
                come_back(CallFailed("refused"))
            else:
                process.when_awake(lambda: process.serve(request, come_back))

        def leave() -> None:
            label = f"n{source}>n{target} {request.name}"
            self._network.carry_answer(source, target, label, arrive)

        self._send(request, leave)
        machine.later(
            timeout_ms, f"{request.name} timeout", lambda: end(CallFailed("no answer in time"))
        )
