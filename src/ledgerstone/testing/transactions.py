"""Transactions of a test, each of a real producer over the broker's port. Shell."""

from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

from ledgerstone.client.blocking import Client
from ledgerstone.client.committed import CommittedOffset
from ledgerstone.client.producer import NewRecord
from ledgerstone.client.transactions import ProducerTransactions, TransactionalProducer
from ledgerstone.testing.texts import Headers, Text, Written, as_bytes, pairs_of
from ledgerstone.types import TopicPartition

DEFAULT_TIMEOUT_MS: Final = 60_000


class OpenTransaction:
    """An open transaction. One that is neither committed nor aborted ends when its time is up."""

    def __init__(self, client: Client, transactional_id: str, *, timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self._client = client
        self._producer = TransactionalProducer(client, transactional_id, timeout_ms=timeout_ms)
        self._producer.begin()

    def produce(
        self,
        topic: str,
        key: Text | None,
        value: Text | None,
        *,
        headers: Headers = (),
        partition: int | None = None,
    ) -> Written:
        """Writes one record; returns where. Committed readers see it after `commit`."""
        record = NewRecord(topic, as_bytes(key), as_bytes(value), pairs_of(headers), partition)
        (placed,) = self._producer.send([record])
        return Written(placed.partition.partition, placed.offset)

    def tombstone(self, topic: str, key: Text, *, partition: int | None = None) -> Written:
        """Deletes a key, if the transaction is committed."""
        return self.produce(topic, key, None, partition=partition)

    def send_offsets(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commits a group's offsets with the transaction, by topic and partition."""
        self._producer.send_offsets(
            group,
            {TopicPartition(*each): CommittedOffset(offset) for each, offset in offsets.items()},
        )

    def commit(self) -> None:
        self._producer.commit()
        self._client.close()

    def abort(self) -> None:
        self._producer.abort()
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._producer.__exit__(kind, error, traceback)
        self._client.close()


def fence(client: Client, transactional_id: str) -> None:
    with client:
        ProducerTransactions(client, transactional_id).start()
