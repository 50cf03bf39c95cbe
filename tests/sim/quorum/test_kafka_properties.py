"""The nine properties of Kafka's own simulation of its quorum, as scripts for ours.

A run that ends without a violation elected a leader, committed, converged and kept its epoch. What
a property adds is in its script, and in what is asserted of the outcome.
"""

import pytest

from ledgerstone.sim.played import Outcome
from ledgerstone.sim.quorum.cluster import run
from ledgerstone.sim.quorum.scenario import parse

SEEDS = range(2)
QUIET = """
set spares 0
set brokers 1
set dynamic 1
set upgrade 0
set changes 0
set old_nodes 0
set loss_percent 0
set twin_percent 0
set jitter_ms 10
set disk_ms 3
set left_out 0
"""


def play(seed: int, script: str) -> Outcome:
    outcome = run(parse(f"seed {seed}\n{QUIET}\n{script}"))
    assert outcome.violation is None, outcome.violation
    assert outcome.acknowledged > 0
    return outcome


@pytest.mark.parametrize("seed", SEEDS)
def test_an_initial_leader_is_elected(seed: int) -> None:
    outcome = play(seed, "set voters 5\nset fault_ms 6000")

    assert outcome.elections == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_a_new_leader_is_elected_after_the_old_one_failed(seed: int) -> None:
    outcome = play(seed, "set voters 3\nset fault_ms 10000\n5000 crash node=-1 down=60000")

    assert outcome.elections >= 2


@pytest.mark.parametrize("seed", SEEDS)
def test_a_new_leader_is_elected_after_the_old_one_stopped_gracefully(seed: int) -> None:
    outcome = play(seed, "set voters 3\nset fault_ms 8000\n5000 stop node=-1 down=4000")

    assert outcome.elections >= 2


@pytest.mark.parametrize("seed", SEEDS)
def test_the_quorum_recovers_if_a_majority_comes_back_after_all_were_killed(seed: int) -> None:
    outcome = play(
        seed,
        "set voters 5\nset fault_ms 9000\nset left_out 2\n4500 blackout down=300 mode=0",
    )

    assert outcome.elections >= 2


@pytest.mark.parametrize("seed", SEEDS)
def test_a_leader_that_is_cut_off_is_replaced(seed: int) -> None:
    outcome = play(seed, "set voters 5\nset fault_ms 12000\n4000 cut node=-1 way=2 ms=9000")

    assert outcome.elections >= 2


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("minority", [0b00011, 0b11000, 0b01010])
def test_the_majority_side_of_a_split_goes_on_and_the_log_is_one_after_it_heals(
    seed: int, minority: int
) -> None:
    outcome = play(seed, f"set voters 5\nset fault_ms 12000\n4000 split nodes={minority} ms=7000")

    assert outcome.committed > 0


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "missing",
    [
        # KIP-996, figure 1: 0-2, 2-3, 3-1, and 4 with 2 and 3.
        [(0, 1), (0, 3), (0, 4), (1, 2), (1, 4)],
        # Figure 2: everybody but 0 and 1, which see only each other's friends.
        [(0, 1), (0, 3), (1, 2)],
    ],
)
def test_pre_votes_keep_a_graph_with_missing_links_calm(
    seed: int, missing: list[tuple[int, int]]
) -> None:
    """The links are cut before the first election, and the epochs must not go on rising."""
    cuts = "\n".join(
        f"1 link node={a} to={b} ms=14000\n1 link node={b} to={a} ms=14000" for a, b in missing
    )

    outcome = play(seed, f"set voters 5\nset brokers 0\nset fault_ms 14000\n{cuts}")

    assert outcome.elections <= 5


@pytest.mark.parametrize("seed", SEEDS)
def test_leader_failures_back_to_back_are_survived(seed: int) -> None:
    faults = "\n".join(f"{at} crash node=-1 down=3000" for at in range(3_000, 14_000, 3_500))

    outcome = play(seed, f"set voters 5\nset fault_ms 15000\n{faults}")

    assert outcome.elections >= 3


@pytest.mark.parametrize("seed", SEEDS)
def test_a_lost_disk_loses_nothing_that_was_committed(seed: int) -> None:
    script = "set voters 3\nset auto_join 1\nset fault_ms 14000\n4000 wipe node=-1 down=500"

    outcome = play(seed, script)

    assert outcome.marks["a disk was lost"] == 1
    assert outcome.marks["a voter was added"] >= 1
