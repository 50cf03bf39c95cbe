"""What the HTTP port speaks of: requests, pages, streams, and who answers them. Pure."""

from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from typing import Any, Final, NamedTuple, Protocol

from ledgerstone.server.http.asker import ANYBODY, Asker

LOGIN: Final = "/login"
LOGOUT: Final = "/logout"
EVENTS: Final = "/events"
API: Final = "/api/"


class Page(NamedTuple):
    status: int
    body: str | bytes
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()


class HttpRequest(NamedTuple):
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]  # by lower-case name
    body: bytes = b""
    asker: Asker = ANYBODY


class Stream(NamedTuple):
    """Events without an end: frames are made only while somebody reads them."""

    frames: AsyncGenerator[bytes, None]
    headers: tuple[tuple[str, str], ...] = ()


class PagePause(NamedTuple):
    """A page waits for something that others do."""

    seconds: float


Job = Callable[[], object]
# A page that takes long to make: at each yield others have their turn. A job that is yielded runs
# in a thread, and what it returns or raises comes back from the yield.
SlowPage = Generator[Job | PagePause | None, Any, Page]
Routes = Mapping[str, Callable[[], Page | SlowPage]]
# Answers what no route has; None leaves it to be not found.
Api = Callable[[HttpRequest], Page | SlowPage | None]


class BadRequest(Exception):
    def __init__(self, status: int, reason: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(reason)
        self.status = status
        self.headers = headers


class HttpLine(NamedTuple):
    """What a request came over. The certificate is the other side's, if it showed one."""

    host: str
    is_secure: bool = False
    certificate: bytes | None = None


class Rerouted(NamedTuple):
    """Answered by the page of another request, under a status of its own."""

    request: HttpRequest
    status: int
    headers: tuple[tuple[str, str], ...] = ()


class Door(Protocol):
    """Finds out who asks, where they are asked for rights."""

    def opened(self, port: int) -> None: ...

    async def admit(self, request: HttpRequest, line: HttpLine) -> HttpRequest:
        """The request with its asker; BadRequest for who must log in first."""
        ...

    async def answer(self, request: HttpRequest, line: HttpLine) -> Page | Rerouted | None:
        """Logins; None for all else."""
        ...

    def stop(self) -> None: ...


class Site(Protocol):
    """The pages for people: what neither a route nor the API answers."""

    def opened(self, port: int, *, is_local: bool) -> None:
        """Where it is reached; not `is_local` where other machines may."""

    def is_asset(self, path: str) -> bool:
        """Whether it is a file of the pages, which everybody may have."""

    def is_question(self, path: str) -> bool:
        """Whether a form sent there only asks: who may read may send it."""

    def has_token(self, request: HttpRequest) -> bool:
        """Whether it carries the token that was shown to whoever started the broker."""

    def check_form(self, request: HttpRequest) -> None:
        """Before the body of a form is read; BadRequest for whoever may not send one."""

    def answer(self, request: HttpRequest) -> Page | SlowPage | Stream | None: ...
