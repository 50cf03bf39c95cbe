"""The scenarios of a quorum are numbered as the facts about clusters number them, without gaps."""

import re
from pathlib import Path

HERE = Path(__file__).parent
LAST = 41


def test_every_scenario_from_1_to_41_has_a_test_in_its_place() -> None:
    numbers = [
        int(number)
        for name in ("elections", "replication", "snapshots_and_voters")
        for number in re.findall(
            r"^def test_(\d\d)_", (HERE / f"test_scenarios_of_{name}.py").read_text(), re.M
        )
    ]

    assert numbers == list(range(1, LAST + 1))
