"""Every answer about transactions beside Apache Kafka's, field by field.

`txn_scripts_*.py` are the requests; `txn_accepted.py` says what may differ and why. The default
suite compares with the answers that a real Kafka gave; `make kafka-reads` asks one again, and holds
the record to what it says.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.answers_accepted import Accepted
from tests.compat.both_brokers import Side, differences
from tests.compat.txn_accepted import ACCEPTED, accepted
from tests.compat.txn_pen import Script
from tests.compat.txn_recorded import SCRIPTS, SETTINGS, Answers, read, running_kafka
from tests.compat.txn_script import make_topics, run
from tests.kit.broker import BrokerProcess

NAMES = [each.name for each in SCRIPTS]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    with BrokerProcess(tmp_path_factory.mktemp("ours"), settings=dict(SETTINGS)) as process:
        side = Side("ours", process.bootstrap)
        make_topics(side, SCRIPTS)
        yield side
        side.close()
        assert " ERROR " not in process.log_text, process.log_text


@pytest.fixture(scope="module")
def recorded() -> dict[str, Answers]:
    return read()


@pytest.fixture(scope="module")
def used() -> set[Accepted]:
    return set()


@pytest.mark.parametrize("script", SCRIPTS, ids=NAMES)
def test_answers_are_those_that_kafka_gave(
    ours: Side, recorded: dict[str, Answers], used: set[Accepted], script: Script
) -> None:
    kafkas = recorded[script.name]

    found = run(ours, script)

    assert list(found) == list(kafkas)
    unlike = []
    for label, answer in kafkas.items():
        for difference in differences(answer, found[label]):
            reason = accepted(script.name, label, difference)
            if reason is None:
                unlike.append((label, *difference))
            else:
                used.add(reason)
    assert unlike == []


@pytest.mark.kafka
@pytest.mark.skipif(shutil.which("java") is None, reason="needs Java")
def test_recorded_answers_are_those_of_a_real_kafka(
    tmp_path: Path, recorded: dict[str, Answers]
) -> None:
    with running_kafka(tmp_path / "kafka") as side:
        found = {each.name: json.loads(json.dumps(run(side, each))) for each in SCRIPTS}

    unlike = [
        (name, label)
        for name, answers in recorded.items()
        for label in answers
        if found[name].get(label) != answers[label]
    ]
    assert unlike == []


def test_every_accepted_difference_is_still_one(used: set[Accepted]) -> None:
    assert [each for each in ACCEPTED if each not in used] == []


def test_names_of_scripts_are_unique() -> None:
    assert sorted(set(NAMES)) == sorted(NAMES)
