"""`ledgerstone damage`: lists damage found on disk, and acknowledges it. Shell."""

from typing import Annotated, Any

import typer

from ledgerstone.cli.admin_http import AdminCallFailed, apis_of
from ledgerstone.cli.lazy import new_app
from ledgerstone.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, JsonOption, connect
from ledgerstone.cli.output import flush, printable, show_time, write_json, write_line, write_rows

app = new_app("Show damage found on disk, and acknowledge what was lost.")

_COLUMNS = ("partition", "outcome", "file", "position", "bytes", "found", "reason")
# Stands for files outside partitions on the command line.
_NO_PARTITION = "-"


@app.callback(invoke_without_command=True, no_args_is_help=False)
def damage(
    context: typer.Context,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Show damage found on disk, and acknowledge what was lost."""
    if context.invoked_subcommand is not None:
        return
    with connect(bootstrap) as client:
        apis = apis_of(client)
    notes: list[dict[str, Any]] = [note for api in apis for note in api.get("damage")["damage"]]
    if as_json:
        for note in notes:
            write_json(note)
        flush()
        return
    write_rows(
        _COLUMNS,
        [
            (
                note["partition"] or _NO_PARTITION,
                note["outcome"],
                note["path"],
                note["position"],
                note["size_bytes"],
                show_time(note["found_ms"]),
                note["reason"],
            )
            for note in notes
        ],
        as_json=False,
    )


@app.command("acknowledge")
def acknowledge(
    partition: Annotated[
        str,
        typer.Argument(metavar="TOPIC-P", help="The partition; - for files outside partitions."),
    ],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Accept the loss: the partition reopens with its readable records and takes writes again."""
    name = "" if partition == _NO_PARTITION else partition
    with connect(bootstrap) as client:
        apis = apis_of(client)
    count, refusals = 0, []
    for api in apis:
        try:
            count += api.post("damage/acknowledge", {"partition": name})["acknowledged"]
        except AdminCallFailed as error:
            refusals.append(error)
    if not count:
        raise refusals[0]
    write_line(f"{printable(partition)}: {count} acknowledged")
    flush()
