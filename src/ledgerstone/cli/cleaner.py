"""`ledgerstone cleaner`: past passes, and how clean each partition is. Shell."""

from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from ledgerstone.cli.admin_http import apis_of, topic_path
from ledgerstone.cli.lazy import new_app
from ledgerstone.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    JsonOption,
    TopicArgument,
    connect,
)
from ledgerstone.cli.output import Cell, flush, show_time, write_json, write_rows

app = new_app("Show the cleaner's passes and how clean the partitions of a topic are.")

_RUN_COLUMNS = (
    "topic", "partition", "ended", "outcome", "reason", "end_offset", "bytes_in", "bytes_out",
    "records_in", "records_out", "stamped", "removed", "ms",
)  # fmt: skip
_STATUS_COLUMNS = (
    "partition", "state", "start", "first_dirty", "uncleanable", "end", "dirty_ratio",
    "fresh_tombstones", "earliest_horizon",
)  # fmt: skip


@app.command("history")
def history(
    topic: Annotated[str | None, typer.Argument(metavar="[TOPIC]")] = None,
    partition: Annotated[int | None, typer.Option("--partition", "-p", min=0)] = None,
    limit: Annotated[int, typer.Option(help="How many passes to show.", min=1)] = 50,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Show recent passes, newest first."""
    with connect(bootstrap) as client:
        apis = apis_of(client)
    runs: list[dict[str, Any]] = []
    for api in apis:
        runs += api.get("cleaner/history" + _query(topic, partition))["runs"]
    runs = sorted(runs, key=lambda run: -int(run["ended_ms"]))[:limit]
    if as_json:
        for run in runs:
            write_json(run)
        flush()
    else:
        write_rows(_RUN_COLUMNS, [_run_row(run) for run in runs], as_json=False)


def _query(topic: str | None, partition: int | None) -> str:
    wanted = {"topic": topic, "partition": partition}
    given = {name: value for name, value in wanted.items() if value is not None}
    return f"?{urlencode(given)}" if given else ""


def _run_row(run: dict[str, Any]) -> tuple[Cell, ...]:
    stats = run["stats"]
    return (
        run["topic"],
        run["partition"],
        show_time(run["ended_ms"]),
        run["outcome"],
        run["detail"] or run["reason"],
        run["end_offset"],
        stats["bytes_read"],
        stats["bytes_written"],
        stats["records_read"],
        stats["records_kept"],
        stats["tombstones_stamped"],
        stats["dropped_tombstones"],
        run["duration_ms"],
    )


@app.command("status")
def status(
    topic: TopicArgument,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Show how far each partition of a topic is cleaned."""
    with connect(bootstrap) as client:
        client.topic(topic)
        apis = apis_of(client)
    found: list[dict[str, Any]] = []
    for api in apis:
        found += api.get(topic_path(topic, "cleaning"))["partitions"]
    if as_json:
        for each in found:
            write_json(each)
        flush()
        return
    rows: list[tuple[Cell, ...]] = [
        (
            each["partition"],
            each["state"],
            each["log_start_offset"],
            each["first_dirty_offset"],
            each["first_uncleanable_offset"],
            each["log_end_offset"],
            f"{each['dirty_ratio']:.3f}",
            each["fresh_tombstones"],
            show_time(each["earliest_horizon_ms"]),
        )
        for each in found
    ]
    write_rows(_STATUS_COLUMNS, rows, as_json=False)
