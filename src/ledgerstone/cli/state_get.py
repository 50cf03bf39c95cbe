"""`ledgerstone state get`: the value of one key, as a client would fold it. Shell.

Of a topic, or of the work directory of a stream operator, which needs no broker. docs/state.md.
"""

import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, NoReturn

import typer

from ledgerstone.cli.options import connect, parse_bytes
from ledgerstone.cli.output import flush, printable, show_bytes, write_json, write_line
from ledgerstone.cli.state_output import ProgressLine, row_fields
from ledgerstone.client.blocking import Client
from ledgerstone.client.isolation_level import IsolationLevel
from ledgerstone.state.rebuild import pieces_at, rebuild
from ledgerstone.state.rows import Row, row_at
from ledgerstone.state.snapshot import Snapshot
from ledgerstone.state.topic_state import StateError, TopicState

# Exit code where a key has no value: it was deleted, or never seen.
NO_VALUE_EXIT: Final = 4
_GET: Final = "get"


def get_key(
    names: Sequence[str],
    work: Path | None,
    isolation: IsolationLevel,
    *,
    as_json: bool,
    bootstrap: str,
) -> None:
    if list(names[:1]) != [_GET] or len(names) != (3 if work is None else 2):
        raise typer.BadParameter("say `state get TOPIC KEY`, or `state get KEY --work DIR`")
    key = parse_bytes(names[-1])
    if work is not None:
        _get_from_work(str(work), key)
    else:
        with connect(bootstrap) as client:
            _get_from_topic(client, names[1], key, isolation, as_json=as_json)
    flush()


def _get_from_topic(
    client: Client, topic: str, key: bytes, isolation: IsolationLevel, *, as_json: bool
) -> None:
    progress = ProgressLine(client.clock)
    try:
        found = rebuild(client, topic, isolation=isolation, progress=progress)
    finally:
        progress.end()
    latest = rows_of_key(client, found, None, key)
    if not latest:
        _say_missing(key, "never seen: not written, or compacted away")
    # Offsets of different partitions say nothing about order.
    row = max(latest, key=lambda each: (each.timestamp_ms, each.partition))
    if row.value is None:
        _say_missing(key, f"deleted in partition {row.partition} at offset {row.offset}")
    elif as_json:
        write_json(row_fields(row))
    else:
        write_line(printable(row.value.decode("utf-8", "backslashreplace")))


def _get_from_work(work: str, key: bytes) -> None:
    from ledgerstone.pipeline.streams.state_query import state_get

    found = state_get(work, key)
    if found is None:
        _say_missing(key, "not in this state")
    write_json(found)


def _say_missing(key: bytes, why: str) -> NoReturn:
    sys.stderr.write(f"ledgerstone: {show_bytes(key, full=True)} {why}\n")
    raise typer.Exit(NO_VALUE_EXIT)


def rows_of_key(
    client: Client | None, found: TopicState, snapshot: Snapshot | None, key: bytes
) -> list[Row]:
    """Its latest record in each partition that has one."""
    gathered = []
    for partition, (_, offset) in found.lookup(key).items():
        assert offset is not None, "a key that was seen has an offset"
        with closing(pieces_at(client, found, snapshot, partition, offset)) as pieces:
            row = row_at(found, pieces, offset)
        if row is None:
            raise StateError(
                f"{found.topic}-{partition} was compacted while it was read: offset {offset} is "
                "gone; try again"
            )
        gathered.append(row)
    return gathered
