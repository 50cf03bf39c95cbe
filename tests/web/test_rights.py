"""Pages and the JSON API where there are ACLs: who sees what, and who may change it."""

import json
from typing import Any

import pytest

from ledgerstone.cleaner.holds import GroupHold, Holds
from ledgerstone.cleaner.open_txn import OpenTxn, TxnOwner
from ledgerstone.security.acl import Acl, AclOperation, AclResourceType
from ledgerstone.security.principal import Principal
from ledgerstone.server.auditing.audit_file import audit_files, lines_of
from ledgerstone.server.http.api import handle
from ledgerstone.server.http.asker import Asker
from ledgerstone.server.http.forwarded import asker_from, asker_json
from ledgerstone.server.http.server import BadRequest, HttpRequest, Page
from ledgerstone.web.views import ROUTES
from tests.unit.server.erasing_kit import ErasingMachine
from tests.web.kit import COMPACTED, PLAIN, Parsed, Visitor, full_machine

TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
CLUSTER = AclResourceType.CLUSTER
READ, WRITE, DELETE = AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE
ALTER, DESCRIBE = AclOperation.ALTER, AclOperation.DESCRIBE
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # The kit's own clients have not logged in.
    "super.users": "User:ANONYMOUS",
    "ledgerstone.audit.dir": "/audit",
}
HOST = "10.0.0.1"


@pytest.fixture(scope="module")
def machine() -> ErasingMachine:
    """Shared: no test here leaves anything that another one looks at."""
    return full_machine(SETTINGS)


def allow(
    machine: ErasingMachine,
    name: str,
    operation: AclOperation,
    resource: str,
    kind: AclResourceType = TOPIC,
) -> None:
    assert machine.broker.authorizer is not None
    acl = Acl(kind, resource, 3, f"User:{name}", "*", operation, 3)
    machine.broker.authorizer.follow(added=[acl])


def as_user(machine: ErasingMachine, name: str) -> Visitor:
    assert machine.broker.authorizer is not None
    principal = Principal("User", name)
    rights = machine.broker.authorizer.rights_of(principal, HOST)
    asker = Asker(principal=principal, host=HOST, rights=rights, csrf="c" * 64, has_session=True)
    return Visitor(machine, asker=asker)


@pytest.fixture
def reader(machine: ErasingMachine) -> Visitor:
    """May read the compacted topic, and that is all."""
    allow(machine, "reader", READ, COMPACTED)
    return as_user(machine, "reader")


@pytest.fixture
def stranger(machine: ErasingMachine) -> Visitor:
    return as_user(machine, "stranger")


def called(who: Visitor, method: str, path: str, **body: Any) -> tuple[int, Any]:
    path, _, query = path.partition("?")
    pairs = dict(each.partition("=")[::2] for each in query.split("&")) if query else {}
    data = json.dumps(body).encode()
    request = HttpRequest(method, f"/api/v1/{path}", pairs, {}, data, who.asker)
    page = handle(who.machine.broker, request)
    assert page is not None
    return page.status, json.loads(page.body)


def erasure_id(machine: ErasingMachine) -> str:
    return next(iter(machine.broker.erasing.journal.book)).id


# -- pages ----------------------------------------------------------------------------------------


def test_reader_of_one_topic_sees_that_one(reader: Visitor) -> None:
    topics, overview = Parsed(reader.shown("/topics")), reader.shown("/")

    links = [each["href"] for each in topics.all("a")]
    assert f"/topics/{COMPACTED}" in links
    assert f"/topics/{PLAIN}" not in links
    assert '<b>1</b><span><a href="/topics">topic</a></span>' in overview
    assert "Throughput" not in overview
    assert "version 4" in reader.shown(f"/topics/{COMPACTED}/records")
    assert PLAIN not in reader.shown("/cleaner")


def test_settings_of_a_topic_are_shown_with_their_own_right(
    machine: ErasingMachine, reader: Visitor
) -> None:
    assert "delete.retention.ms" not in reader.shown(f"/topics/{COMPACTED}")

    allow(machine, "both", READ, COMPACTED)
    allow(machine, "both", AclOperation.DESCRIBE_CONFIGS, COMPACTED)

    assert "delete.retention.ms" in as_user(machine, "both").shown(f"/topics/{COMPACTED}")


@pytest.mark.parametrize("what", ["", "/records", "/latest", "/keys", "/anatomy", "/produce"])
def test_hidden_topic_is_answered_as_one_that_is_not_there(reader: Visitor, what: str) -> None:
    hidden = reader.get(f"/topics/{PLAIN}{what}")
    missing = reader.get(f"/topics/nosuch{what}")

    assert hidden.status == missing.status == 404
    assert isinstance(hidden.body, str)
    assert isinstance(missing.body, str)
    assert hidden.body.replace(PLAIN, "nosuch") == missing.body


