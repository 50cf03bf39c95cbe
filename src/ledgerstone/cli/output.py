"""Command output: lines for people, JSON for programs, no control sequences from data. Shell.

With --json every command prints one object per line. Bytes that are UTF-8 are shown as text;
otherwise the field's name ends in `_hex`.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from ledgerstone.types import NO_TIMESTAMP

# Bytes shown of a key, value or header; --full shows all.
SHOWN_CHARACTERS: Final = 80
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})

Cell = str | int | None


class OutputClosed(Exception):
    """The reader of our output has closed it."""


def printable(text: str) -> str:
    """One line of text from outside: nothing in it can move a cursor or end the line."""
    return "".join(
        character if character.isprintable() else ascii(character)[1:-1] for character in text
    )


def show_bytes(data: bytes | None, *, full: bool = False) -> str:
    """Quoted if it is text, else hex; so `"0x00"` is four characters and `0x00` is one byte."""
    if data is None:
        return "null"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _show_hex(data, full=full)
    if not text.translate(_ESCAPES).isprintable():
        return _show_hex(data, full=full)
    shown = text if full else text[:SHOWN_CHARACTERS]
    quoted = f'"{shown.translate(_ESCAPES)}"'
    return quoted if len(shown) == len(text) else f"{quoted}… ({len(data)} bytes)"


def _show_hex(data: bytes, *, full: bool) -> str:
    shown = data if full else data[: SHOWN_CHARACTERS // 2]
    return f"0x{shown.hex()}" + ("" if len(shown) == len(data) else f"… ({len(data)} bytes)")


def show_time(timestamp_ms: int | None) -> str:
    """ISO 8601 to the millisecond; a number if no calendar date fits."""
    if timestamp_ms is None or timestamp_ms == NO_TIMESTAMP:
        return "none"
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"{timestamp_ms}ms"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def bytes_field(name: str, data: bytes | None) -> dict[str, str | None]:
    """A field of a JSON object; its name says how to read it."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_hex": data.hex()}


def write_line(text: str) -> None:
    try:
        sys.stdout.write(text + "\n")
    except BrokenPipeError as error:
        raise OutputClosed from error


def flush() -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError as error:
        raise OutputClosed from error


def write_json(fields: Mapping[str, object]) -> None:
    write_line(json.dumps(fields))


def write_rows(columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, as_json: bool) -> None:
    """A table, or an object per row whose fields are the columns."""
    if as_json:
        for row in rows:
            write_json(dict(zip(columns, row, strict=True)))
    else:
        _write_table(columns, rows)
    flush()


def _write_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    titles = [column.upper().replace("_", "-") for column in columns]
    shown = [["-" if cell is None else printable(str(cell)) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(titles, *shown, strict=True)]
    numeric = [any(isinstance(row[index], int) for row in rows) for index in range(len(columns))]
    for line in [titles, *shown]:
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ]
        write_line("  ".join(cells).rstrip())
