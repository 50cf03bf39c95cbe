"""Logs and directories as facts: every batch, every record, and what is wrong with them.

Grade D, read-only. Yields facts one by one and holds one window of a log at a time, so a file of
any size can be dumped. Bad bytes are a `Problem` among the facts, never an exception: the dump goes
on with the next batch and the next file. Files other than logs are in `dump_files`; docs/dump.md
lists the fields of all facts.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import ClassVar

from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import CorruptFile, KafkaError, StorageError
from ledgerstone.fs import Filesystem, join, name_of
from ledgerstone.storage import filenames
from ledgerstone.storage.dump_facts import FileFact, FileFormat, Problem, format_of, identify
from ledgerstone.storage.dump_files import dump_small_file
from ledgerstone.storage.dump_log import (
    BatchFacts,
    DumpOptions,
    LogTotals,
    RecordFacts,
    dump_log,
)
from ledgerstone.storage.filenames import Kind, parse_file_name, parse_partition_dir
from ledgerstone.types import INT64_MAX, NO_TIMESTAMP


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTotals:
    """Sums over the live segments of a partition's directory."""

    type: ClassVar[str] = "partition"
    path: str
    topic: str | None  # None if the directory's name does not say
    partition: int | None
    state: str
    segment_count: int
    base_offset: int
    next_offset: int
    batch_bytes: int
    batch_count: int
    record_count: int
    tombstone_count: int
    pending_horizon_count: int
    earliest_delete_horizon_ms: int | None
    max_timestamp_ms: int


Fact = FileFact | BatchFacts | RecordFacts | LogTotals | PartitionTotals


def dump_path(fs: Filesystem, path: str, options: DumpOptions) -> Iterator[Fact]:
    """Everything under `path`: a file, a partition's directory or a log directory."""
    try:
        if not fs.is_dir(path):
            yield from _dump_file(fs, path, options, asked_for=True)
        elif _is_partition_dir(fs, path):
            yield from _dump_partition(fs, path, options, _wanted(fs.list_dir(path), options))
        else:
            yield from _dump_log_dir(fs, path, options)
    except OSError as error:
        yield _io_problem(path, error)


# -- directories ------------------------------------------------------------------------------


def _is_partition_dir(fs: Filesystem, path: str) -> bool:
    """Decided by its contents: a log directory may well be called `kafka-1`."""
    names = fs.list_dir(path)
    own = (filenames.PARTITION_METADATA, filenames.LEADER_EPOCH_CHECKPOINT)
    if any(name in own or parse_file_name(name) is not None for name in names):
        return True
    return not names and parse_partition_dir(name_of(path)) is not None


def _dump_log_dir(fs: Filesystem, path: str, options: DumpOptions) -> Iterator[Fact]:
    everything = options.deep or options.shows_records
    found_any = False
    for name in fs.list_dir(path):
        entry = join(path, name)
        if not fs.is_dir(entry):
            known = format_of(name) not in (FileFormat.FOREIGN, FileFormat.LOCK)
            found_any = found_any or known
            if options.filters:
                continue
            facts = _dump_file(fs, entry, options)
            yield from facts if everything else _problems(facts)
        elif parse_partition_dir(name) is not None:
            found_any = True
            yield from _dump_inner_partition(fs, entry, options, everything=everything)
    if not found_any:
        reason = "neither a partition's directory nor a log directory"
        yield Problem(path=path, position=0, reason=reason)


def _dump_inner_partition(
    fs: Filesystem, path: str, options: DumpOptions, *, everything: bool
) -> Iterator[Fact]:
    try:
        names = fs.list_dir(path)
    except OSError as error:
        yield _io_problem(path, error)
        return
    if everything:
        yield from _dump_partition(fs, path, options, _wanted(names, options))
        return
    if not options.verify:
        names = [file_name for _, file_name in _live_logs(names)]
    for fact in _dump_partition(fs, path, options, names):
        if isinstance(fact, PartitionTotals | Problem):
            yield fact


