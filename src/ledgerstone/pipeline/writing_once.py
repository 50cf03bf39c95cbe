"""Writes records, and how far they reach, in one transaction. Shell over a `Client`.

The note is the committed offset of a group. A run that was killed before the
transaction was committed has written nothing that readers see; after one that was killed later, the
next run finds the note and does not write again. A newer run fences an older one that still lives.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ledgerstone.client.blocking import Client
from ledgerstone.client.committed import CommittedOffset
from ledgerstone.client.offsets import committed_offsets
from ledgerstone.client.producer import NewRecord
from ledgerstone.client.transactions import TransactionalProducer
from ledgerstone.types import TopicPartition

_RECORDS_AT_ONCE: Final = 5_000


class WriterOnce:
    """One at a time for each name; a second one fences the first."""

    def __init__(self, client: Client, name: str, group: str | None = None) -> None:
        """Notes are in `group`, by default of the same name; several writers may share one."""
        self._client = client
        self._name = name if group is None else group
        self._producer = TransactionalProducer(client, name)

    def noted(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        """The last notes. No earlier writer can add one any more."""
        self._producer.transactions.start()
        return committed_offsets(self._client, self._name, partitions)

    def write(
        self, records: Sequence[NewRecord], notes: Mapping[TopicPartition, CommittedOffset]
    ) -> None:
        with self._producer.begin():
            for first in range(0, len(records), _RECORDS_AT_ONCE):
                self._producer.send(records[first : first + _RECORDS_AT_ONCE])
            self._producer.send_offsets(self._name, notes)
