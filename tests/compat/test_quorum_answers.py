"""Every answer of the quorum: the same bytes to Apache Kafka's controller and to our replica."""

from pathlib import Path
from typing import Final

import pytest

from golden.cluster_plan import CLUSTER_ID
from ledgerstone.protocol.message import ApiMessage
from tests.compat import quorum_recorded
from tests.compat.quorum_accepted import accepted_answer, accepted_field
from tests.compat.quorum_paper import Paper
from tests.compat.quorum_questions import NODE, SCENES, Known
from tests.compat.quorum_recorded import Answers, answers_of, known_of
from tests.compat.wire import ask
from tests.kit.nodes import LEDGERSTONE, Cluster

RECORDED: Final = quorum_recorded.read()


def _ours(scene: str) -> Answers:
    paper = Paper(scene)
    known = Known(
        cluster_id=CLUSTER_ID, epoch=paper.node.epoch, end_offset=paper.node.quorum.log.end_offset
    )
    return answers_of(SCENES[scene], known, paper.ask)


def differences(kafka: Answers, ours: Answers) -> list[tuple[str, str, object, object]]:
    found = []
    for label, expected in kafka.items():
        answer = ours[label]
        if accepted_answer(label, expected.get("error_code")) is not None:
            continue
        for path in [*expected, *(each for each in answer if each not in expected)]:
            theirs, mine = expected.get(path, "absent"), answer.get(path, "absent")
            if theirs != mine and accepted_field(label, path, theirs, mine) is None:
                found.append((label, path, theirs, mine))
    return found


@pytest.mark.parametrize("scene", SCENES)
def test_replica_answers_as_kafka_did(scene: str) -> None:
    assert differences(RECORDED[scene], _ours(scene)) == []


@pytest.mark.parametrize("scene", ["leader", "static leader"])
def test_controller_process_answers_as_kafka_did(scene: str, tmp_path: Path) -> None:
    plan = quorum_recorded.plan_of(scene)
    with Cluster(plan=plan, work=tmp_path, jars=None, kinds={NODE: LEDGERSTONE}) as cluster:
        cluster.format()
        cluster.start()

        def asked(request: ApiMessage, version: int) -> ApiMessage:
            return ask(plan.node(NODE).controller, request, version)

        found = answers_of(SCENES[scene], known_of(asked), asked)
    assert differences(RECORDED[scene], found) == []


@pytest.mark.kafka
@pytest.mark.parametrize("scene", SCENES)
def test_kafka_still_answers_as_recorded(scene: str, tmp_path: Path) -> None:
    with quorum_recorded.kafka_in(scene, tmp_path / "kafka") as (known, ask):
        assert answers_of(SCENES[scene], known, ask) == RECORDED[scene]
