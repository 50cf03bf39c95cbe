"""What the parts of the JSON API share: how something is refused, read and answered. Grade D."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from ledgerstone.server.http.server import HttpRequest, Page


class Refused(Exception):
    """Becomes {"error": why} under its status."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Retried(NamedTuple):
    """An answer that may take several turns: NotYet means that it is tried again."""

    attempt: Callable[[], object]


def json_page(status: int, content: object) -> Page:
    return Page(status, json.dumps(content) + "\n", "application/json")


def body_of(request: HttpRequest) -> dict[str, Any]:
    try:
        content = json.loads(request.body or b"{}")
    except (ValueError, RecursionError) as error:
        # Where and not what: a body may hold what nobody may see.
        raise Refused(400, f"the body is not JSON: {type(error).__name__}") from None
    if not isinstance(content, dict):
        raise Refused(400, "the body is not a JSON object")
    return content
