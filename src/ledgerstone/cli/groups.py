"""`ledgerstone groups`: who reads, how far they are, and moving them elsewhere. Shell."""

from typing import Annotated

import typer

from ledgerstone.cli.lazy import new_app
from ledgerstone.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    JsonOption,
    connect,
    parse_time,
)
from ledgerstone.cli.output import Cell, flush, printable, write_json, write_line, write_rows
from ledgerstone.client import groups
from ledgerstone.client.blocking import Client
from ledgerstone.client.groups import GroupDescription, GroupLag
from ledgerstone.client.offsets import (
    EARLIEST,
    LATEST,
    CommittedOffset,
    commit_offsets,
    committed_offsets,
    list_offsets,
    offsets_at,
)
from ledgerstone.errors import NonEmptyGroup
from ledgerstone.system import SystemClock
from ledgerstone.types import TopicPartition

app = new_app("List and describe groups, move their offsets, delete them.")

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP")]


@app.command("list")
def list_groups(
    as_json: JsonOption = False, bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP
) -> None:
    """List the groups."""
    with connect(bootstrap) as client:
        found = groups.list_groups(client)
    rows: list[tuple[Cell, ...]] = [
        (each.group_id, each.state or None, each.type or None, each.protocol_type or None)
        for each in found
    ]
    write_rows(("group", "state", "type", "protocol"), rows, as_json=as_json)


@app.command("describe")
def describe(
    group: GroupArgument,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Show a group's members and its lag in each partition."""
    with connect(bootstrap) as client:
        described = groups.describe_group(client, group)
        lags = groups.group_lags(client, described)
    if as_json:
        _write_described(described, lags)
    else:
        write_line(
            f"group {printable(group)}  state {described.state}  type {described.type}"
            f"  members {len(described.members)}"
        )
        owners = _owners(described)
        rows: list[tuple[Cell, ...]] = [
            (
                lag.partition.topic,
                lag.partition.partition,
                lag.committed_offset,
                lag.log_start_offset,
                lag.log_end_offset,
                lag.lag,
                "yes" if lag.missed_records else "no",
                owners.get(lag.partition),
            )
            for lag in lags
        ]
        columns = (
            "topic", "partition", "committed", "start_offset", "end_offset", "lag", "missed",
            "member",
        )  # fmt: skip
        write_rows(columns, rows, as_json=False)
    flush()


def _owners(group: GroupDescription) -> dict[TopicPartition, str]:
    return {each: member.member_id for member in group.members for each in member.partitions}


def _write_described(group: GroupDescription, lags: list[GroupLag]) -> None:
    owners = _owners(group)
    write_json(
        {
            "group": group.group_id,
            "state": group.state,
            "type": group.type,
            "assignor": group.assignor,
            "members": [
                {
                    "member_id": member.member_id,
                    "instance_id": member.instance_id,
                    "client_id": member.client_id,
                    "host": member.host,
                }
                for member in group.members
            ],
            "partitions": [
                {
                    "topic": lag.partition.topic,
                    "partition": lag.partition.partition,
                    "committed_offset": lag.committed_offset,
                    "start_offset": lag.log_start_offset,
                    "end_offset": lag.log_end_offset,
                    "lag": lag.lag,
                    "missed": lag.missed_records,
                    "member_id": owners.get(lag.partition),
                }
                for lag in lags
            ],
        }
    )


@app.command("delete")
def delete(
    group_ids: Annotated[list[str], typer.Argument(metavar="GROUP")],
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Delete groups that have no members."""
    with connect(bootstrap) as client:
        for group_id in group_ids:
            groups.delete_group(client, group_id)
            if as_json:
                write_json({"deleted": group_id})
            else:
                write_line(f"deleted group {printable(group_id)}")
    flush()


@app.command("reset-offsets")
def reset_offsets(
    group: GroupArgument,
    topic: Annotated[str, typer.Option("--topic", "-t")],
    to_earliest: Annotated[bool, typer.Option("--to-earliest")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest")] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset", min=0)] = None,
    to_time: Annotated[
        str | None, typer.Option("--to-time", metavar="TIME", help="ISO 8601, ms, or 2h (ago).")
    ] = None,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", help="Only this; may be repeated.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show, change nothing.")] = False,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Move a group without members to other offsets of a topic."""
    chosen = (to_earliest, to_latest, to_offset is not None, to_time is not None)
    if sum(chosen) != 1:
        raise typer.BadParameter(
            "exactly one of --to-earliest, --to-latest, --to-offset and --to-time"
        )
    at = EARLIEST if to_earliest else LATEST
    if to_time is not None:
        at = parse_time(to_time, SystemClock().now_ms())
    with connect(bootstrap) as client:
        partitions = [
            TopicPartition(topic, number) for number in partition or client.topic(topic).partitions
        ]
        if to_offset is None:
            offsets = offsets_at(client, partitions, at)
        else:
            offsets = _bounded(client, partitions, to_offset)
        before = committed_offsets(client, group, partitions)
        if not dry_run:
            _refuse_members(client, group)
            commit_offsets(client, group, {p: CommittedOffset(o) for p, o in offsets.items()})
    rows: list[tuple[Cell, ...]] = [
        (p.topic, p.partition, before[p].offset if p in before else None, offsets[p])
        for p in partitions
    ]
    write_rows(("topic", "partition", "before", "after"), rows, as_json=as_json)


def _bounded(
    client: Client, partitions: list[TopicPartition], offset: int
) -> dict[TopicPartition, int]:
    """The offset, moved into what each log has: a commit outside of it could not be read from."""
    starts = list_offsets(client, dict.fromkeys(partitions, EARLIEST))
    ends = list_offsets(client, dict.fromkeys(partitions, LATEST))
    return {p: min(max(offset, starts[p].offset), ends[p].offset) for p in partitions}


def _refuse_members(client: Client, group: str) -> None:
    """The broker refuses such a commit as well, but with a code that nobody understands."""
    for listed in groups.list_groups(client):
        if listed.group_id == group:
            members = groups.describe_group(client, group).members
            if members:
                raise NonEmptyGroup(f"group {group} has {len(members)} members; stop them first")
