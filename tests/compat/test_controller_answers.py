"""Every answer of the active controller to brokers: the same bytes to Kafka's and to ours."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.compat import controller_recorded
from tests.compat.both_brokers import Side, differences
from tests.compat.controller_accepted import accepted
from tests.compat.controller_questions import CASES
from tests.kit.ledgerstone_node import LedgerstoneNode
from tests.kit.nodes import LEDGERSTONE, Cluster

RECORDED: Final = controller_recorded.read()


@contextmanager
def _ours(work: Path) -> Iterator[Side]:
    """A controller without a broker, alone in its quorum."""
    plan = controller_recorded.plan()
    cluster = Cluster(plan=plan, work=work, jars=None, kinds={1: LEDGERSTONE})
    with cluster:
        assert isinstance(cluster[1], LedgerstoneNode)
        cluster.format()
        cluster.start()
        side = Side("ours", plan.node(1).controller)
        try:
            yield side
        finally:
            side.close()


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> controller_recorded.Answers:
    with _ours(tmp_path_factory.mktemp("controller")) as side:
        return controller_recorded.answers_of(side)


@pytest.mark.parametrize("name", [each.name for each in CASES])
def test_controller_answers_as_kafka_did(name: str, ours: controller_recorded.Answers) -> None:
    found = differences(RECORDED[name], ours[name])
    assert [each for each in found if accepted(name, each) is None] == []


@pytest.mark.kafka
def test_kafka_still_answers_as_recorded(tmp_path: Path) -> None:
    with controller_recorded.kafka(tmp_path / "kafka") as side:
        assert controller_recorded.answers_of(side) == RECORDED
