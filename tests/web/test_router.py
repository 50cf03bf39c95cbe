"""Which view a path leads to."""

import pytest

from ledgerstone.server.http.server import Page
from ledgerstone.web.router import Route, find, matched


@pytest.mark.parametrize(
    ("pattern", "path", "parts"),
    [
        ("/", "/", {}),
        ("/topics", "/topics", {}),
        ("/topics", "/topics/", None),
        ("/topics/{topic}", "/topics/orders", {"topic": "orders"}),
        ("/topics/{topic}", "/topics/", None),
        ("/topics/{topic}", "/topics/a/b", None),
        ("/topics/{topic}", "/topics/a%2Fb", {"topic": "a/b"}),
        ("/topics/{topic}/keys", "/topics/%3Cb%3E/keys", {"topic": "<b>"}),
        ("/a/{x}/{y}", "/a/1/2", {"x": "1", "y": "2"}),
        ("/topics/{topic}", "//topics/orders", None),
    ],
)
def test_pattern_fits_whole_paths_and_names_their_parts(
    pattern: str, path: str, parts: dict[str, str] | None
) -> None:
    assert matched(pattern, path) == parts


def test_first_route_of_the_method_answers_and_head_is_asked_as_get() -> None:
    def one(*_: object) -> Page:
        return Page(200, "one")

    def two(*_: object) -> Page:
        return Page(200, "two")

    routes = (Route("POST", "/x", two), Route("GET", "/x", one), Route("GET", "/{any}", two))

    found = {method: find(routes, method, "/x") for method in ("GET", "HEAD", "POST", "PUT")}

    assert [each and each.view for each in found.values()] == [one, one, two, None]
