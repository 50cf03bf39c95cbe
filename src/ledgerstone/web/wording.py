"""How pages write bytes, numbers and times. Pure.

Text is shown as text, but no character of it may act: those that move, reverse or hide others are
written out, like control characters. Templates do the escaping for HTML.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

# Bytes of a key or value shown in a table; a record's own page shows more.
SHOWN_BYTES: Final = 400
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MS: Final = 253_402_300_799_999  # of the year 9999
# Control characters, lone surrogates, and characters that set direction, join or are invisible.
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_NAMED: Final = {"\r": "\\r", "\0": "\\0"}
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_SPANS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


def visible(text: str) -> str:
    """The text with every invisible or active character written out."""
    return _UNSEEN.sub(_written_out, text)


def _written_out(found: re.Match[str]) -> str:
    character = found.group()
    code = ord(character)
    return _NAMED.get(character) or (f"\\x{code:02x}" if code < 256 else f"\\u{{{code:x}}}")


def as_text(data: bytes | None, limit_bytes: int = SHOWN_BYTES) -> str:
    """Bytes as UTF-8 if valid, else in hexadecimal; truncated data shows its size."""
    if data is None:
        return ""
    shown = data[:limit_bytes]
    rest = f" … {size(len(data))}" if len(data) > limit_bytes else ""
    try:
        return visible(shown.decode()) + rest
    except UnicodeDecodeError as error:
        # A character cut in half is no reason to show hexadecimal.
        if rest and error.start >= len(shown) - 3:
            return visible(shown[: error.start].decode()) + rest
    half = data[: limit_bytes // 2]
    rest = f" … {size(len(data))}" if len(data) > len(half) else ""
    return f"0x{half.hex()}{rest}"


def size(count_bytes: int) -> str:
    """1536 as 1.5 KiB."""
    amount, unit = float(count_bytes), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    if unit == 0:
        return f"{count_bytes} B"
    return f"{amount:.1f} {_UNITS[unit]}" if amount < 100 else f"{amount:.0f} {_UNITS[unit]}"


def grouped(number: int) -> str:
    """12345 with a narrow no-break space between groups of three digits."""
    return f"{number:,}".replace(",", "\u202f")


def span(duration_ms: float) -> str:
    """A duration in its two largest units."""
    left_ms = int(abs(duration_ms))
    if left_ms < 1000:
        return f"{left_ms} ms"
    words: list[str] = []
    for unit_ms, name in _SPANS:
        amount, left_ms = divmod(left_ms, unit_ms)
        if amount:
            words.append(f"{amount} {name}")
        if len(words) == 2 or (words and not amount):
            break
    return " ".join(words)


def away(at_ms: int, now_ms: int) -> str:
    """When something was or will be, relative to now."""
    if abs(at_ms - now_ms) < 1000:
        return "now"
    return f"in {span(at_ms - now_ms)}" if at_ms > now_ms else f"{span(now_ms - at_ms)} ago"


def moment(at_ms: int) -> str:
    """ISO 8601 in UTC to the millisecond, as in receipts, log lines and `/readyz`; a number if no
    calendar date fits."""
    if not 0 <= at_ms <= _LAST_MS:
        return f"{at_ms} ms"
    time = _EPOCH + timedelta(milliseconds=at_ms)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def percent(share: float) -> str:
    """A share of one; small ones keep a digit, so that they are never shown as zero."""
    hundredths = share * 100
    return f"{hundredths:.0f} %" if hundredths >= 10 or hundredths == 0 else f"{hundredths:.1f} %"
