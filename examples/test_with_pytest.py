"""Tests a program that reads a compacted topic: no Docker, no sleeping, a day passes instantly.

    pytest examples/test_with_pytest.py          or          python examples/test_with_pytest.py

`Customers` is the program under test, written with confluent-kafka. The fixtures `ledgerstone` and
`tombstone_scenario` come with the package. docs/testing.md has the rest.
"""

import subprocess
import sys

import confluent_kafka

from ledgerstone.testing.broker import LedgerstoneBroker
from ledgerstone.testing.conformance import ConsumerTask, TombstoneConformance
from ledgerstone.testing.conformance.task import State


class Customers:
    """The customers of a topic, read from its start: each key's latest value, unless deleted."""

    def __init__(self, bootstrap: str, topic: str, partitions: int = 1) -> None:
        self.by_key: dict[tuple[int, bytes], bytes] = {}
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "customers",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        self._parts = [confluent_kafka.TopicPartition(topic, n, 0) for n in range(partitions)]
        self._consumer.assign(self._parts)

    def positions(self) -> dict[int, int]:
        return {each.partition: each.offset for each in self._consumer.position(self._parts)}

    def read(self) -> None:
        for message in self._consumer.consume(100, timeout=0.05):
            partition, key, value = message.partition() or 0, message.key(), message.value()
            if value is None:
                self.by_key.pop((partition, key or b""), None)
            else:
                self.by_key[partition, key or b""] = value

    def names(self) -> dict[bytes, bytes]:
        return {key: value for (_, key), value in self.by_key.items()}

    def close(self) -> None:
        self._consumer.close()


def test_deleted_customer_is_forgotten_and_leaves_no_trace(ledgerstone: LedgerstoneBroker) -> None:
    ledgerstone.topic("customers", compacted=True)
    ledgerstone.produce("customers", "alice", "Ulm")
    ledgerstone.produce("customers", "bob", "Bern")
    ledgerstone.tombstone("customers", "alice")
    customers = Customers(ledgerstone.bootstrap, "customers")

    while customers.positions().get(0, 0) < 3:
        customers.read()
    customers.close()

    assert customers.names() == {b"bob": b"Bern"}
    ledgerstone.compact("customers")  # The first pass takes the values,
    ledgerstone.clock.advance(hours=25)  # a day passes,
    ledgerstone.await_compaction("customers")  # and the second takes the tombstone by itself.
    ledgerstone.assert_gone("customers", "alice")
    ledgerstone.assert_state("customers", {"bob": "Bern"})


def test_erased_customer_comes_with_a_receipt(ledgerstone: LedgerstoneBroker) -> None:
    ledgerstone.topic("customers", compacted=True)
    ledgerstone.produce("customers", "alice", "Ulm")

    receipt = ledgerstone.erase("customers", "alice", reason="asked for")

    assert "alice" not in str(receipt)
    ledgerstone.assert_gone("customers", "alice")


class TestCustomers(TombstoneConformance):
    """Fourteen scenarios that every consumer of a compacted topic should pass."""

    def consume(self, task: ConsumerTask) -> State:
        customers = Customers(task.bootstrap, task.topic, len(task.end_offsets))
        while not task.is_done(customers.positions()):
            customers.read()
        customers.close()
        return customers.names()


if __name__ == "__main__":
    command = [sys.executable, "-m", "pytest", __file__, "-v", "-p", "no:cacheprovider"]
    sys.exit(subprocess.run(command, check=False).returncode)
