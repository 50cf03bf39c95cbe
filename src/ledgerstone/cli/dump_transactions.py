"""Records of `__transaction_state`, decoded: a line behind each for people and for programs. Shell.

The bytes themselves are in the line of the record. A record that cannot be decoded is a problem, as
a batch with a wrong checksum is: a coordinator would not load it.
"""

from collections.abc import Iterable, Iterator
from typing import ClassVar

from ledgerstone.coordinator.transactions.transaction_records import read_record
from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import KafkaError
from ledgerstone.fs import name_of, parent_of
from ledgerstone.metadata.topic_names import TRANSACTION_STATE
from ledgerstone.protocol.wire import ProtocolViolation
from ledgerstone.storage.dump import Fact
from ledgerstone.storage.dump_facts import Problem
from ledgerstone.storage.dump_log import RecordFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionFacts:
    """What the record at `offset` says of a transactional id. `state` is None: the id expired."""

    type: ClassVar[str] = "transaction"
    path: str
    offset: int
    transactional_id: str
    state: str | None = None
    producer_id: int = -1
    producer_epoch: int = -1
    previous_producer_id: int = -1
    next_producer_id: int = -1
    timeout_ms: int = -1
    partitions: tuple[str, ...] = ()
    start_ms: int = -1
    last_update_ms: int = -1
    client_version: int = 0


def with_transactions(facts: Iterable[Fact]) -> Iterator[Fact | TransactionFacts]:
    """The same facts, and behind each record of a transaction log what it says."""
    for fact in facts:
        yield fact
        if isinstance(fact, RecordFacts) and _is_of_transactions(fact):
            yield from _decoded(fact)


def _is_of_transactions(record: RecordFacts) -> bool:
    directory = name_of(parent_of(record.path))
    return directory.startswith(f"{TRANSACTION_STATE}-") and not record.is_control


def _decoded(record: RecordFacts) -> Iterator[TransactionFacts | Problem]:
    try:
        entry = None if record.key is None else read_record(record.key, record.value)
    except (KafkaError, ProtocolViolation, ValueError) as error:
        reason = f"the record at offset {record.offset} says nothing of a transaction: {error}"
        yield Problem(path=record.path, position=record.batch_position, reason=reason)
        return
    if entry is None:
        # Of a version that Kafka skips too.
        return
    found = entry.metadata
    if found is None:
        yield TransactionFacts(
            path=record.path, offset=record.offset, transactional_id=entry.transactional_id
        )
        return
    yield TransactionFacts(
        path=record.path,
        offset=record.offset,
        transactional_id=entry.transactional_id,
        state=found.state.shown,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        previous_producer_id=found.previous_producer_id,
        next_producer_id=found.next_producer_id,
        timeout_ms=found.timeout_ms,
        partitions=tuple(map(str, found.partitions)),
        start_ms=found.start_ms,
        last_update_ms=found.last_update_ms,
        client_version=found.client_version,
    )