@pytest.mark.parametrize("path", [each.pattern for each in ROUTES if each.method == "GET"])
def test_who_has_no_right_is_told_no_name(stranger: Visitor, path: str) -> None:
    names = (COMPACTED, PLAIN, "billing", "carol", "alice", "__consumer_offsets")
    for topic in names[:2]:
        asked = path.replace("{topic}", topic).replace("{group}", "billing")
        asked = asked.replace("{partition}", "0").replace("{offset}", "0").replace("{number}", "1")
        asked = asked.replace("{erasure}", erasure_id(stranger.machine))  # type: ignore[arg-type]
        page = stranger.get(asked)
        text = str(page.body)
        if "{" in path:
            assert page.status == 404
        told = [name for name in names if name in text.replace(asked, "") and name not in asked]
        assert told == []


def test_group_is_shown_with_its_topics_that_may_be_seen(machine: ErasingMachine) -> None:
    allow(machine, "grouped", DESCRIBE, "billing", GROUP)
    who = as_user(machine, "grouped")

    assert "billing" in who.shown("/groups")
    assert COMPACTED not in who.shown("/groups/billing")
    allow(machine, "grouped", DESCRIBE, COMPACTED)
    assert COMPACTED in as_user(machine, "grouped").shown("/groups/billing")


def test_gates_name_no_group_and_no_transactional_id_that_is_hidden(
    machine: ErasingMachine, reader: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = type(machine.broker.cleaning)
    held = Holds(groups=(GroupHold("hidden-group", 0),))
    open_txn = OpenTxn(7, 0, TxnOwner("hidden-id", 0))
    monkeypatch.setattr(kind, "holds_of", lambda *_: held)
    monkeypatch.setattr(kind, "open_txns", lambda *_: [open_txn])

    def told(who: Visitor) -> str:
        paths = (f"/cleaner?why={COMPACTED}-0", f"/topics/{COMPACTED}/anatomy")
        calls = (f"topics/{COMPACTED}/cleaning", f"topics/{COMPACTED}/anatomy")
        pages = [who.shown(each) for each in paths]
        return " ".join([*pages, *(str(called(who, "GET", each)) for each in calls)])

    allow(machine, "knowing", DESCRIBE, COMPACTED)
    allow(machine, "knowing", DESCRIBE, "hidden-group", GROUP)
    allow(machine, "knowing", DESCRIBE, "hidden-id", AclResourceType.TRANSACTIONAL_ID)
    shown, known = told(reader), told(as_user(machine, "knowing"))

    assert "hidden-group" not in shown
    assert "hidden-id" not in shown
    assert "hidden-group" in known
    assert "hidden-id" in known


def test_form_to_erase_offers_topics_that_may_be(machine: ErasingMachine, reader: Visitor) -> None:
    assert COMPACTED not in [
        each["value"] for each in Parsed(reader.shown("/erasures")).all("option")
    ]

    allow(machine, "eraser", DELETE, COMPACTED)
    shown = as_user(machine, "eraser").shown("/erasures")

    assert f"<option>{COMPACTED}</option>" in shown or f'value="{COMPACTED}"' in shown


def test_key_of_a_record_is_not_shown_by_the_way(machine: ErasingMachine) -> None:
    """Whoever may write or erase, but not read, gets no key into a form."""
    allow(machine, "writer", WRITE, COMPACTED)
    allow(machine, "writer", DELETE, COMPACTED)
    who = as_user(machine, "writer")

    for path in (f"/topics/{COMPACTED}/produce?partition=0&offset=0",
                 f"/erasures?topic={COMPACTED}&partition=0&offset=0"):  # fmt: skip
        page = who.get(path)
        assert page.status == 403
        assert "alice" not in str(page.body)


# -- changes --------------------------------------------------------------------------------------


def test_erasing_needs_delete_and_leaves_a_line_where_it_is_refused(
    machine: ErasingMachine, reader: Visitor
) -> None:
    # Denials of before are counted and told together.
    machine.advance(2000)
    before = len(list(machine.broker.erasing.journal.book))
    status, said = called(reader, "POST", f"topics/{COMPACTED}/erasures", key="YWxpY2U=")
    page = reader.post("/erasures", {"topic": COMPACTED, "key": "alice"})

    assert (status, said["error"]) == (403, f"User:reader has no right DELETE on topic {COMPACTED}")
    assert page.status == 403
    assert len(list(machine.broker.erasing.journal.book)) == before
    lines = _audit(machine)
    assert any(
        each["kind"] == "http.deny"
        and each["op"] == "DELETE"
        and each["resource"] == f"TOPIC:{COMPACTED}"
        and each["who"]["principal"] == "User:reader"
        and each["who"]["host"] == HOST
        for each in lines
    )


def test_topic_that_is_made_on_the_page_is_written_down_before(machine: ErasingMachine) -> None:
    allow(machine, "maker", AclOperation.CREATE, "from-the-page")
    who = as_user(machine, "maker")

    made = who.post("/topics", {"name": "from-the-page"})
    again = who.post("/topics", {"name": "from-the-page"})

    assert (made.status, again.status) == (303, 400)
    lines = [each for each in _audit(machine) if each.get("what") == ["from-the-page"]]
    assert [(each["kind"], each["outcome"]) for each in lines] == [
        ("topic.create", "asked"),
        ("topic.create", "done"),
        ("topic.create", "asked"),
        ("topic.create", "refused"),
    ]
    assert {each["who"]["principal"] for each in lines} == {"User:maker"}
    assert {each["who"]["host"] for each in lines} == {HOST}


def test_topic_that_cannot_be_written_down_is_not_made_on_the_page(
    machine: ErasingMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(machine, "maker", AclOperation.CREATE, "unwritten")
    auditor = machine.broker.auditor
    assert auditor is not None

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(auditor.file, "append", full)
    page = as_user(machine, "maker").post("/topics", {"name": "unwritten"})

    assert page.status == 503
    assert "unwritten" not in machine.broker.image.topics


def _audit(machine: ErasingMachine) -> list[dict[str, Any]]:
    paths = audit_files(machine.fs, "/audit")
    return [json.loads(line) for path in paths for line in lines_of(machine.fs.open(path))]


def test_requester_is_who_logged_in_whatever_they_say(machine: ErasingMachine) -> None:
    allow(machine, "deleter", DELETE, COMPACTED)
    who = as_user(machine, "deleter")

    told = [
        called(who, "POST", f"topics/{COMPACTED}/erasures", key="eA==", requested_by=text)[1]
        for text in ("", "User:admin", "deleter")
    ]
    page = who.post("/erasures", {"topic": COMPACTED, "key": "y", "requested_by": "Bob"})

    names = [each["erasures"][0]["requested_by"] for each in told]
    assert names == ["User:deleter", "User:deleter for User:admin", "User:deleter"]
    assert page.status == 303
    newest = list(machine.broker.erasing.journal.book)[-1]
    assert newest.requested_by == "User:deleter for Bob"
    asked = [each for each in _audit(machine) if each["kind"] == "erase.request"]
    assert asked[-1]["who"]["principal"] == "User:deleter"
    assert asked[-1]["who"]["host"] == HOST


def test_erasure_of_a_hidden_topic_is_one_that_is_not_there(
    machine: ErasingMachine, stranger: Visitor
) -> None:
    found = erasure_id(machine)
    for method, what in (
        ("GET", ""), ("GET", "/receipt"), ("GET", "/supplements"), ("GET", "/supplements/1"),
        ("POST", "/cancel"), ("POST", "/abandon"), ("POST", "/accept"), ("POST", "/evidence"),
    ):  # fmt: skip
        hidden = called(stranger, method, f"erasures/{found}{what}")
        missing = called(stranger, method, f"erasures/ER-NONE{what}")
        assert hidden[0] == missing[0] == 404
        assert hidden[1]["error"].replace(found, "ER-NONE") == missing[1]["error"]
    assert called(stranger, "GET", "erasures")[1]["erasures"] == []


def test_who_may_see_an_erasure_may_not_change_it(machine: ErasingMachine, reader: Visitor) -> None:
    found = erasure_id(machine)

    assert called(reader, "GET", f"erasures/{found}")[0] == 200
    for what in ("cancel", "abandon", "accept", "evidence"):
        assert called(reader, "POST", f"erasures/{found}/{what}")[0] == 403
    assert called(reader, "GET", "erasures")[1]["total"] >= 1


def test_tickets_and_searches_are_of_their_topic(
    machine: ErasingMachine, reader: Visitor, stranger: Visitor
) -> None:
    search = called(reader, "POST", f"topics/{COMPACTED}/where", key="YWxpY2U=")[1]["search"]
    allow(machine, "compactor", ALTER, COMPACTED)
    made = called(as_user(machine, "compactor"), "POST", f"topics/{COMPACTED}/compact")[1]
    ticket = made["tickets"][0]["ticket"]

    assert called(reader, "GET", f"searches/{search}")[0] == 200
    assert called(reader, "GET", f"tickets/{ticket}")[0] == 200
    assert called(stranger, "GET", f"searches/{search}")[0] == 404
    assert called(stranger, "GET", f"tickets/{ticket}")[0] == 404
    assert called(reader, "POST", f"topics/{COMPACTED}/compact")[0] == 403
    assert called(reader, "GET", "cleaner/history?topic=" + PLAIN)[0] == 404


def test_groups_of_a_topic_are_left_out_and_acknowledged_with_read(
    machine: ErasingMachine, reader: Visitor
) -> None:
    path = f"topics/{COMPACTED}/tombstones"
    (first, *_) = called(reader, "GET", path)[1]["partitions"]
    assert (first["holds"], first["margins"], first["missed"]) == ([], [], [])
    assert called(reader, "POST", f"{path}/ack", group="billing")[0] == 403
    assert called(reader, "GET", "groups/billing/tombstones")[0] == 404

    allow(machine, "acker", READ, COMPACTED)
    allow(machine, "acker", READ, "billing", GROUP)
    who = as_user(machine, "acker")

    assert called(who, "GET", path)[1]["partitions"][0]["margins"] != []
    assert called(who, "POST", f"{path}/ack", group="billing")[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "clock/advance", {"ms": 1}),
        ("GET", "damage", {}),
        ("POST", "damage/acknowledge", {"partition": ""}),
        ("GET", "quotas", {}),
        ("GET", "cluster", {}),
        ("GET", "lags", {}),
        ("GET", "erasures-journal", {}),
        ("POST", "erasures-journal/acknowledge", {}),
        ("POST", "transactions/abort", {"transactional_id": "t"}),
    ],
)
def test_what_is_of_the_cluster_needs_a_right_on_it(
    reader: Visitor, method: str, path: str, body: dict[str, Any]
) -> None:
    assert called(reader, method, path, **body)[0] == 403


