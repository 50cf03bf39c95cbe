"""Every answer to a wrong request beside the one that Apache Kafka gave, which is recorded.

`test_answers_like_kafka.py` asks a real Kafka, and holds the record to what it says.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.answers_accepted import is_accepted
from tests.compat.both_brokers import Side, differences, outcome
from tests.compat.both_setup import set_up
from tests.compat.recorded_answers import CASES, SETTINGS, plain, read
from tests.kit.broker import BrokerProcess


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[Side]:
    with BrokerProcess(tmp_path, settings=SETTINGS) as process:
        side = Side("ours", process.bootstrap)
        set_up(side)
        yield side
        side.close()


def test_answers_are_those_that_kafka_gave(ours: Side) -> None:
    recorded = read()

    # In one test, because later cases need what earlier ones have left.
    found = [
        (case.name, version, *difference)
        for case in CASES
        for version in case.edges
        for difference in differences(
            recorded[case.name, version], plain(outcome(ours, case, version))
        )
        if is_accepted(case, difference) is None
    ]

    assert found == []
