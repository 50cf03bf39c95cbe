"""How a key is given to a command: as text, hex, base64 or the bytes of a file. Shell."""

import base64
import binascii
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from ledgerstone.cli.options import parse_bytes

KeyArgument = Annotated[
    str | None, typer.Argument(metavar="[KEY]", help="Text, or hex after 0x.", show_default=False)
]
KeyHexOption = Annotated[str | None, typer.Option("--key-hex", help="The key in hex.")]
KeyBase64Option = Annotated[str | None, typer.Option("--key-base64", help="The key in base64.")]
KeyFileOption = Annotated[
    Path | None,
    typer.Option("--key-file", help="A file whose entire contents are the key."),
]
_WAYS: Final = "KEY, --key-hex, --key-base64 or --key-file"


def read_key(
    text: str | None, key_hex: str | None, key_base64: str | None, key_file: Path | None
) -> bytes | None:
    """None if no key was given; a usage error if more than one was."""
    given = [each for each in (text, key_hex, key_base64, key_file) if each is not None]
    if len(given) > 1:
        raise typer.BadParameter(f"give the key once: {_WAYS}")
    try:
        if key_hex is not None:
            return bytes.fromhex(key_hex)
        if key_base64 is not None:
            return base64.b64decode(key_base64, validate=True)
        if key_file is not None:
            return key_file.read_bytes()
    except (ValueError, binascii.Error, OSError) as error:
        raise typer.BadParameter(f"the key cannot be read: {error}") from error
    return None if text is None else parse_bytes(text)


def need_key(
    text: str | None, key_hex: str | None, key_base64: str | None, key_file: Path | None
) -> bytes:
    key = read_key(text, key_hex, key_base64, key_file)
    if key is None:
        raise typer.BadParameter(f"give a key: {_WAYS}")
    return key


def key_to_erase(
    text: str | None, key_hex: str | None, key_base64: str | None, key_file: Path | None
) -> bytes:
    """As `need_key`. Erasure is final, and an empty text or file is rather a slip than the empty
    key."""
    key = need_key(text, key_hex, key_base64, key_file)
    if not key and key_hex is None:
        raise typer.BadParameter('the key is empty; nothing was requested. Say --key-hex "" for it')
    return key


def erased_key(text: str) -> bytes:
    """The key of an erasure that others report on: text, hex after 0x, or after `-` a line of
    stdin. What was not found of an empty key, as a failed pipe gives, is no evidence."""
    if text == "-":
        line = sys.stdin.buffer.readline().removesuffix(b"\n").removesuffix(b"\r")
        text = line.decode("utf-8", "surrogateescape")
    key = parse_bytes(text)
    if not key:
        raise typer.BadParameter("the key is empty", param_hint="--key")
    return key


def in_base64(key: bytes) -> str:
    return base64.b64encode(key).decode("ascii")
