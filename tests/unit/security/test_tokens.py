"""Tokens: whose signature counts, what they must say, and how they are said."""

import base64
import contextlib
import hmac
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.security.exchange import Accepted, Challenge, LoginRefused
from ledgerstone.security.jwk import parse_jwks
from ledgerstone.security.jws import BadToken, verified_claims
from ledgerstone.security.oauthbearer import OauthClient, OauthServer
from ledgerstone.security.strict_json import BadJson
from ledgerstone.security.tokens import TokenKeys, TokenRules, validate_token
from tests.kit.tokens import ALGORITHMS, AUDIENCE, ISSUER, Issuer, encoded

NOW_S = 1_800_000_000
NOW_MS = NOW_S * 1000
ISSUING = Issuer()
KEYS = parse_jwks(ISSUING.key_set())


def rules(**changed: Any) -> TokenRules:
    keys = TokenKeys()
    keys.keys = KEYS
    return TokenRules(
        **{"keys": keys, "issuer": ISSUER, "audiences": (AUDIENCE, "other"), **changed}
    )


def token(alg: str = "RS256", **claims: Any) -> bytes:
    return ISSUING.token(NOW_S, alg, **claims).encode()


@pytest.mark.parametrize("alg", ALGORITHMS)
def test_every_algorithm_is_checked_with_its_key(alg: str) -> None:
    good = ISSUING.token(NOW_S, alg)
    valid = validate_token(good.encode(), rules(), NOW_MS)

    head, body, signature = good.split(".")
    forged = json.loads(base64.urlsafe_b64decode(body + "=="))
    forged["sub"] = "root"
    with pytest.raises(BadToken, match="signature"):
        verified_claims(f"{head}.{encoded(json.dumps(forged).encode())}.{signature}".encode(), KEYS)

    assert (valid.name, valid.expires_ms) == ("alice", NOW_MS + 600_000)


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": NOW_S - 30}, "expired"),
        ({"exp": None}, "exp"),
        ({"exp": "soon"}, "exp"),
        ({"exp": True}, "exp"),
        ({"exp": 1e300}, "exp"),
        ({"iat": None}, "iat"),
        ({"iat": NOW_S + 31}, "future"),
        ({"nbf": NOW_S + 31}, "not count yet"),
        ({"iss": "https://other.example"}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"aud": "somebody"}, "audience"),
        ({"aud": None}, "audience"),
        ({"aud": []}, "audience"),
        ({"aud": {"a": 1}}, "aud"),
        ({"sub": None}, "sub"),
        ({"sub": "  "}, "sub"),
        # To the issuer this is not alice.
        ({"sub": " alice"}, "sub"),
        ({"sub": "alice\u00a0"}, "sub"),
        ({"sub": "\ud800"}, "sub"),
        ({"sub": 7}, "sub"),
        ({"sub": "x" * 1025}, "sub"),
        ({"scope": ["a", "a"]}, "scope"),
        ({"scope": ["a", " "]}, "scope"),
        ({"scope": 7}, "scope"),
    ],
)
def test_token_that_says_the_wrong_thing_is_refused(claims: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadToken, match=reason):
        validate_token(token(**claims), rules(), NOW_MS)


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": NOW_S - 29, "iat": NOW_S - 100},
        {"nbf": NOW_S + 30},
        {"iat": NOW_S + 30},
        {"aud": ["else", "other"]},
        {"scope": "read write"},
        {"scope": ["read", "write"]},
    ],
)
def test_token_at_the_edge_is_taken(claims: dict[str, Any]) -> None:
    assert validate_token(token(**claims), rules(), NOW_MS).name == "alice"


def test_name_may_be_in_another_claim() -> None:
    found = validate_token(token(user="bob"), rules(name_claim="user"), NOW_MS)

    assert found.name == "bob"


def test_token_without_a_signature_or_signed_with_a_public_key_is_refused() -> None:
    body = encoded(json.dumps({"sub": "root"}).encode())
    none = ".".join((encoded(b'{"alg":"none"}'), body, ""))
    content = ".".join((encoded(b'{"alg":"HS256","kid":"RS256"}'), body))
    stolen = hmac.digest(ISSUING.key_set(), content.encode(), "sha256")

    for each in (none, f"{content}.{encoded(stolen)}"):
        with pytest.raises(BadToken, match="algorithm"):
            verified_claims(each.encode(), KEYS)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ({"crit": ["exp"]}, "understand"),
        ({"kid": "unknown"}, "no key of that name"),
        ({"kid": "ES256"}, "for the algorithm"),
        ({"kid": "RS384"}, "for the algorithm"),
        ({"kid": 7}, "malformed"),
        ({"kid": "k" * 1001}, "malformed"),
        ({"alg": "RS1"}, "algorithm"),
        ({"alg": None}, "algorithm"),
    ],
)
def test_header_that_does_not_fit_is_refused(header: dict[str, Any], reason: str) -> None:
    made = ISSUING.token(NOW_S, "RS256", header).encode()

    with pytest.raises(BadToken, match=reason):
        verified_claims(made, KEYS)


