"""Leaving a cluster: leaderships of partitions first, then that of the quorum. Grade S."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from ledgerstone.server.broker import Broker
from ledgerstone.server.broker_life.machine import BrokerState
from ledgerstone.server.runtime import Runtime

_LOG: Final = logging.getLogger(__name__)
_LOOK_S: Final = 0.02


async def leave_cluster(broker: Broker, runtime: Runtime, hurries: Callable[[], bool]) -> None:
    """Returns when the controller has moved the leaderships of this broker, or is not worth waiting
    for any longer."""
    life = None if broker.membership is None else broker.membership.life
    if life is None:
        return
    if broker.config.cluster.controlled_shutdown_enable and not hurries():
        life.leave()
        runtime.wake()
        while life.life.state is not BrokerState.SHUTTING_DOWN and not hurries():
            await asyncio.sleep(_LOOK_S)
    life.leave_now()
    _LOG.info("broker left the cluster released=%s", life.life.was_released)


async def stop_quorum(broker: Broker, runtime: Runtime, hurries: Callable[[], bool]) -> None:
    """A leader hands over, so that the others need not wait for it to fall silent. Voters that do
    not answer elect without it as well, only later."""
    loop = asyncio.get_running_loop()
    limit_ms = broker.config.cluster.controller_quorum_request_timeout_ms
    broker.quorum.stop()
    runtime.wake()
    end_s = loop.time() + limit_ms / 1000
    while not broker.quorum.node.is_stopped and loop.time() < end_s and not hurries():
        await asyncio.sleep(_LOOK_S)
