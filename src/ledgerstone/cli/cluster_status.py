"""`ledgerstone cluster status`. Shell."""

import time
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from ledgerstone.cli.cluster_place import ClusterOption, ClusterPlace, DataOption
from ledgerstone.cli.options import JsonOption
from ledgerstone.cli.output import Cell, flush, printable, write_json, write_line, write_rows
from ledgerstone.cluster.survey import ClusterStatus, NodeStatus, survey

SHOWN: Final = 20
_PAUSE_S: Final = 1.0
_COLUMNS: Final = (
    "node",
    "roles",
    "state",
    "leads",
    "replicas",
    "behind",
    "lag",
    "restarts",
    "pid",
    "bootstrap",
    "http",
    "rack",
)


def status(
    data: DataOption = None,
    bootstrap: ClusterOption = None,
    wait: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Wait until all nodes are up and all replicas in sync; exit code 1 if too late.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show nodes, the controller, who leads how much, what is not in sync, and moves under way.

    BEHIND counts replicas that are not in sync, LAG records that the replicas of a node lack."""
    place = ClusterPlace.of(data, bootstrap)
    end_s = time.monotonic() + (wait or 0)
    while not (found := _survey(place)).is_whole and time.monotonic() < end_s:
        typer.echo(f"waits for {_missing(found)}", err=True)
        time.sleep(_PAUSE_S)
    if as_json:
        write_json(found.to_json())
    else:
        _show(found)
    flush()
    if wait is not None and not found.is_whole:
        raise typer.Exit(1)


def _survey(place: ClusterPlace) -> ClusterStatus:
    processes = place.processes()
    with place.client() as client:
        return survey(client, processes)


def _missing(found: ClusterStatus) -> str:
    """The first reason why the cluster is not whole."""
    if found.trouble is not None:
        return f"an answer: {printable(found.trouble)}"
    absent = [str(each.id) for each in found.nodes.values() if each.state != "up"]
    if absent:
        return f"node {', '.join(absent)}"
    if found.under_replicated or found.offline:
        return f"{len(found.under_replicated)} partitions to be in sync"
    return f"{len(found.moves)} moves"


def _show(found: ClusterStatus) -> None:
    write_line(
        f"cluster {found.cluster_id or '-'}  controller {_or_none(found.controller)}"
        f"  partitions {_or_none(found.partitions)}  offline {_or_none(found.offline)}"
        f"  under-replicated {len(found.under_replicated)}  moves {len(found.moves)}"
    )
    if found.trouble is not None:
        write_line(f"the cluster does not answer: {printable(found.trouble)}")
    shows_rack = any(each.rack for each in found.nodes.values())
    columns = _COLUMNS if shows_rack else _COLUMNS[:-1]
    rows = [_row(each, found)[: len(columns)] for each in found.nodes.values()]
    write_rows(columns, rows, as_json=False)
    lines = [
        f"{each.topic}-{each.partition}: leader {_or_none(each.leader)},"
        f" replicas {_ids(each.replicas)}, in sync {_ids(each.isr) or 'none'}"
        for each in found.under_replicated
    ]
    _list("under-replicated", lines)
    moves = [
        f"{each.topic}-{each.partition}: to {_ids(each.adding) or 'nowhere'},"
        f" from {_ids(each.removing) or 'nowhere'}"
        + ("" if each.lag is None else f", {each.lag} records left")
        for each in found.moves
    ]
    _list("moves under way", moves)


def _row(node: NodeStatus, found: ClusterStatus) -> tuple[Cell, ...]:
    state = f"{node.state}, active" if node.id == found.controller else node.state
    return (
        node.id,
        node.roles,
        state,
        node.leads,
        node.replicas,
        node.behind,
        node.lag,
        node.restarts,
        node.pid,
        node.bootstrap,
        node.http,
        node.rack,
    )


def _list(title: str, lines: Sequence[str]) -> None:
    if not lines:
        return
    write_line(f"{title}:")
    for line in lines[:SHOWN]:
        write_line(f"  {printable(line)}")
    if len(lines) > SHOWN:
        write_line(f"  and {len(lines) - SHOWN} more")


def _or_none(number: int | None) -> str:
    return "none" if number is None else str(number)


def _ids(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids))
