"""`ledgerstone produce`: records from arguments or from lines of standard input. Shell.

A keyed record goes to the partition the Java client would choose, so that a tombstone lands with
the values it deletes. A tombstone is a null value; only --tombstone writes one.
"""

import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Annotated, Final, NamedTuple, TypeVar

import typer

from ledgerstone.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    JsonOption,
    TopicArgument,
    connect,
    parse_bytes,
    parse_pairs,
    parse_time,
)
from ledgerstone.cli.output import flush, printable, write_json, write_line
from ledgerstone.client.producer import ACKS_ALL, NewRecord, Placed, Producer, ProducerConfig
from ledgerstone.client.transactions import TransactionalProducer
from ledgerstone.errors import KafkaError
from ledgerstone.records.batch import Codec
from ledgerstone.system import SystemClock

_ACKS: Final = {"all": ACKS_ALL, "-1": ACKS_ALL, "0": 0, "1": 1}
_CODECS: Final = {codec.name.lower(): codec for codec in Codec}
_READ_BYTES: Final = 1 << 20

T = TypeVar("T")


ValueOption = Annotated[
    str | None,
    typer.Option("--value", "-v", metavar="TEXT|0xHEX", help="Default: lines of stdin."),
]
TombstoneOption = Annotated[
    bool, typer.Option("--tombstone", help="Delete the key: write it with a null value.")
]
SeparatorOption = Annotated[
    str | None,
    typer.Option("--key-separator", metavar="TEXT", help="Splits stdin lines into key and value."),
]
PartitionOption = Annotated[
    int | None, typer.Option("--partition", "-p", min=0, help="Overrides the key's partition.")
]
TimestampOption = Annotated[
    str | None,
    typer.Option("--timestamp", metavar="TIME", help="Record time: ISO 8601, ms, or 2h (ago)."),
]
TransactionalIdOption = Annotated[
    str | None,
    typer.Option(
        "--transactional-id",
        metavar="ID",
        help="Write all records in one transaction; fences earlier producers of the id.",
    ),
]
CommitEveryOption = Annotated[
    int | None,
    typer.Option("--commit-every", min=1, help="Several transactions, of so many records."),
]
AbortOption = Annotated[
    bool, typer.Option("--abort", help="Abort the transaction instead, to try readers.")
]
IdempotentOption = Annotated[
    bool, typer.Option("--idempotent", help="Retries create no duplicates.")
]