def test_topics_are_created_with_create(machine: ErasingMachine, stranger: Visitor) -> None:
    assert stranger.post("/topics", {"name": "new"}).status == 403
    assert "new" not in machine.broker.image.topics

    allow(machine, "maker", AclOperation.CREATE, "new")

    assert as_user(machine, "maker").post("/topics", {"name": "new"}).status == 303


@pytest.mark.parametrize("csrf", ["", "0" * 64])
def test_form_without_the_secret_of_its_session_changes_nothing(reader: Visitor, csrf: str) -> None:
    with pytest.raises(BadRequest) as refused:
        reader.post(f"/topics/{COMPACTED}/keys", {"key": "alice"}, csrf=csrf)

    assert refused.value.status == 403


@pytest.mark.parametrize("origin", ["null", "https://evil.example", None])
def test_form_from_elsewhere_changes_nothing(reader: Visitor, origin: str | None) -> None:
    headers = {"host": "127.0.0.1:8080", **({} if origin is None else {"origin": origin})}
    body = f"csrf={reader.asker.csrf}&key=alice".encode()
    request = HttpRequest("POST", f"/topics/{COMPACTED}/keys", {}, headers, body, reader.asker)

    with pytest.raises(BadRequest) as refused:
        reader.send(request)

    assert refused.value.status == 403


