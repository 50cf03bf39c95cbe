"""Asks the HTTP API of a node. Shell.

Every answer may be missing: a node may be down, busy, or have no HTTP port. Callers get None then.
"""

import http.client
import json
from typing import Any, Final

TIMEOUT_S: Final = 1.5
# Larger than any of our responses.
_MOST_BYTES: Final = 64 << 20


def get_json(address: str, path: str, timeout_s: float = TIMEOUT_S) -> dict[str, Any] | None:
    """`address` is HOST:PORT."""
    host, _, port = address.rpartition(":")
    try:
        connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=timeout_s)
        try:
            connection.request("GET", f"/api/v1/{path}")
            response = connection.getresponse()
            if response.status != http.client.OK:
                return None
            content = json.loads(response.read(_MOST_BYTES))
        finally:
            connection.close()
    except (OSError, ValueError, http.client.HTTPException):
        return None
    return content if isinstance(content, dict) else None


def controller_seen_by(address: str) -> int | None:
    found = get_json(address, "cluster")
    controller = None if found is None else found.get("controller")
    return controller if isinstance(controller, int) else None
