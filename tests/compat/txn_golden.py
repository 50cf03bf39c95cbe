"""Makes tests/golden/kafka_transactions: transactions in every state, left by a killed Kafka.

    PYTHONPATH=tools python -m tests.compat.txn_golden

Beside the files stand the producer ids and epochs of their clients, and what Kafka itself answers
when it goes on with them.
"""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

from golden.kafka_broker import KafkaBroker
from golden.kafka_tools import fetch_jars
from tests.compat.both_brokers import Side
from tests.compat.txn_exchange import EXCHANGED, SETTINGS, LostMarker, begin, go_on, plain

DIRECTORY: Final = Path(__file__).parents[1] / "golden" / "kafka_transactions"
NOT_KEPT: Final = (".index", ".timeindex", "partition.metadata")


def read_expected() -> Any:
    return json.loads((DIRECTORY / "expected.json").read_text(encoding="utf-8"))


def main() -> None:
    jars = fetch_jars()
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        broker = KafkaBroker(jars=jars, work=work / "kafka", settings=SETTINGS)
        broker.format()
        broker.start()
        try:
            side = Side("kafka", broker.bootstrap)
            begin(side)
            side.close()
            known = dict(side.known)
            broker.kill()
            shutil.copytree(broker.data, work / "killed")
            found = _gone_on(broker, side, work)
            side.close()
        finally:
            if broker.process is not None:
                broker.kill()
        _keep(work / "killed")
    facts = {"kafka": jars.version, "known": known, **plain(found)}
    (DIRECTORY / "expected.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def _gone_on(broker: KafkaBroker, side: Side, work: Path) -> dict[str, Any]:
    while True:
        broker.start()
        try:
            return go_on(side, work)
        except LostMarker:
            side.close()
            broker.kill()
            shutil.rmtree(broker.data)
            shutil.copytree(work / "killed", broker.data)


def _keep(data: Path) -> None:
    for name in EXCHANGED:
        shutil.rmtree(DIRECTORY / name, ignore_errors=True)
        (DIRECTORY / name).mkdir(parents=True)
        for file in sorted((data / name).iterdir()):
            # A killed broker leaves indexes full of zeros; whoever opens the log makes them anew.
            if not file.name.endswith(NOT_KEPT):
                shutil.copy(file, DIRECTORY / name)


if __name__ == "__main__":
    main()
