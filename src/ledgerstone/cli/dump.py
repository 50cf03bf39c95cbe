"""`ledgerstone dump`: shows the contents of a log's files, for people and for programs. Shell.

The facts come from `storage.dump`; here they become lines. Raw data never reaches the terminal:
unprintable bytes are escaped or shown in hex, and no markup is interpreted. The options, the JSON
fields and the exit codes are in docs/dump.md.
"""

import dataclasses
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, NamedTuple

import typer
from rich.console import Console
from rich.text import Text

from ledgerstone.cli.dump_metadata import MetadataFacts, with_metadata
from ledgerstone.cli.dump_transactions import TransactionFacts, with_transactions
from ledgerstone.cli.output import OutputClosed, printable, show_bytes, show_time
from ledgerstone.storage.dump import Fact, PartitionTotals, dump_path
from ledgerstone.storage.dump_facts import FileFacts, Problem
from ledgerstone.storage.dump_log import BatchFacts, DumpOptions, LogTotals, RecordFacts
from ledgerstone.system import ReadOnlyFilesystem
from ledgerstone.types import (
    INT64_MAX,
    NO_LEADER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
)


class StyledText(NamedTuple):
    """A piece of a line; the style applies only on a terminal."""

    text: str
    style: str = ""


# -- facts as lines ---------------------------------------------------------------------------


Shown = Fact | TransactionFacts | MetadataFacts


def to_json(fact: Shown) -> str:
    fields = {f.name: _plain(getattr(fact, f.name)) for f in dataclasses.fields(fact)}
    return json.dumps({"type": fact.type, **fields})


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def to_parts(fact: Shown, *, full: bool) -> Iterator[StyledText]:
    match fact:
        case Problem():
            yield StyledText("PROBLEM ", "bold red")
            yield StyledText(f"{printable(fact.path)} at {fact.position}: {printable(fact.reason)}")
        case FileFacts():
            yield StyledText(printable(fact.path), "bold")
            yield StyledText(f"  {fact.format} bytes={fact.size_bytes}")
        case BatchFacts():
            yield from _batch_parts(fact)
        case RecordFacts():
            yield from _record_parts(fact, full=full)
        case TransactionFacts():
            yield from _transaction_parts(fact)
        case MetadataFacts():
            yield StyledText(f"      {fact.record}", "magenta")
            yield StyledText(f" {printable(json.dumps(fact.fields, ensure_ascii=False))}")
        case PartitionTotals():
            yield StyledText(printable(fact.path), "bold")
            yield StyledText(f" {_show_fields(fact, ('path', 'topic', 'partition'))}")
        case LogTotals():
            yield StyledText(f"  total {_show_fields(fact, ('path',))}")
        case _:
            yield StyledText(f"  {fact.type} {_show_fields(fact, ('path',))}")


def _show_fields(fact: Fact, without: tuple[str, ...]) -> str:
    shown = []
    for field in dataclasses.fields(fact):
        value = getattr(fact, field.name)
        if field.name in without:
            continue
        if field.name.endswith("_ms"):
            shown.append(f"{field.name.removesuffix('_ms')}={show_time(value)}")
        else:
            text = "none" if value is None else printable(str(value))
            shown.append(f"{field.name}={text}")
    return " ".join(shown)


def _batch_parts(batch: BatchFacts) -> Iterator[StyledText]:
    yield StyledText(f"  batch position={batch.position} ")
    yield StyledText(f"offsets={batch.base_offset}-{batch.last_offset}", "cyan")
    yield StyledText(f" records={batch.record_count} bytes={batch.size_bytes} codec={batch.codec}")
    if batch.delete_horizon_ms is None:
        yield StyledText(f" base_time={show_time(batch.base_timestamp_ms)}")
    yield StyledText(f" max_time={show_time(batch.max_timestamp_ms)}")
    if batch.timestamp_type != "create_time":
        yield StyledText(f" {batch.timestamp_type}")
    if batch.leader_epoch != NO_LEADER_EPOCH:
        yield StyledText(f" leader_epoch={batch.leader_epoch}")
    if batch.producer_id != NO_PRODUCER_ID:
        yield StyledText(f" producer={batch.producer_id}/{batch.producer_epoch}")
    if batch.base_sequence != NO_SEQUENCE:
        yield StyledText(f" sequence={batch.base_sequence}-{batch.last_sequence}")
    if batch.is_transactional:
        yield StyledText(" transactional", "magenta")
    if batch.is_control:
        yield StyledText(f" control={batch.control_type or 'none'}", "magenta")
        if batch.coordinator_epoch is not None:
            yield StyledText(f" coordinator_epoch={batch.coordinator_epoch}")
    if batch.tombstone_count is None:
        yield StyledText(" tombstones=unknown", "red")
    elif batch.tombstone_count:
        yield StyledText(f" tombstones={batch.tombstone_count}", "yellow")
    if batch.delete_horizon_ms is not None:
        yield StyledText(f" delete_horizon={show_time(batch.delete_horizon_ms)}", "yellow")
    if not batch.is_valid:
        yield StyledText(" INVALID", "bold red")


