"""Scripts and styles that pages load, served from the package. Grade S.

Each is served under a name with a hash of its content, so that browsers can cache it forever and
still get the next version. All are small text files, and read once.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Final, NamedTuple

from ledgerstone.server.http.server import HttpRequest, Page

PREFIX: Final = "/assets/"
_FOR_EVER: Final = ("Cache-Control", "public, max-age=31536000, immutable")
_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


class Asset(NamedTuple):
    url: str
    content_type: str
    content: bytes
    packed: bytes


class Assets:
    """Loaded on first use; see `load`."""

    def __init__(self, by_name: Mapping[str, Asset]) -> None:
        self._by_name = by_name
        self._by_url = {each.url: each for each in by_name.values()}

    @classmethod
    def load(cls) -> "Assets":
        # Imported here: a broker starts without pages.
        from importlib.resources import files

        folder = files("ledgerstone.web") / "assets"
        return cls(
            {
                each.name: _asset(each.name, each.read_bytes())
                for each in sorted(folder.iterdir(), key=lambda each: each.name)
                if each.name.rpartition(".")[2] in _TYPES
            }
        )

    def url(self, name: str) -> str:
        return self._by_name[name].url

    @property
    def packed_bytes(self) -> int:
        """The most that a browser with an empty cache loads."""
        return sum(len(each.packed) for each in self._by_name.values())

    def page(self, request: HttpRequest) -> Page | None:
        asset = self._by_url.get(request.path)
        if asset is None:
            return None
        tag = f'"{asset.url.rsplit(".", 2)[1]}"'
        headers = (_FOR_EVER, ("ETag", tag), ("Vary", "Accept-Encoding"))
        if request.headers.get("if-none-match") == tag:
            return Page(304, b"", asset.content_type, headers)
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Page(200, asset.content, asset.content_type, headers)
        return Page(200, asset.packed, asset.content_type, (*headers, ("Content-Encoding", "gzip")))


def _asset(name: str, content: bytes) -> Asset:
    stem, _, kind = name.rpartition(".")
    url = f"{PREFIX}{stem}.{sha256(content).hexdigest()[:12]}.{kind}"
    # As above: a start does without it.
    from gzip import compress

    return Asset(url, _TYPES[kind], content, compress(content, 9, mtime=0))
