"""What Apache Kafka answered to every case, kept in a file so that no Kafka is needed to compare.

Kept are the versions at the edges; all of them are asked where a real Kafka is.

`python -m tests.compat.recorded_answers` asks a real one anew and writes the file.
"""

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from golden.kafka_broker import KafkaBroker
from golden.kafka_tools import fetch_jars
from tests.compat import (
    answers_cluster,
    answers_data,
    answers_groups,
    answers_settings,
    answers_topics,
)
from tests.compat.both_brokers import Case, Outcome, Side, outcome
from tests.compat.both_setup import set_up

FILE: Final = Path(__file__).parents[1] / "golden" / "kafka_answers.json"
# In this order: some need what an earlier one has left.
CASES: Final = [
    *answers_data.CASES,
    *answers_groups.CASES,
    *answers_topics.CASES,
    *answers_settings.CASES,
    *answers_cluster.CASES,
]
# Settings of both brokers, so that groups do not wait and topics are neither created nor expired.
SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "1",
    "auto.create.topics.enable": "false",
    "log.retention.ms": "-1",
    "log.segment.delete.delay.ms": "60000",
    "log.cleaner.backoff.ms": "300",
}


@contextmanager
def running_kafka(work: Path) -> Iterator[Side]:
    kafka = KafkaBroker(jars=fetch_jars(), work=work)
    kafka.format()
    with (kafka.work / "server.properties").open("a") as properties:
        properties.writelines(f"{key}={value}\n" for key, value in SETTINGS.items())
    kafka.start()
    side = Side("kafka", kafka.bootstrap)
    try:
        set_up(side)
        yield side
    finally:
        side.close()
        kafka.kill()


def plain(answer: Outcome) -> Outcome:
    """With bytes as digits, as they stand in the file."""
    if isinstance(answer, str):
        return answer
    return {
        path: f"0x{value.hex()}" if isinstance(value, bytes) else value
        for path, value in answer.items()
    }


def read() -> dict[tuple[str, int], Outcome]:
    recorded = json.loads(FILE.read_text(encoding="utf-8"))
    return {
        (name, version): each["answer"]
        for name, answers in recorded.items()
        for each in answers
        for version in each["versions"]
    }


def written(answers: Mapping[tuple[str, int], Outcome], cases: Sequence[Case]) -> str:
    """Each answer once, with the versions that have it; a line for each, to be read in a diff."""
    lines = []
    for case in cases:
        distinct: dict[str, list[int]] = {}
        for version in case.edges:
            answer = json.dumps(answers[case.name, version], ensure_ascii=True)
            distinct.setdefault(answer, []).append(version)
        each = [
            f'  {{"versions": {versions}, "answer": {text}}}' for text, versions in distinct.items()
        ]
        lines.append(f"{json.dumps(case.name)}: [\n" + ",\n".join(each) + "\n]")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def record() -> None:
    with tempfile.TemporaryDirectory() as work, running_kafka(Path(work) / "kafka") as side:
        answers = {
            (case.name, version): plain(outcome(side, case, version))
            for case in CASES
            for version in case.edges
        }
    FILE.write_text(written(answers, CASES), encoding="utf-8")


if __name__ == "__main__":
    record()
