"""The broker's HTTP API as commands use it: where it is, and one call. Shell.

The address is the broker's setting `ledgerstone.http.listener`, so the bootstrap servers are all a
command needs. Over https the client's truststore and account are those of `--command-config`. If
the API is bound to more than this machine and there are no ACLs, changes and searches need the
broker's token.
"""

import http.client
import json
import os
import time
from typing import Annotated, Any, Final
from urllib.parse import quote, urlsplit

import typer

from ledgerstone.cli.command_config import given_security
from ledgerstone.client.blocking import Client
from ledgerstone.client.configs import Resource, ResourceType, describe_configs
from ledgerstone.client.errors import BrokerUnreachable, CallTimedOut
from ledgerstone.client.http_api import (
    KEY,
    ApiAddress,
    authorization,
    open_api,
    parse_api_address,
)
from ledgerstone.client.security import PLAIN_TEXT, ClientSecurity
from ledgerstone.dataclasses import dataclass, field, replace
from ledgerstone.errors import KafkaError, LedgerstoneError

TIMEOUT_S: Final = 30.0
# How long another broker of a cluster is looked for.
RETRY_S: Final = 30.0
_PAUSE_S: Final = 0.2
# Larger than any of our responses.
MAX_ANSWER_BYTES: Final = 64 << 20
TOKEN_ENVIRONMENT: Final = "LEDGERSTONE_HTTP_TOKEN"


TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar=TOKEN_ENVIRONMENT,
        help="The broker's token; needed if its HTTP API is reachable from other machines.",
        show_envvar=True,
    ),
]


class AdminCallFailed(LedgerstoneError):
    """The HTTP API is unreachable, or refused the call. `is_unserved`: nothing was done."""

    def __init__(self, reason: str, *, is_unserved: bool = False) -> None:
        super().__init__(reason)
        self.is_unserved = is_unserved


@dataclass(frozen=True, slots=True)
class AdminApi:
    """One broker's API. `others` answer the same, and are asked where it does not."""

    endpoint: ApiAddress
    token: str | None = field(default=None, repr=False)
    others: tuple[ApiAddress, ...] = ()
    security: ClientSecurity = PLAIN_TEXT

    def get(self, path: str) -> dict[str, Any]:
        return self._asked("GET", path, None)

    def post(self, path: str, content: dict[str, Any]) -> dict[str, Any]:
        return self._asked("POST", path, json.dumps(content).encode())

    def _asked(self, method: str, path: str, body: bytes | None) -> dict[str, Any]:
        """A question is asked until a broker answers it; a change only while nobody heard it."""
        deadline_s = time.monotonic() + RETRY_S
        while True:
            for endpoint in (self.endpoint, *self.others):
                try:
                    return self._call(endpoint, method, path, body)
                except AdminCallFailed as error:
                    is_over = not self.others or time.monotonic() > deadline_s
                    if is_over or not (error.is_unserved or method == "GET"):
                        raise
                    if isinstance(error, AdminCallRefused) and not error.is_unserved:
                        raise
            time.sleep(_PAUSE_S)

    def _call(
        self, endpoint: ApiAddress, method: str, path: str, body: bytes | None
    ) -> dict[str, Any]:
        connection = open_api(endpoint, self.security, timeout_s=TIMEOUT_S)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        headers |= authorization(endpoint, self.security, self.token)
        try:
            connection.request(method, f"/api/v1/{path}", body=body, headers=headers)
            response = connection.getresponse()
            text = response.read(MAX_ANSWER_BYTES)
        except (OSError, ValueError, http.client.HTTPException) as error:
            is_unserved = isinstance(error, ConnectionRefusedError)
            raise AdminCallFailed(
                f"the HTTP API at {endpoint}: {error}", is_unserved=is_unserved
            ) from error
        finally:
            connection.close()
        return answer_of(endpoint, response.status, text, is_question=method == "GET")


class AdminCallRefused(AdminCallFailed):
    """A broker answered, and refused."""

    def __init__(self, status: int, reason: str, *, is_unserved: bool = False) -> None:
        super().__init__(reason, is_unserved=is_unserved)
        self.status = status


def answer_of(
    endpoint: ApiAddress, status: int, text: bytes, *, is_question: bool = False
) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except ValueError:
        content = {"error": text.decode("utf-8", "replace").strip()}
    if not isinstance(content, dict):
        raise AdminCallFailed(f"the HTTP API at {endpoint} answered {text[:80]!r}")
    if status != http.client.OK:
        # A question that nobody can answer yet, as between two coordinators, is asked again.
        is_unserved = is_question and status == http.client.SERVICE_UNAVAILABLE
        raise AdminCallRefused(
            status,
            f"the broker refused ({status}): {content.get('error')}",
            is_unserved=is_unserved,
        )
    return content


def topic_path(topic: str, what: str) -> str:
    return f"topics/{quote(topic, safe='')}/{what}"


def apis_of(client: Client, token: str | None = None) -> list[AdminApi]:
    """The API of every broker in the cluster; Apache Kafka's brokers among them have none."""
    return list(apis_by_node(client, token).values())


def apis_by_node(client: Client, token: str | None = None) -> dict[int, AdminApi]:
    """The same, by the brokers' ids."""
    # Loads the list of brokers.
    client.all_topics()
    token = token or os.environ.get(TOKEN_ENVIRONMENT)
    found: dict[int, AdminApi] = {}
    why_not = AdminCallFailed("no broker of this cluster has an HTTP API")
    for node_id in sorted(client.session.cluster.brokers):
        try:
            api = _api_of(client, node_id, token)
        except (KafkaError, BrokerUnreachable, CallTimedOut) as error:
            # It has died, and not everybody knows that yet.
            why_not = AdminCallFailed(f"broker {node_id} cannot be asked: {error}")
            continue
        if api is not None:
            found[node_id] = api
    if not found:
        raise why_not
    return found


def cluster_api(client: Client, token: str | None = None) -> AdminApi:
    """For what any broker answers, as everything about erasures: one, and the others behind it."""
    first, *others = apis_of(client, token)
    return replace(first, others=tuple(each.endpoint for each in others))


def api_at(url: str) -> AdminApi:
    """The API at an address such as http://127.0.0.1:8080, as who --command-config says."""
    try:
        parts = urlsplit(url)
        is_secure = parts.scheme == "https"
        host, port = parts.hostname, parts.port or (443 if is_secure else 80)
    except ValueError as error:
        raise AdminCallFailed(f"{url} is not an address: {error}") from error
    if parts.scheme not in ("http", "https") or not host:
        raise AdminCallFailed(f"{url} is not an address like http://HOST:PORT")
    token = os.environ.get(TOKEN_ENVIRONMENT)
    return AdminApi(ApiAddress(host, port, is_secure), token, security=given_security())


def _api_of(client: Client, node_id: int, token: str | None) -> AdminApi | None:
    """None for a broker that does not know the setting: Apache Kafka's."""
    entries = describe_configs(client, Resource(ResourceType.BROKER, str(node_id)))
    entry = next((entry for entry in entries if entry.name == KEY), None)
    if entry is None:
        return None
    address = entry.value
    if not address:
        raise AdminCallFailed(
            f"broker {node_id} has no HTTP API; start it with --http 127.0.0.1:PORT ({KEY})"
        )
    found = parse_api_address(address, client.session.cluster.brokers[node_id].host)
    if found is None:
        raise AdminCallFailed(f"broker {node_id}: {KEY}={address} is no address")
    return AdminApi(found, token, security=client.session.config.security)
