"""What a run of whole brokers is made of: a seed, a configuration, faults. As text, and back."""

from typing import Final

from ledgerstone.dataclasses import dataclass, replace
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.script_text import Fault, FaultRange, draw_faults, read_script, script_of

# What shrinking tries each number at, from the simplest on.
SIMPLER: Final = {
    "brokers": (3, 4),
    "transactors": (0, 1),
    "readers": (0, 1),
    "members": (0, 2),
    "unclean": (0,),
    "erasures": (0, 1),
    "moves_percent": (0,),
    "makers_lost": (0, 1),
    "keepers": (0, 1),
    "writers": (0, 1),
    "operations": (0, 1, 2),
    "partitions": (1, 2),
    "loss_percent": (0,),
    "skew_ppm": (0,),
    "fragments": (1,),
    "delay_ms": (1,),
    "disk_max_ms": (1,),
    "fault_ms": (8_000, 12_000),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Every number may be set in a script."""

    # Nodes with both roles come first; the others are brokers only.
    brokers: int = 3
    controllers: int = 3
    replicas: int = 3
    min_isr: int = 2
    elr: int = 1
    partitions: int = 2
    writers: int = 2
    keepers: int = 1
    readers: int = 2
    transactors: int = 1
    # Of one group that divides the partitions among them.
    members: int = 2
    # Whether the plain topic may elect a leader that lacks records.
    unclean: int = 0
    # Keys that are erased, one after the other.
    erasures: int = 0
    # How often a host of such a key is down while its partitions move away.
    moves_percent: int = 0
    # How many brokers that made the secrets of erasures are lost before the journal names them.
    makers_lost: int = 0
    # Reassignments, elections and deletions of records that an operator asks for.
    operations: int = 2
    batches: int = 12
    pace_ms: int = 400
    patience_ms: int = 12_000
    keys: int = 5
    tombstone_percent: int = 30
    delete_retention_ms: int = 4_000
    segment_bytes: int = 1_500
    lag_ms: int = 4_000
    session_ms: int = 4_000
    flush_ms: int = 0
    fetchers: int = 1
    skew_ppm: int = 0
    disk_max_ms: int = 5
    delay_ms: int = 3
    loss_percent: int = 0
    fragments: int = 1
    fault_ms: int = 20_000


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
        seed=seed, config=config, faults=tuple(draw_faults(seed, config, _FAULTS, _draw_args))
    )


def draw_config(seed: int) -> Config:
    dice = SeededDice(f"{seed}/config")
    brokers = dice.pick((3, 3, 3, 4, 5))
    is_bad_network = dice.chance(30)
    return Config(
        brokers=brokers,
        controllers=dice.pick((1, 3, 3)),
        replicas=dice.pick((2, 3, 3, 3)),
        min_isr=dice.pick((1, 2, 2)),
        elr=int(dice.chance(70)),
        partitions=dice.between(1, 2),
        writers=dice.between(1, 2),
        keepers=dice.below(2),
        readers=dice.between(1, 2),
        transactors=dice.below(2),
        operations=dice.pick((0, 0, 2, 4)),
        batches=dice.between(6, 16),
        pace_ms=dice.pick((100, 400, 900)),
        keys=dice.between(2, 6),
        tombstone_percent=dice.pick((10, 30, 60)),
        delete_retention_ms=dice.pick((0, 2_000, 6_000)),
        segment_bytes=dice.pick((400, 1_500, 6_000)),
        lag_ms=dice.pick((1_500, 4_000)),
        session_ms=dice.pick((3_000, 6_000)),
        flush_ms=dice.pick((0, 0, 1_000)),
        fetchers=dice.pick((1, 1, 2)),
        skew_ppm=dice.pick((0, 500)),
        disk_max_ms=dice.pick((1, 5, 40)),
        delay_ms=dice.pick((1, 5, 20)),
        loss_percent=dice.between(1, 8) if is_bad_network else 0,
        fragments=dice.pick((1, 1, 3)),
        fault_ms=dice.pick((10_000, 15_000, 20_000)),
        members=dice.pick((0, 2, 2, 3)),
        unclean=int(dice.chance(20)),
        erasures=dice.pick((0, 0, 1, 2)),
        moves_percent=dice.pick((0, 50, 100)),
        makers_lost=dice.pick((0, 1, 2)),
    )


# -- faults ---------------------------------------------------------------------------------------

KINDS: Final = (
    "crash",
    "power",
    "restart",
    "rolling",
    "pause",
    "cut",
    "link",
    "split",
    "ring",
    "twice",
    "wipe",
    "reset",
    "slow",
    "full",
    "eio",
    "jump",
)
_FAULTS: Final = FaultRange(KINDS, most=8, earliest_ms=3_000)
MODES: Final = ("none", "random", "random", "all")
DAY_MS: Final = 86_400_000
# Where an I/O error strikes: an operation, and the files it is about.
PLACES: Final = (
    ("fsync", "*.log"),
    ("pwrite", "*.log"),
    ("fsync", "*__cluster_metadata-0/*"),
    ("create", "*.tmp"),
    ("fsync", "*leader-epoch-checkpoint*"),
    ("rename", "*replication-offset-checkpoint*"),
)


def _draw_args(kind: str, dice: SeededDice, config: Config) -> dict[str, int | str]:
    # Half of the time one is hit that leads: -1 a partition, -2 the quorum, -3 a partition that
    # clients write to, -4 the group offsets.
    target = dice.pick((-1, -2, -3, -4)) if dice.chance(50) else dice.below(config.brokers)
    node: dict[str, int | str] = {"node": target}
    ms = dice.pick((100, 800, 2_500, 6_000, 12_000))
    match kind:
        case "crash":
            return {**node, "down": ms, "ops": dice.pick((0, 0, 1, 5, 20))}
        case "power":
            return {**node, "down": ms, "mode": dice.pick(MODES), "ops": dice.pick((0, 0, 3, 15))}
        case "restart":
            return {**node, "down": dice.pick((50, 1_000, 5_000))}
        case "rolling":
            return {"down": dice.pick((50, 1_000)), "gap": dice.pick((500, 3_000, 6_000))}
        case "pause" | "slow":
            return {**node, "ms": ms}
        case "cut":
            return {**node, "ms": ms, "way": dice.pick(("in", "out", "both"))}
        case "link":
            return {**node, "to": dice.below(config.brokers), "ms": ms, "ways": dice.between(1, 2)}
        case "split":
            nodes = {"nodes": dice.below(1 << config.brokers)}
            return {**(node if target < 0 else nodes), "ms": ms}
        case "ring":
            return {"ms": ms}
        case "twice":
            gaps = {"gap": dice.pick((0, 30, 200, 900)), "apart": dice.pick((0, 4_000, 8_000))}
            return {"node": dice.pick((-3, -4)), "down": ms, **gaps}
        case "wipe":
            return {**node, "down": dice.pick((100, 1_500, 6_000))}
        case "reset":
            return {**node, "half": dice.below(2)}
        case "full":
            return {**node, "bytes": dice.below(4_000), "ms": ms}
        case "eio":
            lose = {"lose": dice.below(2)}
            return {
                **node,
                "place": dice.below(len(PLACES)),
                "times": dice.between(1, 2),
                **lose,
            }
        case _:
            return {**node, "ahead": dice.pick((-10 * DAY_MS, -60_000, 60_000, 10 * DAY_MS, 0))}
