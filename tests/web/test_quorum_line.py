"""The overview of a node of a quorum."""

from types import SimpleNamespace

from ledgerstone.server.http.asker import ANYBODY
from ledgerstone.web.overview import overview_fragment
from ledgerstone.web.rendering import Renderer
from tests.kit.in_process import InProcess
from tests.kit.logs import T0
from tests.kit.lone_node import lone_node


def _text(rendered_facts: object, template: str) -> str:
    assert isinstance(rendered_facts, dict)
    page = SimpleNamespace(now_ms=T0)
    text = Renderer()._environment.get_template(template).render(page=page, **rendered_facts)
    return " ".join(text.split())


def test_overview_shows_leader_epoch_and_voters() -> None:
    rendered = overview_fragment(lone_node(), "", ANYBODY)

    text = _text(rendered.facts, rendered.template)

    assert "led by node 1, epoch 1; this node is leader; 1 voter: 1" in text


def test_overview_of_a_single_node_shows_no_quorum(empty: InProcess) -> None:
    rendered = overview_fragment(empty.broker, "", ANYBODY)

    assert "Quorum" not in _text(rendered.facts, rendered.template)
