"""The HTTP API of a whole cluster: whichever broker can answer does. Shell.

Erasures are run by one broker of a cluster, and another one after a failure; whoever asks need not
know which.
"""

import http.client
import json
from contextlib import closing
from typing import Any, Final

from ledgerstone.client.blocking import Client
from ledgerstone.client.http_api import ApiAddress, authorization, open_api
from ledgerstone.client.security import PLAIN_TEXT, ClientSecurity
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.spark.tombstones import http_addresses

_TIMEOUT_S: Final = 30.0
_MAX_ANSWER_BYTES: Final = 16 << 20


class ApiFailed(PipelineError):
    """No broker did what was asked. `status` is the last refusal; None: one could not be asked, and
    may have done it all the same."""

    def __init__(self, text: str, status: int | None = None) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True)
class ClusterApi:
    addresses: tuple[ApiAddress, ...]
    token: str | None = field(default=None, repr=False)
    security: ClientSecurity = PLAIN_TEXT

    @classmethod
    def of(cls, client: Client, token: str | None) -> "ClusterApi":
        """Without addresses for a cluster whose brokers have no API, as Apache Kafka's."""
        security = client.session.config.security
        return cls(tuple(http_addresses(client).values()), token, security)

    def get(self, path: str) -> dict[str, Any]:
        return _json(self.get_bytes(path))

    def get_bytes(self, path: str) -> bytes:
        return self._ask("GET", path, None)

    def post(self, path: str, content: dict[str, Any]) -> dict[str, Any]:
        """Not sent to a second broker if the first did not answer: it may have been heard."""
        return _json(self._ask("POST", path, json.dumps(content).encode()))

    def _ask(self, method: str, path: str, body: bytes | None) -> bytes:
        refusal = ApiFailed("no broker has an HTTP API", http.client.NOT_FOUND)
        silent: ApiFailed | None = None
        for address in self.addresses:
            try:
                status, text = self._exchange(address, method, path, body)
            except ConnectionRefusedError as error:
                silent = ApiFailed(f"{address.url}: {error}")
                continue
            except (OSError, ValueError, http.client.HTTPException) as error:
                silent = ApiFailed(f"{address.url}: {type(error).__name__}: {error}")
                if method == "POST":
                    raise silent from error
                continue
            if status == http.client.OK:
                return text
            said = text.decode("utf-8", "replace").strip()[:200]
            refusal = ApiFailed(f"{address.url} refused ({status}): {said}", status)
        raise silent or refusal

    def _exchange(
        self, address: ApiAddress, method: str, path: str, body: bytes | None
    ) -> tuple[int, bytes]:
        headers = {} if body is None else {"Content-Type": "application/json"}
        headers |= authorization(address, self.security, self.token)
        with closing(open_api(address, self.security, timeout_s=_TIMEOUT_S)) as connection:
            connection.request(method, f"/api/v1/{path}", body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read(_MAX_ANSWER_BYTES)


def _json(text: bytes) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ApiFailed(f"an answer is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise ApiFailed(f"an answer is {text[:80]!r}")
    return content
