"""Who asks over HTTP, and who is not let in."""

import asyncio
import logging

import pytest

from ledgerstone.errors import ConfigError
from ledgerstone.security.acl import AclOperation, AclResourceType
from ledgerstone.security.jwk import parse_jwks
from ledgerstone.security.scram_keys import ScramMechanism
from ledgerstone.security.web_sessions import IDLE_MS, LONGEST_MS
from ledgerstone.server.http.asker import LOCAL_ADMIN
from ledgerstone.server.http.door_settings import trusted_proxy
from ledgerstone.server.http.login_work import MOST_IN_WORK
from ledgerstone.server.http.server import BadRequest, HttpLine, Page, Rerouted
from tests.kit.certificates import Authority
from tests.kit.in_process import InProcess
from tests.kit.tokens import AUDIENCE, ISSUER, Issuer
from tests.unit.server.http_door_kit import (
    HERE,
    OWN,
    PORT,
    THERE,
    TOKEN,
    Visit,
    allow,
    basic,
    header,
    machine_with_users,
)
from tests.unit.server.login_kit import add_user

CLOCK = "/api/v1/clock"
OPEN_LINE = HttpLine("192.0.2.7")


@pytest.fixture
def machine() -> InProcess:
    return machine_with_users()


@pytest.fixture
def visit(machine: InProcess) -> Visit:
    return Visit(machine)


# -- passwords ------------------------------------------------------------------------------------


def test_users_of_plain_and_of_scram_log_in_with_their_passwords(
    machine: InProcess, visit: Visit
) -> None:
    add_user(machine, "carol", "tea", ScramMechanism.SCRAM_SHA_512)

    assert str(visit.asker(CLOCK, basic("bob", "s")).principal) == "User:bob"
    carol = visit.asker(CLOCK, basic("carol", "tea"), THERE)
    assert str(carol.principal) == "User:carol"
    assert carol.host == "192.0.2.7"
    assert not carol.sees_cluster
    assert visit.asker(CLOCK, basic("alice", "secret")).sees_cluster


@pytest.mark.parametrize(
    ("name", "password"), [("bob", "wrong"), ("nobody", "s"), ("carol", "other")]
)
def test_wrong_password_and_unknown_user_get_the_same(
    machine: InProcess, visit: Visit, name: str, password: str
) -> None:
    add_user(machine, "carol", "tea", ScramMechanism.SCRAM_SHA_256)

    refused = visit.refusal(CLOCK, basic(name, password))

    assert (refused.status, str(refused)) == (401, "name and password do not fit")
    assert "WWW-Authenticate" in dict(refused.headers)
    assert machine.broker.counters.logins["failed_authentication", "HTTP"] == 1


def test_who_says_nothing_has_to_log_in(visit: Visit) -> None:
    api, page, metrics = (visit.refusal(path) for path in (CLOCK, "/topics?q=a", "/metrics"))

    assert (api.status, metrics.status) == (401, 401)
    assert page.status == 303
    assert dict(page.headers)["Location"] == "/login?next=%2Ftopics%3Fq%3Da"


@pytest.mark.parametrize("path", ["/livez", "/healthz", "/readyz", "/login", "/assets/app.css"])
def test_some_things_are_for_everybody_and_show_nothing(visit: Visit, path: str) -> None:
    asker = visit.asker(path)

    assert asker.principal is None
    assert not asker.sees_cluster
    assert not asker.sees_topic("t")


def test_acls_for_everybody_are_not_for_who_has_not_logged_in(
    machine: InProcess, visit: Visit
) -> None:
    allow(machine, "*", AclOperation.ALL, "kafka-cluster", AclResourceType.CLUSTER)

    assert visit.asker(CLOCK, basic("bob", "s")).sees_cluster
    assert not visit.asker("/readyz").sees_cluster
    assert visit.refusal(CLOCK).status == 401


def test_without_tls_other_machines_only_get_health(visit: Visit) -> None:
    assert visit.asker("/readyz", line=OPEN_LINE).principal is None
    for path in (CLOCK, "/login", "/topics", f"/?token={TOKEN}"):
        refused = visit.refusal(path, basic("alice", "secret"), OPEN_LINE)
        assert refused.status == 403
        assert "no TLS" in str(refused)


def test_deleted_user_and_changed_password_count_at_once(machine: InProcess, visit: Visit) -> None:
    add_user(machine, "carol", "tea", ScramMechanism.SCRAM_SHA_256)
    asker = visit.asker(CLOCK, basic("carol", "tea"))
    assert asker.is_valid()

    add_user(machine, "carol", "coffee", ScramMechanism.SCRAM_SHA_256)

    assert not asker.is_valid()
    assert visit.refusal(CLOCK, basic("carol", "tea")).status == 401
    assert visit.asker(CLOCK, basic("carol", "coffee")).is_known


