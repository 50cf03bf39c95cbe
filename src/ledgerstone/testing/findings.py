"""What was found where something else was expected, in words for a failed test. Grade P."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

_SHOWN_BYTES: Final = 60
_SHOWN_LINES: Final = 20


def show(data: bytes | None) -> str:
    """As Python writes it; a long one is cut, and says how long it is."""
    if data is None:
        return "null"
    if len(data) <= _SHOWN_BYTES:
        return repr(data)
    return f"{data[:_SHOWN_BYTES]!r}... ({len(data)} bytes)"


def lines_of(lines: Iterable[str]) -> str:
    """Indented, one below the other; not more than one wants to read."""
    listed = list(lines)
    shown = [f"  {line}" for line in listed[:_SHOWN_LINES]]
    if len(listed) > _SHOWN_LINES:
        shown.append(f"  ... and {len(listed) - _SHOWN_LINES} more")
    return "\n".join(shown)


def difference(found: Mapping[bytes, bytes], expected: Mapping[bytes, bytes]) -> list[str]:
    """Each key that is not as expected; nothing if all are."""
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
    """What `where` said about a key, a line for each record of it."""
    return [
        f"{topic}-{each['partition']} offset {each['offset']}: {each['state']}, "
        f"in {each['file']} at byte {each['position']}"
        for each in answer["places"]
    ]


def gates(topic: str, partitions: Iterable[Mapping[str, Any]]) -> list[str]:
    """What `why` says stands between each partition and its next pass."""
    return [
        f"{topic}-{each['partition']}: {gate['text']}"
        for each in partitions
        for gate in each["gates"]
        if not gate["is_open"]
    ]
