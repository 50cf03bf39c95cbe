"""What every generated message class has in common. Pure.

Every field has a default, so a handler sets only what matters; a field that a version does not
have is omitted when encoding and has its default after decoding.

The generated classes are written out. As dataclasses, three hundred of them took a quarter of the
time it takes to import a broker.
"""

from typing import Any, ClassVar, Final, TypeVar

ZERO_UUID: Final = bytes(16)
# The default of what each object gets its own of: a list, a struct.
ABSENT: Final[Any] = object()


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


S = TypeVar("S", bound=Struct)


def replace(struct: S, **changes: object) -> S:
    """A copy with other values, as `dataclasses.replace` makes it."""
    values = {name: getattr(struct, name) for name in struct.__slots__} | changes
    return type(struct)(**values)


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
