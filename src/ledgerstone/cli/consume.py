"""`ledgerstone consume`: prints records as lines, from any starting point. Shell.

Reads committed records and skips aborted transactions. Without --follow it stops at the end offsets
it found at start, so it ends even on a topic that is being written.
"""

from collections.abc import Iterable
from typing import Annotated, Final, NamedTuple

import typer

from ledgerstone.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    JsonOption,
    TopicArgument,
    connect,
    parse_bytes,
    parse_time,
)
from ledgerstone.cli.output import (
    bytes_field,
    flush,
    show_bytes,
    show_time,
    write_json,
    write_line,
)
from ledgerstone.client.blocking import Client
from ledgerstone.client.consumer import Consumed, Consumer
from ledgerstone.client.fetcher import READ_COMMITTED, READ_UNCOMMITTED, FetchConfig, Fetcher
from ledgerstone.client.offsets import (
    EARLIEST,
    LATEST,
    CommittedOffset,
    commit_offsets,
    committed_offsets,
    list_offsets,
    offsets_at,
)
from ledgerstone.errors import UnknownTopicOrPartition
from ledgerstone.system import SystemClock
from ledgerstone.types import TopicPartition

_COMMIT_EVERY_MS: Final = 5_000


def consume(
    topic: TopicArgument,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", "-b", help="Start at the first record.")
    ] = False,
    offset: Annotated[
        int | None, typer.Option("--offset", "-o", min=0, help="Start at this offset.")
    ] = None,
    from_time: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Start at: ISO 8601, ms, or 2h (ago)."),
    ] = None,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", help="Only this partition; repeatable.")
    ] = None,
    max_records: Annotated[
        int | None, typer.Option("--max", "-n", min=1, help="Stop after this many records.")
    ] = None,
    until_end: Annotated[
        bool, typer.Option("--until-end", help="Stop at the end; default if a start is given.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for more; default if no start is given.")
    ] = False,
    key: Annotated[
        str | None,
        typer.Option("--key", "-k", metavar="TEXT|0xHEX", help="Only records with this key."),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option("--group", "-g", help="Resume at this group's offsets, and commit."),
    ] = None,
    uncommitted: Annotated[
        bool, typer.Option("--uncommitted", help="Include open and aborted transactions.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Show long keys and values in full.")
    ] = False,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Read records. Tombstones are shown as TOMBSTONE."""
    if until_end and follow:
        raise typer.BadParameter("give --until-end or --follow, not both")
    start = _Start.of(from_beginning, offset, from_time, group)
    with connect(bootstrap) as client:
        partitions = _partitions(client, topic, partition)
        isolation_level = READ_UNCOMMITTED if uncommitted else READ_COMMITTED
        ends = None
        if until_end or (start.is_given and not follow):
            latest = dict.fromkeys(partitions, LATEST)
            listed = list_offsets(client, latest, isolation_level=isolation_level)
            ends = {each: listed[each].offset for each in partitions}
        fetcher = Fetcher(client, FetchConfig(isolation_level=isolation_level))
        reader = _Reader(
            consumer=Consumer(fetcher, start.positions(client, partitions)),
            ends=ends,
            key=None if key is None else parse_bytes(key),
            max_records=max_records,
            as_json=as_json,
            full=full,
        )
        _run(client, reader, group)


class _Start(NamedTuple):
    """The starting point: a group's offsets, an offset, or a time."""

    group: str | None
    offset: int | None
    at: int  # a time, EARLIEST or LATEST; for a group, used where it has no committed offset
    is_given: bool

    @classmethod
    def of(
        cls, from_beginning: bool, offset: int | None, from_time: str | None, group: str | None
    ) -> "_Start":
        if sum((from_beginning, offset is not None, from_time is not None)) > 1:
            raise typer.BadParameter("give only one of --from-beginning, --offset and --from")
        if from_time is not None:
            at = parse_time(from_time, SystemClock().now_ms())
            return cls(None, None, at, is_given=True)
        if from_beginning or offset is not None:
            return cls(None, offset, EARLIEST, is_given=True)
        # A group without committed offsets starts at the beginning, so that it misses no delete.
        return cls(group, None, LATEST if group is None else EARLIEST, is_given=group is not None)

    def positions(
        self, client: Client, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, int]:
        if self.offset is not None:
            return dict.fromkeys(partitions, self.offset)
        positions = offsets_at(client, partitions, self.at)
        if self.group is not None:
            committed = committed_offsets(client, self.group, partitions)
            positions |= {each: committed[each].offset for each in partitions if each in committed}
        return positions