def _record_parts(record: RecordFacts, *, full: bool) -> Iterator[StyledText]:
    yield StyledText("    record ")
    yield StyledText(f"offset={record.offset}", "cyan")
    yield StyledText(f" time={show_time(record.timestamp_ms)}")
    yield StyledText(f" key={show_bytes(record.key, full=full)}")
    if record.is_tombstone:
        yield StyledText(" TOMBSTONE", "bold yellow")
    else:
        yield StyledText(f" value={show_bytes(record.value, full=full)}")
    if record.headers:
        shown = (
            f"{show_bytes(key.encode(), full=full)}: {show_bytes(value, full=full)}"
            for key, value in record.headers
        )
        yield StyledText(f" headers={{{', '.join(shown)}}}")


def _transaction_parts(said: TransactionFacts) -> Iterator[StyledText]:
    named = show_bytes(said.transactional_id.encode(), full=True)
    yield StyledText(f"      transactional_id={named}")
    if said.state is None:
        yield StyledText(" EXPIRED", "bold yellow")
        return
    yield StyledText(f" {said.state}", "magenta")
    yield StyledText(f" producer={said.producer_id}/{said.producer_epoch}")
    if said.previous_producer_id != NO_PRODUCER_ID:
        yield StyledText(f" previous_producer={said.previous_producer_id}")
    if said.next_producer_id != NO_PRODUCER_ID:
        yield StyledText(f" next_producer={said.next_producer_id}")
    yield StyledText(f" timeout={said.timeout_ms}ms client_version={said.client_version}")
    if said.start_ms >= 0:
        yield StyledText(f" started={show_time(said.start_ms)}")
    yield StyledText(f" updated={show_time(said.last_update_ms)}")
    if said.partitions:
        yield StyledText(f" partitions={printable(','.join(said.partitions))}")


# -- the command ------------------------------------------------------------------------------


def parse_key(text: str) -> bytes:
    if not text.startswith("0x"):
        return text.encode("utf-8", "surrogateescape")
    try:
        return bytes.fromhex(text[2:])
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not hex after 0x") from error


def parse_offsets(text: str) -> range:
    """Half-open; either side may be omitted."""
    start, colon, end = text.partition(":")
    if not colon or not all(re.fullmatch(r"[0-9]{0,19}", side) for side in (start, end)):
        raise typer.BadParameter(
            f"{text!r} is not A:B (the first offset, and the one after the last)"
        )
    offsets = range(int(start or 0), int(end or INT64_MAX))
    if not offsets:
        raise typer.BadParameter(f"{text!r} is an empty range")
    return offsets


def _printer(*, as_json: bool, full: bool) -> Callable[[Shown], object]:
    if as_json:
        return lambda fact: sys.stdout.write(to_json(fact) + "\n")
    console = Console(markup=False, highlight=False, emoji=False)
    if console.is_terminal:
        return lambda fact: console.print(Text.assemble(*to_parts(fact, full=full)), soft_wrap=True)
    # Rich takes longer to lay out a line than we take to find its contents.
    return lambda fact: sys.stdout.write("".join(p.text for p in to_parts(fact, full=full)) + "\n")


def _print_all(
    paths: Iterable[str],
    options: DumpOptions,
    show: Callable[[Shown], object],
    *,
    shows_secrets: bool,
) -> int:
    """Prints every fact as it is found; returns the number of problems."""
    fs = ReadOnlyFilesystem()
    problem_count = 0
    try:
        for path in paths:
            facts = dump_path(fs, path.rstrip("/") or "/", options)
            found = with_metadata(with_transactions(facts), shows_secrets=shows_secrets)
            for fact in found:
                problem_count += isinstance(fact, Problem)
                show(fact)
        sys.stdout.flush()
    except BrokenPipeError as error:
        raise OutputClosed from error
    return problem_count


def dump(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH",
            help="Any file of a log, a partition's directory, or a log directory.",
        ),
    ],
    records: Annotated[bool, typer.Option("--records", help="Show every record.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Show long keys and values in full.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object per line; bytes in hex.")
    ] = False,
    deep: Annotated[
        bool,
        typer.Option("--deep", help="For a log directory, show every file, not a summary."),
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Also check every index against its log.")
    ] = False,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="TEXT|0xHEX", help="Only records with this key."),
    ] = None,
    offsets: Annotated[
        str | None,
        typer.Option(
            "--offsets", metavar="A:B", help="Only offsets from A up to but not including B."
        ),
    ] = None,
    secrets: Annotated[
        bool,
        typer.Option("--secrets", help="Show keys of users and passwords in the metadata, too."),
    ] = False,
) -> None:
    """Show the contents of a log's files. Exit code 1 if anything in them is bad."""
    if verify and (key is not None or offsets is not None):
        raise typer.BadParameter("--verify checks everything; omit --key and --offsets")
    options = DumpOptions(
        records=records,
        deep=deep,
        verify=verify,
        key=None if key is None else parse_key(key),
        offsets=None if offsets is None else parse_offsets(offsets),
    )
    missing = [path for path in paths if not os.path.exists(path)]
    for path in missing:
        sys.stderr.write(f"ledgerstone: {printable(path)}: no such file or directory\n")
    if missing:
        raise typer.Exit(2)
    show = _printer(as_json=as_json, full=full)
    problem_count = _print_all(paths, options, show, shows_secrets=secrets)
    if problem_count:
        sys.stderr.write(f"ledgerstone: {problem_count} problems\n")
        raise typer.Exit(1)
