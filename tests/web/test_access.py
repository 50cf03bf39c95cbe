"""Who may see, and who may change something."""

import pytest

from ledgerstone.server.http.server import BadRequest, HttpRequest
from ledgerstone.sim.dice import SeededDice
from ledgerstone.web.access import Access
from tests.unit.server.erasing_kit import ErasingMachine
from tests.web.kit import COMPACTED, PORT, TOKEN, Parsed, Visitor, header, readonly_config

RECORD = {"key": "alice", "value": "new", "kind": "record"}
PRODUCE = f"/topics/{COMPACTED}/produce"


def test_token_is_long_and_of_the_dice() -> None:
    tokens = [Access.from_dice(SeededDice(seed)).token for seed in (1, 1, 2)]

    assert len(tokens[0]) == 32
    assert tokens[0] == tokens[1] != tokens[2]


def test_token_is_taken_out_of_the_address_and_becomes_a_cookie(stranger: Visitor) -> None:
    page = stranger.get(f"/topics?token={TOKEN}&q=a%26b")

    assert page.status == 303
    assert header(page, "Location") == "/topics?q=a%26b"
    cookie = header(page, "Set-Cookie") or ""
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert TOKEN not in cookie


def test_token_leads_nowhere_else(stranger: Visitor) -> None:
    page = stranger.get(f"//evil.example/?token={TOKEN}".replace("//evil", "/%2Fevil"))
    doubled = stranger.send(
        HttpRequest("GET", "//evil.example/", {"token": TOKEN}, stranger.headers)
    )

    assert header(page, "Location") == "/%2Fevil.example/"
    assert header(doubled, "Location") == "/evil.example/"


@pytest.mark.parametrize("token", ["", "x", TOKEN[:-1], TOKEN.upper()])
def test_wrong_token_gives_no_cookie(stranger: Visitor, token: str) -> None:
    with pytest.raises(BadRequest) as refused:
        stranger.get(f"/?token={token}")

    assert refused.value.status == 403


def test_who_has_no_cookie_reads_and_is_shown_no_form(stranger: Visitor) -> None:
    page = stranger.shown("/erasures")

    assert not [form for form in Parsed(page).all("form") if form.get("method") == "post"]
    assert stranger.access.csrf not in page
    assert "read only" in page


def test_who_has_the_cookie_is_shown_forms_with_their_secret(visitor: Visitor) -> None:
    page = Parsed(visitor.shown(PRODUCE))

    secrets = [each for each in page.all("input") if each.get("name") == "csrf"]
    assert [each["value"] for each in secrets] == [visitor.access.csrf]


def test_form_without_cookie_is_refused_before_its_body_is_read(stranger: Visitor) -> None:
    with pytest.raises(BadRequest) as refused:
        stranger.site.check_form(HttpRequest("POST", PRODUCE, {}, stranger.headers))

    assert refused.value.status == 403


def test_form_without_cookie_changes_nothing_even_with_the_secret(
    stranger: Visitor, machine: ErasingMachine
) -> None:
    before = machine.end(0, COMPACTED)

    with pytest.raises(BadRequest):
        stranger.post(PRODUCE, RECORD)

    assert machine.end(0, COMPACTED) == before


@pytest.mark.parametrize("csrf", ["", "0" * 64, TOKEN])
def test_form_without_its_secret_changes_nothing(
    visitor: Visitor, machine: ErasingMachine, csrf: str
) -> None:
    before = machine.end(0, COMPACTED)

    with pytest.raises(BadRequest) as refused:
        visitor.post(PRODUCE, RECORD, csrf=csrf)

    assert refused.value.status == 403
    assert machine.end(0, COMPACTED) == before


def test_form_from_another_origin_is_refused_whatever_it_carries(visitor: Visitor) -> None:
    body = f"csrf={visitor.access.csrf}&key=a&value=b".encode()
    headers = {**visitor.headers, "origin": "http://evil.example"}

    with pytest.raises(BadRequest) as refused:
        visitor.send(HttpRequest("POST", PRODUCE, {}, headers, body))

    assert refused.value.status == 403


def test_cookie_of_another_broker_on_this_machine_is_none_of_ours(stranger: Visitor) -> None:
    session = stranger.access.cookie(PORT).partition(";")[0].partition("=")[2]

    stranger.cookie = f"ledgerstone-{PORT + 1}={session}"

    assert "read only" in stranger.shown("/")


@pytest.mark.parametrize("cookie", ["", "=", "x" * 4000, 'ledgerstone-8080="', "a;b;;=;ąę=1"])
def test_strange_cookies_let_nobody_in(stranger: Visitor, cookie: str) -> None:
    stranger.cookie = cookie

    assert "read only" in stranger.shown("/")


def test_where_other_machines_may_connect_everything_needs_the_cookie(
    machine: ErasingMachine,
) -> None:
    stranger = Visitor(machine, is_local=False)

    for path in ("/", "/topics", f"/topics/{COMPACTED}/records", "/erasures", "/groups"):
        with pytest.raises(BadRequest) as refused:
            stranger.get(path)
        assert refused.value.status == 403

    friend = stranger.let_in()
    assert "read only" in friend.shown("/topics")


def test_readonly_broker_shows_no_form_to_anybody(machine: ErasingMachine) -> None:
    machine.broker.config = readonly_config(machine)
    visitor = Visitor(machine).let_in()

    pages = [visitor.shown(path) for path in ("/topics", PRODUCE, "/erasures")]

    assert not any('method="post"' in page for page in pages)
    assert all("ledgerstone.http.readonly is set" in page for page in pages)
