"""Connects a source and its topic: reads the topic back, writes changes to it. Shell.

`catch_up` comes first in every run: it reads back what an earlier run wrote but could not note,
because it was killed or the response was lost, so that it is not written again. `publish` writes
with an idempotent producer and notes only acknowledged records.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from ledgerstone.client.blocking import Client
from ledgerstone.client.configs import Resource, ResourceType, describe_configs
from ledgerstone.client.consumer import records_of
from ledgerstone.client.fetcher import Fetcher
from ledgerstone.client.offsets import EARLIEST, LATEST, list_offsets
from ledgerstone.client.producer import NewRecord, Placed, Producer, ProducerConfig
from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import KafkaError
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.sources.row_bytes import digest
from ledgerstone.pipeline.sources.shadow import Shadow
from ledgerstone.records.record import Record
from ledgerstone.types import TopicPartition

POSITION_HEADER: Final = "ledgerstone-source-position"
_RECORDS_AT_ONCE: Final = 5_000
_POSITION_MARK: Final = "position:"


class FeedChange(NamedTuple):
    """A record to write. `position` is the source's place in its input after it."""

    key: bytes | None
    value: bytes | None
    version: str | None = None
    position: tuple[str, str] | None = None  # a name of the input, and the place in it


@dataclass(slots=True)
class Published:
    written: int = 0
    tombstones: int = 0


class TopicFeed:
    def __init__(self, client: Client, topic: str, shadow: Shadow) -> None:
        self._client = client
        self.topic = topic
        self.shadow = shadow
        self._producer = Producer(client, ProducerConfig(idempotent=True))

    def catch_up(self) -> int:
        """How many records were read back."""
        info = self._client.topic(self.topic)
        partitions = [TopicPartition(self.topic, number) for number in sorted(info.partitions)]
        topic_id = self._client.session.cluster.topic_id(self.topic).hex()
        now_ms = self._client.clock.now_ms()
        starts = list_offsets(self._client, dict.fromkeys(partitions, EARLIEST))
        ends = list_offsets(self._client, dict.fromkeys(partitions, LATEST), isolation_level=1)
        positions = self.shadow.positions()
        is_another = self.shadow.mark("topic_id") not in (None, topic_id) or any(
            positions.get(each.partition, 0) > ends[each].offset for each in partitions
        )
        if is_another or self._is_stale(now_ms):
            # Retention may have removed the records that say how far an input was read, so these
            # places are kept where the topic is the same.
            inputs = {} if is_another else self.input_positions()
            self.shadow.forget_everything()
            for source, place in inputs.items():
                self.shadow.set_mark(_POSITION_MARK + source, place)
            positions = {}
        count = 0
        for each in partitions:
            start = max(positions.get(each.partition, 0), starts[each].offset)
            count += self._read_back(each, start, ends[each].offset)
        self.shadow.set_mark("topic_id", topic_id)
        self.shadow.set_mark("caught_up_ms", str(now_ms))
        self.shadow.save()
        return count

    def _is_stale(self, now_ms: int) -> bool:
        """Whether tombstones may have been removed since."""
        caught_up = self.shadow.mark("caught_up_ms")
        if caught_up is None:
            return False
        return now_ms - int(caught_up) > self._delete_retention_ms() // 2

    def _delete_retention_ms(self) -> int:
        entries = describe_configs(self._client, Resource(ResourceType.TOPIC, self.topic))
        found = {each.name: each.value for each in entries}
        return int(found.get("delete.retention.ms") or 86_400_000)

    def _read_back(self, partition: TopicPartition, start: int, end: int) -> int:
        count = 0
        for fetched in Fetcher(self._client).read_range(partition, start, end):
            for record in records_of(fetched):
                self._note(record)
                count += 1
            self.shadow.set_position(partition.partition, fetched.next_offset)
        self.shadow.set_position(partition.partition, max(start, end))
        return count

    def _note(self, record: Record) -> None:
        for name, value in record.headers:
            if name == POSITION_HEADER and value is not None:
                source, _, place = bytes(value).decode().rpartition(":")
                self._note_place(source, place)
        if record.key is None:
            return
        if record.value is None:
            self.shadow.remove(bytes(record.key))
        else:
            self.shadow.read_back(bytes(record.key), digest(bytes(record.value)))

    def _note_place(self, source: str, place: str) -> None:
        """The furthest counts: one partition is read after the other, and the line that was written
        last may be in any of them."""
        name = _POSITION_MARK + source
        if int(place) > int(self.shadow.mark(name) or 0):
            self.shadow.set_mark(name, place)

    def input_positions(self) -> dict[str, str]:
        return self.shadow.marks(_POSITION_MARK)

    def publish(self, changes: Iterable[FeedChange]) -> Published:
        """Raises PipelineError at the first record that was refused; those before are kept."""
        total = Published()
        remaining = iter(changes)
        while some := list(islice(remaining, _RECORDS_AT_ONCE)):
            outcomes = self._producer.send([self._record(each) for each in some])
            for change, outcome in zip(some, outcomes, strict=True):
                if isinstance(outcome, Placed):
                    self._acknowledged(change)
                    total.written += 1
                    total.tombstones += change.value is None
            self._advance(outcomes)
            self.shadow.save()
            for outcome in outcomes:
                if not isinstance(outcome, Placed):
                    raise PipelineError(f"topic {self.topic}: {outcome}") from outcome
        return total

    def _record(self, change: FeedChange) -> NewRecord:
        headers: tuple[tuple[str, bytes], ...] = ()
        if change.position is not None:
            headers = ((POSITION_HEADER, ":".join(change.position).encode()),)
        return NewRecord(self.topic, change.key, change.value, headers)

    def _acknowledged(self, change: FeedChange) -> None:
        if change.position is not None:
            self.shadow.set_mark(_POSITION_MARK + change.position[0], change.position[1])
        if change.key is None:
            return
        if change.value is None:
            self.shadow.remove(change.key)
        else:
            self.shadow.put(change.key, digest(change.value), change.version)

    def _advance(self, outcomes: Sequence[Placed | KafkaError]) -> None:
        """Past our own records, unless another producer's are among them."""
        positions = self.shadow.positions()
        for partition, offsets in _offsets_by_partition(outcomes):
            start = positions.get(partition, 0)
            if offsets == list(range(start, start + len(offsets))):
                self.shadow.set_position(partition, start + len(offsets))


def _offsets_by_partition(
    outcomes: Sequence[Placed | KafkaError],
) -> Iterator[tuple[int, list[int]]]:
    found: dict[int, list[int]] = {}
    for outcome in outcomes:
        if isinstance(outcome, Placed):
            found.setdefault(outcome.partition.partition, []).append(outcome.offset)
    for partition, offsets in found.items():
        yield partition, sorted(offsets)
