"""Moments as people and receipts read them. Pure."""

from datetime import UTC, datetime, timedelta
from typing import Final

# The last millisecond of the year 9999, where ISO 8601 as we write it ends.
MAX_TIME_MS: Final = 253_402_300_799_999

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def iso_time(time_ms: int) -> str:
    """ISO 8601 in UTC to the millisecond, as in 2026-01-31T09:30:00.000Z."""
    moment = _EPOCH + timedelta(milliseconds=time_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
