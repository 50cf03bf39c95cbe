"""The site builds without a warning, and loads nothing from other hosts."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import site_pages
from tests.docs.documents import ROOT

LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=[\"']?(https?:[^\s\"'>]+)")
PLACES = {
    "docs/start/privacy.md": "start/privacy.md",
    "docs/erasure.md": "erasure.md",
    "src/ledgerstone/cleaner/README.md": "packages/cleaner.md",
    "ops/alerts.yml": "ops/alerts.yml",
}


@pytest.mark.parametrize(
    ("source", "link", "expected"),
    [
        ("docs/start/privacy.md", "[e](../erasure.md#scan)", "[e](../erasure.md#scan)"),
        ("docs/start/privacy.md", "[a](../../ops/alerts.yml)", "[a](../ops/alerts.yml)"),
        (
            "docs/erasure.md",
            "[c](../src/ledgerstone/cleaner/README.md)",
            "[c](packages/cleaner.md)",
        ),
        ("docs/erasure.md", "[c](../src/ledgerstone/cleaner)", "[c](packages/cleaner.md)"),
        ("docs/erasure.md", "![p](start/privacy.md)", "![p](start/privacy.md)"),
        (
            "src/ledgerstone/cleaner/README.md",
            "[e](../../../docs/erasure.md)",
            "[e](../erasure.md)",
        ),
        ("docs/erasure.md", "[the make file](../Makefile)", "the make file (`Makefile`)"),
        ("docs/erasure.md", "[x](https://example.org/a)", "[x](https://example.org/a)"),
        ("docs/erasure.md", "```\n[e](../Makefile)\n```", "```\n[e](../Makefile)\n```"),
    ],
)
def test_link_leads_to_the_same_thing_on_the_site(source: str, link: str, expected: str) -> None:
    assert site_pages.relinked(link, source, PLACES) == expected


def test_place_of_a_picture_stays_empty_until_the_picture_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_pages, "ROOT", tmp_path)
    text = "a <!-- picture p/x.png: two\nwords --> b"
    before = site_pages.illustrated(text, "page.md")

    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "x.png").touch()

    assert before == "a  b"
    assert site_pages.illustrated(text, "page.md") == "a ![two words](p/x.png) b"


def test_every_package_readme_is_a_page() -> None:
    pages = site_pages.outside_pages()

    readmes = [path.relative_to(ROOT).as_posix() for path in (ROOT / "src").rglob("README.md")]

    assert sorted(set(readmes) - set(pages)) == []
    assert len(set(pages.values())) == len(pages)


@pytest.mark.skipif(
    importlib.util.find_spec("mkdocs") is None, reason="mkdocs-material is not installed"
)
def test_site_is_made_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    pages = sorted(tmp_path.rglob("*.html"))
    foreign = {path.name: LOADED.findall(path.read_text(encoding="utf-8")) for path in pages}

    assert done.returncode == 0, done.stdout + done.stderr
    assert len(pages) > 40
    assert {name: found for name, found in foreign.items() if found} == {}
