"""The journal of erasures on disk: the topic `__erasures`, appended to and replayed. Grade D.

The book changes by replay alone, after the records are durable. Beside the erasures the topic holds
one record that names the secrets they were printed under, since with others no key would be found
again and every scan would seem clean. Contract: erasure/README.md, "Journal".
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from ledgerstone.erasure.erasure import Erasure
from ledgerstone.erasure.journal import ERASURES_TOPIC, ErasureBook, JournalRecord, record_of
from ledgerstone.errors import CorruptRecord, LogStorageError
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
)
from ledgerstone.records.batch import iter_headers
from ledgerstone.records.builder import build_batch
from ledgerstone.records.record import iter_records
from ledgerstone.records.validation import Origin
from ledgerstone.replication.partition import Partition
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_reader import read
from ledgerstone.types import TopicPartition

if TYPE_CHECKING:
    from ledgerstone.server.broker import Broker

JOURNAL: Final = TopicPartition(ERASURES_TOPIC, 0)
_SECRETS_KEY: Final = b"secrets"
_SECRETS_VERSION: Final = 1
_READ_BYTES: Final = 4 << 20
# Of records in one batch; a record of its own may be larger, up to the topic's limit.
_BATCH_BYTES: Final = 1 << 20
_CONFIGS: Final = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "max.message.bytes": str(16 << 20),
    "segment.bytes": str(100 << 20),
    # Sealed keys go when they are not needed, also those of erasures that were cancelled.
    "max.compaction.lag.ms": "3600000",
    # A sealed key is not kept for readers of a file that is no longer part of the log.
    "file.delete.delay.ms": "0",
}


class SealedAt(NamedTuple):
    """Where the journal holds a sealed key, and the record that makes it superfluous."""

    offset: int
    superseded_at: int | None


@dataclass(slots=True)
class ErasureJournal:
    book: ErasureBook = field(default_factory=ErasureBook)
    # What the secrets were whose prints the book holds: their public key, hexadecimal.
    secrets_name: str | None = None
    sealed: dict[str, SealedAt] = field(default_factory=dict)
    unfinished: dict[str, None] = field(default_factory=dict)  # ids, the oldest first

    def load(self, broker: "Broker") -> None:
        """At start; does nothing before the topic exists."""
        if ERASURES_TOPIC not in broker.image.topics:
            return
        for offset, key, value in _records(broker.partitions.get(JOURNAL).log):
            self._replay(offset, key, value)

    def append(self, broker: "Broker", erasures: Sequence[Erasure]) -> None:
        """Durable, then true."""
        self._append(broker, [record_of(each) for each in erasures])

    def name_secrets(self, broker: "Broker", public_key: bytes) -> None:
        content = {"version": _SECRETS_VERSION, "public_key": public_key.hex()}
        self._append(broker, [JournalRecord(_SECRETS_KEY, json.dumps(content).encode())])

    def get(self, erasure_id: str) -> Erasure:
        """One that is known to be there."""
        erasure = self.book.get(erasure_id)
        assert erasure is not None, erasure_id
        return erasure

    def partition(self, broker: "Broker") -> Partition:
        """Makes the topic when the first erasure is asked for."""
        if ERASURES_TOPIC not in broker.image.topics:
            configs = [CreateTopicsRequestConfig(key, text) for key, text in _CONFIGS.items()]
            topic = CreateTopicsRequestTopic(
                name=ERASURES_TOPIC, num_partitions=1, replication_factor=-1, configs=configs
            )
            decision = broker.controller.create_topics(CreateTopicsRequest(topics=[topic]))
            refusal = decision.response.topics[0]
            if refusal.error_code:
                text = f"{ERASURES_TOPIC} cannot be created: {refusal.error_message}"
                raise LogStorageError(text)
            broker.commit_metadata(decision.records)
        for made in broker.partitions.work_off_topic(ERASURES_TOPIC):
            broker.cleaning.hosted(made)
        return broker.partitions.get(JOURNAL)

    def _append(self, broker: "Broker", records: Sequence[JournalRecord]) -> None:
        partition = self.partition(broker)
        now_ms = broker.clock.now_ms()
        placed: list[tuple[int, JournalRecord]] = []
        for chunk in _chunks(records):
            batch = build_batch([(now_ms, key, value, ()) for key, value in chunk])
            result = partition.append(batch, acks=-1, origin=Origin.COORDINATOR)
            broker.appended(JOURNAL, len(batch))
            placed += zip(range(result.first_offset, result.last_offset + 1), chunk, strict=True)
        # Crash here: what was appended is replayed by the next start, or was never there.
        partition.log.flush()
        for offset, (key, value) in placed:
            self._replay(offset, key, value)

    def _replay(self, offset: int, key: bytes, value: bytes | None) -> None:
        if key == _SECRETS_KEY:
            self.secrets_name = _name_in(value)
            return
        self.book.replay(key, value)
        erasure_id = key.decode()
        erasure = self.book.get(erasure_id)
        if erasure is None or erasure.is_over:
            self.unfinished.pop(erasure_id, None)
        else:
            self.unfinished[erasure_id] = None
        if erasure is not None and erasure.sealed_key is not None:
            self.sealed[erasure_id] = SealedAt(offset, None)
        elif erasure_id in self.sealed and self.sealed[erasure_id].superseded_at is None:
            self.sealed[erasure_id] = self.sealed[erasure_id]._replace(superseded_at=offset)


def _name_in(value: bytes | None) -> str | None:
    if value is None:
        return None
    try:
        return str(json.loads(value)["public_key"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptRecord(f"{ERASURES_TOPIC}: the name of the secrets: {error}") from error


def _chunks(records: Iterable[JournalRecord]) -> Iterator[list[JournalRecord]]:
    chunk: list[JournalRecord] = []
    size = 0
    for record in records:
        if chunk and size + len(record.value) > _BATCH_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(record)
        size += len(record.value)
    if chunk:
        yield chunk


def _records(log: PartitionLog) -> Iterator[tuple[int, bytes, bytes | None]]:
    offset = log.log_start_offset
    while (piece := read(log, offset, max_bytes=_READ_BYTES).slice) is not None:
        batches = piece.read()
        for position, header in iter_headers(batches):
            if not header.is_control:
                for record in iter_records(batches, position):
                    if record.key is not None:
                        yield record.offset, record.key, record.value
            offset = header.next_offset
