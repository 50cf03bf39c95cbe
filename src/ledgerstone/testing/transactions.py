"""Decided transactions, written straight into a log. Shell, over a broker's thread.

A test of a reader needs a finished transaction, committed or aborted, with its marker. Both are
appended like a coordinator's batches, so no transactional producer is needed.
"""

from collections.abc import Sequence

from ledgerstone.records.builder import build_batch
from ledgerstone.records.control import end_txn_marker
from ledgerstone.records.validation import Origin
from ledgerstone.server.bootstrap import RunningBroker
from ledgerstone.testing.on_the_loop import OnTheLoop
from ledgerstone.types import TopicPartition


def write(
    cluster: OnTheLoop,
    topic: str,
    records: Sequence[tuple[bytes | None, bytes | None]],
    *,
    commit: bool,
    partition: int,
) -> None:
    def append(running: RunningBroker) -> None:
        broker = running.broker
        hosted = broker.partitions.get(TopicPartition(topic, partition))
        drawn: list[int | None] = []
        broker.producer_ids.draw(drawn.append)
        # One node commits in the same turn.
        (producer_id,) = drawn
        assert producer_id is not None
        now_ms = broker.clock.now_ms()
        data = build_batch(
            [(now_ms, key, value, ()) for key, value in records],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        marker = end_txn_marker(
            commit=commit,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=now_ms,
        )
        for batch in (data, marker):
            result = hosted.append(batch, acks=-1, origin=Origin.COORDINATOR)
            broker.appended(hosted.topic_partition, len(batch))
            broker.cleaning.appended(hosted.log, result.tombstone_count)
        running.runtime.wake()

    cluster.on_the_loop(append)
