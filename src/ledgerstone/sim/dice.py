"""Chance that can be replayed. Contract: `ledgerstone.clock.Dice`."""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class SeededDice:
    """The same seed gives the same throws in every process, whatever PYTHONHASHSEED is.

    A text seed such as f"{seed}/{crash_point}" gives each case of a sweep dice of its own, so that
    one case can be replayed without those before it.
    """

    __slots__ = ("_random",)

    def __init__(self, seed: int | str) -> None:
        self._random = random.Random(seed)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    # -- shorthands for the simulator ---------------------------------------------------------

    def between(self, low: int, high: int) -> int:
        """Both ends included."""
        return low + self.below(high - low + 1)

    def chance(self, percent: int) -> bool:
        return self.below(100) < percent

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.below(len(choices))]
