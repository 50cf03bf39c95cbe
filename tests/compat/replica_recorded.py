"""What three Apache Kafka brokers answered to `replica_questions`, kept in a file.

`PYTHONPATH=tools python -m tests.compat.replica_recorded` asks real ones anew.
"""

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from golden.cluster_plan import COMBINED, ClusterPlan, PlannedNode
from golden.kafka_broker import free_port
from golden.kafka_tools import fetch_jars
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsAssignment,
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
)
from ledgerstone.protocol.messages.find_coordinator import FindCoordinatorRequest
from ledgerstone.protocol.messages.metadata import MetadataRequest
from tests.compat.both_brokers import Case, Outcome, Side, outcome
from tests.compat.mixed import WITHOUT_NEW_GROUPS
from tests.compat.recorded_answers import plain
from tests.compat.replica_questions import (
    ASSIGNED,
    GROUP,
    MIN_ISR,
    QUESTIONS,
    STOPPED,
    Question,
    produced,
)
from tests.compat.wire import ask
from tests.kit.broker import wait_until
from tests.kit.nodes import KAFKA, Cluster

FILE: Final = Path(__file__).parents[1] / "golden" / "kafka_replica_answers.json"
BROKERS: Final = (1, 2, 3)
SETTINGS: Final = {
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "500",
    "min.insync.replicas": "1",
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.replication.factor": "2",
}
NOT_YET: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)
Answers = Mapping[str, Outcome]


@contextmanager
def running(kind: str, work: Path) -> Iterator[Cluster]:
    """Two brokers of three, after the third has led and stopped."""
    nodes = [
        PlannedNode(node_id=each, roles=COMBINED, port=free_port(), controller_port=free_port())
        for each in BROKERS
    ]
    cluster = Cluster(
        plan=ClusterPlan(nodes=nodes, settings=SETTINGS, features=WITHOUT_NEW_GROUPS),
        work=work,
        jars=fetch_jars() if kind == KAFKA else None,
        kinds=dict.fromkeys(BROKERS, kind),
    )
    cluster.format()
    with cluster:
        cluster.start()
        _create(cluster)
        wait_until(lambda: _is_settled(cluster, BROKERS), "all replicas are in sync")
        _write(cluster)
        cluster.stop(STOPPED)
        wait_until(lambda: _is_settled(cluster, (1, 2)), "others lead what it led", 60.0)
        _find_coordinator(cluster)
        yield cluster


def _create(cluster: Cluster) -> None:
    topics = [
        CreateTopicsRequestTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreateTopicsAssignment(partition_index=0, broker_ids=list(replicas))],
            configs=[
                CreateTopicsRequestConfig(name="min.insync.replicas", value=MIN_ISR[name])
                for _ in range(name in MIN_ISR)
            ],
        )
        for name, replicas in ASSIGNED.items()
    ]
    request = CreateTopicsRequest(topics=topics, timeout_ms=20_000)
    said: Any = ask(cluster[1].planned.bootstrap, request, 7)
    assert not any(each.error_code for each in said.topics), said


def _metadata(cluster: Cluster, broker: int) -> Any:
    request = MetadataRequest(topics=None)
    return ask(cluster[broker].planned.bootstrap, request, 12)


def _is_settled(cluster: Cluster, alive: tuple[int, ...]) -> bool:
    """Every replica that lives is in sync, and the first of them leads."""
    for broker in alive:
        for topic in _metadata(cluster, broker).topics:
            living = [each for each in ASSIGNED.get(topic.name, ()) if each in alive]
            (found,) = topic.partitions if topic.name in ASSIGNED else (None,)
            if found is None or not living:
                continue
            if found.leader_id != living[0] or set(found.isr_nodes) != set(living):
                return False
    return True


def _write(cluster: Cluster) -> None:
    """One record in each topic, and every replica has it and knows that."""
    for name, replicas in ASSIGNED.items():
        side = Side("set up", cluster[replicas[0]].planned.bootstrap)
        wait_until(partial(_is_written, side, name), f"{name} is written")
        side.close()
        fetch = {"topic": name, "partitions": [{"partition": 0, "partition_max_bytes": 1 << 20}]}
        case = Case("read", "Fetch", {"max_bytes": 1 << 20, "topics": [fetch]})
        for replica in replicas:
            side = Side("set up", cluster[replica].planned.bootstrap)
            wait_until(partial(_has_record, side, case), f"{name} is replicated")
            side.close()


def _is_written(side: Side, topic: str) -> bool:
    said: Any = side.ask(Case("write", "Produce", produced(-1, topic, timeout_ms=30_000)), 12)
    code = said.responses[0].partition_responses[0].error_code
    # A broker may hear of a new topic a moment later than the one that was asked.
    assert code in (ErrorCode.NONE, *NOT_YET), ErrorCode(code)
    return bool(code == ErrorCode.NONE)


def _has_record(side: Side, case: Case) -> bool:
    said: Any = side.ask(case, 12)
    return bool(said.responses[0].partitions[0].high_watermark == 1)


def _find_coordinator(cluster: Cluster) -> int:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])

    def found() -> int:
        said: Any = ask(cluster[1].planned.bootstrap, request, 4)
        (answer,) = said.coordinators
        return 0 if answer.error_code else int(answer.node_id)

    return wait_until(found, "the group has a coordinator", 60.0)


def answers_of(cluster: Cluster) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    stranger = 3 - _find_coordinator(cluster)
    with ExitStack() as stack:
        sides = {}
        for broker in (1, 2):
            side = Side("one", cluster[broker].planned.bootstrap)
            stack.callback(side.close)
            known = _metadata(cluster, broker).topics
            side.topic_ids = {each.topic_id: each.name for each in known}
            sides[broker] = side
        for question in QUESTIONS:
            side = sides[question.broker or stranger]
            for version in question.case.edges:
                answer = plain(outcome(side, question.case, version))
                found[_name(question, version)] = (
                    answer if isinstance(answer, str) else _without_own(answer)
                )
    return found


def _name(question: Question, version: int) -> str:
    return f"{question.name}, version {version}"


def _without_own(answer: Mapping[str, object]) -> dict[str, object]:
    """Brokers come in any order, and the controller is one of them by chance."""
    return {
        path: value
        for path, value in answer.items()
        if path != "controller_id" and not (path.startswith("brokers.") and path != "brokers.size")
    }


def names() -> list[str]:
    return [_name(each, version) for each in QUESTIONS for version in each.case.edges]


def read() -> dict[str, Outcome]:
    recorded: dict[str, Outcome] = json.loads(FILE.read_text(encoding="utf-8"))
    return recorded


def record() -> None:
    with tempfile.TemporaryDirectory() as work, running(KAFKA, Path(work)) as cluster:
        found = answers_of(cluster)
    lines = [f" {json.dumps(name)}: {json.dumps(each)}" for name, each in found.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    record()
