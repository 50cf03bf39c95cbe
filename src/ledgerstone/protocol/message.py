"""What every generated message class has in common. Pure.

Every field has a default, so a handler sets only what matters; a field that a version does not
have is left out when encoding and has its default after decoding.
"""

from typing import ClassVar, Final

ZERO_UUID: Final = bytes(16)


class Struct:
    """A generated class: slots, a value, shown with its fields."""

    __slots__: tuple[str, ...] = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({shown})"


class Message(Struct):
    """A request, a response, a record, or a blob with a schema of its own."""

    __slots__ = ()


class ApiMessage(Message):
    """A request or a response. `name` is the API's, such as "Produce"."""

    __slots__ = ()

    api_key: ClassVar[int]
    name: ClassVar[str]


class MetadataRecord(Message):
    """A record of the metadata log."""

    __slots__ = ()

    record_type: ClassVar[int]
