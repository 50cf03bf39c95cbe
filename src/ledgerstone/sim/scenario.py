"""What a run is made of: a seed, a configuration, and a list of faults. All three fit on a page.

The seed draws the whole configuration (swarm: most runs lack most faults, so that rare combinations
get room) and the faults. A script is the same thing as text; it says what differs from what its
seed draws, and it has every fault written out, so that faults can be taken away one by one.

    seed 17
    set batches 12
    4100 crash node=0 down=1200
    9000 power node=0 mode=none down=300 ops=14
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace

from ledgerstone.sim.dice import SeededDice

# Several faults of one kind at one place are as good as one of a few.
_MAX_FAULTS = 10
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Every number may be set in a script."""

    nodes: int = 1
    durable: int = 0
    flush_ms: int = 0
    producers: int = 2
    batches: int = 30
    pace_ms: int = 300
    in_flight: int = 3
    compresses: int = 0
    members: int = 2
    keys: int = 8
    tombstone_percent: int = 25
    erasures: int = 1
    extra_topics: int = 3
    segment_bytes: int = 1_500
    delete_retention_ms: int = 4_000
    dirty_percent: int = 10
    skew_ppm: int = 0
    disk_min_ms: int = 0
    disk_max_ms: int = 5
    delay_ms: int = 3
    loss_percent: int = 0
    twin_percent: int = 0
    fragments: int = 1
    fault_ms: int = 30_000


@dataclass(frozen=True, slots=True)
class Fault:
    at_ms: int
    kind: str
    args: dict[str, int | str] = field(default_factory=dict)

    def number(self, name: str, default: int = 0) -> int:
        return int(self.args.get(name, default))

    def __str__(self) -> str:
        return " ".join([f"{self.at_ms} {self.kind}", *(f"{k}={v}" for k, v in self.args.items())])


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    seed: int
    config: Config
    faults: tuple[Fault, ...]

    def text(self) -> str:
        """A script that `parse` reads back."""
        lines = [f"seed {self.seed}"]
        drawn = draw_config(self.seed)
        for each in fields(Config):
            value = getattr(self.config, each.name)
            if value != getattr(drawn, each.name):
                lines.append(f"set {each.name} {value}")
        lines += [str(fault) for fault in self.faults]
        return "\n".join(lines) + "\n"


def parse(text: str) -> Scenario:
    seed, settings, faults = 0, {}, []
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        match words:
            case []:
                continue
            case ["seed", number]:
                seed = int(number)
            case ["set", name, value]:
                settings[name] = int(value)
            case [at_ms, kind, *pairs]:
                args: dict[str, int | str] = {}
                for pair in pairs:
                    name, _, value = pair.partition("=")
                    args[name] = int(value) if value.lstrip("-").isdecimal() else value
                faults.append(Fault(int(at_ms), kind, args))
    return Scenario(seed=seed, config=replace(draw_config(seed), **settings), faults=tuple(faults))


def draw(seed: int) -> Scenario:
    config = draw_config(seed)
    return Scenario(seed=seed, config=config, faults=tuple(_draw_faults(seed, config)))


def draw_config(seed: int) -> Config:
    dice = SeededDice(f"{seed}/config")
    slow_disk = dice.chance(30)
    bad_network = dice.chance(40)
    return Config(
        nodes=dice.pick((1, 1, 1, 2, 2, 3)),
        durable=dice.below(2),
        flush_ms=dice.pick((0, 1_000, 5_000)),
        producers=dice.between(1, 3),
        batches=dice.between(10, 40),
        pace_ms=dice.pick((50, 200, 600)),
        in_flight=dice.between(1, 5),
        compresses=dice.below(2),
        members=dice.between(0, 3),
        keys=dice.between(2, 12),
        tombstone_percent=dice.pick((0, 20, 50)),
        erasures=dice.pick((0, 0, 1, 2)),
        extra_topics=dice.between(0, 4),
        segment_bytes=dice.pick((400, 1_500, 6_000)),
        delete_retention_ms=dice.pick((0, 3_000, 8_000)),
        dirty_percent=dice.pick((1, 20, 50)),
        skew_ppm=dice.between(-500, 500),
        disk_min_ms=0,
        disk_max_ms=200 if slow_disk else dice.pick((1, 10)),
        delay_ms=dice.pick((1, 5, 30)),
        loss_percent=dice.between(1, 10) if bad_network else 0,
        twin_percent=20 if bad_network else 0,
        fragments=dice.between(1, 3),
        fault_ms=dice.pick((15_000, 30_000, 45_000)),
    )


# -- faults ---------------------------------------------------------------------------------------

MODES = ("none", "random", "random", "all")
# Where an I/O error strikes: an operation, and the files it is about.
PLACES = (
    ("fsync", "*.log"),
    ("pwrite", "*.log"),
    ("fsync", "*__cluster_metadata-0/*"),
    ("fsync_dir", "*"),
    ("rename", "*.cleaned"),
    ("create", "*.tmp"),
    ("unlink", "*.deleted"),
)


def _draw_faults(seed: int, config: Config) -> Iterator[Fault]:
    dice = SeededDice(f"{seed}/faults")
    enabled = [kind for kind in _KINDS if dice.chance(45)]
    if not enabled:
        return
    times = sorted(
        dice.between(500, config.fault_ms - 500) for _ in range(dice.between(1, _MAX_FAULTS))
    )
    for at_ms in times:
        kind = dice.pick(enabled)
        node = dice.below(config.nodes)
        yield Fault(at_ms, kind, {"node": node, **_draw_args(kind, dice)})


def _draw_args(kind: str, dice: SeededDice) -> dict[str, int | str]:
    args: dict[str, int | str] = {}
    match kind:
        case "crash" | "power":
            if kind == "power":
                args["mode"] = dice.pick(MODES)
            args["down"] = dice.between(10, 3_000)
            if dice.chance(60):
                args["ops"] = dice.between(1, 60)
            if dice.chance(40):
                args["again"] = dice.between(1, 80)
        case "restart":
            args["down"] = dice.between(10, 2_000)
            if dice.chance(50):
                args |= {"ops": dice.between(1, 40), "mode": dice.pick(MODES)}
        case "pause":
            args["ms"] = dice.between(100, 12_000)
        case "cut":
            args |= {"way": dice.pick(("in", "out", "both")), "ms": dice.between(200, 8_000)}
        case "reset":
            args["half"] = dice.below(2)
        case "full":
            args |= {"bytes": dice.below(3_000), "ms": dice.between(500, 6_000)}
        case "eio":
            args |= {"place": dice.below(len(PLACES)), "times": dice.between(1, 3)}
            args["lose"] = dice.below(2)
        case "jump":
            args["ahead"] = dice.pick((-10 * DAY_MS, -3_600_000, -5_000, 5_000, 10 * DAY_MS, 0))
        case "slow":
            args["ms"] = dice.between(1_000, 10_000)
        case "client":
            args |= {"which": dice.below(8), "down": dice.between(100, 15_000)}
    return args


_KINDS = (
    "crash", "power", "restart", "pause", "cut", "reset", "full", "eio", "jump", "slow", "worker",
    "client",
)  # fmt: skip
