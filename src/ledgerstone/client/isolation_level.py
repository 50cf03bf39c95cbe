"""Whether a reader sees records of open and aborted transactions. Pure."""

from enum import Enum


class IsolationLevel(Enum):
    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"

    @property
    def level(self) -> int:
        """The value on the wire."""
        return int(self is IsolationLevel.READ_COMMITTED)
