"""`ledgerstone tombstones`: pending deletes, and the groups that miss them. Shell."""

from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from ledgerstone.cli.admin_http import AdminCallFailed, apis_of, topic_path
from ledgerstone.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    JsonOption,
    TopicArgument,
    connect,
)
from ledgerstone.cli.output import flush, printable, show_time, write_json, write_line
from ledgerstone.cli.replicas import ReplicasOption, replica_statuses

_NOT_TOPICS: Final = ("show", "ack", "--help")
_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"))


class _ShowByDefault(TyperGroup):
    """`tombstones TOPIC` is short for `tombstones show TOPIC`."""

    # The argument types belong to the click that typer bundles.
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401
        if args and args[0] not in _NOT_TOPICS:
            args = ["show", *args]
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed


app = typer.Typer(
    cls=_ShowByDefault,
    help="Show pending tombstones, groups that hold them, and groups that miss deletes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.command("show")
def show(
    topic: TopicArgument,
    partition: Annotated[int | None, typer.Option("--partition", "-p", min=0)] = None,
    replicas: ReplicasOption = False,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Show a topic's tombstones: pending, held, missed by groups, and near or stray ones."""
    with connect(bootstrap) as client:
        statuses = replica_statuses(client, topic, "tombstones", partition=partition)
    for each in statuses.chosen(every=replicas):
        if as_json:
            write_json(each.to_json())
        else:
            for line in describe(each.status, replica=each.name):
                write_line(line)
    if replicas and not as_json:
        for silent in statuses.silent:
            write_line(printable(f"{topic} {silent}"))
    flush()


@app.command("ack")
def ack(
    topic: TopicArgument,
    group: Annotated[str, typer.Argument(metavar="GROUP")],
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Only this partition.")
    ] = None,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Acknowledge the deletes a group missed, so that it is no longer listed."""
    content: dict[str, Any] = {"group": group}
    if partition is not None:
        content["partition"] = partition
    with connect(bootstrap) as client:
        client.topic(topic)
        apis = apis_of(client)
    path = topic_path(topic, "tombstones/ack")
    acknowledged = sum(int(api.post(path, content)["acknowledged"]) for api in apis)
    if as_json:
        write_json({"acknowledged": acknowledged})
    elif not acknowledged:
        raise AdminCallFailed(f"group {group} is not listed as having missed deletes in {topic}")
    else:
        write_line(f"acknowledged in {acknowledged} partitions")
    flush()


def describe(status: dict[str, Any], *, replica: str = "") -> list[str]:
    """The lines for one partition; the first one names it."""
    name = f"{printable(status['topic'])}-{status['partition']}{replica}"
    removed = "none removed yet"
    if status["removed_below_offset"] is not None:
        removed = (
            f"removed below offset {status['removed_below_offset']}, the last at "
            f"{show_time(status['removed_at_ms'])}"
        )
    lines = [f"{name}: {status['fresh_tombstones']} tombstones await their first pass; {removed}"]
    lines += [f"  pending  {_pending(each)}" for each in status["pending"]]
    lines += [f"  hold     {_hold(each)}" for each in status["holds"]]
    missed = [each["group"] for each in status["missed"]]
    # A group that missed deletes and has none left to read is not safe: its MISSED line says
    # everything.
    margins = [
        each
        for each in status["margins"]
        if each["margin_ms"] is not None or each["group"] not in missed
    ]
    lines += [f"  margin   {_margin(each)}" for each in margins]
    lines += [f"  MISSED   {_missed(each)}" for each in status["missed"]]
    return lines + [f"  near     {line}" for line in _near(status["near"])]


def _pending(tombstones: dict[str, Any]) -> str:
    held = " (held)" if tombstones["is_held"] else ""
    return (
        f"offsets {tombstones['first_offset']} to {tombstones['last_offset']}, horizon "
        f"{show_time(tombstones['earliest_horizon_ms'])}{held}, removable from "
        f"{show_time(tombstones['goes_at_ms'])}"
    )


def _hold(hold: dict[str, Any]) -> str:
    offset = hold["committed_offset"]
    what = "nothing" if offset is None else f"offset {offset}"
    return f"group {printable(hold['group'])} has committed {what}"


def _margin(margin: dict[str, Any]) -> str:
    return (
        f"group {printable(margin['group'])} at offset {margin['committed_offset']}: "
        f"{show_margin(margin['margin_ms'])}"
    )


def show_margin(margin_ms: int | None) -> str:
    """None means the group has read every tombstone."""
    if margin_ms is None:
        return "safe"
    if margin_ms <= 0:
        return "AT RISK NOW"
    for unit_ms, letter in _UNITS:
        if margin_ms >= unit_ms:
            return f"{margin_ms / unit_ms:.1f} {letter}"
    return f"{margin_ms} ms"


def _missed(missed: dict[str, Any]) -> str:
    if missed["group"] == "*":
        return (
            f"any group may have missed deletes between offsets {missed['first_offset']} and "
            f"{missed['last_offset']} ({show_time(missed['at_ms'])}): some coordinators could "
            "not be asked what their groups had read"
        )
    return (
        f"group {printable(missed['group'])} may have missed deletes between offsets "
        f"{missed['first_offset']} and {missed['last_offset']} ({show_time(missed['at_ms'])}); "
        "rebuild its state"
    )


def _near(near: dict[str, Any]) -> list[str]:
    counts = [f"{count} {kind}" for kind, count in near["counts"].items() if count]
    if not counts:
        return []
    lines = [f"{', '.join(counts)} since the broker started"]
    for each in near["samples"]:
        where = (
            "" if each["live_in"] is None else f", its key is live in partition {each['live_in']}"
        )
        lines.append(f"offset {each['offset']} {each['kind']} ({show_time(each['at_ms'])}){where}")
    return lines
