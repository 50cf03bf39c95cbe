"""Answers that wait in memory for sockets to take them: how much that is, and who has to go. Pure.

A stranger asks for much with little, and then does not read. One answer for each connection is all
that waits, but many connections are many answers; above the limit the largest goes, which is not
that of somebody who reads.
"""

from typing import Final

from ledgerstone.dataclasses import dataclass, field

MAX_UNSENT_BYTES: Final = 256 << 20


@dataclass(slots=True)
class Unsent:
    """Invariant: `total_bytes` is the sum of what is left for each connection."""

    limit_bytes: int = MAX_UNSENT_BYTES
    total_bytes: int = 0
    _sizes: dict[int, int] = field(default_factory=dict)

    def __contains__(self, connection: int) -> bool:
        return connection in self._sizes

    def left(self, connection: int, size: int) -> None:
        """So much is left for it in memory; 0: all was taken, or it has gone."""
        self.total_bytes += size - self._sizes.pop(connection, 0)
        if size:
            self._sizes[connection] = size

    def too_much(self) -> int | None:
        """The connection that has to go; None while there is room."""
        if self.total_bytes <= self.limit_bytes:
            return None
        return max(self._sizes, key=self._sizes.__getitem__)
