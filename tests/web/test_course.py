"""The five stages of a tombstone and the stages of an erasure: where something stands, in a row."""

import re
from importlib.resources import files
from typing import Any

import pytest

from ledgerstone.erasure.erasure import TRANSITIONS, Stage
from ledgerstone.web.anatomy_legend import COLOURS, MARKS
from ledgerstone.web.course import AHEAD, HERE, LEGEND, NEXT, REACHED, UNKNOWN
from ledgerstone.web.erasure_course import AT_RISK, BLOCKED, OVERDUE, alarm_of, course_of_erasure
from ledgerstone.web.strip import KINDS
from ledgerstone.web.tombstone_course import (
    TITLES,
    Latest,
    course_of_key,
    course_of_lost_key,
    course_of_partition,
)
from ledgerstone.web.wording import moment
from tests.unit.server.erasing_kit import DAY_MS, ErasingMachine
from tests.web.kit import COMPACTED, Parsed, Visitor, append
from tests.web.test_anatomy import anatomy, chain
from tests.web.test_key_history import compact, found, write

NOW = 1_000_000


def stands_at(page: Parsed) -> list[str]:
    """The titles of the stages that a drawing on the page says are the present one."""
    return [
        TITLES[index % len(TITLES)]
        for index, each in enumerate(each for each in page.all("li") if _is_stage(each))
        if each.get("aria-current") == "step"
    ]


def _is_stage(attributes: dict[str, str | None]) -> bool:
    return (attributes.get("class") or "").startswith("stage")


# -- pure -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("latest", "states"),
    [
        (Latest(5, 10, False), [HERE, NEXT, AHEAD, AHEAD, AHEAD]),
        (Latest(5, 10, True), [REACHED, HERE, NEXT, AHEAD, AHEAD]),
        (Latest(5, 10, True, NOW + 1), [REACHED, REACHED, HERE, NEXT, AHEAD]),
        (Latest(5, 10, True, NOW), [REACHED, REACHED, REACHED, HERE, NEXT]),
    ],
)
def test_key_stands_at_the_last_stage_that_is_behind_it(latest: Latest, states: list[str]) -> None:
    course = course_of_key(latest, now_ms=NOW)

    assert [mark.title for mark in course.marks] == list(TITLES)
    assert [mark.state for mark in course.marks] == states


def test_stages_of_a_stamped_tombstone_have_their_times() -> None:
    latest = Latest(5, 10, True, horizon_ms=NOW + 300, stamped_ms=NOW - 100, value_ms=7)

    course = course_of_key(latest, now_ms=NOW)

    assert [mark.at_ms for mark in course.marks] == [7, 10, NOW - 100, NOW + 300, None]
    assert course.share == pytest.approx(0.25)


def test_key_that_is_not_there_is_not_said_to_be_gone() -> None:
    course = course_of_lost_key(is_in_files=False)

    assert {mark.state for mark in course.marks} == {UNKNOWN}
    assert course_of_lost_key(is_in_files=True).marks[-1].state == HERE


def test_partition_that_is_never_compacted_has_no_stages() -> None:
    assert course_of_partition(anatomy(*chain([1000]), compacts=False), ()) is None


def told(stage: Stage = Stage.STAMPED, **more: Any) -> dict[str, Any]:
    """What the API tells of an erasure, as far as the page asks."""
    usual = {
        "stage": stage.value,
        "status": stage.value,
        "stages": [{"stage": "requested", "at_ms": 1}, {"stage": stage.value, "at_ms": 2}],
        "is_over": not TRANSITIONS[stage],
        "is_overdue": False,
        "will_miss": False,
        "expected_done_ms": 9,
        "because": "",
        "blocked_by": None,
        "waits_for": None,
        "waits_until_ms": None,
    }
    return {**usual, **more}


@pytest.mark.parametrize(
    ("erasure", "alarm"),
    [
        (told(), None),
        (told(will_miss=True), AT_RISK),
        (told(will_miss=True, is_overdue=True), OVERDUE),
        (told(expected_done_ms=None, blocked_by="a hold"), BLOCKED),
        (told(Stage.UNLINKED, status="residue found"), BLOCKED),
        (told(Stage.VERIFIED, status="residue found", expected_done_ms=None), BLOCKED),
        (told(Stage.VERIFIED, expected_done_ms=None), None),
        (told(Stage.RECEIPTED, expected_done_ms=None), None),
    ],
)
def test_alarm_says_why_somebody_has_to_look(erasure: dict[str, Any], alarm: str | None) -> None:
    assert alarm_of(erasure) == alarm


def test_erasure_that_ended_early_has_only_the_stages_it_had() -> None:
    course = course_of_erasure(told(Stage.CANCELLED))

    assert [mark.title for mark in course.marks] == ["requested", "cancelled"]
    assert course.marks[-1].state == HERE


def test_open_erasure_says_what_it_waits_for_where_it_waits() -> None:
    course = course_of_erasure(told(waits_for="a hold", waits_until_ms=77))

    (mark,) = [each for each in course.marks if each.state == NEXT]
    assert (mark.text, mark.at_ms) == ("waits for: a hold", 77)


# -- on pages -------------------------------------------------------------------------------------


