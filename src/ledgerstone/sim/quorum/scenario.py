"""What a run of the quorum is made of: a seed, a configuration, faults. As text, and back.

The seed draws the whole configuration: most runs lack most faults, so rare combinations get room.
A script is the same as text; it says what differs from what its seed draws, and writes every fault
out.

    seed 17
    set voters 5
    4100 crash node=0 down=1200
    9000 split nodes=24 ms=6000
"""

from typing import Final

from ledgerstone.dataclasses import dataclass, replace
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.script_text import Fault, FaultRange, draw_faults, read_script, script_of

# What shrinking tries each number at, from the simplest on.
SIMPLER: Final = {
    "brokers": (0, 1),
    "spares": (0, 1),
    "voters": (1, 2, 3, 4),
    "auto_join": (0,),
    "changes": (0, 1, 2),
    "upgrade": (0,),
    "snapshot_every": (0,),
    "skew_ppm": (0,),
    "delay_ms": (1,),
    "jitter_ms": (0, 10),
    "loss_percent": (0,),
    "twin_percent": (0,),
    "disk_ms": (0, 3),
    "old_nodes": (0,),
    "left_out": (0,),
    "fault_ms": (3_000, 6_000),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Every number may be set in a script."""

    voters: int = 3
    # Controllers that are no voters at first, and brokers, which never are.
    spares: int = 0
    brokers: int = 0
    dynamic: int = 1
    auto_join: int = 0
    pace_ms: int = 150
    changes: int = 0
    upgrade: int = 0
    snapshot_every: int = 0
    snapshot_bytes: int = 300
    skew_ppm: int = 0
    delay_ms: int = 5
    jitter_ms: int = 10
    loss_percent: int = 0
    twin_percent: int = 0
    disk_ms: int = 3
    # A bit for each node that knows no pre-vote.
    old_nodes: int = 0
    # Nodes that stay broken in the last phase, at most.
    left_out: int = 0
    fault_ms: int = 15_000

    @property
    def controllers(self) -> int:
        return self.voters + self.spares

    @property
    def nodes(self) -> int:
        return self.controllers + self.brokers


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
    drawn = draw_faults(seed, config, _FAULTS, draw_args, lambda kind: allows(kind, config))
    return Scenario(seed=seed, config=config, faults=tuple(drawn))


def draw_config(seed: int) -> Config:
    dice = SeededDice(f"{seed}/config")
    voters = dice.pick((1, 2, 3, 3, 3, 3, 4, 5, 5))
    spares = dice.below(3) if voters > 2 else dice.between(1, 3)
    dynamic = int(dice.chance(70))
    is_bad_network = dice.chance(50)
    return Config(
        voters=voters,
        spares=spares,
        brokers=dice.pick((0, 0, 1, 2)) if voters + spares < 6 else 0,
        dynamic=dynamic,
        auto_join=int(dice.chance(30)),
        pace_ms=dice.pick((40, 150, 500)),
        changes=dice.pick((0, 2, 6)),
        upgrade=int(not dynamic and dice.chance(60)),
        snapshot_every=dice.pick((0, 4, 12)),
        snapshot_bytes=dice.pick((200, 700, 3_000)),
        skew_ppm=dice.pick((0, 500, 20_000)),
        delay_ms=dice.pick((1, 5, 40)),
        jitter_ms=dice.pick((0, 10, 80, 400)),
        loss_percent=dice.between(1, 15) if is_bad_network else 0,
        twin_percent=20 if is_bad_network else 0,
        disk_ms=dice.pick((0, 3, 20, 120)),
        old_nodes=dice.below(8) if dice.chance(10) else 0,
        left_out=dice.below(3),
        fault_ms=dice.pick((6_000, 10_000, 15_000)),
    )


# -- faults ---------------------------------------------------------------------------------------

KINDS = (
    "crash",
    "power",
    "torn",
    "stop",
    "pause",
    "cut",
    "link",
    "split",
    "slow",
    "eio",
    "resign",
    "blackout",
    "wipe",
)


_FAULTS: Final = FaultRange(KINDS, most=14, earliest_ms=300)


def allows(kind: str, config: Config) -> bool:
    """A disk is lost only where the voters without it can still decide, and replace it."""
    return kind != "wipe" or (bool(config.dynamic) and config.voters >= 3)


def draw_args(kind: str, dice: SeededDice, config: Config) -> dict[str, int | str]:
    # Half of the time the leader of that moment is hit: node -1.
    node: dict[str, int | str] = {"node": -1 if dice.chance(50) else dice.below(config.nodes)}
    ms = dice.pick((50, 400, 1_500, 4_000, 9_000))
    match kind:
        case "crash" | "stop" | "wipe":
            return {**node, "down": ms}
        case "power":
            return {**node, "down": ms, "mode": dice.below(3)}
        case "torn":
            return {
                **node,
                "down": ms,
                "ops": dice.pick((1, 2, 3, 4, 5, 6, 6, 6)),
                "power": dice.below(2),
                "later": dice.pick((1, 5, 100, 800)),
            }
        case "eio" | "resign":
            return node
        case "pause" | "slow":
            return {**node, "ms": ms}
        case "cut":
            return {**node, "ms": ms, "way": dice.below(3)}
        case "link":
            return {**node, "to": dice.below(config.nodes), "ms": ms}
        case "split":
            return {"nodes": dice.below(1 << config.nodes), "ms": ms}
        case _:
            return {"down": ms, "mode": dice.below(3)}
