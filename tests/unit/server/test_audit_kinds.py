"""What the audit log says of calls over HTTP, erasures, logins, markers and storms."""

import json
from hashlib import sha256
from typing import Any

import pytest

from ledgerstone.erasure.erasure import Stage
from ledgerstone.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersRequestTopic,
    WriteTxnMarkersResponse,
)
from ledgerstone.security.acl import AclOperation, AclResourceType
from ledgerstone.security.audit_chain import ChainEnd, verified
from ledgerstone.security.authorizer import Rights
from ledgerstone.security.first_logins import HOUR_MS, MOST_REMEMBERED, FirstLogins
from ledgerstone.security.principal import Principal
from ledgerstone.server.auditing.audit_file import audit_files, lines_of
from ledgerstone.server.auditing.auditor import Auditor
from ledgerstone.server.auditing.http_acts import act_of, kind_of
from ledgerstone.server.http.api import handle
from ledgerstone.server.http.asker import Asker
from ledgerstone.server.http.server import HttpRequest
from ledgerstone.server.movable_clock import MovableClock
from tests.kit.in_process import InProcess
from tests.unit.server import login_kit
from tests.unit.server.asks import create_topic
from tests.unit.server.erasing_kit import KEY, TOPIC, ErasingMachine, base64, machine_with

DIRECTORY = "/audit"
AUDITED = {"ledgerstone.audit.dir": DIRECTORY}


def _log(machine: InProcess) -> list[dict[str, Any]]:
    lines = [
        line
        for path in audit_files(machine.fs, DIRECTORY)
        for line in lines_of(machine.fs.open(path))
    ]
    return [line for line, _ in verified(lines, ChainEnd())]


def _kinds(machine: InProcess) -> list[tuple[str, str]]:
    return [(each["kind"], each["outcome"]) for each in _log(machine)]


def _auditor(machine: InProcess) -> Auditor:
    assert machine.broker.auditor is not None
    return machine.broker.auditor


# -- erasures -----------------------------------------------------------------------------------


@pytest.fixture
def erasing() -> ErasingMachine:
    machine = machine_with(settings=AUDITED)
    machine.put(0, (KEY, b"value"))
    return machine


def test_life_of_an_erasure_is_told_without_its_key(erasing: ErasingMachine) -> None:
    erasure_id = erasing.erase()
    ended = erasing.run(erasure_id)

    assert ended.stage is Stage.RECEIPTED
    asked, told, *_ = (each for each in _log(erasing) if each["kind"] == "erase.request")
    assert (asked["outcome"], asked["path"], asked["keys"]) == (
        "asked",
        f"/api/v1/topics/{TOPIC}/erasures",
        1,
    )
    assert (asked["who"]["requested_by"], asked["who"]["reason"]) == ("clerk", "ticket 4711")
    assert (told["outcome"], told["erasure"]) == ("done", erasure_id)
    done = next(each for each in _log(erasing) if each["kind"] == "erase.done")
    receipt = erasing.page("GET", f"erasures/{erasure_id}/receipt").body
    assert done["receipt_sha256"] == sha256(receipt.encode()).hexdigest()
    whole = json.dumps(_log(erasing))
    assert KEY.decode() not in whole
    assert base64(KEY) not in whole


def test_cancelled_erasure_and_search_are_told(erasing: ErasingMachine) -> None:
    erasure_id = erasing.erase(after_ms=1_000_000)
    erasing.call("POST", f"erasures/{erasure_id}/cancel", by="boss")
    erasing.page("POST", f"topics/{TOPIC}/where", key=base64(KEY))

    cancels = [each for each in _log(erasing) if each["kind"] == "erase.cancel"]
    assert {each["outcome"] for each in cancels} == {"asked", "done"}
    assert cancels[0]["who"]["by"] == "boss"
    assert ("where.search", "asked") in _kinds(erasing)
    assert base64(KEY) not in json.dumps(_log(erasing))


# -- HTTP ---------------------------------------------------------------------------------------


