"""SCRAM on both sides: the vectors of the RFCs, and what is refused."""

import base64
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.protocol.client_login import LoginFailed
from ledgerstone.security.exchange import Accepted, Challenge, LoginRefused
from ledgerstone.security.scram_client import ScramClient
from ledgerstone.security.scram_keys import (
    ScramCredential,
    ScramLooks,
    ScramMechanism,
    credential_of,
    fake_credential,
    looks_of,
    new_credential,
    salt_password,
)
from ledgerstone.security.scram_messages import escape, read_client_first, unescape
from ledgerstone.security.scram_server import ScramServer
from ledgerstone.sim.dice import SeededDice

SHA_256, SHA_512 = ScramMechanism
SECRET = b"of the broker"
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_NONCE, SERVER_NONCE = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
NAMES = st.text(st.characters(min_codepoint=1, max_codepoint=0x7F), min_size=1, max_size=20)


class Users:
    """`asked` counts what was looked for."""

    def __init__(self, users: dict[tuple[ScramMechanism, str], ScramCredential]) -> None:
        self._users = users

    def find(self, mechanism: ScramMechanism, name: str) -> ScramCredential | None:
        return self._users.get((mechanism, name))

    def usual_looks(self, mechanism: ScramMechanism) -> ScramLooks:
        return ScramLooks(8192)


def credential(mechanism: ScramMechanism = SHA_256, password: str = "pencil") -> ScramCredential:
    salted = salt_password(mechanism, password.encode(), SALT, 4096)
    return credential_of(mechanism, salted, SALT, 4096)


def server(
    name: str = "user",
    mechanism: ScramMechanism = SHA_256,
    nonce: str = SERVER_NONCE,
    known: ScramCredential | None = None,
) -> ScramServer:
    users = Users({(mechanism, name): known or credential(mechanism)})
    return ScramServer(mechanism, users, secret=SECRET, server_nonce=nonce)


def client(
    name: str = "user", password: str = "pencil", mechanism: ScramMechanism = SHA_256
) -> ScramClient:
    return ScramClient(mechanism, name, password, CLIENT_NONCE)


def challenge(of: ScramServer, said: bytes) -> bytes:
    answer = of.respond(said)
    assert isinstance(answer, Challenge)
    return answer.data


def login(asking: ScramClient, asked: ScramServer) -> Accepted:
    final = asking.respond(challenge(asked, asking.begin()))
    assert final is not None
    accepted = asked.respond(final)
    assert isinstance(accepted, Accepted)
    assert asking.respond(accepted.data) is None
    return accepted


def test_exchange_of_rfc_7677_is_said_word_for_word() -> None:
    asking, asked = client(), server()

    first = asking.begin()
    server_first = challenge(asked, first)
    final = asking.respond(server_first)
    accepted = asked.respond(final or b"")

    nonce = CLIENT_NONCE + SERVER_NONCE
    assert first == f"n,,n=user,r={CLIENT_NONCE}".encode()
    assert server_first == f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
    proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert final == f"c=biws,r={nonce},p={proof}".encode()
    assert accepted == Accepted(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "user")


def test_keys_of_rfc_7677_are_stored() -> None:
    stored = base64.b64encode(credential().stored_key)

    assert stored == b"WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
@pytest.mark.parametrize("name", ["user", "a,b", "a=b", "=2C", "a b", "x" * 200])
def test_both_sides_agree_on_any_name(mechanism: ScramMechanism, name: str) -> None:
    accepted = login(client(name, mechanism=mechanism), server(name, mechanism))

    assert accepted.name == name


@given(NAMES)
def test_escaped_name_comes_back(name: str) -> None:
    assert unescape(escape(name)) == name
    assert read_client_first(f"n,,n={escape(name)},r=abc".encode()).name == name


def test_password_may_be_any_text() -> None:
    known = new_credential(SHA_512, "pässwörd ✓", SeededDice("salt"), 4096)

    accepted = login(
        client(password="pässwörd ✓", mechanism=SHA_512), server(mechanism=SHA_512, known=known)
    )

    assert accepted.name == "user"


