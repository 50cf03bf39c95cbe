"""Virtual time and seeded chance."""

import os
import subprocess
import sys

import pytest

from ledgerstone.clock import Clock, Dice
from ledgerstone.sim.clock import VirtualClock
from ledgerstone.sim.dice import SeededDice


def test_virtual_time_stands_still_until_it_is_advanced() -> None:
    clock: Clock = VirtualClock(start_ms=1_000)

    assert (clock.now_ms(), clock.monotonic_ms()) == (1_000, 0)
    assert (clock.now_ms(), clock.monotonic_ms()) == (1_000, 0)


def test_advance_moves_wall_and_monotonic_time_together() -> None:
    clock = VirtualClock(start_ms=1_000)

    clock.advance(ms=1, seconds=2, minutes=3, hours=4, days=5)

    elapsed_ms = 1 + 2_000 + 180_000 + 14_400_000 + 432_000_000
    assert (clock.now_ms(), clock.monotonic_ms()) == (1_000 + elapsed_ms, elapsed_ms)


def test_time_refuses_to_advance_backwards() -> None:
    clock = VirtualClock()

    with pytest.raises(ValueError, match="-3600000 ms"):
        clock.advance(hours=-1)


def test_a_jump_of_the_wall_clock_leaves_monotonic_time_alone() -> None:
    clock = VirtualClock(start_ms=10_000)
    clock.advance(ms=500)

    clock.set_wall_ms(3)

    assert (clock.now_ms(), clock.monotonic_ms()) == (3, 500)


def test_the_same_seed_gives_the_same_throws() -> None:
    first: Dice = SeededDice(7)
    again, other = SeededDice(7), SeededDice(8)

    throws = [first.below(1_000) for _ in range(20)]

    assert throws == [again.below(1_000) for _ in range(20)]
    assert throws != [other.below(1_000) for _ in range(20)]
    assert first.random_bytes(8) == again.random_bytes(8)


def test_dice_stay_below_their_bound_and_refuse_an_empty_range() -> None:
    dice = SeededDice(1)

    assert {dice.below(3) for _ in range(200)} == {0, 1, 2}
    assert dice.below(1) == 0
    with pytest.raises(ValueError, match="empty range"):
        dice.below(0)


@pytest.mark.parametrize("seed", ["42", "'42/crash at 7'"])
def test_throws_do_not_depend_on_the_hash_seed_of_the_process(seed: str) -> None:
    program = (
        "import sys; from ledgerstone.sim.dice import SeededDice; "
        f"d = SeededDice({seed}); "
        "sys.stdout.write(repr([d.below(10**9), d.random_bytes(4)]))"
    )

    outputs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]

    assert outputs[0] == outputs[1] != b""
