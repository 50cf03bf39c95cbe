"""A visitor of the page without sockets, and what of a page is markup and what is text."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from ledgerstone.config.broker import BrokerConfig
from ledgerstone.records.builder import build_batch
from ledgerstone.server.http.asker import ANYBODY, Asker
from ledgerstone.server.http.server import HttpRequest, Page, Stream
from ledgerstone.types import TopicPartition
from ledgerstone.web.access import Access
from ledgerstone.web.rendering import Renderer
from ledgerstone.web.site import PageSite
from ledgerstone.web.views import FRAGMENTS, ROUTES
from tests.kit.in_process import InProcess
from tests.unit.server.asks import commit_offset, create_topic
from tests.unit.server.erasing_kit import ErasingMachine

PORT = 8080
TOKEN = "00112233445566778899aabbccddeeff"
COMPACTED = "customers"
PLAIN = "orders"
_VOID = (
    "area",
    "base",
    "br",
    "col",
    "embed",
    "hr",
    "img",
    "input",
    "link",
    "meta",
    "source",
    "wbr",
)


class Parsed(HTMLParser):
    """Elements with their attributes, and all the text between them."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.unbalanced: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def skeleton(self) -> list[tuple[str, tuple[str, ...]]]:
        """Which elements with which attributes, whatever these hold."""
        return [(tag, tuple(attributes)) for tag, attributes in self.elements]

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def title(self, page: str) -> str:
        return page.partition("<title>")[2].partition("</title>")[0]


@cache
def _renderer() -> Renderer:
    """Compiled once for all tests; it keeps nothing of what it renders."""
    return Renderer()


@dataclass
class Visitor:
    """A browser that has the cookie, or has not."""

    machine: InProcess
    is_local: bool = True
    cookie: str = ""
    woken: int = 0
    has_renderer: bool = True
    site: PageSite = field(init=False)
    access: Access = field(default_factory=lambda: Access(TOKEN))
    # Where there is an authorizer: what the server's door found out.
    asker: Asker = ANYBODY

    def __post_init__(self) -> None:
        self.site = PageSite(self.access, self.machine.broker, self._wake)
        self.site.opened(PORT, is_local=self.is_local)
        if self.has_renderer:
            self.site._routes, self.site._fragments = ROUTES, FRAGMENTS
            self.site._renderer = _renderer()

    def _wake(self) -> None:
        self.woken += 1
        self.machine.perform(self.machine.broker.changed_from_outside())

    def let_in(self) -> "Visitor":
        self.cookie = self.access.cookie(PORT).partition(";")[0]
        return self

    @property
    def headers(self) -> dict[str, str]:
        own = {"host": f"127.0.0.1:{PORT}", **({"cookie": self.cookie} if self.cookie else {})}
        if self.asker.csrf:
            own["origin"] = f"https://127.0.0.1:{PORT}"
        return own

    def get(self, address: str, **headers: str) -> Page:
        parts = urlsplit(address)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        given = {**self.headers, **headers}
        return self.send(HttpRequest("GET", parts.path, query, given, asker=self.asker))

    def post(self, path: str, fields: Mapping[str, str], *, csrf: str | None = None) -> Page:
        """With the secret that every form of ours carries, unless told otherwise."""
        own = self.asker.csrf or self.access.csrf
        given = {**fields, "csrf": own if csrf is None else csrf}
        body = urlencode(given).encode()
        return self.send(HttpRequest("POST", path, {}, self.headers, body, self.asker))

    def send(self, request: HttpRequest) -> Page:
        answer = self.site.answer(request)
        assert answer is not None, f"nothing answers {request.path}"
        assert not isinstance(answer, Stream)
        return answer if isinstance(answer, Page) else _finished(answer)

    def shown(self, address: str) -> str:
        page = self.get(address)
        assert page.status == 200, page
        assert isinstance(page.body, str)
        return page.body


def _finished(making: Any) -> Page:
    """As the server does it, jobs at once."""
    result: Any = None
    try:
        while True:
            job = making.send(result)
            result = None
            if job is not None:
                try:
                    result = job()
                except Exception as error:  # noqa: BLE001 - it is the page's to catch
                    making.throw(error)
    except StopIteration as end:
        page = end.value
        assert isinstance(page, Page)
        return page


def header(page: Page, name: str) -> str | None:
    return next((value for given, value in page.headers if given.lower() == name.lower()), None)


def append(
    machine: InProcess,
    topic: str,
    key: bytes | None,
    value: bytes | None,
    headers: tuple[tuple[str, bytes | None], ...] = (),
    *,
    partition: int = 0,
    **how: Any,
) -> int:
    hosted = machine.broker.partitions.get(TopicPartition(topic, partition))
    batch = build_batch([(machine.clock.now_ms(), key, value, headers)], **how)
    result = hosted.append(batch, acks=-1)
    machine.broker.appended(hosted.topic_partition, len(batch))
    if result.tombstone_count:
        machine.broker.cleaning.appended(hosted.log, result.tombstone_count)
    return result.first_offset


def full_machine(settings: dict[str, str] | None = None) -> ErasingMachine:
    """Topics of both kinds, records, a tombstone, a group that is behind, an erasure under way."""
    machine = ErasingMachine(settings=settings)
    client = machine.connect()
    create_topic(client, COMPACTED, 2, cleanup_policy="compact")
    create_topic(client, PLAIN, 1)
    for number in range(5):
        append(machine, COMPACTED, b"alice", b"version %d" % number, (("source", b"crm"),))
        append(machine, PLAIN, None, b"order %d" % number)
    append(machine, COMPACTED, b"bob", None)
    commit_offset(client, "billing", 2, COMPACTED)
    machine.erase(b"carol", COMPACTED, within_ms=1_000_000)
    machine.settle()
    return machine


def readonly_config(machine: InProcess) -> BrokerConfig:
    raw = {**machine.config.raw, "ledgerstone.http.readonly": "true"}
    return BrokerConfig.from_raw(raw)
