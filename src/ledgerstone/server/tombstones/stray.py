"""Tombstones in a partition that never had their key, while another has it. Grade D.

Producers with different partitioners send the delete to one partition and leave the value in
another. To know it a whole topic has to be searched, so it is done in samples: at most `KEYS_TAKEN`
keys of a topic in a minute, together in one search, by the scanning worker and not faster than
`BYTES_PER_SECOND`; one search at a time, and the next of the same topic after ten times as long. As
many batches are looked into for nothing in a minute, and no more: that happens on the loop. Keys
are known by keyed hashes under a seed that lives as long as its search. Plans are imported with the
first tombstone: many brokers see none.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from ledgerstone.cleaner.planning import CleanerSettings
from ledgerstone.clock import Clock, Dice
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import KafkaError
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.records.batch import read_header
from ledgerstone.records.kernels import hash_key
from ledgerstone.records.record import iter_spans, records_payload
from ledgerstone.replication.hosted_partitions import HostedPartitions
from ledgerstone.server.erasing.scans import (
    ScanResult,
    WhenEnded,
    files_of,
    missing_partition,
)
from ledgerstone.types import TopicPartition, WritableBuffer

if TYPE_CHECKING:
    from ledgerstone.erasure.key_print import KeyPrint
    from ledgerstone.erasure.scan_plan import SearchPlan, SearchReport

KEYS_TAKEN: Final = 16
PERIOD_MS: Final = 60_000
BYTES_PER_SECOND: Final = 64.0 * (1 << 20)
# Of a batch that is looked into for a tombstone: this is done while everybody waits.
_BATCH_BYTES: Final = 1 << 16
_PAYLOAD_BYTES: Final = 1 << 20
_RECORDS: Final = 256
_REST_FACTOR: Final = 10
_SEED_BYTES: Final = 16


class Stray(NamedTuple):
    topic_partition: TopicPartition
    offset: int
    live_in: int


class _Wanted(NamedTuple):
    topic_partition: TopicPartition
    offset: int
    key_print: "KeyPrint"


@dataclass(slots=True)
class _Topic:
    """The keys of one topic that wait for a search."""

    seed: bytes
    wanted: list[_Wanted] = field(default_factory=list)
    not_before_ms: int = 0  # monotonic
    # Batches that were looked into for nothing, and until when they count.
    misses: int = 0
    misses_until_ms: int = 0

    @property
    def has_room(self) -> bool:
        return len(self.wanted) < KEYS_TAKEN

    def may_look(self, now_ms: int) -> bool:
        if now_ms >= self.misses_until_ms:
            self.misses, self.misses_until_ms = 0, now_ms + PERIOD_MS
        return self.misses < KEYS_TAKEN


class CleaningSettings(Protocol):
    """The cleaner's settings, which may change."""

    @property
    def settings(self) -> CleanerSettings: ...


class Searches(Protocol):
    """What the scanning worker is asked for."""

    def start(self, plan: "SearchPlan", when_ended: WhenEnded) -> int: ...


