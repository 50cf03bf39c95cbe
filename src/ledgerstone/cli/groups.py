"""`ledgerstone groups`: groups, their lag, and moving their offsets. Shell."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any
from urllib.parse import quote

import typer

from ledgerstone.cli.admin_http import apis_by_node
from ledgerstone.cli.lazy import new_app
from ledgerstone.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    JsonOption,
    connect,
    parse_time,
)
from ledgerstone.cli.output import Cell, flush, printable, write_json, write_line, write_rows
from ledgerstone.cli.tombstones import show_margin
from ledgerstone.client import groups, offsets
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
from ledgerstone.errors import LedgerstoneError, NonEmptyGroup
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
        deletes = _deletes(client, group)
    if as_json:
        _write_described(described, lags, deletes)
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
                verdict(lag, deletes.get(lag.partition)),
                owners.get(lag.partition),
            )
            for lag in lags
        ]
        columns = (
            "topic", "partition", "committed", "start_offset", "end_offset", "lag", "deletes",
            "member",
        )  # fmt: skip
        write_rows(columns, rows, as_json=False)
    flush()


def _owners(group: GroupDescription) -> dict[TopicPartition, str]:
    return {each: member.member_id for member in group.members for each in member.partitions}


def _deletes(client: Client, group: str) -> dict[TopicPartition, dict[str, Any]]:
    """What the brokers report about tombstones the group has not read; of each partition its
    leader, if that reports. Empty if they have no HTTP API or do not advertise it: the rest of the
    output does not need it."""
    found: dict[TopicPartition, dict[str, Any]] = {}
    with suppress(LedgerstoneError):
        for node_id, api in apis_by_node(client).items():
            for each in api.get(f"groups/{quote(group, safe='')}/tombstones")["partitions"]:
                partition = TopicPartition(each["topic"], each["partition"])
                if client.session.cluster.leader_of(partition) == node_id:
                    found[partition] = each
                else:
                    found.setdefault(partition, each)
    return found


def verdict(lag: GroupLag, deletes: dict[str, Any] | None) -> str | None:
    """One verdict on the deletes the group had to read. Missed ones come first, and a group that
    missed any is never called safe. None: no broker reported."""
    parts = []
    if lag.missed_records:
        parts.append(f"MISSED what was before {lag.log_start_offset}")
    missed = None if deletes is None else deletes["missed"]
    if missed is not None:
        parts.append(f"MAY HAVE MISSED {missed['first_offset']} to {missed['last_offset']}")
    if deletes is not None and (deletes["margin_ms"] is not None or not parts):
        margin = show_margin(deletes["margin_ms"])
        parts.append(margin if not parts else f"next {margin}")
    return "; ".join(parts) or None


def _has_missed(lag: GroupLag, deletes: dict[str, Any] | None) -> bool:
    return lag.missed_records or (deletes is not None and deletes["missed"] is not None)


def _write_described(
    group: GroupDescription,
    lags: list[GroupLag],
    deletes: Mapping[TopicPartition, dict[str, Any]],
) -> None:
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
                    "missed": _has_missed(lag, deletes.get(lag.partition)),
                    "missed_records": lag.missed_records,
                    "tombstone_margin_ms": deletes.get(lag.partition, {}).get("margin_ms"),
                    "missed_deletes": deletes.get(lag.partition, {}).get("missed"),
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
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the log start.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the log end.")] = False,
    to_offset: Annotated[
        int | None, typer.Option("--to-offset", min=0, help="To this offset.")
    ] = None,
    shift_by: Annotated[
        int | None,
        typer.Option("--shift-by", help="Relative to its current offset; negative moves back."),
    ] = None,
    to_time: Annotated[
        str | None,
        typer.Option("--to-time", metavar="TIME", help="Move to: ISO 8601, ms, or 2h (ago)."),
    ] = None,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", help="Only this partition; repeatable.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the result; change nothing.")
    ] = False,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Move a group without members to other offsets of a topic."""
    where = (to_offset, shift_by, to_time)
    if sum((to_earliest, to_latest, *(each is not None for each in where))) != 1:
        raise typer.BadParameter(
            "give exactly one of --to-earliest, --to-latest, --to-offset, --to-time and --shift-by"
        )
    at = EARLIEST if to_earliest else LATEST
    if to_time is not None:
        at = parse_time(to_time, SystemClock().now_ms())
    with connect(bootstrap) as client:
        partitions = [
            TopicPartition(topic, number) for number in partition or client.topic(topic).partitions
        ]
        before = committed_offsets(client, group, partitions)
        if shift_by is not None:
            targets = _bounded(client, _shifted(group, partitions, before, shift_by))
        elif to_offset is not None:
            targets = _bounded(client, dict.fromkeys(partitions, to_offset))
        else:
            targets = offsets_at(client, partitions, at)
        if not dry_run:
            _refuse_members(client, group)
            commit_offsets(client, group, {p: CommittedOffset(o) for p, o in targets.items()})
    rows: list[tuple[Cell, ...]] = [
        (p.topic, p.partition, before[p].offset if p in before else None, targets[p])
        for p in partitions
    ]
    write_rows(("topic", "partition", "before", "after"), rows, as_json=as_json)


def _shifted(
    group: str,
    partitions: list[TopicPartition],
    before: Mapping[TopicPartition, CommittedOffset],
    shift_by: int,
) -> dict[TopicPartition, int]:
    for each in partitions:
        if each not in before:
            raise typer.BadParameter(f"--shift-by: group {group} has no offset for {each}")
    return {each: before[each].offset + shift_by for each in partitions}


def _bounded(client: Client, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Clamps to each log's range: reading from a commit outside it would fail."""
    starts = list_offsets(client, dict.fromkeys(offsets, EARLIEST))
    ends = list_offsets(client, dict.fromkeys(offsets, LATEST))
    return {p: min(max(each, starts[p].offset), ends[p].offset) for p, each in offsets.items()}


@app.command("delete-offsets")
def delete_offsets(
    group: GroupArgument,
    topic: Annotated[str, typer.Option("--topic", "-t")],
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", help="Only this partition; repeatable.")
    ] = None,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Delete a group's committed offsets for a topic that none of its members reads."""
    with connect(bootstrap) as client:
        numbers = partition or list(client.topic(topic).partitions)
        wanted = [TopicPartition(topic, number) for number in numbers]
        before = committed_offsets(client, group, wanted)
        offsets.delete_offsets(client, group, wanted)
    rows: list[tuple[Cell, ...]] = [
        (*each, before[each].offset) for each in wanted if each in before
    ]
    write_rows(("topic", "partition", "deleted_offset"), rows, as_json=as_json)


def _refuse_members(client: Client, group: str) -> None:
    """The broker refuses such a commit too, but with a cryptic error code."""
    for listed in groups.list_groups(client):
        if listed.group_id == group:
            members = groups.describe_group(client, group).members
            if members:
                raise NonEmptyGroup(f"group {group} has {len(members)} members; stop them first")