def produce(
    topic: TopicArgument,
    key: Annotated[str | None, typer.Option("--key", "-k", metavar="TEXT|0xHEX")] = None,
    value: ValueOption = None,
    tombstone: TombstoneOption = False,
    key_separator: SeparatorOption = None,
    header: Annotated[
        list[str], typer.Option("--header", "-H", metavar="NAME=VALUE", help="Repeatable.")
    ] = [],  # noqa: B006  # typer reads it and makes a new list for each call
    partition: PartitionOption = None,
    timestamp: TimestampOption = None,
    acks: Annotated[str, typer.Option("--acks", metavar="all|1|0")] = "all",
    compression: Annotated[
        str, typer.Option("--compression", metavar="none|gzip|snappy|lz4|zstd")
    ] = "none",
    idempotent: IdempotentOption = False,
    transactional_id: TransactionalIdOption = None,
    commit_every: CommitEveryOption = None,
    abort: AbortOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show only the count.")] = False,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Write one record, or one per line of standard input; show where each went."""
    _check_usage(key, value, key_separator, tombstone=tombstone)
    if transactional_id is None and (commit_every is not None or abort):
        raise typer.BadParameter("--commit-every and --abort need --transactional-id")
    model = NewRecord(
        topic=topic,
        key=None if key is None else parse_bytes(key),
        value=None,
        headers=tuple(map(_header, header)),
        partition=partition,
        timestamp_ms=None if timestamp is None else parse_time(timestamp, SystemClock().now_ms()),
    )
    config = ProducerConfig(
        acks=_one_of("acks", acks, _ACKS),
        codec=_one_of("compression", compression, _CODECS),
        idempotent=idempotent,
    )
    if tombstone:
        groups = iter([[model]])
    elif value is not None:
        groups = iter([[model._replace(value=parse_bytes(value))]])
    else:
        groups = _from_stdin(model, key_separator)
    with connect(bootstrap) as client:
        if transactional_id is None:
            written = 0
            producer = Producer(client, config)
            for records in groups:
                written += _write(producer, records, as_json=as_json, quiet=quiet)
        else:
            written = _write_transactions(
                TransactionalProducer(client, transactional_id, config),
                groups,
                Ending(commit_every, abort),
                as_json=as_json,
                quiet=quiet,
            )
    if quiet:
        _say_count(written, as_json=as_json)
    flush()


def _header(pair: str) -> tuple[str, bytes]:
    """One by one: a record may have several of a name."""
    ((name, text),) = parse_pairs([pair]).items()
    return name, text.encode("utf-8", "surrogateescape")


def _check_usage(
    key: str | None, value: str | None, key_separator: str | None, *, tombstone: bool
) -> None:
    if tombstone and key is None:
        raise typer.BadParameter("--tombstone needs --key")
    if tombstone and value is not None:
        raise typer.BadParameter("--tombstone takes no --value; its value is null")
    if key_separator == "":
        raise typer.BadParameter("--key-separator must not be empty")
    if key_separator is not None and (key is not None or value is not None):
        raise typer.BadParameter("--key-separator is for lines of stdin, without --key and --value")


def _one_of(name: str, text: str, choices: dict[str, T]) -> T:
    if text not in choices:
        raise typer.BadParameter(f"--{name} {text!r} is not one of {', '.join(choices)}")
    return choices[text]


def _from_stdin(model: NewRecord, key_separator: str | None) -> Iterator[list[NewRecord]]:
    """Lines as they arrive: a few at a time from a terminal, many from a file."""
    separator = None if key_separator is None else key_separator.encode()
    rest = b""
    # Unlike read, read1 returns what is available; typeshed does not know that stdin has it.
    read1: Callable[[int], bytes] = sys.stdin.buffer.read1  # type: ignore[union-attr]
    while data := read1(_READ_BYTES):
        *lines, rest = (rest + data).split(b"\n")
        if lines:
            yield [_from_line(model, line, separator) for line in lines]
    if rest:
        yield [_from_line(model, rest, separator)]


def _from_line(model: NewRecord, line: bytes, separator: bytes | None) -> NewRecord:
    line = line.removesuffix(b"\r")
    if separator is None:
        return model._replace(value=line)
    key, found, value = line.partition(separator)
    if not found:
        raise typer.BadParameter(f"line {line[:80]!r} has no separator {separator!r}")
    return model._replace(key=key, value=value)


def _write(producer: Producer, records: list[NewRecord], *, as_json: bool, quiet: bool) -> int:
    """Returns the number of records written. Raises the first error after reporting the rest."""
    placed = 0
    refused: KafkaError | None = None
    for outcome in producer.send(records):
        if not isinstance(outcome, Placed):
            refused = refused or outcome
            continue
        placed += 1
        if not quiet:
            _say_placed(outcome, as_json=as_json)
    flush()
    if refused is not None:
        raise refused
    return placed


class Ending(NamedTuple):
    """When a transaction ends, and how."""

    every: int | None  # records; None: with the input
    is_abort: bool


def _write_transactions(
    producer: TransactionalProducer,
    groups: Iterator[list[NewRecord]],
    ending: Ending,
    *,
    as_json: bool,
    quiet: bool,
) -> int:
    """Returns the number of records written. What is open when something fails is aborted."""
    written = 0
    for batch in _in_transactions(groups, ending.every):
        count = 0
        with producer.begin():
            for records in batch:
                for placed in producer.send(records):
                    count += 1
                    if not quiet:
                        _say_placed(placed, as_json=as_json)
                flush()
            if ending.is_abort:
                producer.abort()
        written += count
        if not quiet:
            _say_ended(producer, count, is_abort=ending.is_abort, as_json=as_json)
    return written


def _in_transactions(
    groups: Iterator[list[NewRecord]], every: int | None
) -> Iterator[Iterator[list[NewRecord]]]:
    """The records of each transaction. A transaction begins with its first record, so that it does
    not time out while the input is silent."""
    if every is None:
        first = next(groups, None)
        if first is not None:
            yield itertools.chain([first], groups)
        return
    records = itertools.chain.from_iterable(groups)
    while taken := list(itertools.islice(records, every)):
        yield iter([taken])


def _say_ended(
    producer: TransactionalProducer, count: int, *, is_abort: bool, as_json: bool
) -> None:
    name, what = producer.transactions.transactional_id, "aborted" if is_abort else "committed"
    if as_json:
        write_json({what: count, "transactional_id": name})
    else:
        write_line(f"{what} {count} records of {printable(name)}")


def _say_placed(placed: Placed, *, as_json: bool) -> None:
    (topic, partition), offset = placed.partition, placed.offset
    if as_json:
        write_json(
            {
                "topic": topic,
                "partition": partition,
                "offset": None if offset < 0 else offset,
                "timestamp_ms": placed.timestamp_ms,
            }
        )
    else:
        write_line(f"{placed.partition} offset={'unknown' if offset < 0 else offset}")


def _say_count(count: int, *, as_json: bool) -> None:
    if as_json:
        write_json({"written": count})
    else:
        write_line(f"{count} records written")
