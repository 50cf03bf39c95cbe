"""Puts on the documentation's site what lies outside docs/. Shell: a hook of mkdocs (mkdocs.yml).

Documents link to READMEs of packages, alert rules and examples as they lie in the repository. On
the site these are pages and files too, and links follow them there. A link to something that is
not on the site becomes the path in words.
"""

import posixpath
import re
from importlib import import_module
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
# Documents of the repository's root, by the name of their page.
TOP: Final = {
    "ARCHITECTURE.md": "development/architecture.md",
    "CHANGELOG.md": "development/changelog.md",
    "CONTRIBUTING.md": "development/contributing.md",
    "README.md": "development/readme.md",
}
# Copied as they are, to be downloaded.
FILES: Final = ("ops/*", "examples/*.py")
# An inline link or image whose target is a path.
LINK: Final = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)#\s:]+)(#[^)\s]*)?\)")
# A place for a picture of the page; it stays empty until the picture is there.
PICTURE: Final = re.compile(r"<!-- picture (\S+\.png): (.*?) -->", re.DOTALL)
FENCE: Final = re.compile(r"^(?:```.*?^```|(?: {4}|\t).*?$)", re.MULTILINE | re.DOTALL)


def outside_pages() -> dict[str, str]:
    """Site page by repository path, for every document outside docs/."""
    found = {name: page for name, page in TOP.items() if (ROOT / name).exists()}
    for path in sorted((ROOT / "src" / "ledgerstone").rglob("README.md")):
        name = path.parent.relative_to(ROOT / "src" / "ledgerstone").as_posix().replace("/", "-")
        found[path.relative_to(ROOT).as_posix()] = f"packages/{name}.md"
    for path in sorted((ROOT / "tests").rglob("README.md")):
        name = path.parent.relative_to(ROOT / "tests").as_posix().replace("/", "-")
        found[path.relative_to(ROOT).as_posix()] = f"development/tests-{name}.md"
    return found


def outside_files() -> list[str]:
    found = [path for pattern in FILES for path in ROOT.glob(pattern) if path.is_file()]
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def site_map() -> dict[str, str]:
    """Where each file of the repository that is on the site lies there."""
    docs = ROOT / "docs"
    inside = {
        f"docs/{path.relative_to(docs).as_posix()}": path.relative_to(docs).as_posix()
        for path in docs.rglob("*")
        if path.is_file()
    }
    return {**inside, **outside_pages(), **{name: name for name in outside_files()}}


def relinked(text: str, source: str, places: dict[str, str]) -> str:
    """`text` of the repository's file `source` with its links as they are on the site."""
    here = posixpath.dirname(places[source])

    def link(found: re.Match[str]) -> str:
        bang, words, target, anchor = found[1], found[2], found[3], found[4] or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        page = places.get(path) or places.get(f"{path}/README.md")
        if page is not None:
            return f"{bang}[{words}]({posixpath.relpath(page, here or '.')}{anchor})"
        return words if words.strip("`") == path else f"{words} (`{path}`)"

    parts, at = [], 0
    for code in FENCE.finditer(text):
        parts += [LINK.sub(link, text[at : code.start()]), code[0]]
        at = code.end()
    return "".join([*parts, LINK.sub(link, text[at:])])


def illustrated(text: str, source: str) -> str:
    """`text` with the pictures there are, each at the place that is kept for it."""

    def picture(place: re.Match[str]) -> str:
        is_there = (ROOT / source).parent.joinpath(place[1]).exists()
        return f"![{' '.join(place[2].split())}]({place[1]})" if is_there else ""

    return PICTURE.sub(picture, text)


# -- what mkdocs calls ----------------------------------------------------------------------------


def on_config(config: Any) -> Any:  # noqa: ANN401 - mkdocs is not there where types are checked
    """Decisions and packages come and go; the navigation's last part follows them."""
    (development,) = config["nav"][-1].values()
    decisions = sorted(path.name for path in (ROOT / "docs" / "adr").glob("*.md"))
    packages = [page for page in outside_pages().values() if page.startswith("packages/")]
    development += [
        {"Decisions": [f"adr/{name}" for name in decisions]},
        {"Packages": [{Path(page).stem.replace("-", "."): page} for page in packages]},
    ]
    return config


def on_files(files: Any, config: Any) -> Any:  # noqa: ANN401
    # Not an import statement: where types are checked there is no mkdocs.
    new_file = import_module("mkdocs.structure.files").File.generated
    for source, page in outside_pages().items():
        content = (ROOT / source).read_text(encoding="utf-8")
        files.append(new_file(config, page, content=content))
    for name in outside_files():
        files.append(new_file(config, name, content=(ROOT / name).read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:  # noqa: ANN401
    places = site_map()
    sources = {place: source for source, place in places.items()}
    source = sources[page.file.src_uri]
    return relinked(illustrated(markdown, source), source, places)