# -- streams, and other brokers -------------------------------------------------------------------


def test_streams_are_of_what_may_be_seen(reader: Visitor, stranger: Visitor) -> None:
    assert COMPACTED in reader.site._fragment("topics", reader.asker)
    assert PLAIN not in reader.site._fragment("topics", reader.asker)
    assert COMPACTED not in reader.site._fragment("topics", stranger.asker)
    for name in (f"partitions:{PLAIN}", f"anatomy:{PLAIN}-0", "samples", "cluster"):
        request = HttpRequest("GET", "/events", {"show": name}, {}, asker=reader.asker)
        with pytest.raises(BadRequest) as refused:
            reader.site.answer(request)
        assert refused.value.status in (403, 404)


def test_asker_goes_along_to_the_broker_that_answers(
    machine: ErasingMachine, reader: Visitor
) -> None:
    broker = machine.broker
    told = json.loads(json.dumps(asker_json(reader.asker)))

    there = asker_from(broker, told)

    assert there.principal == reader.asker.principal
    assert there.may_on_topic(READ, COMPACTED)
    assert not there.may_on_topic(DELETE, COMPACTED)
    assert asker_from(broker, asker_json(Asker(principal=Principal("User", "x")))).rights is None
    # A broker that names nobody asks for nobody.
    assert not asker_from(broker, None).is_known


def test_page_names_who_is_logged_in_and_lets_them_out(reader: Visitor) -> None:
    page = reader.get("/topics")
    assert isinstance(page, Page)

    parsed = Parsed(str(page.body))
    assert "User:reader" in parsed.text
    assert {"method": "post", "action": "/logout", "class": "inline"} in [
        dict(each) for each in parsed.all("form")
    ]
