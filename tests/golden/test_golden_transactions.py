"""Transactions that Apache Kafka was killed in, gone on with by a broker of ours.

See kafka_transactions/PROVENANCE.md."""

from pathlib import Path

from tests.compat.both_brokers import Side
from tests.compat.txn_exchange import SETTINGS, go_on, make_topics_only, plain, transplant, unlike
from tests.compat.txn_golden import DIRECTORY, read_expected
from tests.kit.broker import BrokerProcess

# Ours leads with a newer epoch at every start; coordinators that are as new as the one whose
# marker the partition has seen are enough.
RESTARTS = 1


def test_our_broker_goes_on_as_kafka_itself_does(tmp_path: Path) -> None:
    expected = read_expected()
    with BrokerProcess(tmp_path, dict(SETTINGS)) as broker:
        side = Side("ours", broker.bootstrap)
        make_topics_only(side)
        side.close()
        for _ in range(RESTARTS):
            broker.stop()
            broker.start()
        broker.stop()
        transplant(DIRECTORY, broker.data)
        side.known |= expected["known"]

        broker.start()
        found = plain(go_on(side, tmp_path))
        side.close()

    assert unlike(found["answers"], expected["answers"]) == []
    assert found["committed"] == expected["committed"]
    assert found["uncommitted"] == expected["uncommitted"]
