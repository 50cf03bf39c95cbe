"""Asks the HTTP API of a node. Shell.

Every answer may be missing: a node may be down, busy, or have no HTTP port. Callers get None then.
"""

import http.client
import ipaddress
import json
from typing import Any, Final

from ledgerstone.client.blocking import Client
from ledgerstone.client.configs import Resource, ResourceType, describe_configs

_KEY: Final = "ledgerstone.http.listener"
_EVERY_ADDRESS: Final = ("", "0.0.0.0", "[::]")
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


def http_address(client: Client, broker_id: int, host: str) -> str | None:
    """Where the HTTP API of a broker is, by its own settings; `host` is where clients reach it.
    None if it has none, or one that only its own machine can reach."""
    entries = describe_configs(client, Resource(ResourceType.BROKER, str(broker_id)))
    listener = next((each.value for each in entries if each.name == _KEY), None)
    return None if not listener else reachable(listener, host)


def reachable(listener: str, host: str) -> str | None:
    """A port bound to every address is reached where clients reach the broker. One bound to the
    loopback of another machine is not ours, though there may be one of the same number here."""
    at, _, port = listener.rpartition(":")
    if at in _EVERY_ADDRESS:
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if _is_loopback(at.strip("[]")) and not _is_loopback(host):
        return None
    return listener


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
