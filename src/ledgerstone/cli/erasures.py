"""`ledgerstone erasures`: requests, their stage, what blocks each, deadlines; cancelling. Shell.

Exit codes: 0; 1 refused; 4 with --overdue: there are some.
"""

import getpass
from collections.abc import Iterator
from typing import Annotated, Any, Final
from urllib.parse import urlencode

import typer

from ledgerstone.cli.admin_http import AdminApi, TokenOption, cluster_api
from ledgerstone.cli.erase import NOT_DONE_EXIT, unverified, verdict
from ledgerstone.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, JsonOption, connect
from ledgerstone.cli.output import (
    flush,
    printable,
    show_time,
    write_json,
    write_line,
    write_rows,
)
from ledgerstone.erasure.receipt_text import output_line

app = typer.Typer(
    help="List erasures; cancel one that is scheduled; help one that cannot end.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
_COLUMNS: Final = ("id", "topic", "status", "deadline", "expected", "alarm", "waits_for")


@app.callback(invoke_without_command=True)
def erasures(
    context: typer.Context,
    overdue: Annotated[bool, typer.Option("--overdue", help="Only those that are late.")] = False,
    topic: Annotated[str | None, typer.Option(help="Only of this topic.")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that are over for good.")
    ] = False,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """List erasures: stage, deadline, when it is expected to be done, and what it waits for."""
    if context.invoked_subcommand is not None:
        return
    with connect(bootstrap) as client:
        api = cluster_api(client)
    query = {} if topic is None else {"topic": topic}
    if overdue:
        query["overdue"] = "1"
    elif not everything:
        query["open"] = "1"
    shown = [*_all(api, query)]
    if as_json:
        for each in shown:
            write_json(each)
        flush()
    elif not shown:
        others = 0 if overdue else _count(api, topic)
        hidden = f"; {others} are over, see --all" if others else ""
        write_line(f"no erasures{' are overdue' if overdue else ' under way'}{hidden}")
        flush()
    else:
        write_rows(_COLUMNS, [_row(each) for each in shown], as_json=False)
    if overdue and shown:
        raise typer.Exit(NOT_DONE_EXIT)


def _all(api: AdminApi, query: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Every page of the list, the newest first."""
    while True:
        page = api.get(f"erasures?{urlencode(query)}")
        yield from page["erasures"]
        # An older broker tells no more than one page.
        last = page.get("next")
        if last is None:
            return
        query = {**query, "after": last}


def _count(api: AdminApi, topic: str | None) -> int:
    query = {"limit": "0", **({} if topic is None else {"topic": topic})}
    return int(api.get(f"erasures?{urlencode(query)}")["total"])


def _row(erasure: dict[str, Any]) -> list[str | int | None]:
    alarm = "OVERDUE" if erasure["is_overdue"] else "at risk" if erasure["will_miss"] else None
    because = erasure["because"] if alarm else None
    return [
        erasure["id"],
        erasure["topic"],
        f"{erasure['status']}{unverified(erasure)}",
        _time(erasure["deadline_ms"]),
        _time(erasure["expected_done_ms"]),
        alarm,
        erasure["note"] or because or erasure["waits_for"],
    ]


def _time(time_ms: int | None) -> str | None:
    return None if time_ms is None else show_time(time_ms)


@app.command("show")
def show(
    erasure_id: Annotated[str, typer.Argument(metavar="ID")],
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Show one erasure: its stages and what it waits for."""
    with connect(bootstrap) as client:
        erasure = cluster_api(client).get(f"erasures/{erasure_id}")
    if as_json:
        write_json(erasure)
    else:
        for each in erasure["stages"]:
            write_line(f"{show_time(each['at_ms'])}  {each['stage']}")
        for line in (*_found(erasure), *_outputs(erasure)):
            write_line(printable(line))
        write_line(f"{erasure['id']} {printable(verdict(erasure))}")
    flush()


def _found(erasure: dict[str, Any]) -> Iterator[str]:
    """What stands in the way, file by file, as `accept --file` takes it."""
    found = erasure["found"] or {"residue_files": (), "troubles": ()}
    for each in found["residue_files"]:
        yield f"found    {each['hits']} times in {each['file']}{_on_broker(each)}"
    for each in found["troubles"]:
        yield f"trouble  {each['file']}{_on_broker(each)}: {each['why']}"
    for each in erasure["exceptions"]:
        yield f"accepted {each['file']}{_on_broker(each)}, by {each['by']}: {each['reason']}"
    for each in erasure.get("brokers", ()):
        if each["trouble"]:
            yield f"broker   {each['broker']} is not scanned: {each['trouble']}"
    for each in erasure.get("lost_brokers", ()):
        yield f"given up broker {each['broker_id']}, by {each['by']}: {each['reason']}"


def _on_broker(each: dict[str, Any]) -> str:
    return "" if each.get("node_id") is None else f" on broker {each['node_id']}"


def _outputs(erasure: dict[str, Any]) -> Iterator[str]:
    for each in erasure.get("outputs", ()):
        yield f"output   {output_line(each)}"
    for each in erasure.get("supplements", ()):
        of_group = f", group {each['group']}" if each["group"] else ""
        yield f"supplement {each['number']}: {each['verifier']}{of_group}: {each['verdict']}"


@app.command("accept")
def accept(
    erasure_id: Annotated[str, typer.Argument(metavar="ID")],
    reason: Annotated[str, typer.Option("--reason", help="Why; it stands in the receipt.")],
    file: Annotated[
        str | None,
        typer.Option("--file", help="As `erasures show` names it; what is there may stay."),
    ] = None,
    broker: Annotated[
        int | None,
        typer.Option(
            help="Whose file, if several brokers have it. Without --file: the broker is destroyed "
            "and is never scanned; the receipt names it."
        ),
    ] = None,
    by_user: Annotated[
        str | None, typer.Option("--by-user", help="Who accepts; the user of this system.")
    ] = None,
    as_json: JsonOption = False,
    token: TokenOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Accept what the last scan found in one file, or that a broker is destroyed: the receipt lists
    it as an exception."""
    if file is None and broker is None:
        raise typer.BadParameter("either --file or --broker")
    content = {"file": file or "", "broker": broker, "reason": reason}
    _say(erasure_id, "accept", content, by_user, as_json, token, bootstrap)


@app.command("abandon")
def abandon(
    erasure_id: Annotated[str, typer.Argument(metavar="ID")],
    reason: Annotated[str, typer.Option("--reason", help="Why; it is kept with the erasure.")],
    by_user: Annotated[
        str | None, typer.Option("--by-user", help="Who gives it up; the user of this system.")
    ] = None,
    as_json: JsonOption = False,
    token: TokenOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Give up an erasure that can no longer be cancelled: it ends without a receipt."""
    _say(erasure_id, "abandon", {"reason": reason}, by_user, as_json, token, bootstrap)


def _say(
    erasure_id: str,
    what: str,
    content: dict[str, Any],
    by_user: str | None,
    as_json: bool,
    token: str | None,
    bootstrap: str,
) -> None:
    with connect(bootstrap) as client:
        api = cluster_api(client, token)
    by = getpass.getuser() if by_user is None else by_user
    erasure = api.post(f"erasures/{erasure_id}/{what}", {"by": by, **content})
    if as_json:
        write_json(erasure)
    else:
        write_line(f"{erasure['id']} {printable(verdict(erasure))}")
    flush()


@app.command("cancel")
def cancel(
    erasure_id: Annotated[str, typer.Argument(metavar="ID")],
    by_user: Annotated[
        str | None, typer.Option("--by-user", help="Who cancels; the user of this system.")
    ] = None,
    as_json: JsonOption = False,
    token: TokenOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Cancel an erasure; possible until its tombstones are about to be written."""
    _say(erasure_id, "cancel", {}, by_user, as_json, token, bootstrap)


@app.command("journal")
def journal(
    acknowledge: Annotated[
        bool, typer.Option("--acknowledge", help="Say that you know of its breaks.")
    ] = False,
    by_user: Annotated[
        str | None, typer.Option("--by-user", help="Who says so; the user of this system.")
    ] = None,
    as_json: JsonOption = False,
    token: TokenOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Show how far the journal of erasures has gone, and what was ever found wrong with it."""
    with connect(bootstrap) as client:
        api = cluster_api(client, token)
    found = api.get("erasures-journal")
    if acknowledge:
        by = getpass.getuser() if by_user is None else by_user
        found = api.post("erasures-journal/acknowledge", {"by": by})
    if as_json:
        write_json(found)
    else:
        write_line(f"{found['erasures']} erasures, last record number {found['sequence']}")
        for each in found["breaks"]:
            by = each["acknowledged_by"]
            known = "OPEN" if by is None else f"acknowledged by {printable(by)}"
            write_line(f"{show_time(each['found_ms'])}  {known}  {printable(each['reason'])}")
    flush()
    if any(each["acknowledged_by"] is None for each in found["breaks"]):
        raise typer.Exit(NOT_DONE_EXIT)


@app.command("public-key")
def public_key(
    fingerprint: Annotated[
        bool, typer.Option("--fingerprint", help="Short enough to be read to somebody.")
    ] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Print the key that receipts are signed with, in hex; keep it where nobody can change it."""
    with connect(bootstrap) as client:
        name = cluster_api(client).get("erasures-public-key")["public_key"]
    if name is not None and fingerprint:
        from ledgerstone.erasure.sealing import fingerprint_of

        name = fingerprint_of(bytes.fromhex(name))
    write_line(name or "none yet: it is made for the first erasure")
    flush()
    if name is None:
        raise typer.Exit(1)
