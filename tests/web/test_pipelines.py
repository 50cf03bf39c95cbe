"""Pipelines on the page: what their commits tell, and who sees it."""

import json

import pytest

from ledgerstone.pipeline.announced import SILENT_MS, Announced, announced_in, metadata_text
from ledgerstone.security.acl import AclOperation, AclResourceType
from tests.unit.server.asks import commit_offset
from tests.unit.server.erasing_kit import ErasingMachine
from tests.web.kit import COMPACTED, PLAIN, Parsed, Visitor, full_machine
from tests.web.test_rights import SETTINGS, allow, as_user


def announced(machine: ErasingMachine, state: str, **more: object) -> str:
    now_ms = machine.broker.clock.now_ms()
    said = Announced(
        name="<b>people",
        table="sqlite people",
        state=state,
        said_ms=now_ms,
        lag=7,
        rows_per_s=1234.4,
    )
    content = json.loads(metadata_text(now_ms, said))
    content["pipeline"] |= more
    return json.dumps(content)


def commit(machine: ErasingMachine, group: str, offset: int, topic: str, text: str) -> None:
    assert commit_offset(machine.connect(), group, offset, topic, text) == 0
    machine.settle()


def test_page_shows_every_pipeline_with_its_lag_and_error(
    machine: ErasingMachine, visitor: Visitor
) -> None:
    empty = Parsed(visitor.shown("/pipelines")).text
    text = announced(machine, "failed", error="a record does not fit <i>")
    commit(machine, "of-people", 2, COMPACTED, text)
    commit(machine, "of-people", 5, PLAIN, metadata_text(1))

    page = visitor.shown("/pipelines")
    text = Parsed(page).text

    assert "No pipeline has told of itself" in empty
    assert "<b>people" not in page
    assert "<i>" not in page
    for word in ("<b>people", COMPACTED, PLAIN, "sqlite people", "failed", "does not fit"):
        assert word in text
    assert "1\u202f234" in text
    assert "billing" not in text


def test_run_that_says_nothing_more_is_silent(machine: ErasingMachine, visitor: Visitor) -> None:
    commit(machine, "of-people", 2, COMPACTED, announced(machine, "running"))
    before = Parsed(visitor.shown("/pipelines")).text
    machine.advance(SILENT_MS + 1)

    after = Parsed(visitor.shown("/pipelines")).text

    assert "running" in before
    assert "silent" in after.split("Last error")[1]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"pipeline": 5}',
        '{"pipeline": {"name": "x"}}',
        "[" * 4000,
        '{"pipeline": {"name": 1, "table": 2, "state": 3, "said_ms": "x", "lag": 0, '
        '"rows_per_s": 0}}',
        '{"pipeline": {"name": 1, "table": 2, "state": 3, "said_ms": 1e300, "lag": 0, '
        '"rows_per_s": NaN}}',
    ],
)
def test_what_others_commit_is_no_pipeline(text: str) -> None:
    assert announced_in(text) is None


def test_pipeline_is_seen_with_the_rights_on_its_group_and_topic() -> None:
    machine = full_machine(SETTINGS)
    commit(machine, "of-people", 2, COMPACTED, announced(machine, "running"))
    allow(machine, "both", AclOperation.DESCRIBE, COMPACTED)
    allow(machine, "both", AclOperation.DESCRIBE, "of-people", AclResourceType.GROUP)
    allow(machine, "half", AclOperation.DESCRIBE, "of-people", AclResourceType.GROUP)

    shown = {
        name: "people" in Parsed(as_user(machine, name).shown("/pipelines")).text
        for name in ("both", "half", "stranger")
    }

    assert shown == {"both": True, "half": False, "stranger": False}
