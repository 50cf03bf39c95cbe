"""A node of a quorum that it is alone in so far: formatted and opened, without sockets."""

from collections.abc import Mapping

from ledgerstone.config.broker import BrokerConfig
from ledgerstone.server.broker import Broker
from ledgerstone.server.formatting.plan import FormatOptions, plan_format
from ledgerstone.server.formatting.writing import write_format
from ledgerstone.server.opening import Surroundings, open_broker
from ledgerstone.sim.clock import VirtualClock
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem
from tests.kit.cluster_settings import COMBINED
from tests.kit.logs import T0


def lone_node(settings: Mapping[str, str] = COMBINED) -> Broker:
    clock = VirtualClock(start_ms=T0)
    fs = SimFilesystem(dice=SeededDice(0), clock=clock)
    config = BrokerConfig.from_raw({**settings, "log.dirs": "/data"})
    options = FormatOptions(is_standalone=True)
    write_format(fs, clock, plan_format(config, options, SeededDice(1)))
    world = Surroundings(fs=fs, clock=clock, dice=SeededDice(2))
    return open_broker(config, world, config.listeners)
