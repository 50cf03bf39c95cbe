"""When a node that ended is started again. Pure.

The pause doubles with each end that follows soon after a start. A node that keeps ending is left
alone: it would only fill the terminal, and wear down the others.
"""

from typing import Final

FIRST_PAUSE_MS: Final = 500
LONGEST_PAUSE_MS: Final = 15_000
# A process that ran this long has recovered.
STEADY_MS: Final = 20_000
MOST_IN_A_ROW: Final = 6


class Restarts:
    """Of one node. `total` counts every start after an end, for the status."""

    def __init__(self) -> None:
        self.total = 0
        self.in_a_row = 0

    def ended(self, *, lived_ms: int) -> int | None:
        """The pause before the next start; None once it has ended too often."""
        self.in_a_row = 1 if lived_ms >= STEADY_MS else self.in_a_row + 1
        if self.in_a_row >= MOST_IN_A_ROW:
            return None
        self.total += 1
        # The cap on the exponent keeps the number small, whatever `in_a_row` is.
        return int(min(FIRST_PAUSE_MS << min(self.in_a_row - 1, 10), LONGEST_PAUSE_MS))

    def forgive(self) -> None:
        """An operator has seen to it."""
        self.in_a_row = 0
