"""Keys, values and headers as tests give them, and where a record went. Pure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

Text = bytes | str
Headers = Mapping[str, Text | None] | Sequence[tuple[str, Text | None]]


class Written(NamedTuple):
    """Where a record is, in the topic it was written to."""

    partition: int
    offset: int


def some_bytes(text: object) -> bytes:
    if isinstance(text, str):
        return text.encode()
    if isinstance(text, bytes | bytearray | memoryview):
        return bytes(text)
    # `bytes(7)` would be seven zero bytes, hardly the key that was meant.
    name = type(text).__name__
    raise TypeError(f"keys and values are bytes or str, not {name}: {text!r}; encode it first")


def as_bytes(text: Text | None) -> bytes | None:
    return None if text is None else some_bytes(text)


def pairs_of(headers: Headers) -> list[tuple[str, bytes | None]]:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return [(name, as_bytes(value)) for name, value in pairs]