def _dump_partition(
    fs: Filesystem, path: str, options: DumpOptions, names: Sequence[str]
) -> Iterator[Fact]:
    totals: list[LogTotals] = []
    for name in names:
        parsed = parse_file_name(name)
        is_live = parsed is not None and not parsed.suffix
        for fact in _dump_file(fs, join(path, name), options):
            yield fact
            if isinstance(fact, LogTotals) and is_live:
                if totals and fact.base_offset < totals[-1].next_offset:
                    reason = f"base offset {fact.base_offset} is below {totals[-1].next_offset},"
                    reason = f"{reason} where the segment before it ends"
                    yield Problem(path=fact.path, position=0, reason=reason)
                totals.append(fact)
    if not options.filters:
        yield _sum_up(path, totals)


def _sum_up(path: str, totals: Sequence[LogTotals]) -> PartitionTotals:
    named = parse_partition_dir(name_of(path))
    horizons = [total.earliest_delete_horizon_ms for total in totals]
    return PartitionTotals(
        path=path,
        topic=None if named is None else named.topic_partition.topic,
        partition=None if named is None else named.topic_partition.partition,
        state="live" if named is None else named.state.name.lower(),
        segment_count=len(totals),
        base_offset=totals[0].base_offset if totals else 0,
        next_offset=totals[-1].next_offset if totals else 0,
        batch_bytes=sum(total.batch_bytes for total in totals),
        batch_count=sum(total.batch_count for total in totals),
        record_count=sum(total.record_count for total in totals),
        tombstone_count=sum(total.tombstone_count for total in totals),
        pending_horizon_count=sum(total.pending_horizon_count for total in totals),
        earliest_delete_horizon_ms=min((h for h in horizons if h is not None), default=None),
        max_timestamp_ms=max((total.max_timestamp_ms for total in totals), default=NO_TIMESTAMP),
    )


def _live_logs(names: Sequence[str]) -> list[tuple[int, str]]:
    parsed = ((parse_file_name(name), name) for name in names)
    return [(p.offset, n) for p, n in parsed if p and p.kind is Kind.LOG and not p.suffix]


def _wanted(names: Sequence[str], options: DumpOptions) -> Sequence[str]:
    """A filter searches logs of every suffix, because files awaiting deletion may hold the key too;
    of the live ones, only those that can hold the requested offsets."""
    if not options.filters:
        return names
    live = _live_logs(names)
    ends = {name: following for (_, name), (following, _) in pairwise(live)}
    wanted = []
    for name in names:
        parsed = parse_file_name(name)
        if parsed is None or parsed.kind is not Kind.LOG:
            continue
        offsets = options.offsets
        is_outside = offsets is not None and (
            parsed.offset >= offsets.stop or ends.get(name, INT64_MAX) <= offsets.start
        )
        if not is_outside:
            wanted.append(name)
    return wanted


# -- files ------------------------------------------------------------------------------------


def _dump_file(
    fs: Filesystem, path: str, options: DumpOptions, *, asked_for: bool = False
) -> Iterator[Fact]:
    try:
        named = identify(fs, path)
        # A snapshot of the metadata has batches, too; its offsets are its own.
        if named.format in (FileFormat.LOG, FileFormat.METADATA_SNAPSHOT):
            yield from dump_log(fs, named, options)
            return
        yield named
        if named.format is not FileFormat.FOREIGN:
            yield from dump_small_file(fs, named, verify=options.verify)
        elif asked_for:
            yield Problem(path=path, position=0, reason="not a file of a log")
    except CorruptFile as error:
        yield Problem(path=error.path, position=error.position, reason=error.reason)
    except (KafkaError, StorageError) as error:
        yield Problem(path=path, position=0, reason=str(error))
    except OSError as error:
        yield _io_problem(path, error)


def _io_problem(path: str, error: OSError) -> Problem:
    return Problem(path=path, position=0, reason=error.strerror or str(error))


def _problems(facts: Iterator[Fact]) -> Iterator[Problem]:
    return (fact for fact in facts if isinstance(fact, Problem))
