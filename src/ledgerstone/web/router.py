"""Routes a request to the view that answers it. Grade D.

A view gets the broker, the request and the named parts of the path. It returns a template with its
facts, a finished page, or, if it takes long, a generator of these: each yield lets other work run,
and a yielded job runs in a thread.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

from ledgerstone.server.broker import Broker
from ledgerstone.server.http.asker import Asker
from ledgerstone.server.http.server import HttpRequest, Job, Page, PagePause


class Rendered(NamedTuple):
    """A template and its facts; every page also gets `page`, see `rendering`."""

    template: str
    facts: Mapping[str, object]
    status: int = 200


Answer = Rendered | Page
SlowAnswer = Generator[Job | PagePause | None, Any, Answer]
View = Callable[[Broker, HttpRequest, Mapping[str, str]], Answer | SlowAnswer]
# A part of a page that is sent again when it changes; the argument follows its name. It shows what
# the asker may see.
Fragment = Callable[[Broker, str, Asker], Rendered]


class NotShown(Exception):
    """A view cannot show the page; becomes a page that says why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Route(NamedTuple):
    """`{name}` in the pattern matches one part of the path."""

    method: str
    pattern: str
    view: View
    # Other nodes are asked before the view is shown: `page.peers` has what they said.
    asks_peers: bool = False


class MatchedRoute(NamedTuple):
    view: View
    parts: Mapping[str, str]
    asks_peers: bool = False


def find(routes: Sequence[Route], method: str, path: str) -> MatchedRoute | None:
    """The first matching route; HEAD counts as GET."""
    wanted = "GET" if method == "HEAD" else method
    for route in routes:
        if route.method == wanted:
            parts = matched(route.pattern, path)
            if parts is not None:
                return MatchedRoute(route.view, parts, route.asks_peers)
    return None


def matched(pattern: str, path: str) -> dict[str, str] | None:
    """The values of the pattern's names; None if the path does not match."""
    names, words = pattern.split("/"), path.split("/")
    if len(names) != len(words):
        return None
    parts = {}
    for name, word in zip(names, words, strict=True):
        if name.startswith("{"):
            if not word:
                return None
            parts[name[1:-1]] = unquote(word)
        elif name != word:
            return None
    return parts