@dataclass(slots=True, kw_only=True)
class StrayChecks:
    clock: Clock
    dice: Dice
    image: Callable[[], MetadataImage]  # the newest
    partitions: HostedPartitions
    cleaning: CleaningSettings
    searching: Searches
    failures: int = 0
    searches: int = 0
    _topics: dict[str, _Topic] = field(default_factory=dict)
    _under_way: str | None = None

    def appended(self, tp: TopicPartition, first_offset: int, records: WritableBuffer) -> None:
        """A batch with a tombstone went to a compacted topic: remembers one of them."""
        topic = self.image().topics.get(tp.topic)
        is_wanted = self.cleaning.settings.check_near_tombstones
        if not is_wanted or topic is None or len(topic.partitions) < 2:
            return
        known = self._topics.get(tp.topic)
        if known is None:
            known = self._topics[tp.topic] = _Topic(self.dice.random_bytes(_SEED_BYTES))
        if not known.has_room or len(records) > _BATCH_BYTES:
            return
        if not known.may_look(self.clock.monotonic_ms()):
            return
        found = first_tombstone(records)
        if found is None:
            known.misses += 1
        else:
            index, key = found
            known.wanted.append(_Wanted(tp, first_offset + index, _print_of(key, known.seed)))

    def forget(self, topic: str) -> None:
        self._topics.pop(topic, None)

    def start_due(self, when_found: Callable[[Stray], None]) -> None:
        """Begins a search if one is due and none is under way."""
        now_ms = self.clock.monotonic_ms()
        if self._under_way is not None:
            return
        for name, topic in self._topics.items():
            is_due = topic.wanted and now_ms >= topic.not_before_ms
            # Half a topic proves nothing: what is not here may have the key.
            if is_due and missing_partition(self.image(), self.partitions, name) is None:
                self._start(name, topic, when_found)
                return

    def _start(self, name: str, topic: _Topic, when_found: Callable[[Stray], None]) -> None:
        from ledgerstone.erasure.scan_plan import KeyPrints, SearchPlan, SearchReport

        wanted, topic.wanted = topic.wanted, []
        limit = self.cleaning.settings.bytes_per_second
        plan = SearchPlan(
            partitions=files_of(self.image(), self.partitions, name),
            keys=KeyPrints(
                prints=tuple(each.key_print for each in wanted),
                sip_seed=topic.seed,
                rolling_base=1,
            ),
            bytes_per_second=BYTES_PER_SECOND if limit is None else min(limit, BYTES_PER_SECOND),
        )
        topic.seed = self.dice.random_bytes(_SEED_BYTES)
        started_ms = self.clock.monotonic_ms()
        self._under_way = name
        self.searches += 1

        def ended(result: ScanResult) -> None:
            now_ms = self.clock.monotonic_ms()
            self._under_way = None
            rest_ms = max(PERIOD_MS, _REST_FACTOR * (now_ms - started_ms))
            topic.not_before_ms = now_ms + rest_ms
            if not isinstance(result, SearchReport):
                self.failures += 1
                return
            for stray in strays_in(wanted, result):
                when_found(stray)

        self.searching.start(plan, ended)


def first_tombstone(records: WritableBuffer) -> tuple[int, bytes] | None:
    """Index and key of a tombstone among the first records of a batch that was appended."""
    try:
        header = read_header(records)
        payload = records_payload(records, 0, header, limit=_PAYLOAD_BYTES)
        for index, span in enumerate(iter_spans(payload, record_count=header.record_count)):
            if index >= _RECORDS:
                return None
            if span.value_length < 0 and span.key_length >= 0:
                start = span.key_start
                return index, bytes(memoryview(payload)[start : start + span.key_length])
    except KafkaError:
        # Too large when decompressed: one sample less.
        return None
    return None


def _print_of(key: bytes, seed: bytes) -> "KeyPrint":
    from ledgerstone.erasure.key_print import KeyPrint

    low, high = hash_key(key, seed)
    # A search knows keys by these two words; the rest is for scans and receipts.
    return KeyPrint(length=len(key), rolling=0, sip_low=low, sip_high=high, hmac=b"", telling=0)


def strays_in(wanted: list[_Wanted], report: "SearchReport") -> Iterator[Stray]:
    """Tombstones whose partition has no value of their key while the last record that another has
    of it is a value."""
    last = {
        (each.print_index, each.partition, each.offset): each.is_tombstone for each in report.places
    }
    for index, (tp, offset, _) in enumerate(wanted):
        spans = {each.partition: each for each in report.spans_of(index)}
        own = spans.pop(tp.partition, None)
        if own is None or own.records > own.tombstones:
            continue
        for number, span in sorted(spans.items()):
            if last.get((index, number, span.last_offset)) is False:
                yield Stray(tp, offset, number)
                break
