"""A rate with a bound, and how long to wait until it is back within it. Pure."""

from typing import Final

from ledgerstone.quotas.windows import Windows
from ledgerstone.types import INT32_MAX

# What an answer can name. Differs from Kafka: there longer ones wrap around to any number.
LONGEST_THROTTLE_MS: Final = INT32_MAX
# No quota is set. As in Kafka: what is counted meanwhile counts once there is one.
NO_BOUND: Final = float(1 << 63)


def throttle_ms(windows: Windows, bound: float, now_ms: int, longest_ms: int) -> int:
    """0 while the rate is within the bound, and also where less than half a millisecond is
    missing. Rounds halves up, as Java does; Python's `round` does not."""
    total = windows.total(now_ms)
    elapsed_ms = windows.elapsed_ms(now_ms)
    rate = total / (elapsed_ms / 1000.0)
    if rate <= bound:
        return 0
    return int(min((rate - bound) / bound * elapsed_ms + 0.5, longest_ms))


def rate_of(windows: Windows, now_ms: int) -> float:
    """A second."""
    total = windows.total(now_ms)
    return total / (windows.elapsed_ms(now_ms) / 1000.0)
