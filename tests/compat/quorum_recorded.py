"""What Apache Kafka's controller answered to every question of the quorum, kept in a file.

`PYTHONPATH=tools python -m tests.compat.quorum_recorded` asks a real one anew and writes the file.
"""

import json
import re
import struct
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from golden.cluster_plan import CLUSTER_ID, CONTROLLER, ClusterPlan, PlannedNode
from golden.kafka_broker import free_port
from golden.kafka_node import KafkaNode
from golden.kafka_tools import fetch_jars
from ledgerstone.protocol.message import ApiMessage, Struct
from ledgerstone.protocol.messages import APIS
from tests.compat.both_brokers import OUR_TAGS
from tests.compat.quorum_questions import NODE, SCENES, Known, Question, describe
from tests.compat.wire import ask

FILE: Final = Path(__file__).parents[1] / "golden" / "kafka_quorum_answers.json"
# The node stays as it is for as long as it is asked.
STILL: Final = {
    "controller.quorum.election.timeout.ms": "600000",
    "controller.quorum.fetch.timeout.ms": "600000",
    # No NoOps.
    "metadata.max.idle.interval.ms": "0",
}
REGISTERED: Final = re.compile(r"Our registration has been persisted")
UNATTACHED: Final = re.compile(r"Completed transition to UnattachedState")

Answer = Mapping[str, object]
Answers = Mapping[str, Answer]
Ask = Callable[[ApiMessage, int], ApiMessage]


# -- asking ---------------------------------------------------------------------------------------


def answers_of(scene: list[Question], known: Known, ask: Ask) -> dict[str, Answer]:
    found: dict[str, Answer] = {}
    for question in scene:
        request = question.make(known)
        newest = APIS[request.api_key].last_version
        for version in question.versions or (newest,):
            label = f"{question.name} v{version}"
            try:
                found[label] = dict(_flat("", ask(request, version), known))
            except struct.error:
                found[label] = {"": "closed"}
    return found


def known_of(ask: Ask) -> Known:
    """As a leader describes itself."""
    found: Any = ask(describe(Known(cluster_id="", epoch=0, end_offset=0)), 2)
    partition = found.topics[0].partitions[0]
    return Known(
        cluster_id=CLUSTER_ID, epoch=partition.leader_epoch, end_offset=partition.high_watermark
    )


def _flat(path: str, value: object, known: Known) -> Iterator[tuple[str, object]]:
    if isinstance(value, Struct):
        for field in value.__slots__:
            if field in OUR_TAGS and getattr(value, field) == OUR_TAGS[field]:
                continue
            yield from _flat(f"{path}.{field}".lstrip("."), getattr(value, field), known)
    elif isinstance(value, list):
        yield f"{path}.size", len(value)
        for index, each in enumerate(value):
            yield from _flat(f"{path}.{index}", each, known)
    else:
        yield path, _comparable(path.rpartition(".")[2], value, known)


def _comparable(name: str, value: Any, known: Known) -> object:
    """Without what two nodes cannot have in common."""
    if name in ("records", "unaligned_records") and value is not None:
        return "records" if len(value) else "none"
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if "offset" in name or name == "high_watermark":
        return "end" if value == known.end_offset and value > 0 else value
    if name.endswith("timestamp"):
        return "time" if value > 0 else value
    if name == "port":
        return "port" if value > 1 else value
    if name.endswith("error_message"):
        return "words" if value else value
    return value


# -- Apache Kafka ---------------------------------------------------------------------------------


def plan_of(scene: str) -> ClusterPlan:
    voters = (NODE, 2, 3) if scene == "voter" else (NODE,)
    # Nothing listens on the ports of the others.
    nodes = [
        PlannedNode(node_id=each, roles=CONTROLLER, port=free_port(), controller_port=free_port())
        for each in voters
    ]
    return ClusterPlan(nodes=nodes, is_dynamic=scene != "static leader", settings=STILL)


@contextmanager
def kafka_in(scene: str, work: Path) -> Iterator[tuple[Known, Ask]]:
    plan = plan_of(scene)
    node = KafkaNode(jars=fetch_jars(), plan=plan, planned=plan.node(NODE), work=work)
    node.format()
    node.start()

    def ask_it(request: ApiMessage, version: int) -> ApiMessage:
        return ask(node.planned.controller, request, version)

    try:
        if scene == "voter":
            node.wait_for(UNATTACHED)
            node.wait_for(re.compile(r"Finished waiting for all of the SocketServer"))
            yield Known(cluster_id=CLUSTER_ID, epoch=0, end_offset=0), ask_it
        else:
            node.wait_for(REGISTERED)
            yield known_of(ask_it), ask_it
    finally:
        node.kill()


def read() -> dict[str, Answers]:
    recorded: dict[str, Answers] = json.loads(FILE.read_text(encoding="utf-8"))
    return recorded


def written(recorded: Mapping[str, Answers]) -> str:
    """A line for each answer, to be read in a diff."""
    scenes = []
    for name, answers in recorded.items():
        lines = [f"  {json.dumps(label)}: {json.dumps(each)}" for label, each in answers.items()]
        scenes.append(f"{json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(scenes) + "\n}\n"


def record() -> None:
    found = {}
    with tempfile.TemporaryDirectory() as work:
        for name, scene in SCENES.items():
            with kafka_in(name, Path(work) / name.replace(" ", "-")) as (known, ask_it):
                found[name] = answers_of(scene, known, ask_it)
    FILE.write_text(written(found), encoding="utf-8")


if __name__ == "__main__":
    record()
