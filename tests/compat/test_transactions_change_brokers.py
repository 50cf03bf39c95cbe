"""Transactions that one broker is killed in go on with the other, which gets its files.

    ours, killed   -> Apache Kafka ends what is prepared, goes on with what is open
    Kafka, killed  -> so do we
    and back       -> the first broker reads what the second one made of it

The golden files of `tests/golden/kafka_transactions` are such files of Kafka's; here both
directions are done live. Needs Java, and Maven for the first run: `make kafka-reads`.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from golden.kafka_broker import KafkaBroker
from golden.kafka_tools import fetch_jars
from ledgerstone.cli.main import app
from ledgerstone.coordinator.transactions.metadata import BY_NAME
from tests.compat.both_brokers import Side
from tests.compat.txn_confluent import Confluent
from tests.compat.txn_exchange import (
    PARTITIONS,
    SETTINGS,
    TOPIC,
    LostMarker,
    begin,
    go_on,
    make_topics_only,
    plain,
    transplant,
    unlike,
)
from tests.compat.txn_golden import read_expected
from tests.compat.txn_served import NEEDS_JAVA, Served, serving

pytestmark = NEEDS_JAVA
RESTARTS, ATTEMPTS = 1, 5
OTHER = {"ours": "kafka", "kafka": "ours"}


@pytest.fixture(params=["ours", "kafka"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Served, Served]]:
    """The broker that begins, and the one that goes on. Both know the topics; both are stopped."""
    first, second = request.param, OTHER[request.param]
    for name in (first, second):
        (tmp_path / name).mkdir()
    with (
        serving(first, tmp_path / first, SETTINGS) as one,
        serving(second, tmp_path / second, SETTINGS) as other,
    ):
        yield one, other


def _restart(broker: Served, times: int) -> None:
    """Each start leads with a newer epoch; the one that gets files must not be older than they."""
    for _ in range(times):
        broker.start()
        broker.stop()


def _gone_on(one: Served, other: Served, receiving: Side, work: Path) -> dict[str, Any]:
    for _ in range(ATTEMPTS):
        transplant(one.data, other.data)
        other.start()
        try:
            return go_on(receiving, work)
        except LostMarker:
            # Ours never does that.
            assert isinstance(other, KafkaBroker)
            receiving.close()
            other.kill()
    raise AssertionError(f"Kafka lost a marker {ATTEMPTS} times")


def _read(bootstrap: str, work: Path, *, committed: bool) -> Any:
    client = Confluent(bootstrap, work)
    return plain([client.read(TOPIC, each, committed=committed) for each in range(PARTITIONS)])


def test_other_broker_goes_on(pair: tuple[Served, Served], tmp_path: Path) -> None:
    one, other = pair
    expected = read_expected()
    receiving = Side("other", other.bootstrap)
    make_topics_only(receiving)
    receiving.close()
    other.stop()
    _restart(other, RESTARTS)
    first = Side("one", one.bootstrap)
    begin(first)
    first.close()

    one.kill()
    receiving.known |= first.known
    found = plain(_gone_on(one, other, receiving, tmp_path))
    receiving.close()

    assert unlike(found["answers"], expected["answers"]) == []
    assert found["committed"] == expected["committed"]
    assert found["uncommitted"] == expected["uncommitted"]

    other.kill()
    _restart(one, RESTARTS)
    transplant(other.data, one.data)
    one.start()
    assert _read(one.bootstrap, tmp_path, committed=True) == expected["committed"]
    assert _read(one.bootstrap, tmp_path, committed=False) == expected["uncommitted"]
    other.start()


def test_dump_tools_decode_each_others_transactions(
    pair: tuple[Served, Served], tmp_path: Path
) -> None:
    one, _ = pair
    side = Side("one", one.bootstrap)
    begin(side)
    side.close()
    one.kill()
    log = one.data / "__transaction_state-0" / "00000000000000000000.log"

    kafkas, ours = _kafkas_dump(log), _our_dump(log)
    one.start()

    assert len(kafkas) > 20
    assert ours == kafkas


def _kafkas_dump(log: Path) -> list[tuple[Any, ...]]:
    tool = "org.apache.kafka.tools.DumpLogSegments"
    command = fetch_jars().java(tool, "--transaction-log-decoder", "--files", str(log))
    text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    found = []
    for key, value in re.findall(r" key: (\{.*\}) payload: (\{.*\})", text):
        name, said = json.loads(key)["data"]["transactionalId"], json.loads(value)["data"]
        partitions = {
            f"{each['topic']}-{number}"
            for each in said["transactionPartitions"] or ()
            for number in each["partitionIds"]
        }
        found.append(
            (
                name,
                said["transactionStatus"],
                said["producerId"],
                said["producerEpoch"],
                said.get("previousProducerId", -1),
                said.get("nextProducerId", -1),
                said["transactionTimeoutMs"],
                partitions,
                said["transactionStartTimestampMs"],
                said["transactionLastUpdateTimestampMs"],
                said.get("clientTransactionVersion", 0),
            )
        )
    return found


def _our_dump(log: Path) -> list[tuple[Any, ...]]:
    ran = CliRunner().invoke(app, ["dump", "--records", "--json", str(log)])
    facts = [json.loads(line) for line in ran.stdout.splitlines()]
    return [
        (
            each["transactional_id"],
            BY_NAME[each["state"]],
            each["producer_id"],
            each["producer_epoch"],
            each["previous_producer_id"],
            each["next_producer_id"],
            each["timeout_ms"],
            set(each["partitions"]),
            each["start_ms"],
            each["last_update_ms"],
            each["client_version"],
        )
        for each in facts
        if each["type"] == "transaction"
    ]
