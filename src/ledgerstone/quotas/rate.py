"""Rates, and the bounds that quotas set to them. Pure."""

from typing import Final

from ledgerstone.quotas.windows import Windows
from ledgerstone.types import INT32_MAX

# What an answer can name. Differs from Kafka: there longer ones wrap around to any number.
LONGEST_THROTTLE_MS: Final = INT32_MAX
# No quota is set. As in Kafka: what is counted meanwhile counts once there is one.
NO_BOUND: Final = float(1 << 63)


def rate_of(windows: Windows, now_ms: int) -> float:
    """A second."""
    total = windows.total(now_ms)
    return total / (windows.elapsed_ms(now_ms) / 1000.0)