def refusal(act: Callable[[], object]) -> LoginRefused:
    with pytest.raises(LoginRefused) as refused:
        act()
    return refused.value


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n",
        b"n,",
        b"n,,",
        b"n,,n=user",
        b"n,,r=abc,n=user",
        b"n,,n=,r=abc",
        b"n,,n=us,er,r=abc",
        b"n,,n=us=er,r=abc",
        "n,,n=\u00fcser,r=abc".encode(),
        b"n,,n=user,r=",
        b"n,,n=user,r=a b",
        b"n,,n=user,r=abc,m=must",
        b"n,,n=user,r=abc,1=x",
        b"n,,m=must,n=user,r=abc",
        b"n,x=user,n=user,r=abc",
        b"y,,n=user,r=abc",
        b"p=tls-unique,,n=user,r=abc",
        b"n,,n=user,r=abc" + b",a=b" * 17,
        b"n,,n=user,r=" + b"a" * (16 << 10),
        b"\xff\xfe",
    ],
)
def test_malformed_first_message_is_refused_without_a_word(first: bytes) -> None:
    assert refusal(lambda: server().respond(first)).public is None


def test_extensions_are_signed_and_otherwise_ignored() -> None:
    asking, asked = client(), server()
    asking._bare += ",foo=bar"

    assert login(asking, asked).name == "user"


def test_other_authorization_id_is_refused_and_ones_own_is_not() -> None:
    assert isinstance(server().respond(b"n,a=user,n=user,r=abc"), Challenge)

    refused = refusal(lambda: server().respond(b"n,a=root,n=user,r=abc"))

    assert refused.public is not None
    assert "authorization id" in refused.public


@pytest.mark.parametrize("header", ["n,a=user,", "n,,"])
def test_channel_binding_is_that_of_the_header_or_of_an_empty_one(header: str) -> None:
    wrong = base64.b64encode(b"y,,").decode()
    right = base64.b64encode(header.encode()).decode()
    for binding, reason in ((wrong, "channel binding"), (right, "credentials")):
        asked = server(nonce="def")
        asked.respond(f"{header}n=user,r=abc".encode())
        refused = refusal(lambda: asked.respond(f"c={binding},r=abcdef,p=AAAA".encode()))  # noqa: B023
        assert reason in str(refused)


@pytest.mark.parametrize("nonce", ["abc", "abcdefg", "abcde", "", "xbcdef", "ABCDEF"])
def test_nonce_must_be_the_whole_one(nonce: str) -> None:
    asked = server(nonce="def")
    asked.respond(b"n,,n=user,r=abc")

    refused = refusal(lambda: asked.respond(f"c=biws,r={nonce},p=AAAA".encode()))

    assert refused.public is None
    assert "nonce" in str(refused)


@pytest.mark.parametrize("proof", ["", "AAAA", "====", "A" * 43 + "=", "not base64!"])
def test_wrong_proof_is_refused(proof: str) -> None:
    asked = server(nonce="def")
    asked.respond(b"n,,n=user,r=abc")

    assert refusal(lambda: asked.respond(f"c=biws,r=abcdef,p={proof}".encode())).public is None


def test_wrong_password_and_unknown_user_are_refused_alike() -> None:
    texts = []
    for name, password in (("user", "wrong"), ("nobody", "pencil")):
        asking, asked = client(name, password), server()
        final = asking.respond(challenge(asked, asking.begin()))
        refused = refusal(lambda: asked.respond(final or b""))  # noqa: B023
        texts.append((str(refused), refused.public))

    assert texts[0] == texts[1]
    assert texts[0][1] is None


def test_unknown_user_has_a_salt_of_its_own_that_stays() -> None:
    def salt(name: str, mechanism: ScramMechanism, secret: bytes = SECRET) -> bytes:
        asked = ScramServer(mechanism, Users({}), secret=secret, server_nonce="def")
        return challenge(asked, f"n,,n={name},r=abc".encode()).split(b",", 1)[1]

    salts = [salt("nobody", SHA_256), salt("other", SHA_256), salt("nobody", SHA_512)]

    assert salts[0] == salt("nobody", SHA_256)
    assert salts[0].endswith(b",i=8192")
    assert len({*salts, salt("nobody", SHA_256, b"of another broker")}) == 4


