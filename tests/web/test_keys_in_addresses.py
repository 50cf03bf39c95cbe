"""No address contains a key: not a link, a form, a redirect or an old bookmark."""

import re
from urllib.parse import parse_qsl, quote, urlsplit

import pytest

from ledgerstone.server.http.server import BadRequest, HttpRequest
from ledgerstone.web.forms import as_field, bytes_in
from ledgerstone.web.views import FRAGMENTS
from tests.unit.server.erasing_kit import ErasingMachine
from tests.web.kit import COMPACTED, PLAIN, Parsed, Visitor, append, full_machine, header
from tests.web.test_key_history import ask, found
from tests.web.test_views import ALL_PATHS

KEY = b"zoe@example.org"
ADDRESSES = ("href", "action", "hx-get", "hx-post", "sse-connect", "src", "content")
# As text, percent-encoded, in hexadecimal and in base64.
SPELLINGS = ("zoe", quote("zoe@example.org"), KEY.hex(), "em9lQGV4YW1wbGUub3Jn")


def holds_the_key(address: str) -> bool:
    return any(each.lower() in address.lower() for each in SPELLINGS)


def addresses_of(page: Parsed) -> list[str]:
    return [
        str(attributes[name])
        for _, attributes in page.elements
        for name in ADDRESSES
        if attributes.get(name)
    ]


@pytest.fixture
def zoe(machine: ErasingMachine) -> Visitor:
    """A key that is on every page that shows keys."""
    for topic in (COMPACTED, PLAIN):
        append(machine, topic, KEY, b"here")
    append(machine, COMPACTED, KEY, None)
    return Visitor(machine).let_in()


PAGES = [
    *ALL_PATHS,
    f"/topics/{COMPACTED}/records/0/6",
    f"/topics/{COMPACTED}/records/0/7",
    f"/topics/{COMPACTED}/keys?partition=0&offset=7",
    f"/topics/{COMPACTED}/produce?partition=0&offset=7&tombstone=1",
    f"/topics/{COMPACTED}/anatomy?partition=0&offset=7",
    f"/erasures?topic={COMPACTED}&partition=0&offset=7",
]


@pytest.mark.parametrize("path", PAGES)
def test_no_page_has_an_address_with_a_key(zoe: Visitor, path: str) -> None:
    page = Parsed(zoe.shown(path))

    assert not [each for each in addresses_of(page) if holds_the_key(each)]
    for address in addresses_of(page):
        assert not {"key", "key_as"} & dict(parse_qsl(urlsplit(address).query)).keys()


@pytest.mark.parametrize("path", PAGES)
def test_form_that_becomes_an_address_has_no_field_for_a_key(zoe: Visitor, path: str) -> None:
    text = zoe.shown(path)

    for form in re.findall(r"<form.*?</form>", text, re.DOTALL):
        parsed = Parsed(form)
        if parsed.all("form")[0].get("method", "get") != "post":
            names = [each.get("name") for each in parsed.all("input")]
            assert "key" not in names, form


def test_pages_do_show_the_key_that_is_looked_for(zoe: Visitor) -> None:
    """Else the tests above would find nothing whatever the pages did."""
    shown = [path for path in PAGES if "zoe@example.org" in zoe.shown(path)]

    assert len(shown) >= 7


def test_history_found_by_a_form_has_no_address_with_its_key(
    machine: ErasingMachine, zoe: Visitor
) -> None:
    under_way, done = ask(zoe, KEY.decode()), found(machine, zoe, KEY.decode())

    assert [each for each in under_way.all("form") if "data-busy" in each]
    assert "The key is deleted" in done.text
    for page in (under_way, done):
        assert not [each for each in addresses_of(page) if holds_the_key(each)]


def test_no_action_leads_to_an_address_with_its_key(zoe: Visitor) -> None:
    key = KEY.decode()
    answers = [
        zoe.post(f"/topics/{COMPACTED}/produce", {"key": key, "value": key}),
        zoe.post(f"/topics/{COMPACTED}/produce", {"key": key, "kind": "tombstone"}),
        zoe.post("/erasures", {"topic": COMPACTED, "key": key}),
    ]

    places = [header(each, "Location") or "" for each in answers]
    assert all(places)
    assert not [each for each in places if holds_the_key(each)]


@pytest.mark.parametrize(
    "path",
    [
        f"/topics/{COMPACTED}/keys",
        f"/topics/{COMPACTED}/records",
        f"/topics/{COMPACTED}/produce",
        "/erasures",
    ],
)
def test_key_in_an_old_address_is_not_taken_and_leaves_the_address(zoe: Visitor, path: str) -> None:
    page = zoe.get(f"{path}?key=zoe%40example.org&key_as=text&topic={COMPACTED}")

    where = header(page, "Location") or ""
    assert page.status == 303
    assert urlsplit(where).path == path
    assert not holds_the_key(where)
    assert "A key is not taken from an address" in zoe.shown(where)


def test_token_is_not_exchanged_for_an_address_with_a_key(zoe: Visitor) -> None:
    page = zoe.get(f"/topics/{COMPACTED}/keys?token={zoe.access.token}&key=zoe%40example.org")

    assert header(page, "Location") == f"/topics/{COMPACTED}/keys"


def test_fragments_are_named_without_keys(zoe: Visitor) -> None:
    for path in PAGES:
        for each in Parsed(zoe.shown(path)).all("main"):
            shown = dict(parse_qsl(urlsplit(each.get("sse-connect") or "").query)).get("show", "")
            assert not holds_the_key(shown)
            assert {name.partition(":")[0] for name in shown.split(",") if name} <= set(FRAGMENTS)


def test_link_to_a_record_that_is_gone_says_so(zoe: Visitor) -> None:
    page = zoe.get(f"/topics/{COMPACTED}/keys?partition=0&offset=99")

    assert page.status == 404
    assert "Type the key instead" in str(page.body)


@pytest.mark.parametrize("key", [b"plain", "żółw".encode(), b"\xff", b"a\r\nb", b"\x00", b""])
def test_key_in_a_field_is_the_same_when_it_comes_back(key: bytes) -> None:
    text, written = as_field(key)

    assert bytes_in({"key": text, "key_as": written}, "key") == key


# -- who may ask ----------------------------------------------------------------------------------


def question(visitor: Visitor, **headers: str) -> HttpRequest:
    path = f"/topics/{COMPACTED}/keys"
    return HttpRequest("POST", path, {}, {**visitor.headers, **headers}, b"key=alice")


def test_who_may_read_may_ask_for_a_key_without_a_token(stranger: Visitor) -> None:
    stranger.site.check_form(question(stranger))

    assert stranger.send(question(stranger)).status == 200
    assert stranger.woken == 0


def test_foreign_page_cannot_ask(stranger: Visitor) -> None:
    asked = question(stranger, origin="http://evil.example")

    with pytest.raises(BadRequest):
        stranger.site.check_form(asked)
    with pytest.raises(BadRequest):
        stranger.send(asked)


def test_where_other_machines_may_connect_a_question_needs_the_cookie() -> None:
    visitor = Visitor(full_machine(), is_local=False)

    with pytest.raises(BadRequest):
        visitor.site.check_form(question(visitor))
    visitor.let_in().site.check_form(question(visitor))
    assert visitor.send(question(visitor)).status == 200
