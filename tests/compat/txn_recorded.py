"""What Apache Kafka answered to every script about transactions, kept in a file.

`python -m tests.compat.txn_recorded` asks a real one anew and writes the file.
"""

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from golden.kafka_broker import KafkaBroker
from golden.kafka_tools import fetch_jars
from tests.compat import txn_scripts_coordinator, txn_scripts_partitions
from tests.compat.both_brokers import Outcome, Side
from tests.compat.txn_script import make_topics, run

FILE: Final = Path(__file__).parents[1] / "golden" / "kafka_transaction_answers.json"
SCRIPTS: Final = [*txn_scripts_coordinator.SCRIPTS, *txn_scripts_partitions.SCRIPTS]
# Settings of both brokers.
SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "3",
    "transaction.max.timeout.ms": "900000",
    "auto.create.topics.enable": "false",
    "log.retention.ms": "-1",
}

Answers = Mapping[str, Outcome]


@contextmanager
def running_kafka(work: Path) -> Iterator[Side]:
    kafka = KafkaBroker(jars=fetch_jars(), work=work, settings=SETTINGS)
    kafka.format()
    kafka.start()
    side = Side("kafka", kafka.bootstrap)
    try:
        make_topics(side, SCRIPTS)
        yield side
    finally:
        side.close()
        kafka.kill()


def read() -> dict[str, Answers]:
    recorded: dict[str, Answers] = json.loads(FILE.read_text(encoding="utf-8"))
    return recorded


def written(recorded: Mapping[str, Answers]) -> str:
    """A line for each answer, to be read in a diff."""
    scripts = []
    for name, answers in recorded.items():
        lines = [f"  {json.dumps(label)}: {json.dumps(each)}" for label, each in answers.items()]
        scripts.append(f"{json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(scripts) + "\n}\n"


def record() -> None:
    with tempfile.TemporaryDirectory() as work, running_kafka(Path(work) / "kafka") as side:
        found = {each.name: run(side, each) for each in SCRIPTS}
    FILE.write_text(written(found), encoding="utf-8")


if __name__ == "__main__":
    record()
