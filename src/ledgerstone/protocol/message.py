"""What every generated message class has in common. Pure.

Every field has a default, so a handler sets only what matters; a field that a version does not
have is omitted when encoding and has its default after decoding.
"""

from typing import ClassVar, Final

ZERO_UUID: Final = bytes(16)


class Message:
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