def _post(machine: InProcess, path: str, **content: Any) -> int:
    request = HttpRequest("POST", f"/api/v1/{path}", {}, {}, json.dumps(content).encode())
    page = handle(machine.broker, request)
    assert page is not None
    return page.status


def test_calls_have_kinds_of_their_own_and_ends() -> None:
    machine = InProcess(settings=AUDITED)

    assert _post(machine, "clock/advance", ms=5) == 409
    assert _post(machine, "topics/tea/compact") == 404
    assert _post(machine, "transactions/abort", transactional_id="t-1") == 409

    assert _kinds(machine)[1:] == [
        (kind, outcome)
        for kind in ("clock.advance", "compact.ask", "txn.abort")
        for outcome in ("asked", "refused")
    ]
    assert _log(machine)[1]["ms"] == 5
    assert _log(machine)[2]["status"] == 409
    assert _log(machine)[5]["who"]["transactional_id"] == "t-1"


def test_moved_clock_is_told() -> None:
    machine = InProcess(settings=AUDITED)
    machine.broker.clock = MovableClock(machine.clock)

    assert _post(machine, "clock/advance", ms=5) == 200

    assert _kinds(machine)[1:] == [("clock.advance", "asked"), ("clock.advance", "done")]


@pytest.mark.parametrize("body", [b"", b"[1]", b'{"key":', b'{"ms":"x","by":7}', b"[" * 9_000])
def test_bodies_that_say_nothing_are_no_harm(body: bytes) -> None:
    act = act_of(["clock", "advance"], "/p", body, principal="User:a", host="h")

    assert (act.who, act.facts) == ({"principal": "User:a", "host": "h"}, {"path": "/p"})


def test_other_changes_are_told_by_their_path() -> None:
    assert kind_of(["damage", "3", "acknowledge"]) == "http.change"


def test_full_disk_refuses_the_call() -> None:
    machine = InProcess(settings=AUDITED)
    machine.fs.fail_at(machine.fs.operation_count + 1, 28)

    assert _post(machine, "clock/advance", ms=5) == 503
    assert _auditor(machine).failures == 1


# -- logins -------------------------------------------------------------------------------------


def test_first_login_of_an_hour_is_told() -> None:
    machine = login_kit.started({**login_kit.SASL, **AUDITED})

    def log_in() -> None:
        client = login_kit.connect(machine)
        login_kit.shake_hands(client, "PLAIN")
        assert login_kit.say(client, b"\0alice\0secret").error_code == 0

    for _ in range(3):
        log_in()
    machine.jump(hours=1)
    log_in()

    found = [each for each in _log(machine) if each["kind"] == "authn.ok"]
    assert len(found) == 2
    assert (found[0]["op"], found[0]["listener"]) == ("PLAIN", login_kit.LISTENER)
    assert found[0]["who"]["principal"] == "User:alice"
    assert "secret" not in json.dumps(_log(machine))


def test_logins_of_an_hour_are_bounded_and_counted() -> None:
    logins = FirstLogins()

    firsts = sum(logins.is_first(f"User:{n}", "h", 5) for n in range(MOST_REMEMBERED + 7))

    assert firsts == MOST_REMEMBERED
    assert logins.is_first("User:0", "h", HOUR_MS)
    assert logins.take_uncounted() == 7
    assert logins.take_uncounted() == 0


@pytest.mark.parametrize("kind", ["authn.fail", "http.deny", "authn.expired"])
def test_storms_are_bounded_each_for_itself(kind: str) -> None:
    machine = InProcess(settings=AUDITED)
    auditor = _auditor(machine)
    before = machine.fs.operation_count

    for number in range(20_000):
        match kind:
            case "authn.fail":
                auditor.login_failed(f"10.0.{number % 7}.1", "SASL", "PLAIN")
            case "http.deny":
                name = f"{'x' * 9_000}{number}"
                auditor.denied_http("User:a", "h", AclOperation.READ, AclResourceType.TOPIC, name)
            case _:
                auditor.login_expired(f"User:{number}", "h", "SASL", "PLAIN")
    assert machine.fs.operation_count - before <= 12, "writes, for twenty thousand denials"
    machine.advance(1_100)

    found = [each for each in _log(machine) if each["kind"] == kind]
    assert len(found) <= 16
    assert sum(each["times"] for each in found) == 20_000
    assert len(json.dumps(found)) < 16_000


