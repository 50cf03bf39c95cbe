"""SASL PLAIN: who is let in, and what the others are told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.security.exchange import Accepted, LoginRefused
from ledgerstone.security.plain import PlainClient, PlainServer, PlainUsers

WRONG = "Authentication failed: Invalid username or password"


def server() -> PlainServer:
    return PlainServer(PlainUsers({"alice": "secret", "bob": "s"}, b"key"))


@pytest.mark.parametrize("token", [b"\0alice\0secret", b"alice\0alice\0secret"])
def test_user_with_the_right_password_is_accepted(token: bytes) -> None:
    assert server().respond(token) == Accepted(b"", "alice")


@pytest.mark.parametrize(
    ("token", "public"),
    [
        (b"\0alice\0wrong", WRONG),
        (b"\0nobody\0secret", WRONG),
        (b"\0alice\0secret ", WRONG),
        (b"\0\xff\xfe\0secret", WRONG),
        (b"\0alice\0" + b"x" * 8193, WRONG),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (
            b"bob\0alice\0secret",
            "Authentication failed: Client requested an authorization id that is different from "
            "username",
        ),
        # Told only to who knows the password.
        (b"bob\0alice\0wrong", WRONG),
        (
            b"\0alice\0secret\0",
            "Invalid SASL/PLAIN response: expected 3 tokens, got 4",
        ),
        (b"alice\0secret", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
    ],
)
def test_others_are_refused_with_kafkas_texts(token: bytes, public: str | None) -> None:
    with pytest.raises(LoginRefused) as refused:
        server().respond(token)

    assert refused.value.public == public


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_and_nothing_else(token: bytes) -> None:
    with pytest.raises(LoginRefused) as refused:
        server().respond(token)

    assert "secret" not in str(refused.value)


def test_our_client_says_what_the_server_takes() -> None:
    client = PlainClient("alice", "secret")

    assert server().respond(client.begin()) == Accepted(b"", "alice")
    assert client.respond(b"") is None
