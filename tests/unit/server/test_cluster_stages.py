"""A stop at any moment of a start: nothing is left behind, and the next start succeeds."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from ledgerstone.config.broker import BrokerConfig
from ledgerstone.errors import StartFailed, StartStopped
from ledgerstone.server.bootstrap import RunningBroker, start_broker
from ledgerstone.server.opening import Surroundings
from ledgerstone.system import OsFilesystem, SystemClock, SystemDice
from tests.kit.loopback_cluster import BOTH, LoopbackCluster

_TOPIC: Final = "a"


async def start_and_stop(config: BrokerConfig, stop_at_look: int | None) -> int:
    """How often the start looked whether it is to stop; the stop comes at one of those."""
    looks = 0

    def is_stopping() -> bool:
        nonlocal looks
        looks += 1
        return looks == stop_at_look

    world = Surroundings(fs=OsFilesystem(), clock=SystemClock(), dice=SystemDice())
    running: RunningBroker = await start_broker(config, world, is_stopping=is_stopping)
    await running.stop()
    return looks


def test_start_may_be_stopped_at_every_look(tmp_path: Path) -> None:
    with LoopbackCluster(tmp_path, [BOTH]) as cluster:
        cluster.start()
        assert cluster.create_topic(1, _TOPIC, partitions=40) == 0
        cluster.wait_for("the topic is there", lambda image: _TOPIC in image.topics)
        topic_id = cluster.image(1).topics[_TOPIC].topic_id
        # Logs that need recovery, to be opened by a start that is stopped again and again.
        cluster.kill(1)
        config = BrokerConfig.from_raw(cluster.settings(1))
        for look in range(1, 8):
            with suppress(StartStopped):
                # Else it was up before it looked that often.
                assert asyncio.run(start_and_stop(config, look)) < look
        asyncio.run(start_and_stop(config, None))
        cluster.start()
        assert cluster.image(1).topics[_TOPIC].topic_id == topic_id
        assert cluster.on(1, lambda broker: len(broker.partitions)) == 40
        assert not cluster.on(1, lambda broker: broker.partitions.offline)


def test_broker_of_another_cluster_is_not_taken(tmp_path: Path) -> None:
    settings = {"initial.broker.registration.timeout.ms": "1500"}
    roles = (BOTH, BOTH, BOTH, "broker")
    with (
        LoopbackCluster(tmp_path / "one") as one,
        LoopbackCluster(tmp_path / "two", roles, settings) as two,
    ):
        one.start()
        # It was formatted for another cluster, and finds the controllers of this one.
        two.extra["controller.quorum.voters"] = one.settings(1)["controller.quorum.voters"]
        with pytest.raises(StartFailed, match="could not register"):
            two.start(4)
        assert sorted(one.image(1).brokers) == [1, 2, 3]