def test_six_wrong_logins_have_to_wait_and_the_right_one_works_later(
    machine: InProcess, visit: Visit
) -> None:
    statuses = [visit.refusal(CLOCK, basic("bob", f"no {n}")).status for n in range(6)]
    assert statuses == [401] * 5 + [429]
    late = visit.refusal(CLOCK, basic("bob", "s"))
    assert (late.status, dict(late.headers)["Retry-After"]) == (429, "1")

    machine.advance(1000)

    assert visit.asker(CLOCK, basic("bob", "s")).is_known


def test_who_was_right_a_moment_ago_does_not_wait_for_guesses_of_others(visit: Visit) -> None:
    visit.asker(CLOCK, basic("bob", "s"))
    for number in range(6):
        visit.refusal(CLOCK, basic("bob", f"no {number}"))

    assert visit.asker(CLOCK, basic("bob", "s")).is_known


def test_logins_at_once_are_bounded_and_the_same_one_is_checked_once(
    machine: InProcess, visit: Visit
) -> None:
    add_user(machine, "carol", "tea", ScramMechanism.SCRAM_SHA_256)
    checks: list[bytes] = []
    passwords = visit.door._work.passwords
    check = passwords.check
    passwords.check = lambda given: checks.append(given.password) or check(given)  # type: ignore[method-assign, func-returns-value]

    async def rush() -> list[object]:
        same = [visit.admitted(CLOCK, basic("carol", "tea"), THERE) for _ in range(40)]
        return list(await asyncio.gather(*same, return_exceptions=True))

    found = asyncio.run(rush())

    busy = [each for each in found if isinstance(each, BadRequest)]
    assert checks == [b"tea"]
    assert len(busy) == 40 - MOST_IN_WORK
    assert {each.status for each in busy} == {503}


