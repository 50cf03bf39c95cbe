"""`ledgerstone receipt`: the evidence of one erasure, for people or as it was signed. Shell.

Supplements follow the receipt; with --out they are written beside it.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from ledgerstone.cli.admin_http import cluster_api
from ledgerstone.cli.erase import write_receipt
from ledgerstone.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, connect
from ledgerstone.cli.output import flush, printable, write_line
from ledgerstone.cli.receipt_keys import pin
from ledgerstone.cli.supplements import supplements_of, write_supplements
from ledgerstone.erasure.receipt import canonical
from ledgerstone.erasure.receipt_text import render
from ledgerstone.erasure.supplement import together


def receipt(
    erasure_id: Annotated[str, typer.Argument(metavar="ID", help="As in ER-….")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the JSON here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The signed JSON, byte by byte.")] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Show the receipt of an erasure and its supplements; with --json what was signed.

    --out also writes each supplement beside the receipt, for `verify-receipt`."""
    with connect(bootstrap) as client:
        api = cluster_api(client)
    content = api.get(f"erasures/{erasure_id}/receipt")
    if out is not None:
        pin(write_receipt(api, erasure_id, out))
        write_supplements(api, erasure_id, out)
    if as_json:
        sys.stdout.write(canonical(content).decode("ascii"))
    else:
        for line in render(content).splitlines():
            write_line(printable(line))
        for line in together(content, supplements_of(api, erasure_id)):
            write_line(printable(line))
    flush()
