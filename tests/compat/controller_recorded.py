"""What Apache Kafka's active controller answered to brokers and controllers, kept in a file.

`PYTHONPATH=tools python -m tests.compat.controller_recorded` asks a real one anew.
"""

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from golden.cluster_plan import CONTROLLER, ClusterPlan, PlannedNode
from golden.kafka_broker import free_port
from golden.kafka_node import KafkaNode
from golden.kafka_tools import fetch_jars
from ledgerstone.protocol.messages import APIS
from tests.compat.both_brokers import Outcome, Side, outcome
from tests.compat.controller_questions import CASES
from tests.compat.quorum_recorded import REGISTERED

FILE: Final = Path(__file__).parents[1] / "golden" / "kafka_controller_answers.json"
# Sessions outlast the questions.
SETTINGS: Final = {
    "metadata.max.idle.interval.ms": "0",
    "broker.session.timeout.ms": "600000",
    "min.insync.replicas": "1",
}


Answers = Mapping[str, Outcome]


def plan() -> ClusterPlan:
    node = PlannedNode(node_id=1, roles=CONTROLLER, port=free_port(), controller_port=free_port())
    # On in Kafka's release, not in ours.
    return ClusterPlan(nodes=[node], settings=SETTINGS, features={"group.version": 1})


def answers_of(side: Side) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    for case in CASES:
        answer = outcome(side, case, APIS[case.api_key].last_version)
        found[case.name] = answer if isinstance(answer, str) else _without_own(answer)
    return found


def _without_own(answer: Mapping[str, object]) -> dict[str, object]:
    """Offsets and what follows from chance differ from one cluster to the next."""
    # Each has settings of its own; `test_answers_like_kafka` compares those that both have.
    found = {path: value for path, value in answer.items() if ".configs." not in path}
    for path, value in answer.items():
        name = path.rpartition(".")[2]
        if name == "broker_epoch" and isinstance(value, int) and value > 0:
            found[path] = "epoch"
        elif isinstance(value, bytes):
            found[path] = value.hex()
    return found


@contextmanager
def kafka(work: Path) -> Iterator[Side]:
    planned = plan()
    node = KafkaNode(jars=fetch_jars(), plan=planned, planned=planned.node(1), work=work)
    node.format()
    node.start()
    side = Side("kafka", planned.node(1).controller)
    try:
        node.wait_for(REGISTERED)
        yield side
    finally:
        side.close()
        node.kill()


def read() -> dict[str, Outcome]:
    recorded: dict[str, Outcome] = json.loads(FILE.read_text(encoding="utf-8"))
    return recorded


def record() -> None:
    with tempfile.TemporaryDirectory() as work, kafka(Path(work) / "kafka") as side:
        found = answers_of(side)
    lines = [f" {json.dumps(name)}: {json.dumps(each)}" for name, each in found.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    record()