def test_keys_of_one_mechanism_do_not_serve_the_other() -> None:
    asking, asked = client(mechanism=SHA_512), ScramServer(
        SHA_512, Users({(SHA_256, "user"): credential()}), secret=SECRET, server_nonce="def"
    )  # fmt: skip
    final = asking.respond(challenge(asked, asking.begin()))

    assert refusal(lambda: asked.respond(final or b"")).public is None


def test_user_with_fewer_iterations_than_allowed_cannot_log_in() -> None:
    weak = credential_of(SHA_256, salt_password(SHA_256, b"pencil", SALT, 1000), SALT, 1000)
    asked = server(known=weak)

    said = challenge(asked, b"n,,n=user,r=abc")

    assert said.endswith(b",i=8192")


def test_delegation_tokens_are_nobody() -> None:
    asked = server()

    said = challenge(asked, b"n,,n=user,r=abc,tokenauth=true")

    assert b"W22ZaJ0SNY7soEsUEjb6gQ==" not in said


@pytest.mark.parametrize(
    "said",
    [
        b"r=other,s=QUFBQQ==,i=4096",
        b"r=" + CLIENT_NONCE.encode() + b",s=QUFBQQ==,i=4096",
        b"r=" + CLIENT_NONCE.encode() + b"x,s=QUFBQQ==,i=4095",
        b"r=" + CLIENT_NONCE.encode() + b"x,s=QUFBQQ==,i=1000001",
        b"r=" + CLIENT_NONCE.encode() + b"x,s=QUFBQQ==,i=99999999999",
        b"r=" + CLIENT_NONCE.encode() + b"x,s=QUFBQQ==,i=-1",
        b"r=" + CLIENT_NONCE.encode() + b"x,s=!,i=4096",
        b"r=" + CLIENT_NONCE.encode() + b"x",
        b"e=other-error",
        b"",
    ],
)
def test_client_refuses_a_server_that_does_not_keep_the_rules(said: bytes) -> None:
    with pytest.raises(LoginFailed):
        client().respond(said)


@pytest.mark.parametrize("last", [b"v=AAAA", b"e=invalid-proof", b"", b"v="])
def test_client_wants_the_server_to_prove_itself(last: bytes) -> None:
    asking, asked = client(), server()
    asking.respond(challenge(asked, asking.begin()))

    with pytest.raises(LoginFailed):
        asking.respond(last)


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_any_bytes_are_refused_and_nothing_else_happens(first: bytes, second: bytes) -> None:
    asked = server()
    try:
        asked.respond(first)
        asked.respond(second)
    except LoginRefused as refused:
        assert refused.public is None or first.startswith(b"n,a=")  # noqa: PT017
    else:
        raise AssertionError("nobody guesses a proof")


@given(st.data())
def test_flipped_bytes_of_a_good_login_are_refused(data: st.DataObject) -> None:
    asking, asked = client(), server(nonce="def")
    final = bytearray(asking.respond(challenge(asked, asking.begin())) or b"")
    place = data.draw(st.integers(0, len(final) - 1))
    flip = data.draw(st.integers(1, 255))
    final[place] ^= flip

    refusal(lambda: asked.respond(bytes(final)))


def test_unknown_user_looks_like_one_that_kafkas_tools_made() -> None:
    looks = looks_of(b"1yzalbfmz92m2qv8zkgx2yxtk1", 4096)

    salts = [fake_credential(SHA_256, f"user{each}", b"s" * 32, looks).salt for each in range(50)]

    assert looks == ScramLooks(4096, salt_bytes=None)
    assert {looks_of(each, 4096) for each in salts} == {looks}
    assert {len(each) for each in salts} == {25, 26}
    assert looks_of(bytes(16), 8192) == ScramLooks(8192, 16)
    assert len(fake_credential(SHA_256, "user", b"s" * 32, ScramLooks(4096, 33)).salt) == 33
