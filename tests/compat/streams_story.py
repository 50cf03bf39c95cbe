"""The input of a foreign-key join on Kafka Streams, and its expected output.

A story is made from a seed: the same records, times and partitions whoever it is told to. The
oracle knows no log, no group and no state store: it keeps two dicts and joins them.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ledgerstone.client.partitioner import partition_of
from tests.kit.logs import T0

ORDERS, CUSTOMERS = "orders", "customers"
JOINED, LEFT_JOINED, COUNTS = "joined", "left-joined", "counts"
INPUTS, OUTPUTS = (ORDERS, CUSTOMERS), (JOINED, LEFT_JOINED, COUNTS)
PARTITIONS = 3
# Records are further apart than `segment.ms` of the topics, so that most batches roll a segment.
STEP_MS = 500
# The share of tombstones.
DELETED = 0.3


class Fed(NamedTuple):
    topic: str
    partition: int
    timestamp_ms: int
    key: str
    value: str | None


@dataclass(slots=True)
class Tables:
    """Both tables as they stand after what was fed."""

    orders: dict[str, str] = field(default_factory=dict)
    customers: dict[str, str] = field(default_factory=dict)

    def apply(self, record: Fed) -> None:
        table = self.orders if record.topic == ORDERS else self.customers
        if record.value is None:
            table.pop(record.key, None)
        else:
            table[record.key] = record.value

    def joined(self) -> dict[str, str]:
        return {
            order: f"{value}/{self.customers[customer_of(value)]}"
            for order, value in self.orders.items()
            if customer_of(value) in self.customers
        }

    def left_joined(self) -> dict[str, str]:
        return {
            order: f"{value}/{self.customers.get(customer_of(value), 'null')}"
            for order, value in self.orders.items()
        }

    def counts(self) -> dict[str, str]:
        """Of customers with a joined order; those that had some and have none left are not told."""
        found: dict[str, int] = {}
        for value in self.joined().values():
            found[customer_of(value)] = found.get(customer_of(value), 0) + 1
        return {customer: str(number) for customer, number in found.items()}

    def expected(self) -> dict[str, dict[str, str]]:
        return {JOINED: self.joined(), LEFT_JOINED: self.left_joined(), COUNTS: self.counts()}


def customer_of(value: str) -> str:
    return value.partition(":")[0]


@dataclass(slots=True)
class Story:
    """Parts of a seeded input; `tables` is what the parts told so far amount to.

    A part comes in waves: many changes of customers, or at most one change of each order. Told
    with a barrier after each wave, the joins are determined. Told at once they are not, on any
    broker: an answer to an order that has changed meanwhile is dropped, a tombstone too, and the
    inner join has none for the change itself where its customer is missing. The old row stays.
    """

    seed: int
    orders: int = 60
    customers: int = 20
    tables: Tables = field(default_factory=Tables)
    # Orders that are deleted, each with the time at which that was told last.
    deleted: dict[str, int] = field(default_factory=dict)
    _dice: random.Random = field(init=False)
    _time_ms: int = T0

    def __post_init__(self) -> None:
        self._dice = random.Random(f"{self.seed}/streams")

    def part(self, waves: int = 6) -> list[list[Fed]]:
        """The next records: inserts, updates, other foreign keys, deletes, keys made again."""
        return [self._wave(is_order=number % 2 == 0) for number in range(waves)]

    def _wave(self, *, is_order: bool) -> list[Fed]:
        dice = self._dice
        keys = [f"o{number}" for number in range(self.orders)]
        keys = dice.sample(keys, len(keys) * 2 // 3)
        if not is_order:
            keys = [self._customer() for _ in keys]
        wave = [self._record(ORDERS if is_order else CUSTOMERS, key) for key in keys]
        for record in wave:
            self.tables.apply(record)
            if record.value is not None:
                self.deleted.pop(record.key, None)
            elif is_order:
                self.deleted[record.key] = record.timestamp_ms
        return wave

    def _record(self, topic: str, key: str) -> Fed:
        self._time_ms += STEP_MS
        value: str | None = None
        if self._dice.random() >= DELETED:
            text = f"{self._time_ms - T0}"
            value = f"{self._customer()}:{text}" if topic == ORDERS else f"n{text}"
        # A foreign key is looked up where the Java client would have put the customer.
        partition = partition_of(key.encode(), PARTITIONS)
        return Fed(topic, partition, self._time_ms, key, value)

    def _customer(self) -> str:
        return f"c{self._dice.randrange(self.customers)}"


def fold(records: Sequence[tuple[str, str | None]]) -> dict[str, str]:
    """The latest value of each key, without those deleted."""
    table: dict[str, str] = {}
    for key, value in records:
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
    return table


def without_zeros(counts: Mapping[str, str]) -> dict[str, str]:
    """Whether a customer once had a joined order depends on a race."""
    return {key: value for key, value in counts.items() if value != "0"}
