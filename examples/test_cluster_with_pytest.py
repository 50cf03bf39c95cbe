"""Tests a program against a cluster that loses a broker: no Docker, no containers, no sleeping.

    pytest examples/test_cluster_with_pytest.py

`Orders` is the program under test, written with confluent-kafka. The fixture `ledgerstone_cluster`
comes with the package: three brokers in this process. docs/testing.md has the rest.
"""

import subprocess
import sys

import confluent_kafka

from ledgerstone.testing.cluster import LedgerstoneCluster


class Orders:
    """Writes orders, each acknowledged by every broker that is in sync."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True}
        )
        self.refused: list[object] = []

    def place(self, number: int) -> None:
        def delivered(error: object, message: object) -> None:
            if error is not None:
                self.refused.append(error)

        self._producer.produce("orders", key=str(number), value="new", on_delivery=delivered)

    def finish(self) -> None:
        assert self._producer.flush(30) == 0


def test_no_order_is_lost_with_the_broker_that_leads(
    ledgerstone_cluster: LedgerstoneCluster,
) -> None:
    ledgerstone_cluster.topic("orders")
    orders = Orders(ledgerstone_cluster.bootstrap)
    for number in range(100):
        orders.place(number)
    orders.finish()

    ledgerstone_cluster.kill(ledgerstone_cluster.leader_of("orders"))
    for number in range(100, 200):
        orders.place(number)
    orders.finish()

    assert orders.refused == []
    assert len(ledgerstone_cluster.state("orders")) == 200


def test_broker_that_was_cut_off_catches_up(ledgerstone_cluster: LedgerstoneCluster) -> None:
    ledgerstone_cluster.topic("orders")
    leader = ledgerstone_cluster.leader_of("orders")
    follower = next(each for each in ledgerstone_cluster.running if each != leader)

    orders = Orders(ledgerstone_cluster.bootstrap)
    orders.place(0)
    orders.finish()
    ledgerstone_cluster.isolate(follower)
    for number in range(1, 100):
        orders.place(number)
    orders.finish()
    ledgerstone_cluster.heal()

    ledgerstone_cluster.wait_in_sync("orders")
    assert orders.refused == []
    assert len(ledgerstone_cluster.state("orders")) == 100


if __name__ == "__main__":
    command = [sys.executable, "-m", "pytest", __file__, "-v", "-p", "no:cacheprovider"]
    sys.exit(subprocess.run(command, check=False).returncode)
