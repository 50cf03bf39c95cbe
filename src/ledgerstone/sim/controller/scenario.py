"""What a run of the controller is made of: a seed, a configuration, faults. As text, and back.

The same form as the quorum's scenarios, whose configuration and faults it extends.
"""

from typing import Final

from ledgerstone.dataclasses import dataclass, replace
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.quorum import scenario as quorum
from ledgerstone.sim.script_text import Fault, FaultRange, draw_faults, read_script, script_of

# What shrinking tries each number at, from the simplest on.
SIMPLER: Final = {
    **quorum.SIMPLER,
    "voters": (1, 3),
    "combined": (0, 1),
    "brokers": (0, 1, 2, 3),
    "clients": (0, 1, 2),
    "names": (1, 2),
    "reassign_percent": (0,),
    "delete_percent": (0,),
    "late_percent": (0,),
    "fault_ms": (6_000, 10_000),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(quorum.Config):
    # Voters that are brokers, too.
    combined: int = 0
    # Eligible leader replicas are on.
    elr: int = 1
    min_isr: int = 1
    unclean: int = 0
    clients: int = 2
    # How many names clients create and delete topics under.
    names: int = 3
    op_ms: int = 300
    # Between signs of life in a log that stands still.
    idle_ms: int = 2_000
    delete_percent: int = 15
    reassign_percent: int = 15
    # How long a broker's logs take to recover.
    recovery_ms: int = 200
    data_ms: int = 300
    # Instead of the 30 s of replica.lag.time.max.ms.
    lag_ms: int = 2_500
    # Requests for the controller that come late, or once more later.
    late_percent: int = 0
    session_ms: int = 9_000

    @property
    def heartbeat_ms(self) -> int:
        """As far apart as by Kafka's defaults."""
        return self.session_ms * 2 // 9

    @property
    def broker_numbers(self) -> range:
        """The last of the voters, and all after them that are no controllers."""
        return range(self.voters - self.combined, self.nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    seed: int
    config: Config
    faults: tuple[Fault, ...]

    def text(self) -> str:
        return script_of(self.seed, self.config, draw_config(self.seed), self.faults)


def parse(text: str) -> Scenario:
    given = read_script(text)
    config = replace(draw_config(given.seed), **given.settings)
    return Scenario(seed=given.seed, config=config, faults=given.faults)


def draw(seed: int) -> Scenario:
    config = draw_config(seed)
    return Scenario(
        seed=seed,
        config=config,
        faults=tuple(
            draw_faults(seed, config, _FAULTS, _draw_args, lambda kind: quorum.allows(kind, config))
        ),
    )


def draw_config(seed: int) -> Config:
    dice = SeededDice(f"{seed}/config")
    voters = dice.pick((1, 3, 3, 3, 3, 5))
    combined = dice.pick((0, voters, 1)) if voters < 5 else dice.pick((3, 5))
    brokers = dice.between(max(3 - combined, 0), 6 - voters if voters < 5 else 2)
    is_bad_network = dice.chance(40)
    return Config(
        voters=voters,
        combined=combined,
        brokers=brokers,
        spares=0,
        dynamic=int(dice.chance(70)),
        auto_join=1,
        snapshot_every=dice.pick((0, 8, 20)),
        snapshot_bytes=dice.pick((300, 6_000)),
        skew_ppm=dice.pick((0, 500, 20_000)),
        delay_ms=dice.pick((1, 5, 40)),
        jitter_ms=dice.pick((0, 10, 80, 400)),
        loss_percent=dice.between(1, 10) if is_bad_network else 0,
        disk_ms=dice.pick((0, 3, 20, 120)),
        left_out=dice.below(2),
        fault_ms=dice.pick((12_000, 20_000, 30_000)),
        elr=int(dice.chance(70)),
        min_isr=dice.pick((1, 2, 2)),
        unclean=int(dice.chance(10)),
        clients=dice.between(1, 3),
        names=dice.pick((2, 4)),
        idle_ms=dice.pick((0, 500, 2_000)),
        op_ms=dice.pick((60, 250, 800)),
        delete_percent=dice.pick((5, 25)),
        reassign_percent=dice.pick((0, 10, 30)),
        recovery_ms=dice.pick((0, 200, 2_000)),
        data_ms=dice.pick((150, 400)),
        lag_ms=dice.pick((500, 2_500)),
        late_percent=dice.pick((0, 15, 40)),
        session_ms=dice.pick((9_000, 9_000, 3_000)),
    )


# -- faults ---------------------------------------------------------------------------------------

KINDS = (*quorum.KINDS, "jump", "bounce", "open")
_FAULTS: Final = FaultRange(KINDS, most=10, earliest_ms=2_000)


def _draw_args(kind: str, dice: SeededDice, config: Config) -> dict[str, int | str]:
    if kind == "jump":
        days = dice.between(-10, 10)
        return {"node": dice.below(config.nodes), "ahead": days * 86_400_000}
    if kind == "open":
        return {}
    if kind == "bounce":
        # Dies with its power and is back within its session.
        return {
            "node": dice.pick(config.broker_numbers),
            "down": dice.pick((50, 400, 1_500)),
            "mode": dice.below(3),
        }
    args = quorum.draw_args(kind, dice, config)
    if "down" in args and dice.chance(40):
        # Longer than a session.
        args["down"] = dice.pick((9_500, 12_000))
    return args
