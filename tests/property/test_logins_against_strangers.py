"""Whatever a stranger sends before a login: nobody is let in without the secret, and no connection
costs another anything. Steps of logins, tokens, key sets and hellos that are nearly right."""

import contextlib
import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from ledgerstone.protocol.framing import frame_prefix
from ledgerstone.protocol.headers import RequestHeader, encode_request_header
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ledgerstone.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ledgerstone.security.jwk import parse_jwks
from ledgerstone.security.jws import BadToken
from ledgerstone.security.oauthbearer import OauthClient
from ledgerstone.security.scram_keys import ScramMechanism
from ledgerstone.security.strict_json import BadJson
from ledgerstone.security.tokens import TokenKeys, TokenRules, validate_token
from ledgerstone.server.session import Login
from ledgerstone.tls.contexts import server_context
from ledgerstone.tls.settings import tls_settings
from tests.kit.certificates import Authority
from tests.kit.in_process import Client, InProcess, frame_of
from tests.kit.sized import sized
from tests.kit.tokens import ALGORITHMS, AUDIENCE, ISSUER, Issuer, encoded
from tests.unit.server.login_kit import LISTENER, SASL, add_user, alice, connect, log_in, started
from tests.unit.server.test_tls_hostile import Pair

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", "")
ISSUING = Issuer()
NOW_S = 1_800_000_000


class Stranger(Client):
    """Takes answers as they come: some are tokens, and some are to what nobody asked."""

    def _decoded(self, frame: memoryview) -> tuple[int, ApiMessage]:
        return 0, ApiMessage()


def machine() -> InProcess:
    made = started(
        {
            **SASL,
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": "file:///keys.json",
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
        }
    )
    tokens = made.broker.logins.listeners[LISTENER].tokens
    assert tokens is not None
    tokens.rules.keys.keys = parse_jwks(ISSUING.key_set())
    add_user(made, "alice", "wonderland", ScramMechanism.SCRAM_SHA_256)
    return made


# -- frames ------------------------------------------------------------------------------------

SAID = st.one_of(
    st.binary(max_size=80),
    st.sampled_from(
        [
            b"\0alice\0wrong",
            b"alice\0alice\0secre",
            b"n,,n=alice,r=abc",
            b"n,,n=nobody,r=abc,m=x",
            b"c=biws,r=abc,p=AAAA",
            b"p=tls-unique,,n=alice,r=abc",
            b"\x01",
            OauthClient(ISSUING.token(1)).begin(),
            OauthClient("a.b.c").begin(),
        ]
    ),
)
HANDSHAKES = st.builds(
    lambda mechanism, version: frame_of(SaslHandshakeRequest(mechanism), version),
    st.sampled_from(MECHANISMS),
    st.integers(0, 1),
)
STEPS = st.builds(
    lambda said, version: frame_of(SaslAuthenticateRequest(said), version),
    SAID,
    st.integers(0, 2),
)
BARE = SAID.map(lambda said: frame_prefix(len(said)) + said)


def _other(api_key: int, version: int, body: bytes) -> bytes:
    content = encode_request_header(RequestHeader(api_key, version, 1, "x")) + body
    return frame_prefix(len(content)) + content


OTHERS = st.builds(
    _other,
    st.sampled_from([0, 1, 3, 9, 10, 11, 18, 19, 36, 50, 58, 60, 30100]),
    st.integers(0, 4),
    st.binary(max_size=40),
)


@st.composite
def torn(draw: st.DrawFn) -> bytes:
    """A good frame with a byte changed, or without its end."""
    frame = bytearray(draw(st.one_of(HANDSHAKES, STEPS)))
    place = draw(st.integers(0, len(frame) - 1))
    if draw(st.booleans()):
        frame[place] ^= draw(st.integers(1, 255))
        return bytes(frame)
    return bytes(frame[:place])


FRAMES = st.lists(st.one_of(HANDSHAKES, STEPS, STEPS, BARE, OTHERS, torn()), max_size=6)


@cache
def served() -> InProcess:
    return machine()


@sized(few=80, many=1500, frames=FRAMES, at_once=st.booleans())
def test_nobody_is_let_in_and_nobody_else_is_hurt(frames: list[bytes], at_once: bool) -> None:
    """A fault of the broker would come out of `feed` or `advance`."""
    broker = served().broker
    neighbour = connect(served())
    stranger = Stranger(served(), served()._take_number())
    served()._connect(stranger, "10.0.0.66", LISTENER)

    for data in [b"".join(frames)] if at_once else frames:
        if stranger.closed is None:
            stranger.feed(data)
            served().advance(200)
    peer = broker.peers.by_number.get(stranger.number)

    assert peer is None or peer.session.login is not Login.COMPLETE
    assert log_in(neighbour, alice()).error_code == 0
    neighbour.leave()
    served().advance(60_000)
    assert stranger.closed is not None
    assert broker.peers.memory.reserved_bytes == 0
    broker.check_invariants()
    for each in (stranger, neighbour):
        served().clients.pop(each.number, None)


