"""What an erasure writes on its tombstones for whoever reads them. Grade P.

The names are public: README.md, "Tombstone headers". Values are UTF-8 and short, and none may
hold the key: a reason is written by people and stays in receipts for years.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ledgerstone.errors import InvalidRequest
from ledgerstone.time_text import iso_time

if TYPE_CHECKING:
    from ledgerstone.erasure.erasure import Erasure

ID_HEADER: Final = "ledgerstone.erasure.id"
REASON_HEADER: Final = "ledgerstone.erasure.reason"
REQUESTED_BY_HEADER: Final = "ledgerstone.erasure.requested-by"
REQUESTED_AT_HEADER: Final = "ledgerstone.erasure.requested-at"
DEADLINE_HEADER: Final = "ledgerstone.erasure.deadline"

MAX_TEXT_BYTES: Final = 1024
# Shorter keys are inside every other sentence.
MIN_TELLING_KEY_BYTES: Final = 3


def headers_of(erasure: "Erasure") -> list[tuple[str, bytes | None]]:
    headers: list[tuple[str, bytes | None]] = [
        (ID_HEADER, erasure.id.encode()),
        (REASON_HEADER, erasure.reason.encode()),
        (REQUESTED_BY_HEADER, erasure.requested_by.encode()),
        (REQUESTED_AT_HEADER, iso_time(erasure.requested_ms).encode()),
    ]
    if erasure.deadline_ms is not None:
        headers.append((DEADLINE_HEADER, iso_time(erasure.deadline_ms).encode()))
    return headers


def erasure_id_in(headers: Iterable[tuple[str, bytes | None]]) -> str | None:
    """The erasure a tombstone belongs to; None for everybody else's tombstones."""
    for name, value in headers:
        if name == ID_HEADER and value is not None and len(value) <= MAX_TEXT_BYTES:
            return value.decode(errors="replace")
    return None


def check_text(what: str, text: str, *, max_bytes: int = MAX_TEXT_BYTES) -> bytes:
    """InvalidRequest unless it can be a header's value; the bytes it will be."""
    # Counted in characters first, so that a huge text is refused without being copied.
    if len(text) > max_bytes:
        raise InvalidRequest(f"{what} has {len(text)} characters, at most {max_bytes} bytes")
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"{what} is not UTF-8 at character {error.start}") from None
    if len(data) > max_bytes:
        raise InvalidRequest(f"{what} has {len(data)} bytes, at most {max_bytes}")
    return data


def check_keeps_secret(what: str, text: str, key: bytes) -> None:
    """InvalidRequest where the text gives the key away. The message does not repeat it."""
    data = check_text(what, text)
    if len(key) >= MIN_TELLING_KEY_BYTES and key in data:
        raise InvalidRequest(
            f"{what} contains the key that is to be erased, and it is kept; name a ticket instead"
        )
