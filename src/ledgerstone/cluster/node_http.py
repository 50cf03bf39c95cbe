"""Asks the HTTP API of a node. Shell.

Every answer may be missing: a node may be down, busy, or have no HTTP port. Callers get None then.
"""

import http.client
import json
from typing import Any, Final

from ledgerstone.client.blocking import Client
from ledgerstone.client.configs import Resource, ResourceType, describe_configs
from ledgerstone.client.http_api import KEY, authorization, open_api, parse_api_address
from ledgerstone.client.security import PLAIN_TEXT, ClientSecurity
from ledgerstone.errors import ConfigError

TIMEOUT_S: Final = 1.5
# Larger than any of our responses.
_MOST_BYTES: Final = 64 << 20


def get_json(
    address: str,
    path: str,
    timeout_s: float = TIMEOUT_S,
    security: ClientSecurity = PLAIN_TEXT,
) -> dict[str, Any] | None:
    """`address` is HOST:PORT, with https:// in front where it has TLS."""
    at = parse_api_address(address)
    if at is None:
        return None
    try:
        connection = open_api(at, security, timeout_s=timeout_s)
        try:
            headers = dict(authorization(at, security))
            connection.request("GET", f"/api/v1/{path}", headers=headers)
            response = connection.getresponse()
            if response.status != http.client.OK:
                return None
            content = json.loads(response.read(_MOST_BYTES))
        finally:
            connection.close()
    except (OSError, ValueError, ConfigError, http.client.HTTPException):
        return None
    return content if isinstance(content, dict) else None


def controller_seen_by(address: str, security: ClientSecurity = PLAIN_TEXT) -> int | None:
    found = get_json(address, "cluster", security=security)
    controller = None if found is None else found.get("controller")
    return controller if isinstance(controller, int) else None


def http_address(client: Client, broker_id: int, host: str) -> str | None:
    """Where the HTTP API of a broker is, by its own settings; `host` is where clients reach it.
    None if it has none, or one that only its own machine can reach."""
    entries = describe_configs(client, Resource(ResourceType.BROKER, str(broker_id)))
    listener = next((each.value for each in entries if each.name == KEY), None)
    return None if not listener else reachable(listener, host)


def reachable(listener: str, host: str) -> str | None:
    """A port bound to every address is reached where clients reach the broker. One bound to the
    loopback of another machine is not ours, though there may be one of the same number here."""
    at = parse_api_address(listener, host)
    if at is None or (at.is_local and not at._replace(host=host).is_local):
        return None
    return str(at)
