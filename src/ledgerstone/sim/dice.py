"""Chance that can be replayed. Contract: `ledgerstone.clock.Dice`."""

import random


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
