"""Breaks of the journal of erasures: what was found wrong with it, and who has seen that. Grade P.

A break stays in the journal for good, under a key of its own. It makes the broker unready until
somebody says that they know of it; then it stays as a part of the history. README.md, "Chain".
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from ledgerstone.dataclasses import asdict, dataclass, replace
from ledgerstone.errors import CorruptRecord

BREAKS_KEY: Final = b"breaks"
MAX_BREAKS: Final = 100
_VERSION: Final = 1
_SHOWN_CHARACTERS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    reason: str
    found_ms: int
    acknowledged_by: str | None = None
    acknowledged_ms: int | None = None

    @property
    def is_open(self) -> bool:
        return self.acknowledged_by is None


def with_found(breaks: Sequence[Break], reasons: Iterable[str], *, now_ms: int) -> list[Break]:
    """The same reason is the same break: what stays in the log is found by every start."""
    known = {each.reason: each for each in breaks}
    for reason in reasons:
        text = reason[:_SHOWN_CHARACTERS]
        known.setdefault(text, Break(reason=text, found_ms=now_ms))
    # The first ones tell what happened; a flood of others adds nothing.
    return list(known.values())[:MAX_BREAKS]


def acknowledged(breaks: Sequence[Break], *, by: str, now_ms: int) -> list[Break]:
    return [
        replace(each, acknowledged_by=by, acknowledged_ms=now_ms) if each.is_open else each
        for each in breaks
    ]


def encode_breaks(breaks: Sequence[Break]) -> bytes:
    content = {"version": _VERSION, "breaks": [asdict(each) for each in breaks]}
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode("ascii")


def decode_breaks(value: bytes) -> list[Break]:
    try:
        content: dict[str, Any] = json.loads(value)
        if content["version"] != _VERSION:
            raise ValueError(f"version {content['version']!r}")
        return [Break(**each) for each in content["breaks"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptRecord(f"{len(value)} bytes that are no breaks: {error}") from error
