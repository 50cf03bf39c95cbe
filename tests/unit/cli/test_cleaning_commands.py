"""What the cleaner's commands make of words and answers; the compat tests run them for real."""

import json
from typing import Any

import pytest
import typer

from ledgerstone.cli.admin_http import AdminApi, AdminCallFailed, answer_of, topic_path
from ledgerstone.cli.clock import parse_duration
from ledgerstone.client.http_api import ApiAddress

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("text", "ms"),
    [("25h", 25 * HOUR_MS), ("1d12h", 36 * HOUR_MS), ("500ms", 500), ("2m5s", 125_000), ("0s", 0)],
)
def test_durations_are_read_as_people_write_them(text: str, ms: int) -> None:
    assert parse_duration(text) == ms


@pytest.mark.parametrize("text", ["", "25", "h", "-1h", "1h x", "1.5h", "1hh"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not a duration"):
        parse_duration(text)


def test_name_of_a_topic_cannot_leave_its_place_in_a_path() -> None:
    assert topic_path("a/../b?c", "compact") == "topics/a%2F..%2Fb%3Fc/compact"


def test_api_that_is_not_there_is_an_expected_error() -> None:
    api = AdminApi(ApiAddress("127.0.0.1", 1))

    with pytest.raises(AdminCallFailed, match=r"the HTTP API at 127\.0\.0\.1:1"):
        api.get("clock")


@pytest.mark.parametrize(
    ("status", "content", "expected"),
    [
        (409, {"error": "real time"}, r"refused \(409\): real time"),
        (200, [], "answered"),
        (500, None, r"refused \(500\)"),
    ],
)
def test_refusals_of_the_api_say_what_it_said(status: int, content: Any, expected: str) -> None:
    text = b"oops" if content is None else json.dumps(content).encode()

    with pytest.raises(AdminCallFailed, match=expected):
        answer_of(ApiAddress("h", 1), status, text)
