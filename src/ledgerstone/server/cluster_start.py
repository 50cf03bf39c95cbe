"""The stages of a start in a cluster, after the quorum runs and controllers are served. Grade S.

A broker registers, catches up with the metadata, opens its logs, and asks to be unfenced; clients
are let in after that. A node that only controls is up once it knows the controller. Each stage may
take long, or for ever: an operator is told what it waits for.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from ledgerstone.errors import StartFailed, StartStopped
from ledgerstone.server.broker import Broker
from ledgerstone.server.broker_life.agent import LifeAgent
from ledgerstone.server.broker_life.machine import BrokerState
from ledgerstone.server.first_publish import first_publish
from ledgerstone.server.runtime import Runtime

_LOG: Final = logging.getLogger(__name__)
_LOOK_S: Final = 0.02
# What a start goes through quickly is not worth a line.
_FIRST_LINE_S: Final = 0.5
_LINE_S: Final = 5.0
# Logs are opened for this long before the loop gets its turn.
_SLICE_MS: Final = 20


class ClusterStart:
    """`run` returns once the node is up; StartFailed or StartStopped if it never will be."""

    def __init__(
        self,
        broker: Broker,
        runtime: Runtime,
        *,
        is_stopping: Callable[[], bool],
        on_wait: Callable[[str], None],
    ) -> None:
        self._broker = broker
        self._runtime = runtime
        self._is_stopping = is_stopping
        self._on_wait = on_wait
        self._loop = asyncio.get_running_loop()
        self._began_s = self._loop.time()
        self._said = ""
        self._said_s = 0.0

    async def run(self) -> None:
        membership = self._broker.membership
        assert membership is not None
        life = membership.life
        if life is None:
            await self._until(lambda: self._broker.quorum.leader_id is not None, self._no_leader)
            return
        await self._until(
            lambda: life.life.state >= BrokerState.RECOVERY, lambda: self._joining(life)
        )
        await self._open_logs()
        life.ready_to_unfence()
        self._runtime.wake()
        await self._until(
            lambda: life.life.state >= BrokerState.RUNNING,
            lambda: f"the controller to unfence this broker{_because(life)}",
        )

    async def _open_logs(self) -> None:
        clock = self._broker.clock
        end_ms = clock.monotonic_ms() + _SLICE_MS
        for opened, _ in enumerate(first_publish(self._broker), 1):
            if clock.monotonic_ms() >= end_ms:
                self._look(f"logs to be opened, {opened} so far")
                await asyncio.sleep(0)
                end_ms = clock.monotonic_ms() + _SLICE_MS
        # What is still to be made, because it was assigned to this broker meanwhile.
        await self._until(
            lambda: not self._broker.partitions.backlog,
            lambda: f"partitions to be made, {self._broker.partitions.backlog} left",
        )

    # -- waiting --------------------------------------------------------------------------------

    async def _until(self, is_done: Callable[[], bool], what: Callable[[], str]) -> None:
        while not is_done():
            self._look(what())
            await asyncio.sleep(_LOOK_S)

    def _look(self, waiting_for: str) -> None:
        if self._is_stopping():
            raise StartStopped(f"stopped while it waited for {waiting_for}")
        limit_ms = self._broker.config.cluster.server_max_startup_time_ms
        if (self._loop.time() - self._began_s) * 1000 > limit_ms:
            raise StartFailed(
                f"the start took longer than {limit_ms} ms (server.max.startup.time.ms): it waited "
                f"for {waiting_for}"
            )
        membership = self._broker.membership
        if membership is not None and membership.life is not None:
            machine = membership.life.life
            if machine.has_given_up:
                limit_ms = self._broker.config.cluster.initial_broker_registration_timeout_ms
                raise StartFailed(
                    f"broker {self._broker.config.node_id} could not register for {limit_ms} ms "
                    f"(initial.broker.registration.timeout.ms): it waited for {waiting_for}"
                )
            if machine.state is BrokerState.SHUTTING_DOWN:
                raise StartStopped(f"stopped while it waited for {waiting_for}")
        self._say(waiting_for)

    def _say(self, waiting_for: str) -> None:
        now_s = self._loop.time()
        is_news = waiting_for != self._said
        pause_s = 1.0 if is_news else _LINE_S
        if now_s - self._began_s < _FIRST_LINE_S or now_s - self._said_s < pause_s:
            return
        self._said, self._said_s = waiting_for, now_s
        _LOG.info("start waits for %s", waiting_for)
        self._on_wait(waiting_for)

    # -- for what -------------------------------------------------------------------------------

    def _no_leader(self) -> str:
        quorum = self._broker.quorum
        servers = ", ".join(
            f"{each.host}:{each.port}"
            for each in (
                self._broker.config.cluster.voters or self._broker.config.cluster.bootstrap_servers
            )
        )
        return f"a controller to be elected, epoch {quorum.epoch}, asking {servers or 'voters'}"

    def _joining(self, life: LifeAgent) -> str:
        quorum = self._broker.quorum
        if quorum.leader_id is None:
            return self._no_leader()
        if life.life.broker_epoch < 0:
            return f"controller {quorum.leader_id} to register this broker{_because(life)}"
        applied = quorum.committed_offset
        return f"the metadata to catch up with its registration, at offset {applied}"


def _because(life: LifeAgent) -> str:
    failure = life.life.last_failure
    return "" if failure is None else f", which answered {failure}"
