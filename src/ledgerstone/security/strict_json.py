"""JSON from strangers: no name stands twice, and numbers are numbers. Pure."""

import json
from typing import Any, NoReturn


class BadJson(ValueError):
    """Not JSON, or JSON that two readers could understand differently."""


def strict_object(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(
            data.decode(), object_pairs_hook=_once_each, parse_constant=_no_such_number
        )
    except (ValueError, RecursionError) as error:
        raise BadJson("not valid JSON") from error
    if not isinstance(found, dict):
        raise BadJson("not a JSON object")
    return found


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise BadJson("a name stands twice")
    return found


def _no_such_number(text: str) -> NoReturn:
    raise BadJson(f"{text} is no number")