def test_no_password_is_logged(visit: Visit, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        visit.refusal(CLOCK, basic("bob", "hunter2"))
        visit.asker(CLOCK, basic("alice", "secret"))

    assert "hunter2" not in caplog.text
    assert "Failed authentication with 127.0.0.1" in caplog.text


# -- other ways -----------------------------------------------------------------------------------


def test_token_of_the_start_is_of_this_machine_only(visit: Visit) -> None:
    bearer = {"authorization": f"Bearer {TOKEN}"}

    asker = visit.asker(CLOCK, bearer)

    assert asker.principal == LOCAL_ADMIN
    assert asker.may_on_cluster(AclOperation.ALTER)
    assert visit.refusal(CLOCK, bearer, THERE).status == 401
    assert visit.refusal(CLOCK, {"authorization": "Bearer x"}).status == 401


def test_tokens_of_an_issuer_name_their_user_until_they_end() -> None:
    issuer = Issuer()
    machine = machine_with_users(
        sasl_enabled_mechanisms="PLAIN,OAUTHBEARER",
        sasl_oauthbearer_jwks_endpoint_url="file:///keys.json",
        sasl_oauthbearer_expected_issuer=ISSUER,
        sasl_oauthbearer_expected_audience=AUDIENCE,
    )
    (login,) = machine.broker.logins.listeners.values()
    assert login.tokens is not None
    login.tokens.rules.keys.keys = parse_jwks(issuer.key_set())
    now_s = machine.clock.now_ms() / 1000
    token = issuer.token(now_s, "ES256", sub="dora", exp=int(now_s) + 60)
    visit, bearer = Visit(machine), {"authorization": f"Bearer {token}"}

    asker = visit.asker(CLOCK, bearer, THERE)

    assert str(asker.principal) == "User:dora"
    assert asker.is_valid()
    machine.advance(100_000)
    assert not asker.is_valid()
    assert visit.refusal(CLOCK, bearer, THERE).status == 401


def test_certificate_names_its_owner_by_the_rules() -> None:
    machine = machine_with_users(
        **{"listener.name.http.ssl.principal.mapping.rules": "RULE:^CN=([a-z]+)$/$1/"}
    )
    visit, authority = Visit(machine), Authority()
    from cryptography.hazmat.primitives.serialization import Encoding

    def line(name: str) -> HttpLine:
        der = authority.issue(name).certificate.public_bytes(Encoding.DER)
        return replace_line(der)

    assert str(visit.asker(CLOCK, line=line("dora")).principal) == "User:dora"
    assert visit.refusal(CLOCK, line=line("DORA")).status == 403
    assert str(visit.asker(CLOCK, basic("bob", "s"), line("dora")).principal) == "User:bob"


def replace_line(certificate: bytes) -> HttpLine:
    return THERE._replace(certificate=certificate)


def test_header_of_a_user_counts_from_a_trusted_proxy_only() -> None:
    secret = "a long shared secret"
    named = {"x-forwarded-user": "bob"}
    whole = {**named, "x-ledgerstone-proxy-secret": secret}
    visit = Visit(
        machine_with_users(
            ledgerstone_http_proxy_addresses="192.0.2.0/28", ledgerstone_http_proxy_secret=secret
        )
    )

    assert str(visit.asker(CLOCK, whole, THERE).principal) == "User:bob"
    assert visit.refusal(CLOCK, named, THERE).status == 401
    assert visit.refusal(CLOCK, whole, HERE).status == 401
    assert visit.refusal(CLOCK, whole, OPEN_LINE).status == 403


def test_header_of_a_user_is_nothing_without_a_proxy(visit: Visit) -> None:
    assert visit.refusal(CLOCK, {"x-forwarded-user": "alice"}).status == 401
    asker = visit.asker(CLOCK, {"x-forwarded-user": "alice", **basic("bob", "s")})
    assert str(asker.principal) == "User:bob"


@pytest.mark.parametrize(
    ("addresses", "secret", "key"),
    [
        ("10.0.0.1", "", "ledgerstone.http.proxy.secret"),
        ("10.0.0.1", "short", "ledgerstone.http.proxy.secret"),
        ("", "a long shared secret", "ledgerstone.http.proxy.addresses"),
        ("proxy.example", "a long shared secret", "ledgerstone.http.proxy.addresses"),
        ("10.0.0.1/8", "a long shared secret", "ledgerstone.http.proxy.addresses"),
    ],
)
def test_half_a_proxy_ends_the_start(addresses: str, secret: str, key: str) -> None:
    raw = {"ledgerstone.http.proxy.addresses": addresses, "ledgerstone.http.proxy.secret": secret}

    with pytest.raises(ConfigError) as refused:
        trusted_proxy(raw)

    assert refused.value.key == key
    assert secret not in str(refused.value) or not secret


def test_metrics_are_open_to_this_machine_where_that_is_set() -> None:
    visit = Visit(machine_with_users(ledgerstone_http_metrics_open="true"))

    assert visit.asker("/metrics").sees_cluster
    assert visit.refusal("/metrics", line=THERE).status == 401
    assert visit.refusal(CLOCK).status == 401


# -- sessions -------------------------------------------------------------------------------------


def test_login_opens_a_session_of_its_own(visit: Visit) -> None:
    page = visit.log_in("bob", "s", next="/topics?q=a")
    assert isinstance(page, Page)
    cookie = header(page, "Set-Cookie")
    name, _, secret = cookie.partition(";")[0].partition("=")

    asker = visit.asker("/topics", {"cookie": f"{name}={secret}"})

    assert (page.status, header(page, "Location")) == (303, "/topics?q=a")
    assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict")
    assert len(secret) == 64
    assert str(asker.principal) == "User:bob"
    assert asker.has_session
    assert len(asker.csrf) == 64
    assert asker.csrf not in secret


def test_cookie_over_tls_is_bound_to_this_host() -> None:
    listener = "https://127.0.0.1:8080"
    visit = Visit(machine_with_users(ledgerstone_http_listener=listener))

    page = visit.log_in("bob", "s")

    cookie = header(page, "Set-Cookie")
    assert cookie.startswith(f"__Host-ledgerstone-login-{PORT}=")
    assert cookie.endswith("; Path=/; Secure; HttpOnly; SameSite=Strict")


def test_api_takes_no_cookie(visit: Visit) -> None:
    assert visit.refusal(CLOCK, visit.cookie("bob", "s")).status == 401


def test_wrong_login_shows_the_form_again(visit: Visit) -> None:
    again = visit.log_in("bob", "no", next="//evil.example")

    assert isinstance(again, Rerouted)
    assert (again.status, again.request.path, again.request.method) == (401, "/login", "GET")
    assert again.request.query == {"why": "The name or the password is wrong.", "next": "/"}
    for number in range(5):
        last = visit.log_in("bob", f"no {number}")
    assert isinstance(last, Rerouted)
    assert last.status == 429


@pytest.mark.parametrize("where", ["//evil.example/", "https://evil.example", "/\\evil", "", "/é"])
def test_login_leads_nowhere_else(visit: Visit, where: str) -> None:
    assert header(visit.log_in("bob", "s", next=where), "Location") == "/"


@pytest.mark.parametrize("headers", [{}, {"origin": "null"}, {"origin": "http://evil.example"}])
def test_login_form_of_another_page_is_refused(visit: Visit, headers: dict[str, str]) -> None:
    with pytest.raises(BadRequest) as refused:
        visit.sent("/login", {"username": "bob", "password": "s"}, headers)

    assert refused.value.status == 403


def test_session_ends_when_idle_and_after_half_a_day(machine: InProcess, visit: Visit) -> None:
    cookie = visit.cookie("bob", "s")
    for _ in range(LONGEST_MS // (IDLE_MS // 2) - 1):
        machine.advance(IDLE_MS // 2)
        assert visit.asker("/", cookie).is_known
    machine.advance(IDLE_MS // 2)
    assert visit.refusal("/", cookie).status == 303

    other = visit.cookie("bob", "s")
    asker = visit.asker("/events?show=topics", other)
    machine.advance(IDLE_MS - 1)
    # A stream does not make it last.
    assert visit.asker("/events?show=topics", other).is_valid()
    machine.advance(1)
    assert not asker.is_valid()
    assert visit.refusal("/events?show=topics", other).status == 401


def test_session_ends_with_the_password(machine: InProcess, visit: Visit) -> None:
    add_user(machine, "carol", "tea", ScramMechanism.SCRAM_SHA_256)
    cookies = [visit.cookie("carol", "tea"), visit.cookie("bob", "s")]

    add_user(machine, "carol", "coffee", ScramMechanism.SCRAM_SHA_256)

    assert visit.refusal("/", cookies[0]).status == 303
    assert visit.asker("/", cookies[1]).is_known


def test_session_ends_with_the_acls_about_its_user(machine: InProcess, visit: Visit) -> None:
    cookie = visit.cookie("bob", "s")
    asker = visit.asker("/", cookie)
    allow(machine, "somebody", AclOperation.READ, "tea")
    assert asker.is_valid()

    allow(machine, "bob", AclOperation.READ, "tea")

    assert not asker.is_valid()
    assert visit.refusal("/", cookie).status == 303
    everybody = visit.cookie("bob", "s")
    allow(machine, "*", AclOperation.WRITE, "tea")
    assert visit.refusal("/", everybody).status == 303


def test_new_login_ends_the_session_before(visit: Visit) -> None:
    before = visit.cookie("bob", "s")
    visit.sent("/login", {"username": "bob", "password": "s"}, {**OWN, **before})

    assert visit.refusal("/", before).status == 303


def test_logout_ends_the_session_and_needs_the_secret_of_its_forms(visit: Visit) -> None:
    cookie = visit.cookie("bob", "s")
    asker = visit.asker("/", cookie)
    with pytest.raises(BadRequest):
        visit.sent("/logout", {"csrf": "0" * 64}, {**OWN, **cookie})
    assert asker.is_valid()

    page = visit.sent("/logout", {"csrf": asker.csrf}, {**OWN, **cookie})

    assert header(page, "Location") == "/login"
    assert "Max-Age=0" in header(page, "Set-Cookie")
    assert not asker.is_valid()


def test_token_in_the_address_becomes_a_session(visit: Visit) -> None:
    led = visit.refusal(f"/topics?token={TOKEN}&q=a")
    cookie = dict(led.headers)["Set-Cookie"].partition(";")[0]

    assert (led.status, dict(led.headers)["Location"]) == (303, "/topics?q=a")
    assert TOKEN not in cookie
    assert visit.asker("/", {"cookie": cookie}).principal == LOCAL_ADMIN
    assert visit.refusal("/?token=wrong").status == 403
    assert visit.refusal(f"/?token={TOKEN}", line=THERE).status == 403


def test_user_with_the_name_of_who_has_the_token_is_not_taken_for_them(
    machine: InProcess, visit: Visit
) -> None:
    add_user(machine, LOCAL_ADMIN.name, "tea", ScramMechanism.SCRAM_SHA_256)
    cookie = visit.cookie(LOCAL_ADMIN.name, "tea")

    namesake = visit.asker("/", cookie)
    token = header(visit.refusal(f"/?token={TOKEN}"), "Set-Cookie").partition(";")[0]
    admin = visit.asker("/", {"cookie": token})
    add_user(machine, LOCAL_ADMIN.name, "coffee", ScramMechanism.SCRAM_SHA_256)

    assert not namesake.sees_cluster
    assert admin.sees_cluster
    assert visit.refusal("/", cookie).status == 303, "another password ends the session"
    assert visit.asker("/", {"cookie": token}).sees_cluster


def test_listener_of_its_own_has_users_of_its_own() -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    machine = machine_with_users(
        **{
            "ledgerstone.http.listener": "127.0.0.1:0",
            "listener.name.http.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.http.plain.sasl.jaas.config": f'{module} user_page="p";',
        }
    )
    visit = Visit(machine)

    assert visit.asker(CLOCK, basic("page", "p")).is_known
    assert visit.refusal(CLOCK, basic("bob", "s")).status == 401
