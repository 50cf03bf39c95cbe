"""Describes what was found instead of what was expected, for a failed test. Grade P."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

_SHOWN_BYTES: Final = 60
_SHOWN_LINES: Final = 20


def show(data: bytes | None) -> str:
    """The repr; a long one is truncated and shows its length."""
    if data is None:
        return "null"
    if len(data) <= _SHOWN_BYTES:
        return repr(data)
    return f"{data[:_SHOWN_BYTES]!r}... ({len(data)} bytes)"


def lines_of(lines: Iterable[str]) -> str:
    """Indented, one per line, limited to a readable number."""
    listed = list(lines)
    shown = [f"  {line}" for line in listed[:_SHOWN_LINES]]
    if len(listed) > _SHOWN_LINES:
        shown.append(f"  ... and {len(listed) - _SHOWN_LINES} more")
    return "\n".join(shown)


def difference(found: Mapping[bytes, bytes], expected: Mapping[bytes, bytes]) -> list[str]:
    """Each key that differs from what was expected."""
    lines = []
    for key in sorted({**found, **expected}):
        if key not in found:
            lines.append(f"{show(key)} is missing, expected {show(expected[key])}")
        elif key not in expected:
            lines.append(f"{show(key)} should not be there, found {show(found[key])}")
        elif found[key] != expected[key]:
            lines.append(f"{show(key)} has {show(found[key])}, expected {show(expected[key])}")
    return lines


def places(topic: str, answer: Mapping[str, Any]) -> list[str]:
    """The answer of `where` for a key, a line per record."""
    return [
        f"{topic}-{each['partition']} offset {each['offset']}: {each['state']}, "
        f"in {each['file']} at byte {each['position']}"
        for each in answer["places"]
    ]


def gates(topic: str, partitions: Iterable[Mapping[str, Any]]) -> list[str]:
    """What blocks each partition's next pass, according to `why`."""
    return [
        f"{topic}-{each['partition']}: {gate['text']}"
        for each in partitions
        for gate in each["gates"]
        if not gate["is_open"]
    ]
