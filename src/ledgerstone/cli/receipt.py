"""`ledgerstone receipt`: the evidence of one erasure, for people or as it was signed. Shell."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from ledgerstone.cli.admin_http import apis_of
from ledgerstone.cli.erase import write_receipt
from ledgerstone.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, connect
from ledgerstone.cli.output import flush, printable, write_line
from ledgerstone.cli.receipt_keys import pin
from ledgerstone.erasure.receipt import canonical
from ledgerstone.erasure.receipt_text import render


def receipt(
    erasure_id: Annotated[str, typer.Argument(metavar="ID", help="As in ER-….")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the JSON here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The signed JSON, byte by byte.")] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Show the receipt of an erasure: as readable text, or with --json what was signed."""
    with connect(bootstrap) as client:
        api = apis_of(client)[0]
    content = api.get(f"erasures/{erasure_id}/receipt")
    if out is not None:
        pin(write_receipt(api, erasure_id, out))
    if as_json:
        sys.stdout.write(canonical(content).decode("ascii"))
    else:
        for line in render(content).splitlines():
            write_line(printable(line))
    flush()