def test_key_history_draws_where_the_key_stands(machine: ErasingMachine, visitor: Visitor) -> None:
    write(machine, b"eve", b"1")
    seen = [stands_at(found(machine, visitor, "eve"))]
    offset = write(machine, b"eve", None)
    seen.append(stands_at(found(machine, visitor, "eve")))
    compact(machine, b"eve")
    seen.append(stands_at(found(machine, visitor, "eve")))

    assert seen == [["Write"], ["Logical delete"], ["First compaction"]]
    assert offset > 0


def test_anatomy_draws_the_stages_and_where_the_key_of_a_record_stands(
    machine: ErasingMachine, visitor: Visitor
) -> None:
    plain = Parsed(visitor.shown(f"/topics/{COMPACTED}/anatomy?partition=0"))
    # Offset 5 is bob's tombstone.
    of_bob = Parsed(visitor.shown(f"/topics/{COMPACTED}/anatomy?partition=0&offset=5"))

    assert len([each for each in plain.all("li") if _is_stage(each)]) == len(TITLES)
    assert stands_at(plain) == []
    assert stands_at(of_bob) == ["Logical delete"]
    assert "this-record" in [each.get("class") for each in of_bob.all("line")]


def test_record_page_draws_where_its_key_stands(visitor: Visitor) -> None:
    assert stands_at(Parsed(visitor.shown(f"/topics/{COMPACTED}/records/0/5"))) == [
        "Logical delete"
    ]


def test_erasure_page_has_stage_times_the_reason_and_no_cancel_that_cannot_work(
    machine: ErasingMachine, visitor: Visitor
) -> None:
    # Carol has records nowhere; alice has, so hers goes on to where there is no way back.
    erasure = machine.erase(b"alice", COMPACTED, within_ms=30 * DAY_MS, reason="ticket 4711")
    early = visitor.shown(f"/erasures/{erasure}")
    machine.settle()
    late = visitor.shown(f"/erasures/{erasure}")

    assert "ticket 4711" in early
    assert f"/erasures/{erasure}/cancel" in early
    assert "data-cancellable" in early
    assert f"/erasures/{erasure}/cancel" not in late
    assert "can no longer be cancelled" in late
    times = machine.erasure(erasure).stage_times
    assert len(times) > 2
    assert all(moment(at_ms) in late for _, at_ms in times)


def test_erasure_page_tells_of_a_later_life_of_the_key(
    machine: ErasingMachine, visitor: Visitor
) -> None:
    erasure = machine.erase(b"alice", COMPACTED)
    machine.run(erasure, until=Stage.STAMPED)
    before = Parsed(visitor.shown(f"/erasures/{erasure}"))
    append(machine, COMPACTED, b"alice", b"back again")
    machine.run(erasure)

    after = Parsed(visitor.shown(f"/erasures/{erasure}"))

    assert machine.erasure(erasure).stage is Stage.RECEIPTED
    assert "The key was written again" not in before.text
    assert "The key was written again" in after.text
    assert f"1 record in {COMPACTED}-0" in after.text


def test_overview_shows_erasures_that_somebody_has_to_look_at(
    machine: ErasingMachine, visitor: Visitor
) -> None:
    calm = machine.erase(b"alice", COMPACTED, within_ms=60 * DAY_MS)
    machine.settle()
    before = visitor.shown("/")
    # Retention alone takes a day.
    late = machine.erase(b"bob", COMPACTED, within_ms=3_600_000, after_ms=1)
    machine.settle()

    after = visitor.shown("/")

    assert calm not in before
    assert late not in before
    assert calm not in after
    assert f"/erasures/{late}" in after
    assert "at risk" in Parsed(after).text


# -- legends --------------------------------------------------------------------------------------


def test_every_state_of_a_stage_has_words() -> None:
    assert set(LEGEND) == {"reached", "here", "next", "ahead", "unknown", "some", "none"}


def shapes_in(text: str) -> set[str]:
    return set(re.findall(r'<g class="shape (\w+)"', text))


def test_legend_explains_every_shape_of_the_stages(
    machine: ErasingMachine, visitor: Visitor
) -> None:
    erasure = next(iter(machine.broker.erasing.journal.book)).id
    pages = [
        visitor.shown(f"/topics/{COMPACTED}/anatomy?partition=0&offset=5"),
        visitor.shown(f"/topics/{COMPACTED}/records/0/5"),
        visitor.shown(f"/erasures/{erasure}"),
    ]

    for text in pages:
        drawn = shapes_in(text.partition('class="course')[2].partition("</ol>")[0])
        explained = {each.get("data-mark") for each in Parsed(text).all("li")}
        assert drawn
        assert shapes_in(text) <= explained
        if 'class="stage passed"' in text:
            assert {"behind", "left"} <= explained


def test_legend_explains_every_class_that_the_stylesheet_has_a_shape_for() -> None:
    sheet = (files("ledgerstone.web") / "assets" / "anatomy.css").read_text(encoding="utf-8")
    marks = {kind for kind, _ in MARKS}
    assert {kind for kind, _ in COLOURS} == set(KINDS)
    assert {f"band-{name}" for name in re.findall(r"\.bands \.(\w+)", sheet)} <= marks
    assert {f"horizon-{name}" for name in re.findall(r"\.horizon\.(\w+) path", sheet)} <= marks
    assert set(re.findall(r"\.marks line\.([\w-]+)", sheet)) <= marks
    assert set(re.findall(r"\.box\.([\w-]+) \.edge", sheet)) <= marks
