"""What a request says about who it is from."""

import ipaddress
from base64 import b64encode

import pytest

from ledgerstone.security.http_credentials import (
    BearerToken,
    TrustedProxy,
    Unreadable,
    authorization_in,
    cookie_in,
    is_own_page,
)
from ledgerstone.security.passwords import NamedPassword

SECRET = "a secret of the proxy"
PROXY = TrustedProxy(networks=(ipaddress.ip_network("10.1.0.0/16"),), secret=SECRET)


def basic(text: str) -> dict[str, str]:
    return {"authorization": f"Basic {b64encode(text.encode()).decode()}"}


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        (basic("ann:tea"), NamedPassword("ann", b"tea")),
        (basic("ann:a:b"), NamedPassword("ann", b"a:b")),
        (basic("änn:tee ü"), NamedPassword("änn", "tee ü".encode())),
        ({"authorization": "bearer a.b.c"}, BearerToken(b"a.b.c")),
    ],
)
def test_authorization_is_read(headers: dict[str, str], expected: object) -> None:
    assert authorization_in(headers) == expected


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": ""},
        {"authorization": "Basic"},
        {"authorization": "Basic !!!"},
        {"authorization": "Basic /w=="},
        {"authorization": "Digest x"},
        {"authorization": "Bearer"},
        {"authorization": "Bearer \xff"},
        basic("ann"),
        basic(":tea"),
        basic("ann:"),
        basic("a" * 2000 + ":tea"),
    ],
)
def test_what_is_no_authorization_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(Unreadable):
        authorization_in(headers)


def test_cookie_is_found_among_strange_ones() -> None:
    headers = {"cookie": 'a; b="; c=1; mine=x=y; mine=z;;=;ąę=1'}

    assert cookie_in(headers, "mine") == "x=y"
    assert cookie_in(headers, "min") is None
    assert cookie_in({}, "mine") is None


@pytest.mark.parametrize(
    ("headers", "is_own"),
    [
        ({"origin": "https://here:1", "host": "here:1"}, True),
        ({"origin": "https://here:2", "host": "here:1"}, False),
        ({"origin": "https://here:2", "host": "here:1", "sec-fetch-site": "same-origin"}, False),
        ({"origin": "null", "host": "here:1"}, False),
        ({"origin": "null"}, False),
        ({"sec-fetch-site": "same-origin", "host": "here:1"}, True),
        ({"sec-fetch-site": "same-site", "host": "here:1"}, False),
        ({"host": "here:1"}, False),
    ],
)
def test_form_of_a_page_of_ours(headers: dict[str, str], is_own: bool) -> None:
    assert is_own_page(headers) is is_own


def said(name: str | None, secret: str | None) -> dict[str, str]:
    given = {"x-forwarded-user": name, "x-ledgerstone-proxy-secret": secret}
    return {key: value for key, value in given.items() if value is not None}


@pytest.mark.parametrize("host", ["10.1.2.3", "::ffff:10.1.2.3"])
def test_proxy_with_the_secret_names_the_user(host: str) -> None:
    assert PROXY.user_in(said("ann", SECRET), host) == "ann"
    assert PROXY.user_in(said(None, SECRET), host) is None
    assert PROXY.user_in({}, "192.0.2.1") is None


@pytest.mark.parametrize(
    ("name", "secret", "host"),
    [
        ("ann", SECRET, "10.2.0.1"),
        ("ann", None, "10.1.2.3"),
        ("ann", SECRET + "!", "10.1.2.3"),
        ("ann", "", "10.1.2.3"),
        ("", SECRET, "10.1.2.3"),
        ("a\x00b", SECRET, "10.1.2.3"),
        (None, SECRET, "192.0.2.1"),
        ("ann", SECRET, ""),
    ],
)
def test_whoever_else_names_a_user_is_refused(
    name: str | None, secret: str | None, host: str
) -> None:
    with pytest.raises(Unreadable):
        PROXY.user_in(said(name, secret), host)
