"""A real broker, killed with SIGKILL at each stage of an erasure, still issues the receipt."""

from pathlib import Path

import pytest

from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.client.producer import NewRecord, Placed, Producer
from ledgerstone.erasure.receipt import verify
from tests.kit.broker import BrokerProcess, wait_until
from tests.kit.cleaner_api import get, post, readiness
from tests.kit.erasures import await_receipt, base64, files_with
from tests.kit.kill_story import connect

TOPIC = "customers"
STAGES = (
    "requested", "searched", "tombstoned", "stamped", "removed", "unlinked", "verified",
    "receipted",
)  # fmt: skip
CONFIGS = {
    "cleanup.policy": "compact",
    "delete.retention.ms": "0",
    "file.delete.delay.ms": "0",
}


def write(broker: BrokerProcess, key: bytes) -> None:
    """To the key's own partition and to the wrong one, twice each."""
    with connect(broker) as client:
        records = [
            NewRecord(topic=TOPIC, key=key, value=b"lives in Ulm", partition=partition)
            for partition in (None, 0, 1, None)
        ]
        outcomes = Producer(client).send(records)
        assert all(isinstance(each, Placed) for each in outcomes), outcomes


def is_past(broker: BrokerProcess, erasure_id: str, stage: str) -> bool:
    reached = str(get(broker, f"erasures/{erasure_id}")["stage"])
    return STAGES.index(reached) >= STAGES.index(stage)


@pytest.mark.parametrize(
    "stages",
    [
        pytest.param(("requested", "stamped", "verified"), id="three stages"),
        pytest.param(STAGES[:-1], id="all stages", marks=pytest.mark.slow),
    ],
)
def test_broker_killed_at_each_stage_still_issues_a_receipt(
    tmp_path: Path, stages: tuple[str, ...]
) -> None:
    with BrokerProcess(tmp_path) as broker:
        with connect(broker) as client:
            create_topic(client, NewTopic(name=TOPIC, partitions=2, configs=CONFIGS))
        for number, stage in enumerate(stages):
            key = b"customer-%d@example.org" % number
            write(broker, key)
            (asked,) = post(
                broker, f"topics/{TOPIC}/erasures", key=base64(key), reason="a test",
                requested_by="me",
            )["erasures"]  # fmt: skip
            erasure_id = asked["id"]
            wait_until(lambda: is_past(broker, erasure_id, stage), f"{stage} is reached")  # noqa: B023

            broker.kill()
            broker.start()
            receipt = await_receipt(broker, erasure_id)

            assert verify(receipt).ok
            assert not files_with(broker.data, key)

        assert readiness(broker)[0] == 200
        assert "customer-" not in broker.log_text
        broker.stop()
        assert " ERROR " not in broker.log_text
