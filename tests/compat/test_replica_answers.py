"""Questions to the wrong broker or at the wrong time: our brokers answer as Kafka's did."""

from pathlib import Path
from typing import Final

import pytest

from tests.compat import replica_recorded
from tests.compat.both_brokers import differences
from tests.compat.replica_accepted import accepted
from tests.kit.nodes import KAFKA, LEDGERSTONE

pytestmark = pytest.mark.slow

RECORDED: Final = replica_recorded.read()


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> replica_recorded.Answers:
    with replica_recorded.running(LEDGERSTONE, tmp_path_factory.mktemp("replicas")) as cluster:
        return replica_recorded.answers_of(cluster)


@pytest.mark.parametrize("name", replica_recorded.names())
def test_brokers_answer_as_kafkas_did(name: str, ours: replica_recorded.Answers) -> None:
    found = differences(RECORDED[name], ours[name])
    assert [each for each in found if accepted(name, each) is None] == []


@pytest.mark.kafka
def test_kafka_still_answers_as_recorded(tmp_path: Path) -> None:
    with replica_recorded.running(KAFKA, tmp_path) as cluster:
        assert replica_recorded.answers_of(cluster) == RECORDED
