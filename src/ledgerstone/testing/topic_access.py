"""Topics and records of a broker or a cluster under test, through a client. Shell."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager

from ledgerstone.client.admin import (
    BROKER_DEFAULT,
    NewTopic,
    add_partitions,
    create_topic,
    delete_topic,
)
from ledgerstone.client.blocking import Client
from ledgerstone.client.fetcher import READ_COMMITTED, READ_UNCOMMITTED
from ledgerstone.client.producer import NewRecord, Producer, ProducerConfig
from ledgerstone.errors import KafkaError
from ledgerstone.records.batch import Codec
from ledgerstone.testing import transactions
from ledgerstone.testing.reading import GroupFacts, TopicRecord, fold, read_groups, read_topic
from ledgerstone.testing.texts import Headers, Text, Written, as_bytes, pairs_of
from ledgerstone.testing.transactions import DEFAULT_TIMEOUT_MS, OpenTransaction


class TopicAccess(ABC):
    """Uses the ports, as any client does."""

    def __init__(self, *, unique: bool = False) -> None:
        # Topic names get a number, so that tests sharing a broker do not collide.
        self._unique = unique
        self._topics_made = 0
        self._transactions_made = 0

    @abstractmethod
    def client(self) -> AbstractContextManager[Client]:
        """Our own client, shared: one user at a time."""

    @abstractmethod
    def _new_client(self) -> Client: ...

    # -- topics ---------------------------------------------------------------------------------

    def _make_topic(
        self,
        name: str,
        configs: dict[str, str],
        compacted: bool,
        partitions: int,
        replicas: int = BROKER_DEFAULT,
    ) -> str:
        if compacted:
            configs.setdefault("cleanup.policy", "compact")
        if self._unique:
            self._topics_made += 1
            name = f"{name}-{self._topics_made}"
        new = NewTopic(
            name=name, partitions=partitions, replication_factor=replicas, configs=configs
        )
        with self.client() as client:
            create_topic(client, new)
        return name

    def delete_topic(self, topic: str) -> None:
        with self.client() as client:
            delete_topic(client, topic)

    def add_partitions(self, topic: str, total: int) -> None:
        with self.client() as client:
            add_partitions(client, topic, total)

    # -- records --------------------------------------------------------------------------------

    def produce(
        self,
        topic: str,
        key: Text | None,
        value: Text | None,
        *,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Written:
        """Writes one record; returns where. Default: the partition the Java client chooses."""
        record = NewRecord(
            topic, as_bytes(key), as_bytes(value), pairs_of(headers), partition, timestamp_ms
        )
        return self._send([record], Codec.NONE)[0]

    def produce_batch(
        self,
        topic: str,
        records: Sequence[tuple[Text | None, Text | None]],
        *,
        codec: str = "none",
        partition: int | None = None,
    ) -> list[Written]:
        """Writes keys and values as one batch per partition, compressed with `codec`. Returns where
        each record is."""
        made = [
            NewRecord(topic, as_bytes(key), as_bytes(value), (), partition)
            for key, value in records
        ]
        return self._send(made, Codec[codec.upper()])

    def tombstone(
        self, topic: str, key: Text, *, headers: Headers = (), partition: int | None = None
    ) -> Written:
        """Deletes a key: a record with a null value."""
        return self.produce(topic, key, None, headers=headers, partition=partition)

    def begin(
        self, transactional_id: str = "test", *, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> OpenTransaction:
        """Opens a transaction of a producer of its own; an earlier one of the id is fenced. `with`
        commits it, or aborts it if an exception leaves the block."""
        return OpenTransaction(self._new_client(), transactional_id, timeout_ms=timeout_ms)

    def fence(self, transactional_id: str) -> None:
        """Takes the id over, as its next producer would: what is open is aborted, and the producer
        that opened it can neither write nor commit."""
        transactions.fence(self._new_client(), transactional_id)

    def transaction(
        self,
        topic: str,
        records: Sequence[tuple[Text | None, Text | None]],
        *,
        commit: bool = True,
        partition: int = 0,
    ) -> None:
        """A whole transaction over one partition: committed, or aborted."""
        made = [(as_bytes(key), as_bytes(value)) for key, value in records]
        self._transactions_made += 1
        open_txn = self.begin(f"test-transaction-{self._transactions_made}")
        for key, value in made:
            open_txn.produce(topic, key, value, partition=partition)
        if commit:
            open_txn.commit()
        else:
            open_txn.abort()

    def _send(self, records: Sequence[NewRecord], codec: Codec) -> list[Written]:
        with self.client() as client:
            # A new one each time: partitions may have been added.
            answers = Producer(client, ProducerConfig(codec=codec)).send(records)
        written = []
        for answer in answers:
            if isinstance(answer, KafkaError):
                raise answer
            written.append(Written(answer.partition.partition, answer.offset))
        return written

    def records(self, topic: str, *, read_uncommitted: bool = False) -> list[TopicRecord]:
        """Everything a reader from the start gets now, including tombstones."""
        level = READ_UNCOMMITTED if read_uncommitted else READ_COMMITTED
        with self.client() as client:
            return read_topic(client, topic, isolation_level=level)

    def state(self, topic: str, *, partition: int | None = None) -> dict[bytes, bytes]:
        """The latest value of each live key, in all partitions or in one."""
        found = self.records(topic)
        return fold(each for each in found if partition in (None, each.partition))

    @property
    def groups(self) -> dict[str, GroupFacts]:
        """Consumer groups by id: state, members, committed offsets, lag."""
        with self.client() as client:
            return read_groups(client)
