"""Calls of the JSON API that a page makes, wherever in the cluster they are answered. Grade D."""

import json
from collections.abc import Generator, Mapping
from typing import Any, Final

from ledgerstone.server.broker import Broker
from ledgerstone.server.http import api as http_api
from ledgerstone.server.http.asker import Asker
from ledgerstone.server.http.server import HttpRequest, Job, Page, PagePause
from ledgerstone.web.router import NotShown

_API: Final = http_api.PREFIX.rstrip("/")

Asked = Generator[Job | PagePause | None, Any, Page]


def asked(
    broker: Broker,
    asker: Asker,
    path: str,
    body: Mapping[str, object] | None = None,
    query: Mapping[str, str] | None = None,
) -> Asked:
    """A page of the API; with a body it is a POST. NotShown where it is refused."""
    method, data = ("GET", b"") if body is None else ("POST", json.dumps(body).encode())
    page = http_api.begin(broker, HttpRequest(method, _API + path, query or {}, {}, data, asker))
    assert page is not None, path
    while not isinstance(page, Page):
        # Another broker is asked, or the journal waits for its replicas.
        broker.anatomy.wake()
        try:
            yield page.send(None)
        except StopIteration as end:
            page = end.value
    if page.status != 200:
        raise NotShown(page.status, json.loads(page.body)["error"])
    return page
