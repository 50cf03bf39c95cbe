"""Java properties files, such as `meta.properties` and `server.properties`. Pure.

Reads and escapes as `java.util.Properties` does. Differs from Kafka: keys are written in order and
without a date, so that equal contents are equal bytes.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPES: Final = {character: letter for letter, character in _ESCAPED.items()}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|u|(.)|$)", re.DOTALL)
_BLANKS: Final = " \t\f"
# The key ends at the first separator or blank that is not escaped.
_KEY_AND_VALUE = re.compile(
    rf"((?:\\.|[^\\=:{_BLANKS}])*)[{_BLANKS}]*[=:]?[{_BLANKS}]*(.*)", re.DOTALL
)


def parse_properties(data: bytes) -> dict[str, str]:
    """A Java properties file: continued lines, three kinds of separators, escapes, Latin-1."""
    properties = {}
    for line in _logical_lines(data.decode("latin-1")):
        match = _KEY_AND_VALUE.fullmatch(line)
        if match is None:
            raise ValueError(f"{line[:80]!r} is not a key and a value")
        properties[_unescape(match[1])] = _unescape(match[2])
    return properties


def format_properties(properties: Mapping[str, str]) -> bytes:
    lines = [
        f"{_escape(key, escape_blanks=True)}={_escape(value, escape_blanks=False)}\n"
        for key, value in sorted(properties.items())
    ]
    return ("#\n" + "".join(lines)).encode("ascii")


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blank ones; an odd number of backslashes continues a line."""
    pending = ""
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(_BLANKS)
        if not pending and (not line or line[0] in "#!"):
            continue
        pending += line
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending = pending[:-1]
            continue
        yield pending
        pending = ""
    if pending:
        yield pending


def _unescape(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        if match[1] is not None:
            return chr(int(match[1], 16))
        if match[2] is None:
            raise ValueError(f"{text[:80]!r} has a broken escape at {match.start()}")
        return _ESCAPED.get(match[2], match[2])

    # Java writes characters outside the basic plane as surrogate pairs.
    halves = _ESCAPE.sub(replace, text)
    return halves.encode("utf-16-be", "surrogatepass").decode("utf-16-be")


def _escape(text: str, *, escape_blanks: bool) -> str:
    escaped = []
    for position, character in enumerate(text):
        if character in _ESCAPES:
            escaped.append("\\" + _ESCAPES[character])
        elif character in "=:#!\\" or (character == " " and (escape_blanks or position == 0)):
            escaped.append("\\" + character)
        elif " " <= character <= "~":
            escaped.append(character)
        else:
            units = character.encode("utf-16-be", "surrogatepass").hex().upper()
            escaped += [f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4)]
    return "".join(escaped)
