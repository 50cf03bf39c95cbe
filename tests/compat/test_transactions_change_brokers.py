"""Transactions that one broker is killed in go on with the other, which gets its files.

    ours, killed   -> Apache Kafka ends what is prepared, goes on with what is open
    Kafka, killed  -> so do we
    and back       -> the first broker reads what the second one made of it

The golden files of `tests/golden/kafka_transactions` are such files of Kafka's; here both
directions are done live. Needs Java, and Maven for the first run: `make kafka-reads`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compat.both_brokers import Side
from tests.compat.txn_confluent import Confluent
from tests.compat.txn_exchange import (
    PARTITIONS,
    SETTINGS,
    TOPIC,
    begin,
    go_on,
    make_topics_only,
    plain,
    transplant,
)
from tests.compat.txn_golden import read_expected
from tests.compat.txn_served import NEEDS_JAVA, Served, serving

pytestmark = NEEDS_JAVA
RESTARTS = 3
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
    transplant(one.data, other.data)
    receiving.known |= first.known
    other.start()
    found = plain(go_on(receiving, tmp_path))
    receiving.close()

    assert found["answers"] == expected["answers"]
    assert found["committed"] == expected["committed"]
    assert found["uncommitted"] == expected["uncommitted"]

    other.kill()
    _restart(one, RESTARTS + 3)
    transplant(other.data, one.data)
    one.start()
    assert _read(one.bootstrap, tmp_path, committed=True) == expected["committed"]
    assert _read(one.bootstrap, tmp_path, committed=False) == expected["uncommitted"]
    other.start()