# -- tokens ------------------------------------------------------------------------------------

ODD: Any = st.sampled_from(
    [
        None,
        "",
        "none",
        "HS256",
        "RS256",
        "ES256",
        "EdDSA",
        7,
        True,
        [],
        {},
        ["RS256"],
        "\ud800",
        1e308,
    ]
)
HEADS = st.fixed_dictionaries(
    {"alg": st.one_of(st.sampled_from(ALGORITHMS), ODD)},
    optional={"kid": st.one_of(st.sampled_from(ALGORITHMS), ODD), "crit": ODD, "jwk": ODD},
)
CLAIMS = st.fixed_dictionaries(
    {},
    optional={
        "iss": st.one_of(st.just(ISSUER), ODD),
        "aud": st.one_of(st.just(AUDIENCE), st.just([AUDIENCE]), ODD),
        "sub": st.one_of(st.just("alice"), ODD),
        "exp": st.one_of(st.integers(NOW_S - 100, NOW_S + 100), ODD),
        "iat": st.one_of(st.integers(NOW_S - 100, NOW_S + 100), ODD),
        "nbf": st.one_of(st.integers(NOW_S - 100, NOW_S + 100), ODD),
        "scope": st.one_of(st.just("read write"), ODD),
    },
)
KEYS = TokenKeys()
KEYS.keys = parse_jwks(ISSUING.key_set())
RULES = TokenRules(keys=KEYS, issuer=ISSUER, audiences=(AUDIENCE,))


def _is_close(value: object, low: int, high: int) -> bool:
    return type(value) in (int, float) and low <= value <= high  # type: ignore[operator]


@sized(few=150, many=10_000, signing=st.sampled_from(ALGORITHMS), head=HEADS, claims=CLAIMS)
def test_token_counts_only_if_all_of_it_is_right(
    signing: str, head: dict[str, Any], claims: dict[str, Any]
) -> None:
    """`exp` and `iat` may be 30 s off; the rest of the rules is written here once more."""
    body = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "alice",
        "iat": NOW_S,
        "exp": NOW_S + 9,
        **claims,
    }
    token = ISSUING.signed(signing, json.dumps(head).encode(), json.dumps(body).encode())

    try:
        name = validate_token(token.encode(), RULES, NOW_S * 1000).name
    except BadToken:
        return

    assert head["alg"] == signing
    assert head.get("kid") in (None, signing)
    assert "crit" not in head
    assert body["iss"] == ISSUER
    assert body["aud"] in (AUDIENCE, [AUDIENCE])
    assert name == body["sub"]
    assert _is_close(body["exp"], NOW_S - 29, NOW_S + 100)
    assert _is_close(body["iat"], 0, NOW_S + 30)
    assert "nbf" not in body or _is_close(body["nbf"], 0, NOW_S + 30)


@sized(few=150, many=10_000, parts=st.lists(st.binary(max_size=40).map(encoded), max_size=4))
def test_parts_that_are_base64_are_no_token_for_that(parts: list[str]) -> None:
    with pytest.raises(BadToken):
        validate_token(".".join(parts).encode(), RULES, NOW_S * 1000)


@sized(few=100, many=5000, place=st.floats(0, 1, exclude_max=True), change=st.binary(max_size=4))
def test_key_set_that_was_changed_is_read_or_refused(place: float, change: bytes) -> None:
    data = bytearray(ISSUING.key_set())
    at = int(place * len(data))
    data[at : at + len(change)] = change

    try:
        keys = parse_jwks(bytes(data))
    except BadJson:
        return

    assert 0 < len(keys) <= len(ALGORITHMS)


@pytest.mark.slow
def test_hellos_of_tls_that_are_nearly_right(tmp_path: Path) -> None:
    """As `test_tls_hostile` has it, for longer."""
    authority = Authority()
    key = authority.issue("broker").write(tmp_path / "broker.pem")
    server = server_context(tls_settings({"ssl.keystore.location": key})).context
    dice = random.Random(20_26)
    for _ in range(5_000):
        pair = Pair(server, authority.trusting())
        hello = bytearray(pair.hello())
        for _ in range(dice.randint(1, 8)):
            hello[dice.randrange(len(hello))] = dice.randrange(256)
        pair.theirs.sendall(bytes(hello[: dice.randint(1, len(hello))]))
        with contextlib.suppress(OSError):
            assert pair.hear() == 0
        pair.close()
