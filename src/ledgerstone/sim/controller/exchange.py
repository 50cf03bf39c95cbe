"""Requests of one node to the controller on another, over the simulated network. Part of sim.

Stands for `server.calls.Calls`: each question is answered once, or fails.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ledgerstone.protocol.message import ApiMessage
from ledgerstone.raft.replica import Peer
from ledgerstone.server.calls import CallFailed, OnAnswer
from ledgerstone.sim.quorum.machine import Machine
from ledgerstone.sim.quorum.network import Network

if TYPE_CHECKING:
    from ledgerstone.sim.controller.process import Process

Serve = Callable[["Process", ApiMessage, Callable[[ApiMessage], None]], None]


class Exchange:
    """`AsksNodes` of one process."""

    def __init__(
        self, machine: Machine, network: Network, process_of: Callable[[int], "Process | None"]
    ) -> None:
        self._machine = machine
        self._network = network
        self._process_of = process_of

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

        self._network.carry_answer(source, target, f"n{source}>n{target} {request.name}", arrive)
        machine.later(
            timeout_ms, f"{request.name} timeout", lambda: end(CallFailed("no answer in time"))
        )