def test_storm_of_one_kind_does_not_hide_another() -> None:
    machine = InProcess(settings=AUDITED)
    for _ in range(1_000):
        _auditor(machine).login_failed("10.0.0.1", "SASL", "PLAIN")

    _auditor(machine).denied_http(
        "User:a", "10.0.0.2", AclOperation.READ, AclResourceType.TOPIC, "orders"
    )

    assert _log(machine)[-1]["kind"] == "http.deny"
    assert _log(machine)[-1]["resource"] == "TOPIC:orders"


def test_denial_that_nothing_else_follows_wakes_the_broker() -> None:
    machine = InProcess(settings=AUDITED)
    machine.broker.may_be_due_sooner = False

    for _ in range(11):
        _auditor(machine).login_failed("10.0.0.1", "SASL", "PLAIN")

    assert machine.broker.may_be_due_sooner
    assert machine.broker.next_deadline_ms <= machine.clock.monotonic_ms() + 1_000


# -- the rest -----------------------------------------------------------------------------------


def test_markers_by_hand_are_told() -> None:
    machine = InProcess(settings=AUDITED)
    client = machine.connect()
    create_topic(client, "tea")
    marker = WriteTxnMarkersRequestMarker(
        producer_id=4000, topics=[WriteTxnMarkersRequestTopic("tea", [0])]
    )

    client.ask(WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse)

    asked, ended = (each for each in _log(machine) if each["kind"] == "txn.abort")
    assert asked["what"] == ["producer 4000 epoch 0 abort ['tea-[0]']"]
    assert asked["outcome"] == "asked"
    assert ended["outcome"] in ("done", "refused")


def test_stop_is_told_and_sealed() -> None:
    machine = InProcess(settings=AUDITED)
    for _ in range(15):
        _auditor(machine).login_failed("10.0.0.1", "SASL", "PLAIN")

    _auditor(machine).stop()

    assert [kind for kind, _ in _kinds(machine)][-2:] == ["stop", "audit.seal"]
    failed = [each for each in _log(machine) if each["kind"] == "authn.fail"]
    assert sum(each["times"] for each in failed) == 15


def test_tls_that_was_read_again_is_told() -> None:
    machine = InProcess(settings=AUDITED)

    _auditor(machine).tls_read("SSL", None)
    _auditor(machine).tls_read("SSL", "the key is another one")

    assert _kinds(machine)[1:] == [("tls.reload", "done"), ("tls.reload", "refused")]


def test_head_is_shown_and_only_to_super_users() -> None:
    machine = InProcess(settings=AUDITED)
    page = handle(machine.broker, HttpRequest("GET", "/api/v1/audit/head", {}, {}))
    assert page is not None
    assert json.loads(page.body)["head"] == _auditor(machine).head
    assert len(json.loads(page.body)["public_key"]) == 64

    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    settings = {**AUDITED, "authorizer.class.name": authorizer, "super.users": "User:root"}
    guarded = InProcess(settings=settings)
    assert guarded.broker.authorizer is not None
    statuses = []
    for name in ("ann", "root"):
        rights = Rights(guarded.broker.authorizer, Principal("User", name), "10.0.0.1")
        asker = Asker(principal=rights.principal, host="10.0.0.1", rights=rights)
        request = HttpRequest("GET", "/api/v1/audit/head", {}, {}, asker=asker)
        page = handle(guarded.broker, request)
        assert page is not None
        statuses.append(page.status)
    assert statuses == [403, 200]


def test_head_without_an_audit_log_is_not_there() -> None:
    page = handle(InProcess().broker, HttpRequest("GET", "/api/v1/audit/head", {}, {}))

    assert page is not None
    assert page.status == 404
