"""What `ledgerstone tombstones` makes of the broker's words."""

from typing import Any

import pytest
import typer

from ledgerstone.cli.tombstones import app, describe, show_margin

STATUS: dict[str, Any] = {
    "topic": "users",
    "partition": 3,
    "fresh_tombstones": 2,
    "removed_below_offset": None,
    "removed_at_ms": None,
    "pending": [],
    "holds": [],
    "margins": [],
    "missed": [],
    "near": {"counts": {"empty": 0}, "samples": []},
}
PENDING = {
    "first_offset": 4, "last_offset": 9, "earliest_horizon_ms": 0, "is_held": True,
    "goes_at_ms": 60_000,
}  # fmt: skip
MISSED = {
    "group": "e\x1bvil", "committed_offset": 1, "first_offset": 1, "last_offset": 7, "at_ms": 0,
}  # fmt: skip
SAMPLE = {"offset": 12, "kind": "stray_tombstone", "at_ms": 0, "live_in": 1}


@pytest.mark.parametrize(
    ("margin_ms", "text"),
    [
        (None, "safe"),
        (0, "AT RISK NOW"),
        (999, "999 ms"),
        (90_000, "1.5 m"),
        (86_400_000, "1.0 d"),
        (3_600_000, "1.0 h"),
    ],
)
def test_margins_are_shown_in_the_largest_unit(margin_ms: int | None, text: str) -> None:
    assert show_margin(margin_ms) == text


def test_quiet_partition_is_one_line() -> None:
    assert describe(STATUS) == ["users-3: 2 tombstones await their first pass; none removed yet"]


def test_everything_known_of_a_partition_has_its_line() -> None:
    status = {
        **STATUS,
        "removed_below_offset": 4,
        "removed_at_ms": 0,
        "pending": [PENDING],
        "holds": [{"group": "sink", "committed_offset": None}],
        "margins": [{"group": "sink", "committed_offset": 5, "margin_ms": 0}],
        "missed": [MISSED],
        "near": {"counts": {"empty": 3, "stray_tombstone": 1}, "samples": [SAMPLE]},
    }

    _, pending, hold, margin, missed, counts, sample = describe(status)

    assert "offsets 4 to 9" in pending
    assert "(held)" in pending
    assert hold.endswith("group sink has committed nothing")
    assert margin.endswith("group sink at offset 5: AT RISK NOW")
    assert "group e\\x1bvil may have missed deletes between offsets 1 and 7" in missed
    assert counts.endswith("3 empty, 1 stray_tombstone since the broker started")
    assert sample.endswith("its key is live in partition 1")


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["users"], ["show", "users"]),
        (["--json", "users"], ["show", "--json", "users"]),
        (["show", "ack"], ["show", "ack"]),
        (["ack", "users", "sink"], ["ack", "users", "sink"]),
    ],
)
def test_topic_alone_is_short_for_showing_it(words: list[str], command: list[str]) -> None:
    group: Any = typer.main.get_command(app)

    context = group.make_context("tombstones", list(words))

    assert [*context._protected_args, *context.args] == command


def test_group_that_missed_deletes_is_not_called_safe_as_well() -> None:
    margins = [
        {"group": MISSED["group"], "committed_offset": 9, "margin_ms": None},
        {"group": "other", "committed_offset": 9, "margin_ms": None},
    ]
    lines = describe({**STATUS, "margins": margins, "missed": [MISSED]})
    assert [line for line in lines if "safe" in line] == [
        "  margin   group other at offset 9: safe"
    ]
    assert len([line for line in lines if "vil" in line]) == 1
