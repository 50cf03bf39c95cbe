"""`ledgerstone verify-receipt`: whether a receipt is what was signed; needs no broker. Shell.

Exit codes: 0 it holds; 1 it does not, and the text says why; 2 usage.
"""

from pathlib import Path
from typing import Annotated

import typer

from ledgerstone.cli.key_options import (
    KeyBase64Option,
    KeyFileOption,
    KeyHexOption,
    read_key,
)
from ledgerstone.cli.options import JsonOption
from ledgerstone.cli.output import flush, printable, write_json, write_line
from ledgerstone.erasure.receipt import parse, verify
from ledgerstone.erasure.receipt_text import render
from ledgerstone.erasure.sealing import public_key_of
from ledgerstone.erasure.secrets_file import Secrets, load
from ledgerstone.system import OsFilesystem


def verify_receipt(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The receipt's JSON.")],
    public_key: Annotated[
        Path | None,
        typer.Option(help="A file with the signer's public key in hex, got from the operator."),
    ] = None,
    keys_file: Annotated[
        Path | None, typer.Option(help="The operator's erasure.keys: checks signer and key.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="The key it should be about; hex after 0x.")
    ] = None,
    key_hex: KeyHexOption = None,
    key_base64: KeyBase64Option = None,
    key_file: KeyFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check a receipt: not a byte was changed, who signed it and, with the secrets, for which key.

    Without --public-key or --keys-file anybody could have signed it."""
    wanted = read_key(key, key_hex, key_base64, key_file)
    if wanted is not None and keys_file is None:
        raise typer.BadParameter("to check the key takes --keys-file", param_hint="--key")
    data = _read(file, "FILE")
    secrets = None if keys_file is None else _secrets(keys_file)
    signer = _public_key(public_key)
    if signer is None and secrets is not None:
        signer = public_key_of(secrets.signing_seed)
    salt = None if secrets is None else secrets.salt
    found = verify(data, public_key=signer, key=wanted, salt=salt)
    if as_json:
        write_json(found._asdict())
    elif found.ok:
        for line in render(parse(data)).splitlines():
            write_line(printable(line))
        write_line("")
        for note in found.notes:
            write_line(f"ok: {printable(note)}")
    else:
        for reason in found.reasons:
            write_line(f"NOT GOOD: {printable(reason)}")
    flush()
    if not found.ok:
        raise typer.Exit(1)


def _read(path: Path, hint: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise typer.BadParameter(str(error), param_hint=hint) from error


def _secrets(path: Path) -> Secrets:
    found = load(OsFilesystem(), str(path))
    if found is None:
        raise typer.BadParameter(f"there is no {path}", param_hint="--keys-file")
    return found


def _public_key(path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        return bytes.fromhex(_read(path, "--public-key").decode("ascii").strip())
    except ValueError as error:
        raise typer.BadParameter(f"{path} does not hold hex", param_hint="--public-key") from error