def _partitions(client: Client, topic: str, numbers: list[int] | None) -> list[TopicPartition]:
    known = client.topic(topic).partitions
    for number in numbers or ():
        if number not in known:
            raise UnknownTopicOrPartition(f"{topic} has {len(known)} partitions, not {number}")
    return [TopicPartition(topic, number) for number in numbers or known]


class _Reader:
    """Polls and prints until it has seen enough."""

    def __init__(
        self,
        *,
        consumer: Consumer,
        ends: dict[TopicPartition, int] | None,
        key: bytes | None,
        max_records: int | None,
        as_json: bool,
        full: bool,
    ) -> None:
        self._consumer = consumer
        self._ends = ends
        self._key = key
        self._left = max_records
        self._as_json = as_json
        self._full = full
        # Where the group resumes: after the last record printed, not the last one fetched.
        self.seen = dict(consumer.positions)
        self._began = dict(consumer.positions)
        self._drop_finished()

    @property
    def is_done(self) -> bool:
        return self._left == 0 or not self._consumer.positions

    def step(self) -> None:
        for consumed in self._consumer.poll():
            self._show(consumed)
            if self._left == 0:
                break
        else:
            self.seen |= self._consumer.positions
        self._drop_finished()
        flush()

    def _show(self, consumed: Consumed) -> None:
        partition, record = consumed
        if self._ends is not None and record.offset >= self._ends[partition]:
            return
        self.seen[partition] = record.offset + 1
        if self._key is not None and record.key != self._key:
            return
        if self._left is not None:
            self._left -= 1
        if self._as_json:
            write_json(to_json(consumed))
        else:
            write_line(to_line(consumed, full=self._full))

    def _drop_finished(self) -> None:
        for partition, end_offset in (self._ends or {}).items():
            if self._consumer.positions.get(partition, -1) >= end_offset:
                # A group may be further: it has also read what is not committed yet.
                furthest = max(end_offset, self._began[partition])
                self.seen[partition] = min(self.seen[partition], furthest)
                del self._consumer.positions[partition]


def _run(client: Client, reader: _Reader, group: str | None) -> None:
    committed: dict[TopicPartition, int] = {}
    commit_at_ms = client.clock.monotonic_ms() + _COMMIT_EVERY_MS
    try:
        while not reader.is_done:
            reader.step()
            if group is not None and client.clock.monotonic_ms() >= commit_at_ms:
                committed = _commit(client, group, reader.seen, committed)
                commit_at_ms = client.clock.monotonic_ms() + _COMMIT_EVERY_MS
    except KeyboardInterrupt:
        pass  # Ctrl-C is how --follow ends
    if group is not None:
        _commit(client, group, reader.seen, committed)


def _commit(
    client: Client,
    group: str,
    seen: dict[TopicPartition, int],
    committed: dict[TopicPartition, int],
) -> dict[TopicPartition, int]:
    if seen != committed:
        commit_offsets(client, group, {each: CommittedOffset(at) for each, at in seen.items()})
    return dict(seen)


def to_json(consumed: Consumed) -> dict[str, object]:
    (topic, partition), record = consumed.partition, consumed.record
    return {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        **bytes_field("key", record.key),
        **bytes_field("value", record.value),
        "tombstone": record.value is None,
        "headers": _headers_json(record.headers),
    }


def _headers_json(headers: Iterable[tuple[str, bytes | None]]) -> list[dict[str, str | None]]:
    return [{"name": name, **bytes_field("value", value)} for name, value in headers]


def to_line(consumed: Consumed, *, full: bool = False) -> str:
    record = consumed.record
    value = "TOMBSTONE" if record.value is None else show_bytes(record.value, full=full)
    line = (
        f"{consumed.partition} offset={record.offset} time={show_time(record.timestamp)}"
        f" key={show_bytes(record.key, full=full)} {value}"
    )
    if record.headers:
        shown = ", ".join(
            f"{show_bytes(name.encode(), full=full)}: {show_bytes(content, full=full)}"
            for name, content in record.headers
        )
        line += f" headers={{{shown}}}"
    return line
