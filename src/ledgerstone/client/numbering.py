"""How batches are numbered: not at all, by an idempotent producer, or in a transaction.

A `Numbering` gives each batch its producer id, epoch and sequence, and learns what came of it. The
transactional one is `transactions.ProducerTransactions`. Shell over a `Client`.
"""

from collections.abc import Collection, Mapping
from typing import Final, Protocol

from ledgerstone.client.blocking import Client
from ledgerstone.client.errors import check
from ledgerstone.client.producer_id import NO_PRODUCER, ProducerId
from ledgerstone.errors import KafkaError
from ledgerstone.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from ledgerstone.records.batch import increment_sequence
from ledgerstone.types import NO_SEQUENCE, TopicPartition

# Brokers ignore it without a transactional id, but refuse 0.
_TIMEOUT_MS: Final = 60_000


class Numbering(Protocol):
    @property
    def transactional_id(self) -> str | None: ...

    @property
    def produce_at_most(self) -> int | None:
        """The newest version of Produce that may be used; None: the newest."""
        ...

    @property
    def identity(self) -> ProducerId: ...

    def next_sequence(self, partition: TopicPartition, /) -> int: ...

    def before(self, partitions: Collection[TopicPartition], /) -> None:
        """Called before batches go to these partitions."""
        ...

    def acknowledged(self, partition: TopicPartition, records: int, /) -> None: ...

    def failed(self, errors: Mapping[TopicPartition, KafkaError], /) -> None:
        """Without errors, nobody knows of any partition what came of its batch."""
        ...


class Unnumbered:
    """For producers that are not idempotent."""

    transactional_id: None = None
    produce_at_most: None = None
    identity = NO_PRODUCER

    def next_sequence(self, partition: TopicPartition) -> int:
        del partition
        return NO_SEQUENCE

    def before(self, partitions: Collection[TopicPartition]) -> None:
        """Nothing to prepare."""

    def acknowledged(self, partition: TopicPartition, records: int) -> None:
        """Nothing to count."""

    def failed(self, errors: Mapping[TopicPartition, KafkaError]) -> None:
        """Nothing to forget."""


class IdempotentNumbering:
    transactional_id: None = None
    produce_at_most: None = None

    def __init__(self, client: Client) -> None:
        self._client = client
        self._identity: ProducerId | None = None
        self._sequences: dict[TopicPartition, int] = {}

    @property
    def identity(self) -> ProducerId:
        if self._identity is None:
            request = InitProducerIdRequest(
                transactional_id=None, transaction_timeout_ms=_TIMEOUT_MS
            )
            response = self._client.call(request, InitProducerIdResponse)
            check(response.error_code, "a producer id")
            self._identity = ProducerId(response.producer_id, response.producer_epoch)
        return self._identity

    def next_sequence(self, partition: TopicPartition) -> int:
        return self._sequences.get(partition, 0)

    def before(self, partitions: Collection[TopicPartition]) -> None:
        """Leaders take batches of a producer they do not know."""

    def acknowledged(self, partition: TopicPartition, records: int) -> None:
        self._sequences[partition] = increment_sequence(self.next_sequence(partition), records)

    def failed(self, errors: Mapping[TopicPartition, KafkaError]) -> None:
        # The leader may or may not have counted the failed batch. A new id starts at 0.
        self._identity = None
        self._sequences.clear()
