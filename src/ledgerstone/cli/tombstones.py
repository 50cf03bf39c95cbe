"""`ledgerstone tombstones`: where deletes stand, who has not seen them, who missed some. Shell."""

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

_NOT_TOPICS: Final = ("show", "ack", "--help")
_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"))


class _ShowByDefault(TyperGroup):
    """`tombstones TOPIC` is short for `tombstones show TOPIC`."""

    # The argument types are those of whichever click typer brings along.
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401
        if args and args[0] not in _NOT_TOPICS:
            args = ["show", *args]
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed


app = typer.Typer(
    cls=_ShowByDefault,
    help="Show pending tombstones, who holds them, who may miss or has missed deletes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.command("show")
def show(
    topic: TopicArgument,
    partition: Annotated[int | None, typer.Option("--partition", "-p", min=0)] = None,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Show the tombstones of a topic: pending, held, missed by groups, and what only looks so."""
    with connect(bootstrap) as client:
        client.topic(topic)
        apis = apis_of(client)
    found: list[dict[str, Any]] = []
    for api in apis:
        found += api.get(topic_path(topic, "tombstones"))["partitions"]
    for each in sorted(found, key=lambda one: int(one["partition"])):
        if partition not in (None, each["partition"]):
            continue
        if as_json:
            write_json(each)
        else:
            for line in describe(each):
                write_line(line)
    flush()


@app.command("ack")
def ack(
    topic: TopicArgument,
    group: Annotated[str, typer.Argument(metavar="GROUP")],
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Only this one.")
    ] = None,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Say that the deletes a group missed were dealt with: it is no longer listed."""
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
        raise AdminCallFailed(f"group {group} has missed nothing in {topic} that is listed")
    else:
        write_line(f"forgotten in {acknowledged} partitions")
    flush()


def describe(status: dict[str, Any]) -> list[str]:
    """The lines for one partition; the first one names it."""
    name = f"{printable(status['topic'])}-{status['partition']}"
    removed = "none was removed yet"
    if status["removed_below_offset"] is not None:
        removed = (
            f"removed below offset {status['removed_below_offset']}, the last at "
            f"{show_time(status['removed_at_ms'])}"
        )
    lines = [
        f"{name}: {status['fresh_tombstones']} tombstones wait for their first pass; {removed}"
    ]
    lines += [f"  pending  {_pending(each)}" for each in status["pending"]]
    lines += [f"  hold     {_hold(each)}" for each in status["holds"]]
    missed = [each["group"] for each in status["missed"]]
    # Who missed deletes and has none left to read is not safe: the line about what it missed says
    # all there is to say.
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
        f"{show_time(tombstones['earliest_horizon_ms'])}{held}, goes from "
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
    """None stands for a group that has read every tombstone there is."""
    if margin_ms is None:
        return "safe"
    if margin_ms <= 0:
        return "AT RISK NOW"
    for unit_ms, letter in _UNITS:
        if margin_ms >= unit_ms:
            return f"{margin_ms / unit_ms:.1f} {letter}"
    return f"{margin_ms} ms"


def _missed(missed: dict[str, Any]) -> str:
    return (
        f"group {printable(missed['group'])} may have missed deletes between offsets "
        f"{missed['first_offset']} and {missed['last_offset']} ({show_time(missed['at_ms'])}); "
        "rebuild what it keeps"
    )


def _near(near: dict[str, Any]) -> list[str]:
    counts = [f"{count} {kind}" for kind, count in near["counts"].items() if count]
    if not counts:
        return []
    lines = [f"{', '.join(counts)} since the broker started"]
    for each in near["samples"]:
        where = "" if each["live_in"] is None else f", its key lives in partition {each['live_in']}"
        lines.append(f"offset {each['offset']} {each['kind']} ({show_time(each['at_ms'])}){where}")
    return lines
