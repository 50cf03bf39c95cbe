"""What a call of the JSON API is in the audit log: its kind, and what is told of its body. Pure.

Keys are counted and never told. Texts of people, and names that may hold a key, stand where they
can be redacted.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ledgerstone.security.audit_chain import LONGEST_TEXT

OTHER: Final = "http.change"
SEARCH: Final = "where.search"
_NUMBERS: Final = ("ms", "partition", "within_ms", "deadline_ms", "after_ms", "broker")
_TEXTS: Final = ("by", "requested_by", "reason", "transactional_id", "verifier", "group", "file")
_ON_ERASURES: Final = ("cancel", "abandon", "accept", "evidence")


class HttpAct(NamedTuple):
    kind: str
    who: dict[str, str]
    facts: dict[str, Any]


def kind_of(parts: list[str]) -> str:
    """`parts` are those of the path behind /api/v1/, decoded."""
    match parts:
        case ["topics", _, "erasures"]:
            return "erase.request"
        case ["erasures", _, what] if what in _ON_ERASURES:
            return f"erase.{what}"
        case ["erasures-journal", "acknowledge"]:
            return "erase.acknowledge"
        case ["topics", _, "where"]:
            return SEARCH
        case ["topics", _, "compact"]:
            return "compact.ask"
        case ["topics", _, "tombstones", "ack"]:
            return "tombstones.ack"
        case ["transactions", "abort"]:
            return "txn.abort"
        case ["clock", "advance"]:
            return "clock.advance"
        case _:
            return OTHER


def act_of(
    parts: list[str], path: str, body: bytes, *, principal: str | None, host: str | None
) -> HttpAct:
    content = _content(body)
    known = (("principal", principal), ("host", host))
    who = {key: text for key, text in known if text is not None}
    who |= {
        key: content[key][: LONGEST_TEXT + 1] for key in _TEXTS if type(content.get(key)) is str
    }
    facts: dict[str, Any] = {"path": path}
    facts |= {key: content[key] for key in _NUMBERS if _is_number(content.get(key))}
    keys = content.get("keys")
    if isinstance(keys, list):
        facts["keys"] = len(keys)
    elif "key" in content:
        facts["keys"] = 1
    return HttpAct(kind_of(parts), who, facts)


def _is_number(value: object) -> bool:
    return type(value) is int and abs(value) < 1 << 63


def _content(body: bytes) -> Mapping[str, Any]:
    """What is wrong with a body is said by who handles the call."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
