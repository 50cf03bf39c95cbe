"""Logins by tokens on a broker in process, and where their keys come from."""

import threading
from http.client import BadStatusLine, IncompleteRead
from pathlib import Path

import pytest

from ledgerstone.errors import ConfigError
from ledgerstone.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ledgerstone.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ledgerstone.security.jwk import parse_jwks
from ledgerstone.security.oauthbearer import OauthClient
from ledgerstone.security.principal import Principal
from ledgerstone.server.login import key_fetching
from ledgerstone.server.login.key_fetching import KeyFetching, fetch_keys
from ledgerstone.server.login.settings import TokenLogin
from tests.kit.in_process import InProcess
from tests.kit.tokens import AUDIENCE, ISSUER, Issuer
from tests.unit.server.login_kit import (
    DELAY_MS,
    LINGER_MS,
    LISTENER,
    SASL,
    connect,
    log_in,
    shake_hands,
    started,
)

TOKENS = {
    **SASL,
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.jwks.endpoint.url": "file:///keys.json",
    "sasl.oauthbearer.expected.issuer": ISSUER,
    "sasl.oauthbearer.expected.audience": AUDIENCE,
}
ALL_TOPICS = MetadataRequest(topics=None)


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


def token_login(machine: InProcess) -> TokenLogin:
    found = machine.broker.logins.listeners[LISTENER].tokens
    assert found is not None
    return found


def broker(issuer: Issuer, **settings: str) -> InProcess:
    more = {key.replace("_", "."): value for key, value in settings.items()}
    machine = started({**TOKENS, **more})
    token_login(machine).rules.keys.keys = parse_jwks(issuer.key_set())
    return machine


def now_s(machine: InProcess) -> float:
    return machine.clock.now_ms() / 1000


def test_token_lets_in_until_it_ends_and_a_newer_one_renews(issuer: Issuer) -> None:
    machine = broker(issuer)
    client = connect(machine)

    answer = log_in(client, OauthClient(issuer.token(now_s(machine))))
    assert 0 < answer.session_lifetime_ms <= 600_000
    assert machine.broker.peers.by_number[client.number].session.principal == Principal(
        "User", "alice"
    )
    machine.advance(590_000)
    again = log_in(client, OauthClient(issuer.token(now_s(machine))))
    machine.advance(500_000)

    assert again.error_code == 0
    assert client.ask(ALL_TOPICS, MetadataResponse).brokers


def test_lifetime_is_the_shorter_of_the_tokens_and_the_brokers(issuer: Issuer) -> None:
    machine = broker(issuer, connections_max_reauth_ms="5000")

    answer = log_in(connect(machine), OauthClient(issuer.token(now_s(machine))))

    assert answer.session_lifetime_ms == 5000


def test_bad_token_is_challenged_first_and_refused_then(issuer: Issuer) -> None:
    machine = broker(issuer)

    answer = log_in(connect(machine), OauthClient(issuer.token(now_s(machine), aud="other")))

    assert (answer.error_code, answer.error_message) == (58, '{"status":"invalid_token"}')


def test_client_that_goes_on_after_a_refused_token_gets_nothing(issuer: Issuer) -> None:
    machine = broker(issuer)
    client = connect(machine)
    shake_hands(client, "OAUTHBEARER")
    client.send(SaslAuthenticateRequest(OauthClient("a.b.c").begin()))
    client.answers.clear()

    client.send(ALL_TOPICS, 5)
    machine.advance(DELAY_MS + LINGER_MS)

    ((_, answer),) = client.answers
    assert isinstance(answer, MetadataResponse)
    assert not answer.brokers
    assert client.closed is not None


def test_nobody_is_let_in_before_there_are_keys(issuer: Issuer) -> None:
    machine = started(TOKENS)

    answer = log_in(connect(machine), OauthClient(issuer.token(now_s(machine))))

    assert answer.error_code == 58


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sasl.oauthbearer.jwks.endpoint.url", ""),
        ("sasl.oauthbearer.jwks.endpoint.url", "http://keys.example"),
        ("sasl.oauthbearer.expected.issuer", ""),
        ("sasl.oauthbearer.expected.audience", " "),
    ],
)
def test_settings_under_which_anybodys_token_would_do_are_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as refused:
        started({**TOKENS, key: value})

    assert refused.value.key == key


# -- keys ---------------------------------------------------------------------------------------


class Source:
    """Answers with what a test put there; an exception is raised."""

    def __init__(self) -> None:
        self.answers: list[bytes | Exception] = []
        self.asked = 0

    def __call__(self, url: str) -> bytes:
        self.asked += 1
        answer = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_keys_are_tried_again_soon_and_kept_when_later_fetches_fail(issuer: Issuer) -> None:
    login, source = token_login(started(TOKENS)), Source()
    source.answers = [OSError("down"), b"{}", issuer.key_set(), OSError("down")]
    fetching = KeyFetching([login], source)

    counts = []
    for at_s in (0.0, 0.05, 0.1, 0.4, 100.0, 3700.0, 3701.0):
        fetching.refresh_due(at_s)
        counts.append((source.asked, len(login.rules.keys.keys)))

    assert counts == [(1, 0), (1, 0), (2, 0), (3, 10), (3, 10), (4, 10), (5, 10)]


def test_issuer_that_speaks_no_http_is_asked_again(issuer: Issuer) -> None:
    login, source = token_login(started(TOKENS)), Source()
    source.answers = [BadStatusLine("SSH-2.0"), IncompleteRead(b"{"), issuer.key_set()]
    fetching = KeyFetching([login], source)

    for at_s in (0.0, 0.1, 0.4):
        fetching.refresh_due(at_s)

    assert (source.asked, len(login.rules.keys.keys)) == (3, 10)


def test_start_does_not_wait_for_ever_for_an_issuer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_fetching, "_TIMEOUT_S", 0.01)
    is_over = threading.Event()

    def fetch(url: str) -> bytes:
        is_over.wait()
        raise OSError("at last")

    fetching = KeyFetching([token_login(started(TOKENS))], fetch)
    fetching.start()
    fetching.stop()
    is_over.set()

    assert not token_login(started(TOKENS)).rules.keys.keys


def test_tokens_with_unknown_keys_bring_one_fetch_a_minute(issuer: Issuer) -> None:
    machine = broker(issuer)
    login, source = token_login(machine), Source()
    source.answers = [issuer.key_set()]
    fetching = KeyFetching([login], source)
    fetching.refresh_due(0.0)

    for at_s in range(1, 181):
        login.rules.keys.misses_key = True
        fetching.refresh_due(float(at_s))

    assert source.asked == 1 + 3


def test_keys_are_read_from_a_file(issuer: Issuer, tmp_path: Path) -> None:
    path = tmp_path / "key set.json"
    path.write_bytes(issuer.key_set())

    assert len(parse_jwks(fetch_keys(path.as_uri()))) == 10