def test_unknown_key_is_remembered_for_whoever_fetches_them() -> None:
    judging = rules()
    made = ISSUING.token(NOW_S, "RS256", {"kid": "new"}).encode()

    with pytest.raises(BadToken):
        validate_token(made, judging, NOW_MS)

    assert judging.keys.misses_key


def test_no_keys_let_nobody_in() -> None:
    with pytest.raises(BadToken):
        validate_token(token(), rules(keys=TokenKeys()), NOW_MS)


@pytest.mark.parametrize(
    "made",
    [
        b"",
        b"a.b",
        b"a.b.c.d",
        b"!.!.!",
        ISSUING.signed("RS256", b'{"alg":"RS256","alg":"none"}', b"{}").encode(),
        ISSUING.signed("RS256", b'{"alg":"RS256"}', b'{"sub":"a","sub":"b"}').encode(),
        ISSUING.signed("RS256", b'{"alg":"RS256"}', b"[]").encode(),
        ISSUING.signed("RS256", b'{"alg":"RS256"}', b'{"exp":NaN}').encode(),
        ISSUING.signed("RS256", b'{"alg":"RS256"}', b"[" * 9000).encode(),
        ISSUING.token(NOW_S, pad="x" * (13 << 10)).encode(),
        ISSUING.token(NOW_S).encode() + b"=",
    ],
)
def test_what_is_no_token_is_refused(made: bytes) -> None:
    with pytest.raises(BadToken):
        verified_claims(made, KEYS)


@given(st.data())
def test_flipped_bytes_are_refused(data: st.DataObject) -> None:
    made = bytearray(token("ES256"))
    place = data.draw(st.integers(0, len(made) - 1))
    made[place] ^= data.draw(st.integers(1, 255))

    with pytest.raises(BadToken):
        validate_token(bytes(made), rules(), NOW_MS)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"keys":{}}',
        b'{"keys":[]}',
        b'{"keys":[7,{"kty":"oct","k":"AAAA"}]}',
        b'{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"}]}',
        b'{"keys":[{"kty":"EC","crv":"P-256","x":"AAAA","y":"AAAA"}]}',
        b'{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AAAA"}]}',
        ISSUING.key_set().replace(b'"sig"', b'"enc"'),
        b" " * (1 << 20) + b"{}",
    ],
)
def test_set_without_a_key_for_tokens_is_refused(data: bytes) -> None:
    with pytest.raises(BadJson):
        parse_jwks(data)


# -- how it is said -----------------------------------------------------------------------------


def server() -> OauthServer:
    return OauthServer(rules(), lambda: NOW_MS)


def test_good_token_lets_its_user_in_until_it_ends() -> None:
    said = OauthClient(token().decode()).begin()

    assert server().respond(said) == Accepted(b"", "alice", NOW_MS + 600_000)


@pytest.mark.parametrize("form", ["n,a=alice,\x01auth=bearer  {}\x01traceId=7\x01\x01"])
def test_form_may_have_an_authorization_id_and_extensions(form: str) -> None:
    assert isinstance(server().respond(form.format(token().decode()).encode()), Accepted)


def test_bad_token_is_refused_after_the_client_took_note() -> None:
    asked, client = server(), OauthClient(token(exp=1).decode())

    said = asked.respond(client.begin())
    assert said == Challenge(b'{"status":"invalid_token"}')
    noted = client.respond(said.data)
    with pytest.raises(LoginRefused) as refused:
        asked.respond(noted or b"")

    assert noted == b"\x01"
    assert refused.value.public == '{"status":"invalid_token"}'


def test_other_authorization_id_is_refused() -> None:
    with pytest.raises(LoginRefused, match="authorization id"):
        server().respond(f"n,a=root,\x01auth=Bearer {token().decode()}\x01\x01".encode())


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer abc\x01",
        b"n,,\x01auth=Bearer abc\x01auth=Bearer abc\x01\x01",
        b"n,,\x01host=x\x01\x01",
        b"y,,\x01auth=Bearer abc\x01\x01",
        b"n,,\x01a1=x\x01auth=Bearer abc\x01\x01",
        b"n,,\x01auth=Bearer " + b"a" * (32 << 10) + b"\x01\x01",
        b"\xff",
    ],
)
def test_what_is_not_the_form_is_refused_without_a_word(said: bytes) -> None:
    with pytest.raises(LoginRefused) as refused:
        server().respond(said)

    assert refused.value.public is None


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_challenged(said: bytes) -> None:
    with contextlib.suppress(LoginRefused):
        assert isinstance(server().respond(b"n,,\x01auth=Bearer " + said), Challenge)
