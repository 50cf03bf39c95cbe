"""`ledgerstone state`: the keys of a topic, live and deleted, now or at a point in time. Shell.

What is counted, how the checksum is made, the JSON fields and the exit codes are in docs/state.md.
"""

import json
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from ledgerstone.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    JsonOption,
    connect,
    parse_bytes,
    parse_time,
)
from ledgerstone.cli.output import printable
from ledgerstone.cli.state_get import get_key, rows_of_key
from ledgerstone.cli.state_output import ProgressLine, Work, show_key, show_rows, show_summary
from ledgerstone.client.blocking import Client
from ledgerstone.client.isolation_level import IsolationLevel
from ledgerstone.records.kernels.hashing import SEED_SIZE
from ledgerstone.state.points import AtOffset, AtOffsets, AtTime, PointInTime
from ledgerstone.state.rebuild import pieces_of, rebuild, resume
from ledgerstone.state.rows import rows
from ledgerstone.state.snapshot import Snapshot, write_snapshot
from ledgerstone.state.topic_state import (
    StateError,
    TopicState,
)
from ledgerstone.system import OsFilesystem, ReadOnlyFilesystem, SystemClock, SystemDice

# Exit code of a state that may be incomplete; it is still shown.
INCOMPLETE_EXIT: Final = 3

FileOption = Annotated[
    Path | None,
    typer.Option(
        "--snapshot", metavar="FILE", dir_okay=False, help="Resume from this file, and update it."
    ),
]

TopicArgument = Annotated[
    str | None,
    typer.Argument(metavar="[TOPIC]", help="A topic, or `get` and a topic and a key."),
]
NamedArguments = Annotated[
    list[str], typer.Argument(metavar="[TOPIC KEY]", help="After `get`: print this key's value.")
]
ForgetOption = Annotated[
    str | None,
    typer.Option(
        "--forget-deleted-after", metavar="TIME", help="Leave out older tombstones, as in 30d."
    ),
]
WorkOption = Annotated[
    Path | None,
    typer.Option(
        "--work",
        metavar="DIR",
        exists=True,
        file_okay=False,
        help="With `get KEY`: ask the state of a stream operator, without a broker.",
    ),
]


class _Wanted(NamedTuple):
    """What to show, and how."""

    key: bytes | None
    is_list: bool
    deleted: bool
    limit: int | None
    as_json: bool
    full: bool


