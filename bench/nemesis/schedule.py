"""Which faults, in which order. Pure: the same seed gives the same schedule."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final


class Kind(Enum):
    KILL_LEADER = "kill -9 of a leader"
    KILL_FOLLOWER = "kill -9 of a follower"
    KILL_CONTROLLER = "kill -9 of the controller"
    KILL_COORDINATOR = "kill -9 of a coordinator"
    KILL_TWO = "kill -9 of two, one after the other"
    CUT_ONE = "one node cut off"
    CUT_LEADER = "a leader cut off from the other nodes, not from clients"
    CUT_ONE_WAY = "one node hears nothing"
    CUT_RING = "each node reaches only the next one"
    PAUSE = "SIGSTOP"
    FULL_DISK = "full disk"
    FSYNC = "fsync errors"
    CLOCK = "clock jump"
    ROLLING = "rolling restart"
    REASSIGN = "reassignment"


KILLS: Final = (
    Kind.KILL_LEADER,
    Kind.KILL_FOLLOWER,
    Kind.KILL_CONTROLLER,
    Kind.KILL_COORDINATOR,
    Kind.KILL_TWO,
)
CUTS: Final = (Kind.CUT_ONE, Kind.CUT_LEADER, Kind.CUT_ONE_WAY, Kind.CUT_RING)
OTHERS: Final = (
    Kind.PAUSE,
    Kind.FULL_DISK,
    Kind.FSYNC,
    Kind.CLOCK,
    Kind.ROLLING,
    Kind.REASSIGN,
)
# One fault of another kind for this many kills and cuts.
KILLS_AND_CUTS_PER_OTHER: Final = 4
DOWN_S: Final = (0.0, 3.0)
CUT_S: Final = (1.0, 6.0)
OTHER_S: Final = (1.0, 5.0)


@dataclass(frozen=True, slots=True)
class Fault:
    kind: Kind
    # Which of the nodes or partitions in question.
    pick: int
    # How long it lasts: down, cut, paused.
    hold_s: float
    # Whether the next fault waits until every replica is in sync again.
    heals_fully: bool

    @property
    def kills(self) -> int:
        if self.kind not in KILLS:
            return 0
        return 2 if self.kind is Kind.KILL_TWO else 1

    @property
    def cuts(self) -> int:
        return int(self.kind in CUTS)


def draw(seed: int, *, kills: int, cuts: int, left_out: Sequence[Kind] = ()) -> list[Fault]:
    """At least this many kills and cuts, other faults among them, in random order."""
    dice = random.Random(seed)
    found = [_fault(dice, kind, DOWN_S) for kind in _kinds_of_kills(dice, kills)]
    # Kinds take turns, beginning anywhere: short runs of several seeds cover all of them.
    first_cut, first_other = dice.randrange(len(CUTS)), dice.randrange(len(OTHERS))
    found += [_fault(dice, CUTS[(first_cut + n) % len(CUTS)], CUT_S) for n in range(cuts)]
    others = [each for each in OTHERS if each not in left_out]
    count = -(-(kills + cuts) // KILLS_AND_CUTS_PER_OTHER)
    if others:
        found += [
            _fault(dice, others[(first_other + n) % len(others)], OTHER_S) for n in range(count)
        ]
    dice.shuffle(found)
    return found


def _kinds_of_kills(dice: random.Random, kills: int) -> Iterator[Kind]:
    turn = dice.randrange(len(KILLS))
    while kills > 0:
        kind = KILLS[turn % len(KILLS)]
        if kind is Kind.KILL_TWO and kills == 1:
            kind = Kind.KILL_LEADER
        yield kind
        kills -= 2 if kind is Kind.KILL_TWO else 1
        turn += 1


def _fault(dice: random.Random, kind: Kind, hold_s: tuple[float, float]) -> Fault:
    return Fault(
        kind,
        pick=dice.randrange(1 << 30),
        hold_s=round(dice.uniform(*hold_s), 1),
        heals_fully=dice.random() < 0.5,
    )
