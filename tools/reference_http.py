"""The reference of the HTTP API, from the routes in the code and the docstrings beside them. Shell.

A module of `ledgerstone.server.http` that answers API calls matches the parts of a path. Its
docstring has a line for each: method, path, body, what it does. A route without one is an error.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple, cast

from ledgerstone.server.broker import Broker
from ledgerstone.server.http import monitor_routes
from markdown_page import code, page, table

HTTP: Final = Path(__file__).resolve().parent.parent / "src" / "ledgerstone" / "server" / "http"


class Route(NamedTuple):
    method: str
    path: str  # names of variable parts stand in for them


PLAIN_PAGES: Final = {
    "/metrics": "what Prometheus reads, see [metrics](metrics.md)",
    "/livez": "200 while the process answers",
    "/healthz": "the same",
    "/readyz": "200, or 503 with a line for each reason: an operator has to look",
}
SUBJECTS: Final = {
    "api": "Cleaning and the clock",
    "erasure": "Erasures",
    "guard": "Tombstones",
}
MORE: Final = {
    "api": "In words: [the life of a tombstone](../tombstones.md).",
    "erasure": "Bodies and answers: [erase with evidence](../erasure.md#http-api).",
    "guard": "Answers: [the life of a tombstone](../tombstones.md#commands).",
}
_ENTRY: Final = re.compile(r"^ *(GET|POST) +(/api/v1/\S+)(.*)$")


def http_page() -> str:
    blocks = [
        "The broker's HTTP port, `--http HOST:PORT`. GET is open to every client that reaches the "
        "port by an address or a name that `ledgerstone.http.hosts` allows. POST needs "
        "`Content-Type: application/json`; on a loopback address also a `Host` of this machine, on "
        "any other the token; see [security](../security.md). Errors of the API are "
        '`{"error": why}`.',
        "## Plain pages",
        table(("path", ""), [(code(path), text) for path, text in plain_pages().items()]),
    ]
    for name, (routes, entries) in api_modules().items():
        missing = [each for each in routes if each not in entries]
        if missing:
            raise SystemExit(
                f"server/http/{name}.py has routes its docstring does not tell of: {missing}"
            )
        blocks.append(f"## {SUBJECTS.get(name, name.capitalize())}")
        rows = [
            (code(f"{route.method} {text.path}"), code(text.body), text.says)
            for route, text in entries.items()
        ]
        blocks += [table(("request", "body", ""), rows), MORE.get(name, "")]
    return page("HTTP API", *filter(None, blocks))


def plain_pages() -> dict[str, str]:
    """What is told about each, held against the code; a broker is needed only to answer."""
    found = list(monitor_routes.routes(cast(Broker, None)))
    if found != list(PLAIN_PAGES):
        raise SystemExit(
            f"server/http/monitor_routes.py has {found}, this file tells of {list(PLAIN_PAGES)}"
        )
    return PLAIN_PAGES


class Entry(NamedTuple):
    path: str
    body: str
    says: str


def api_modules() -> Mapping[str, tuple[list[Route], dict[Route, Entry]]]:
    """Of each module that answers API calls: the routes in its code, and those in its docstring."""
    found = {}
    for path in sorted(HTTP.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        routes = list(_routes(tree))
        if routes:
            found[path.stem] = (routes, _entries(ast.get_docstring(tree) or ""))
    return found


def _routes(tree: ast.Module) -> Iterator[Route]:
    """From `case ["topics", topic, "where"]:` and the methods in the mapping that follows."""
    for case in (each for each in ast.walk(tree) if isinstance(each, ast.match_case)):
        if not isinstance(case.pattern, ast.MatchSequence):
            continue
        parts = [_part(each) for each in case.pattern.patterns]
        for mapping in (each for each in ast.walk(case) if isinstance(each, ast.Dict)):
            for key in mapping.keys:
                if isinstance(key, ast.Constant) and key.value in ("GET", "POST"):
                    yield Route(key.value, _shape("/".join(parts)))
            break


def _part(pattern: ast.pattern) -> str:
    if isinstance(pattern, ast.MatchValue) and isinstance(pattern.value, ast.Constant):
        return str(pattern.value.value)
    return "{}"


def _shape(path: str) -> str:
    """Paths with their variable parts alike: docstrings write T, N, ID or G for one."""
    return re.sub(r"(?<=/)[A-Z]+(?=/|$)", "{}", path.removeprefix("/api/v1/"))


def _entries(docstring: str) -> dict[Route, Entry]:
    found: dict[Route, Entry] = {}
    last: Route | None = None
    for line in docstring.splitlines():
        entry = _ENTRY.match(line)
        if entry:
            path = entry[2].partition("[")[0]
            last = Route(entry[1], _shape(path))
            body, says = _halves(entry[3])
            found[last] = Entry(entry[2], body, says)
        elif last and line.startswith(" ") and line.strip():
            known = found[last]
            body, says = known.body, known.says
            if body.count("{") > body.count("}"):
                body += " " + line.strip()
            else:
                says = f"{says} {line.strip()}".strip()
            found[last] = Entry(known.path, body, says)
        else:
            last = None
    return found


def _halves(rest: str) -> tuple[str, str]:
    """The body a request takes, and what is said about it."""
    text = rest.strip()
    if not text.startswith("{"):
        return "", text
    body, brace, says = text.partition("}")
    return body + brace, says.strip()
