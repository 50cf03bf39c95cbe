"""Times as people type them. Grade D."""

import re
from datetime import UTC, datetime
from typing import Final

from ledgerstone.web.router import NotShown

_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_time(text: str, now_ms: int) -> int:
    """ISO 8601 (UTC unless it says otherwise), milliseconds since the epoch, or `2h` ago."""
    if re.fullmatch(r"[0-9]{1,18}", text):
        return int(text)
    ago = re.fullmatch(r"([0-9]{1,9}) ?(ms|s|m|h|d)", text)
    if ago:
        return max(now_ms - int(ago[1]) * _MS[ago[2]], 0)
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return max(round(moment.timestamp() * 1000), 0)
    except (ValueError, OverflowError):
        expected = "ISO 8601, milliseconds since the epoch, or how long ago, such as 2h"
        raise NotShown(400, f"{text[:60]!r} is not a time: {expected}.") from None
