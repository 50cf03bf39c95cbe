"""A file with a key on each line, and the file that maps erasures to keys. Shell.

Erasure is final, so a doubtful line is refused before anything is requested: an empty line would
mean the empty key.
"""

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import typer

from ledgerstone.cli.output import bytes_field
from ledgerstone.private_files import append_private

PAIRS_FILE: Final = "erasures.jsonl"
_UTF8_MARK: Final = b"\xef\xbb\xbf"
_UTF16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
_HINT: Final = "--keys-from"
_SHOWN: Final = 5


def read_keys(path: Path) -> list[bytes]:
    """The keys in order, each once. Lines end with LF or CRLF; a byte order mark is skipped."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise typer.BadParameter(str(error), param_hint=_HINT) from error
    if data.startswith(_UTF16_MARKS):
        raise typer.BadParameter(f"{path} is UTF-16; save it as UTF-8", param_hint=_HINT)
    lines = data.removeprefix(_UTF8_MARK).split(b"\n")
    if not lines[-1]:
        lines.pop()
    keys = [line.removesuffix(b"\r") for line in lines]
    if not keys:
        raise typer.BadParameter(f"{path} is empty", param_hint=_HINT)
    _refuse_blank(path, keys)
    return _each_once(path, keys)


def _refuse_blank(path: Path, keys: Sequence[bytes]) -> None:
    blank = [str(number) for number, key in enumerate(keys, start=1) if not key.strip()]
    if blank:
        more = " and more" if len(blank) > _SHOWN else ""
        raise typer.BadParameter(
            f"{path}: no key on line {', '.join(blank[:_SHOWN])}{more}; nothing was requested. "
            "Give a key of blanks with --key-hex",
            param_hint=_HINT,
        )


def _each_once(path: Path, keys: Sequence[bytes]) -> list[bytes]:
    first: dict[bytes, int] = {}
    for number, key in enumerate(keys, start=1):
        if key in first:
            typer.echo(f"{path}: line {number} repeats line {first[key]}", err=True)
        first.setdefault(key, number)
        if key != key.strip():
            typer.echo(f"{path}: the blanks around line {number} are part of its key", err=True)
    return list(first)


# -- where receipts go ----------------------------------------------------------------------------


def check_target(target: Path, *, is_directory: bool) -> None:
    """Run before anything is requested; a receipt that cannot be written is noticed too late."""
    try:
        if is_directory:
            target.mkdir(parents=True, exist_ok=True)
        directory = target if is_directory else target.parent
        if not is_directory and target.exists():
            with target.open("ab"):
                pass
        else:
            with tempfile.TemporaryFile(dir=directory):
                pass
    except OSError as error:
        text = f"no receipt can be written to {target}: {error}; nothing was requested"
        raise typer.BadParameter(text, param_hint="--receipt") from error


class Pairs:
    """Maps erasures to keys, a line each, written as soon as the broker has answered.

    The file holds keys in the clear, so only its owner can read it."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / PAIRS_FILE

    def add(self, erasures: Sequence[dict[str, Any]], keys: Sequence[bytes]) -> None:
        lines = [
            json.dumps({"id": each["id"], "topic": each["topic"], **bytes_field("key", key)})
            for each, key in zip(erasures, keys, strict=True)
        ]
        with os.fdopen(append_private(str(self.path)), "w", encoding="ascii") as file:
            file.write("".join(f"{line}\n" for line in lines))
