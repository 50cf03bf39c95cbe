"""From a request to the view that answers it. Grade D.

A view is handed the broker, the request and the parts of the path that its pattern names. It
returns a template with its facts, a finished page, or, where it takes long, a generator of the
same: at each yield others have their turn, and a job that is yielded runs in a thread.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

from ledgerstone.server.broker import Broker
from ledgerstone.server.http.server import HttpRequest, Job, Page


class Rendered(NamedTuple):
    """A template and what it is told; every page is also told `page`, see `rendering`."""

    template: str
    facts: Mapping[str, object]
    status: int = 200


Answer = Rendered | Page
SlowAnswer = Generator[Job | None, Any, Answer]
View = Callable[[Broker, HttpRequest, Mapping[str, str]], Answer | SlowAnswer]
# A part of a page that is sent again when it has changed; the argument is what follows its name.
Fragment = Callable[[Broker, str], Rendered]


class NotShown(Exception):
    """A view that cannot show what was asked for; becomes a page that says why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Route(NamedTuple):
    """`{name}` in the pattern stands for one part of the path, whatever it is."""

    method: str
    pattern: str
    view: View


class Found(NamedTuple):
    view: View
    parts: Mapping[str, str]


def find(routes: Sequence[Route], method: str, path: str) -> Found | None:
    """The first route that fits; HEAD is asked as GET."""
    wanted = "GET" if method == "HEAD" else method
    for route in routes:
        if route.method == wanted:
            parts = matched(route.pattern, path)
            if parts is not None:
                return Found(route.view, parts)
    return None


def matched(pattern: str, path: str) -> dict[str, str] | None:
    """What the names of the pattern stand for; None where the path is another one."""
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