def state(
    topic: TopicArgument = None,
    named: NamedArguments = [],  # noqa: B006 - typer copies it
    key: Annotated[
        str | None,
        typer.Option(
            "--key", "-k", metavar="TEXT|0xHEX", help="Show whether this key is live or deleted."
        ),
    ] = None,
    listed: Annotated[
        bool, typer.Option("--list", "-l", help="List every live key and its value.")
    ] = False,
    deleted: Annotated[bool, typer.Option("--deleted", help="List deleted keys instead.")] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="List at most this many keys.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="TIME|OFFSET|JSON", help="The state at this point."),
    ] = None,
    snapshot: FileOption = None,
    again: Annotated[
        bool, typer.Option("--rebuild", help="Read everything; ignore the snapshot.")
    ] = False,
    forget: ForgetOption = None,
    from_file: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="FILE", exists=True, dir_okay=False, help="Read only this snapshot."
        ),
    ] = None,
    work: WorkOption = None,
    isolation: Annotated[
        IsolationLevel, typer.Option("--isolation", help="Which records to read.")
    ] = IsolationLevel.READ_COMMITTED,
    full: Annotated[
        bool, typer.Option("--full", help="Show long keys and values in full.")
    ] = False,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Fold a topic to the latest record of each key."""
    if work is not None or named:
        # A topic may be called "get": then nothing comes after it.
        names = [*([] if topic is None else [topic]), *named]
        get_key(names, work, isolation, as_json=as_json, bootstrap=bootstrap)
        return
    wanted_key = None if key is None else parse_bytes(key)
    wanted = _Wanted(wanted_key, listed or deleted, deleted, limit, as_json, full)
    if from_file is not None:
        if topic is not None or snapshot is not None or at is not None:
            raise typer.BadParameter("--from cannot be combined with a topic, --snapshot or --at")
        _show_file(from_file, wanted)
        return
    if topic is None:
        raise typer.BadParameter("name a topic, or a snapshot with --from")
    now_ms = SystemClock().now_ms()
    run = _Run(
        topic=topic,
        at=None if at is None else parse_point(at, now_ms),
        isolation=isolation,
        snapshot=None if snapshot is None else str(snapshot),
        again=again,
        forget_before_ms=None if forget is None else parse_time(forget, now_ms),
    )
    with connect(bootstrap) as client:
        _run(client, run, wanted)


def parse_point(text: str, now_ms: int) -> PointInTime:
    """An offset, an object of offsets by partition, or a time."""
    if text.isdecimal():
        return AtOffset(int(text))
    if not text.startswith("{"):
        return AtTime(parse_time(text, now_ms))
    try:
        content = json.loads(text)
        offsets = {int(partition): offset for partition, offset in content.items()}
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f'{text!r} is not like {{"0": 120, "1": 98}}') from error
    if not all(type(offset) is int for offset in offsets.values()):
        raise typer.BadParameter(f"{text!r}: an offset must be a number")
    return AtOffsets(offsets)


class _Run(NamedTuple):
    topic: str
    at: PointInTime | None
    isolation: IsolationLevel
    snapshot: str | None
    again: bool
    forget_before_ms: int | None


def _run(client: Client, run: _Run, wanted: _Wanted) -> None:
    progress = ProgressLine(client.clock)
    with ExitStack() as stack:
        old = None
        if run.snapshot is not None and Path(run.snapshot).exists() and not run.again:
            old = stack.enter_context(closing(_open_snapshot(run.snapshot)))
            _check_asked(old, run)
        try:
            if old is None:
                found = rebuild(
                    client, run.topic, at=run.at, isolation=run.isolation, progress=progress
                )
            else:
                found = resume(client, old, at=run.at, progress=progress)
        finally:
            progress.end()
        seconds = progress.seconds
        written = None
        if run.snapshot is not None:
            written = _write(client, run, found, old)
        work = Work(progress.bytes, seconds, run.snapshot, written)
        _show(client, found, old, work, wanted)


def _write(client: Client, run: _Run, found: TopicState, old: Snapshot | None) -> int:
    assert run.snapshot is not None, "no file to write"
    try:
        with closing(pieces_of(client, found, old)) as pieces:
            return write_snapshot(
                OsFilesystem(),
                run.snapshot,
                found,
                pieces,
                forget_deleted_before_ms=run.forget_before_ms,
            )
    except OSError as error:
        raise StateError(f"{run.snapshot} cannot be written: {error}") from error


def _open_snapshot(path: str) -> Snapshot:
    try:
        return Snapshot(ReadOnlyFilesystem(), path)
    except OSError as error:
        raise StateError(f"{path} cannot be read: {error}") from error


def _check_asked(old: Snapshot, run: _Run) -> None:
    said = old.manifest
    if (said.topic, said.isolation) != (run.topic, run.isolation):
        raise StateError(
            f"{old.path} is of {said.topic} ({said.isolation.value}), not of {run.topic} "
            f"({run.isolation.value}); use another file, or --rebuild"
        )


def _show_file(path: Path, wanted: _Wanted) -> None:
    clock = SystemClock()
    started_ms = clock.monotonic_ms()
    with closing(_open_snapshot(str(path))) as snapshot:
        found = snapshot.load(seed=SystemDice().random_bytes(SEED_SIZE))
        seconds = (clock.monotonic_ms() - started_ms) / 1000
        work = Work(path.stat().st_size, seconds, None, None)
        _show(None, found, snapshot, work, wanted)


def _show(
    client: Client | None,
    found: TopicState,
    snapshot: Snapshot | None,
    work: Work,
    wanted: _Wanted,
) -> None:
    if wanted.key is not None:
        latest = rows_of_key(client, found, snapshot, wanted.key)
        show_key(wanted.key, latest, as_json=wanted.as_json, full=wanted.full)
    elif wanted.is_list:
        with closing(pieces_of(client, found, snapshot)) as pieces:
            wanted_rows = rows(found, pieces, live=not wanted.deleted, deleted=wanted.deleted)
            show_rows(wanted_rows, limit=wanted.limit, as_json=wanted.as_json, full=wanted.full)
    else:
        show_summary(found, work, as_json=wanted.as_json)
    if not found.is_complete:
        sys.stderr.write(f"ledgerstone: may be incomplete: {printable(str(found.because))}\n")
        raise typer.Exit(INCOMPLETE_EXIT)
