"""The schedule of faults: drawn from a seed, with as many kills and cuts as asked for."""

import pytest

from bench.nemesis.__main__ import episodes
from bench.nemesis.schedule import CUTS, KILLS, OTHERS, Kind, draw


def test_same_seed_gives_the_same_schedule() -> None:
    assert draw(7, kills=20, cuts=8) == draw(7, kills=20, cuts=8)
    assert draw(7, kills=20, cuts=8) != draw(8, kills=20, cuts=8)


@pytest.mark.parametrize(("kills", "cuts"), [(0, 0), (1, 0), (0, 1), (25, 10), (500, 200)])
def test_schedule_has_the_kills_and_cuts_that_were_asked_for(kills: int, cuts: int) -> None:
    for seed in range(5):
        faults = draw(seed, kills=kills, cuts=cuts)
        assert sum(each.kills for each in faults) == kills
        assert sum(each.cuts for each in faults) == cuts


def test_long_schedule_has_every_kind() -> None:
    kinds = {each.kind for each in draw(3, kills=25, cuts=10)}
    assert kinds == {*KILLS, *CUTS, *OTHERS} == set(Kind)


def test_kinds_that_this_machine_cannot_do_are_left_out() -> None:
    kinds = {each.kind for each in draw(3, kills=25, cuts=10, left_out=[Kind.FSYNC, Kind.CLOCK])}
    assert kinds == set(Kind) - {Kind.FSYNC, Kind.CLOCK}


@pytest.mark.parametrize(("kills", "cuts"), [(0, 3), (20, 8), (26, 9), (500, 200)])
def test_episodes_add_up(kills: int, cuts: int) -> None:
    found = episodes(kills, cuts)
    assert (sum(k for k, _ in found), sum(c for _, c in found)) == (kills, cuts)
    assert max(k for k, _ in found) <= 25
