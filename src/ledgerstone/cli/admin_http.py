"""The broker's HTTP API as commands use it: where it is, and one call. Shell.

The address is a setting of the broker, `ledgerstone.http.listener`, so a command that knows the
bootstrap servers needs to be told nothing else.
"""

import http.client
import json
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import Endpoint
from ledgerstone.client.configs import Resource, ResourceType, describe_configs
from ledgerstone.errors import LedgerstoneError

KEY: Final = "ledgerstone.http.listener"
TIMEOUT_S: Final = 30.0
# Larger than any answer of ours.
MAX_ANSWER_BYTES: Final = 64 << 20
_EVERY_ADDRESS: Final = ("", "0.0.0.0", "[::]")


class AdminCallFailed(LedgerstoneError):
    """The HTTP API is not there, or said no."""


@dataclass(frozen=True, slots=True)
class AdminApi:
    """One broker's API."""

    endpoint: Endpoint

    def get(self, path: str) -> dict[str, Any]:
        return self._call("GET", path, None)

    def post(self, path: str, content: dict[str, Any]) -> dict[str, Any]:
        return self._call("POST", path, json.dumps(content).encode())

    def _call(self, method: str, path: str, body: bytes | None) -> dict[str, Any]:
        connection = http.client.HTTPConnection(
            self.endpoint.host, self.endpoint.port, timeout=TIMEOUT_S
        )
        headers = {"Content-Type": "application/json"} if body is not None else {}
        try:
            connection.request(method, f"/api/v1/{path}", body=body, headers=headers)
            response = connection.getresponse()
            text = response.read(MAX_ANSWER_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise AdminCallFailed(f"the HTTP API at {self.endpoint}: {error}") from error
        finally:
            connection.close()
        return answer_of(self.endpoint, response.status, text)


def answer_of(endpoint: Endpoint, status: int, text: bytes) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except ValueError:
        content = {"error": text.decode("utf-8", "replace").strip()}
    if not isinstance(content, dict):
        raise AdminCallFailed(f"the HTTP API at {endpoint} answered {text[:80]!r}")
    if status != http.client.OK:
        raise AdminCallFailed(f"the broker says no ({status}): {content.get('error')}")
    return content


def topic_path(topic: str, what: str) -> str:
    return f"topics/{quote(topic, safe='')}/{what}"


def apis_of(client: Client) -> list[AdminApi]:
    """The API of every broker in the cluster."""
    # Makes sure that the brokers are known.
    client.all_topics()
    return [_api_of(client, node_id) for node_id in sorted(client.session.cluster.brokers)]


def _api_of(client: Client, node_id: int) -> AdminApi:
    entries = describe_configs(client, Resource(ResourceType.BROKER, str(node_id)))
    address = next((entry.value for entry in entries if entry.name == KEY), None)
    if not address:
        raise AdminCallFailed(
            f"broker {node_id} has no HTTP API; start it with --http 127.0.0.1:PORT ({KEY})"
        )
    host, _, port = address.rpartition(":")
    if host in _EVERY_ADDRESS:
        host = client.session.cluster.brokers[node_id].host
    return AdminApi(Endpoint(host.removeprefix("[").removesuffix("]"), int(port)))
