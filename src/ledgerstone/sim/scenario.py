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

from ledgerstone.dataclasses import dataclass, replace
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.script_text import Fault, read_script, script_of

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
    # -- the profile `transactions`
    workers: int = 2
    writers: int = 1
    readers: int = 2
    # 1: clients of the first protocol; 2: of the second; 3: in turn.
    protocols: int = 3
    transactions: int = 12
    abort_percent: int = 20
    txn_timeout_ms: int = 4_000
    # Requests that are given up after moments, and sent again while the first is on its way.
    impatience_percent: int = 0
    # Requests of the second protocol that come once more, by another way, when nobody expects it.
    echo_percent: int = 0
    # Transactions that are left open for longer than others.
    dawdle_percent: int = 0
    state_partitions: int = 2
    id_lives_ms: int = 7 * 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    seed: int
    config: Config
    faults: tuple[Fault, ...]
    # Which clients there are: `workloads` has one module for each.
    profile: str = "mixed"

    def text(self) -> str:
        """A script that `parse` reads back."""
        profile = None if self.profile == "mixed" else self.profile
        drawn = draw_config(self.seed, self.profile)
        return script_of(self.seed, self.config, drawn, self.faults, profile)


def parse(text: str) -> Scenario:
    given = read_script(text)
    profile = given.profile or "mixed"
    config = replace(draw_config(given.seed, profile), **given.settings)
    return Scenario(seed=given.seed, config=config, faults=given.faults, profile=profile)


def draw(seed: int, profile: str = "mixed") -> Scenario:
    config = draw_config(seed, profile)
    faults = tuple(_draw_faults(seed, config, profile))
    return Scenario(seed=seed, config=config, faults=faults, profile=profile)


def draw_config(seed: int, profile: str = "mixed") -> Config:
    return _draw_mixed(seed) if profile == "mixed" else _draw_transactions(seed)


def _draw_transactions(seed: int) -> Config:
    dice = SeededDice(f"{seed}/transactions/config")
    slow_disk = dice.chance(20)
    bad_network = dice.chance(40)
    return Config(
        durable=dice.below(2),
        producers=dice.between(0, 1),
        batches=dice.between(5, 20),
        pace_ms=dice.pick((100, 300, 800)),
        in_flight=dice.between(1, 3),
        keys=dice.between(2, 8),
        tombstone_percent=dice.pick((0, 20, 50)),
        segment_bytes=dice.pick((400, 1_500, 6_000)),
        delete_retention_ms=dice.pick((0, 3_000, 8_000)),
        dirty_percent=dice.pick((1, 20, 50)),
        skew_ppm=dice.between(-500, 500),
        disk_max_ms=100 if slow_disk else dice.pick((0, 1, 10)),
        delay_ms=dice.pick((1, 5, 30)),
        loss_percent=dice.between(1, 10) if bad_network else 0,
        twin_percent=20 if bad_network else 0,
        fragments=dice.between(1, 3),
        fault_ms=dice.pick((10_000, 20_000, 30_000)),
        workers=dice.between(1, 3),
        writers=dice.between(1, 2),
        readers=dice.between(1, 2),
        protocols=dice.pick((1, 2, 2, 3)),
        transactions=dice.between(3, 15),
        abort_percent=dice.pick((0, 20, 50)),
        txn_timeout_ms=dice.pick((1_500, 4_000, 15_000)),
        impatience_percent=dice.pick((0, 0, 10, 30)),
        echo_percent=dice.pick((0, 10, 30)),
        dawdle_percent=dice.pick((0, 10, 25)),
        state_partitions=dice.pick((1, 3)),
        id_lives_ms=dice.pick((7 * DAY_MS, 10_000)),
    )


def _draw_mixed(seed: int) -> Config:
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


# Where a process dies in the midst of a transaction: at an operation on such a file.
BOUNDARIES = (
    ("pwrite", "*/__transaction_state-*/*.log"),
    ("pwrite", "*/output-*/*.log"),
    ("pwrite", "*/__consumer_offsets-*/*.log"),
    ("pwrite", "*/*.txnindex"),
    ("fsync", "*/__transaction_state-*/*.log"),
    ("fsync", "*/output-*/*.log"),
    ("pwrite", "*/input-*/*.log"),
)


def _draw_faults(seed: int, config: Config, profile: str) -> Iterator[Fault]:
    if profile == "mixed":
        dice, kinds = SeededDice(f"{seed}/faults"), list(_KINDS)
    else:
        # Two logs agree about a transaction only as far as both are synced.
        dice = SeededDice(f"{seed}/{profile}/faults")
        kinds = [each for each in _TXN_KINDS if config.durable or each != "power"]
    enabled = [kind for kind in kinds if dice.chance(45)]
    if profile != "mixed" and dice.chance(50):
        enabled = list(dice.pick(_STORMS))
    if not enabled:
        return
    times = sorted(
        dice.between(500, config.fault_ms - 500) for _ in range(dice.between(1, _MAX_FAULTS))
    )
    for at_ms in times:
        kind = dice.pick(enabled)
        node = dice.below(config.nodes)
        args = _draw_args(kind, dice)
        if profile != "mixed" and not config.durable:
            args = {name: value for name, value in args.items() if name not in ("mode", "lose")}
        yield Fault(at_ms, kind, {"node": node, **args})


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
        case "zombie":
            args |= {"which": dice.below(8), "ms": dice.between(1_000, 25_000)}
            args["replaced"] = dice.below(2)
        case "refuse":
            args |= {"place": dice.below(len(BOUNDARIES)), "times": dice.between(1, 3)}
        case "boundary":
            args |= {"place": dice.below(len(BOUNDARIES)), "skip": dice.below(6)}
            args |= {"down": dice.between(10, 1_000), "mode": dice.pick(MODES)}
        case "client":
            args |= {"which": dice.below(8), "down": dice.between(100, 15_000)}
    return args


_KINDS = (
    "crash", "power", "restart", "pause", "cut", "reset", "full", "eio", "jump", "slow", "worker",
    "client",
)  # fmt: skip
_TXN_KINDS = (
    "crash", "power", "restart", "pause", "cut", "reset", "full", "eio", "jump", "slow", "worker",
    "client", "zombie", "zombie", "boundary", "boundary", "refuse",
)  # fmt: skip
# Several faults that meet in the midst of transactions, and no others beside them.
_STORMS = (("boundary",), ("boundary", "refuse"), ("client", "zombie"), ("zombie", "boundary"))
