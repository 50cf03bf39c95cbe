"""The reference pages say what the declarations say, and miss nothing."""

import re

import pytest

import metrics_tour
import reference
import reference_http
from ledgerstone.cli.lazy import COMMANDS
from ledgerstone.config.broker_keys import BROKER_KEYS
from ledgerstone.config.topic import TOPIC_KEYS

REMEDY = "python tools/reference.py --metrics"


@pytest.mark.parametrize("name", sorted(reference.PAGES))
def test_reference_page_is_what_the_declarations_make(name: str) -> None:
    written = (reference.TARGET / name).read_text(encoding="utf-8")

    assert written == reference.PAGES[name](), REMEDY


def test_metrics_page_is_what_a_broker_exports(
    exported: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_tour, "metrics_page", lambda: exported)

    assert (reference.TARGET / "metrics.md").read_text() == reference.metrics_page(), REMEDY


def test_every_command_has_a_heading_in_the_reference() -> None:
    headings = re.findall(r"^##+ (.*)$", reference.cli_page(), re.MULTILINE)

    assert [name for name in COMMANDS if name not in headings] == []
    assert "topics create" in headings


def test_every_setting_is_in_the_reference() -> None:
    page = reference.configs_page()

    assert [name for name in TOPIC_KEYS if f"| `{name}` |" not in page] == []
    # A broker key that is the default of a topic key stands in that key's row.
    assert [name for name in BROKER_KEYS if f"`{name}`" not in page] == []


def test_every_route_of_the_http_api_is_told_of_in_a_docstring() -> None:
    modules = reference_http.api_modules()

    untold = {
        name: [route for route in routes if route not in entries]
        for name, (routes, entries) in modules.items()
    }

    assert {"api", "erasure", "guard"} <= set(modules)
    assert [name for name, routes in untold.items() if routes] == []
