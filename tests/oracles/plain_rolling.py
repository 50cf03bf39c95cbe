"""Where strings occur in a buffer, without fingerprints. An oracle for tests."""

from collections.abc import Sequence

_MASK = (1 << 64) - 1


def fingerprint(data: bytes, base: int) -> int:
    value = 0
    for byte in data:
        value = (value * base + byte + 1) & _MASK
    return value


def every_place(buffer: bytes, strings: Sequence[bytes]) -> list[tuple[int, int]]:
    """(position, index of the string), by position, overlapping ones too."""
    return sorted(
        (position, index)
        for index, string in enumerate(strings)
        for position in range(len(buffer) - len(string) + 1)
        if buffer[position : position + len(string)] == string
    )
