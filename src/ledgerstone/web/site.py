"""The pages of one broker: access control, and which view answers. Shell.

Views and templates are loaded with the first page. Reading needs no token if only this machine can
connect; otherwise everything does. Where there is an authorizer, the HTTP server has found out who
asks, and every page needs a right instead. Every response says what a browser may load and run: our
own files, and nothing inline.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

from ledgerstone import __version__
from ledgerstone.server.broker import Broker
from ledgerstone.server.http.asker import ANYBODY, Asker
from ledgerstone.server.http.json_body import Refused
from ledgerstone.server.http.server import (
    EVENTS,
    BadRequest,
    HttpRequest,
    Page,
    SlowPage,
    Stream,
)
from ledgerstone.server.movable_clock import MovableClock
from ledgerstone.web.access import CSRF_FIELD, Access, is_same, is_same_origin
from ledgerstone.web.assets import PREFIX as ASSETS
from ledgerstone.web.forms import form_of
from ledgerstone.web.live import Live
from ledgerstone.web.peers import PeerWatch
from ledgerstone.web.rendering import PageFacts, Renderer
from ledgerstone.web.router import (
    Answer,
    Fragment,
    MatchedRoute,
    NotShown,
    Rendered,
    Route,
    find,
    matched,
)
from ledgerstone.web.samples import Samples

# The fragment that shows what other nodes say.
CLUSTER: Final = "cluster"
# A form that changes nothing: it is a POST because it holds a key, and addresses get logged.
QUESTION: Final = "/topics/{topic}/keys"
_KEY_FIELDS: Final = ("key", "key_as")
_NO_KEY: Final = (
    "A key is not taken from an address, since addresses are kept in histories and logs. "
    "Type it into the form."
)
HEADERS: Final = (
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    # Other sites must not see our addresses; our own forms must send their origin.
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    # Pages show data from the log, which must not stay in a cache.
    ("Cache-Control", "no-store"),
)
_HTML: Final = "text/html; charset=utf-8"
_NO_TOKEN: Final = "open the page with the address that `ledgerstone up` printed when it started"


class PageSite:
    """One per broker. `wake` is called when an action may have made something due."""

    def __init__(self, access: Access, broker: Broker, wake: Callable[[], None]) -> None:
        self._access = access
        self._broker = broker
        self._wake = wake
        self._port = 0
        self._is_local = False
        self._renderer: Renderer | None = None
        self._routes: Sequence[Route] = ()
        self._fragments: Mapping[str, Fragment] = {}
        # With an authorizer the HTTP server finds out who asks, and everything needs a right.
        self._asks_for_rights = broker.authorizer is not None
        self._samples = Samples(broker)
        self._peers = PeerWatch(broker)
        self.live = Live(self._fragment, self._tick, self._samples.pause)

    # -- called by the HTTP server ------------------------------------------------------------

    def opened(self, port: int, *, is_local: bool) -> None:
        self._port, self._is_local = port, is_local

    def is_asset(self, path: str) -> bool:
        return path.startswith(ASSETS)

    def is_question(self, path: str) -> bool:
        return matched(QUESTION, path) is not None

    def has_token(self, request: HttpRequest) -> bool:
        return self._access.is_bearer(request.headers)

    def check_form(self, request: HttpRequest) -> None:
        is_known = self._access.is_known(request.headers, self._port)
        if self.is_question(request.path):
            if not (self._is_local or is_known):
                raise BadRequest(403, f"this port is open to other machines: {_NO_TOKEN}")
            if not is_same_origin(request.headers):
                raise BadRequest(403, "this form was not made by a page of this broker")
        elif not is_known:
            raise BadRequest(403, f"changes need a token: {_NO_TOKEN}")

    def answer(self, request: HttpRequest) -> Page | SlowPage | Stream | None:
        is_asset = self.is_asset(request.path)
        if not self._asks_for_rights:
            if "token" in request.query and request.method == "GET":
                return self._let_in(request)
            is_known = self._is_local or self._access.is_known(request.headers, self._port)
            if not (is_known or is_asset):
                raise BadRequest(403, f"this port is open to other machines: {_NO_TOKEN}")
        if self._renderer is None:
            return self._first(request)
        if is_asset:
            return self._renderer.assets.page(request) or Page(404, "there is no such file\n")
        if request.path == EVENTS:
            return self._events(request)
        found = find(self._routes, request.method, request.path)
        if found is not None and request.method != "POST" and "key" in request.query:
            return self._without_key(request)
        return None if found is None else self._page(self._renderer, request, found)

    # -- pages --------------------------------------------------------------------------------

    def _first(self, request: HttpRequest) -> SlowPage:
        """Loads views and templates first, in a thread: it would block the loop for too long."""
        yield self.load
        answer = self.answer(request)
        if isinstance(answer, Page):
            return answer
        if isinstance(answer, Stream):
            # A page from before a restart has reconnected; it will ask again.
            return Page(503, "not yet\n")
        return Page(404, "there is no such page\n") if answer is None else (yield from answer)

    def load(self) -> None:
        from ledgerstone.web.views import FRAGMENTS, LOGIN_ROUTES, ROUTES

        self._routes, self._fragments = ROUTES, FRAGMENTS
        if self._asks_for_rights:
            self._routes = (*LOGIN_ROUTES, *ROUTES)
        # Last, since it means that all is loaded; another request may have done the same.
        self._renderer = self._renderer or Renderer()

    def _let_in(self, request: HttpRequest) -> Page:
        """Removes the token from the address and sets a cookie instead."""
        if not self._access.is_token(request.query["token"]):
            raise BadRequest(403, f"this token is not valid since the last start: {_NO_TOKEN}")
        kept = {name: text for name, text in request.query.items() if name not in _KEY_FIELDS}
        del kept["token"]
        rest = urlencode(kept)
        where = "/" + request.path.lstrip("/") + (f"?{rest}" if rest else "")
        cookie = self._access.cookie(self._port)
        return Page(303, "", headers=(("Location", where), ("Set-Cookie", cookie), *HEADERS))

    def _without_key(self, request: HttpRequest) -> Page:
        """Old links and bookmarks hold keys: removes them from the address bar at once."""
        kept = {name: text for name, text in request.query.items() if name not in _KEY_FIELDS}
        where = f"{request.path}?{urlencode({**kept, 'notice': _NO_KEY})}"
        return Page(303, "", headers=(("Location", where), *HEADERS))

    def _page(self, renderer: Renderer, request: HttpRequest, found: MatchedRoute) -> SlowPage:
        if request.method == "POST":
            self._check_own(request)
        try:
            self._check_right(request)
            if found.asks_peers:
                yield self._peers.ask
            answer = found.view(self._broker, request, found.parts)
            if not isinstance(answer, Page | Rendered):
                answer = yield from answer
        except (NotShown, Refused) as error:
            answer = Rendered("error.html", {"reason": str(error)}, error.status)
        if request.method == "POST" and not self.is_question(request.path):
            self._wake()
        return self._finished(renderer, request, answer)

    def _finished(self, renderer: Renderer, request: HttpRequest, answer: Answer) -> Page:
        if isinstance(answer, Page):
            return answer._replace(headers=(*answer.headers, *HEADERS))
        text = renderer.render(answer, self._facts(request))
        return Page(answer.status, text, _HTML, HEADERS)

    def _check_own(self, request: HttpRequest) -> None:
        if self._asks_for_rights:
            from ledgerstone.security.http_credentials import is_own_page

            # A question, too: where everybody has a secret there is no reason to do without.
            secret = form_of(request).get(CSRF_FIELD, "")
            if not is_own_page(request.headers) or not is_same(secret, request.asker.csrf):
                raise BadRequest(403, "this form was not made by a page of this broker")
            return
        self.check_form(request)
        if self.is_question(request.path):
            return
        if not self._access.is_own_form(request.headers, form_of(request)):
            raise BadRequest(403, "this form was not made by a page of this broker")

    def _facts(self, request: HttpRequest) -> PageFacts:
        facts = self._shared_facts(request.path)
        asker, why_not = request.asker, self._why_readonly(request)
        csrf = asker.csrf if self._asks_for_rights else "" if why_not else self._access.csrf
        return facts._replace(
            may_write=not why_not,
            why_not=why_not,
            csrf=csrf,
            notice=request.query.get("notice", ""),
            principal="" if asker.principal is None else str(asker.principal),
            has_session=asker.has_session,
            asker=asker,
        )

    def _shared_facts(self, path: str) -> PageFacts:
        """The facts that are the same for every reader."""
        broker = self._broker
        host, port = broker.address_of(broker.config.node_id)
        return PageFacts(
            path=path,
            now_ms=broker.clock.now_ms(),
            node_id=broker.config.node_id,
            cluster_id=broker.image.cluster_id,
            bootstrap=f"{host}:{port}",
            version=__version__,
            is_virtual=isinstance(broker.clock, MovableClock),
            samples=self._samples,
            peers=self._peers,
            is_cluster=broker.config.cluster.is_configured,
        )

    def _why_readonly(self, request: HttpRequest) -> str:
        if self._broker.config.ledgerstone_http_readonly:
            return "ledgerstone.http.readonly is set"
        if self._asks_for_rights:
            return "" if request.asker.csrf else "who asks cannot send forms"
        if not self._is_local:
            return "this port is open to other machines"
        if not self._access.is_known(request.headers, self._port):
            return _NO_TOKEN
        return ""

    # -- rights -------------------------------------------------------------------------------

    def _check_right(self, request: HttpRequest) -> None:
        if self._asks_for_rights:
            # A broker without an authorizer does without it.
            from ledgerstone.server.http.gate import check_route

            check_route(self._broker, request)

    def _check_fragment(self, name: str, asker: Asker) -> None:
        if self._asks_for_rights:
            from ledgerstone.server.http.gate import check_fragment

            kind, _, argument = name.partition(":")
            check_fragment(self._broker, asker, kind, argument)

    # -- events -------------------------------------------------------------------------------

    def _events(self, request: HttpRequest) -> Stream:
        names = [name for name in request.query.get("show", "").split(",") if name]
        unknown = [name for name in names if name.partition(":")[0] not in self._fragments]
        if not names or unknown or any(not name.isprintable() for name in names):
            raise BadRequest(404, "show must name fragments, with commas between them")
        try:
            for name in names:
                self._check_fragment(name, request.asker)
        except Refused as error:
            raise BadRequest(error.status, str(error)) from None
        return Stream(self.live.follow(names, request.asker), HEADERS[:-1])

    def _tick(self) -> None:
        self._samples.take()
        self._peers.tick()

    def _fragment(self, name: str, asker: Asker = ANYBODY) -> str:
        """Of an asker, and of all others with the same rights."""
        assert self._renderer is not None
        kind, _, argument = name.partition(":")
        if kind == CLUSTER:
            self._peers.want()
        try:
            self._check_fragment(name, asker)
            answer = self._fragments[kind](self._broker, argument, asker)
        except (NotShown, Refused) as error:
            answer = Rendered("error_fragment.html", {"reason": str(error)})
        return self._renderer.render(answer, self._shared_facts("")._replace(asker=asker))
