"""Keys that mean harm, and keys that must not be told: what is kept, logged and answered."""

import json
import logging

import pytest

from ledgerstone.erasure.erasure import Stage
from ledgerstone.erasure.key_print import MIN_RAW_BYTES
from ledgerstone.protocol.messages.metadata_records import RegisterBrokerRecord
from ledgerstone.server.http.monitor import readiness, samples
from ledgerstone.types import TopicPartition
from tests.kit.roles import change_partition
from tests.unit.server.asks import commit_offset, create_topic, exposition
from tests.unit.server.erasing_kit import DAY_MS, KEY, TOPIC, base64, machine_with

HOSTILE: list[bytes] = [
    b"",
    b"\x00",
    b"a",
    b"ab",
    b"abc",
    b"null",
    b"\xff" * 5,
    b"\x00" * 6,
    b"\x00" * 64,
    b"\xff" * 64,
    bytes(range(256)),
    b"x" * 65_536,
    b"k" * 1_000_000,
    "Zoë Łukasz".encode(),
    "пользователь".encode(),
    "👩‍👩‍👧‍👦 family".encode(),
    "e\u0301 composed".encode(),
    b"\xed\xa0\x80 surrogate",
    b"\xc0\xaf overlong",
    b'{"version": 1, "id": "ER-0000000000000000"}',
    b'"quoted", \\escaped\\',
    b"line\nfeed\r\nand more",
    b"%s %d %(name)s {0} {name}",
    b"'; DROP TABLE erasures; --",
    b"<script>alert(1)</script>",
    b"../../../etc/passwd",
    b"customers-0/00000000000000000000.log",
    b"\x1b[2J\x1b[31mred",
    b"Content-Length: 0\r\n\r\nGET / HTTP/1.1",
    b"ledgerstone.erasure.id",
    b"ledgerstone.erasure.reason=ticket 4711",
    b"ER-0123456789ABCDEF",
    b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x3d\xff\xff\xff\xff\x02",
    b"\x00\x00\x00\x00\x00\x01value",
    b"__erasures-is-no-topic-of-mine",
    b"a" * 4095,
    b"a" * 4096,
    b"ticket",
    b"ab" * 1000,
    b" leading and trailing ",
]


def test_there_are_forty_of_them() -> None:
    assert len(HOSTILE) == len(dict.fromkeys(HOSTILE)) == 40


@pytest.mark.parametrize("key", HOSTILE, ids=lambda key: repr(key[:16]))
def test_hostile_key_is_erased_like_any_other(key: bytes) -> None:
    machine = machine_with(partitions=2, delete_retention_ms="0")
    machine.put(0, (key, b"the value"), (b"somebody else", b"1"))
    machine.put(1, (key, b"the stray"))

    erasure_id = machine.erase(key, reason="as asked for", requested_by="me")
    erasure = machine.run(erasure_id, days=1)

    assert erasure.stage is Stage.RECEIPTED, machine.call("GET", f"erasures/{erasure_id}")
    assert not machine.files_with(b"the value")
    assert not machine.files_with(b"the stray")
    if len(key.strip(b"\x00\xff")) >= MIN_RAW_BYTES and erasure.scans[0].mentions == 0:
        assert not machine.files_with(key)


def test_hostile_keys_are_erased_in_one_batch() -> None:
    machine = machine_with(partitions=2, delete_retention_ms="0")
    for key in HOSTILE:
        machine.put(0, (key, b"the value"))

    erasures = machine.erase_all(HOSTILE, reason="as asked for", requested_by="me")
    ended = [machine.run(each, days=1).stage for each in erasures]

    assert ended == [Stage.RECEIPTED] * 40
    assert not machine.files_with(b"the value")
    assert max(machine.passes().values()) <= 3


def test_topic_that_has_the_name_of_the_key_is_told_in_the_receipt() -> None:
    machine = machine_with(partitions=1, delete_retention_ms="0")
    machine.put(0, (TOPIC.encode(), b"1"))

    erasure_id = machine.erase(TOPIC.encode(), reason="", requested_by="")
    machine.run(erasure_id, days=1)

    receipt = machine.call("GET", f"erasures/{erasure_id}/receipt")
    (replica,) = receipt["replicas"]
    found = {each["what"]: each["hits"] for each in replica["names"]}
    assert found["names of partition directories"] == 1
    assert found["topic names"] >= 1
    assert (replica["residue"], replica["records"]) == (0, 0)


def test_ordinary_keys_that_are_the_brokers_words_and_digits_get_receipts() -> None:
    machine = machine_with(partitions=8, delete_retention_ms="0")
    now = str(machine.clock.now_ms())
    keys = [now[:5], now[:6], "version", "offset", "records", "cleaned", "missed", "customer",
            "secrets", "receipt", "deletion", "requested_by", "horizon"]  # fmt: skip
    for number, key in enumerate(keys):
        machine.put(number % 8, (key.encode(), b"1"), (b"bobby", b"2"))
    commit_offset(machine.connect(), "records-group", 1, TOPIC)
    # A first round leaves its words in the journal and in the histories.
    assert machine.run(machine.erase(b"bobby", reason=""), days=1).stage is Stage.RECEIPTED

    asked = [key.encode() for key in keys]
    erasures = machine.erase_all(asked, reason="", requested_by="")
    ended = {key: machine.run(each, days=1).stage for key, each in zip(keys, erasures, strict=True)}

    assert ended == dict.fromkeys(keys, Stage.RECEIPTED)
    for key, each in zip(keys, erasures, strict=True):
        (replica,) = machine.call("GET", f"erasures/{each}/receipt")["replicas"]
        assert replica["residue"] == 0, key


@pytest.mark.parametrize("group", ["älice@example.org", "alice@example.org"])
def test_group_that_has_the_name_of_the_key_is_told_in_the_receipt(group: str) -> None:
    machine = machine_with(partitions=1, delete_retention_ms="0")
    machine.put(0, (group.encode(), b"1"), (b"bob", b"2"))
    commit_offset(machine.connect(), group, 1, TOPIC)

    erasure_id = machine.erase(group.encode(), reason="", requested_by="")
    machine.run(erasure_id, days=1)

    (replica,) = machine.call("GET", f"erasures/{erasure_id}/receipt")["replicas"]
    found = {each["what"]: each["hits"] for each in replica["names"]}
    histories = [
        content
        for path, content in machine.fs.files().items()
        if path.endswith("cleaning-history.json")
    ]
    # The pass took a tombstone that the group had not read, and says which group.
    held = sum(json.dumps(group).encode() in content for content in histories)
    assert held
    assert found["group ids"] == held
    assert replica["mentions"] >= 1


def test_key_is_in_no_answer_no_metric_no_log_line_and_no_file(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    machine = machine_with(partitions=2)
    create_topic(machine.connect(), "other", 1, cleanup_policy="compact")
    machine.put(0, (KEY, b"lives in Ulm"))
    said: list[str] = []

    erasure_id = machine.erase(within_ms=DAY_MS)
    while True:
        said.append(str(machine.page("GET", f"erasures/{erasure_id}").body))
        said.append(str(machine.page("GET", "erasures").body))
        said.append(str(machine.page("GET", f"erasures/{erasure_id}/receipt").body))
        said.append(exposition(samples(machine.broker)))
        said.append(str(readiness(machine.broker).body))
        said += [repr(each) for each in machine.broker.erasing.journal.book]
        said.append(repr(machine.broker.erasing.secrets))
        if machine.erasure(erasure_id).is_over:
            break
        outlook = machine.broker.erasing.outlooks.get(erasure_id)
        until_ms = outlook.until_ms if outlook else None
        machine.clock.advance(ms=max((until_ms or 0) - machine.clock.now_ms(), 1))
        machine.broker.clock_moved()
        machine.tick()

    text = KEY.decode()
    secrets = machine.broker.erasing.secrets
    assert secrets is not None
    assert text not in caplog.text
    assert not [each for each in said if text in each or base64(KEY) in each]
    assert not [each for each in said if secrets.salt.hex() in each or base64(secrets.salt) in each]
    assert not machine.files_with(KEY)
    assert not machine.files_with(base64(KEY).encode())


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "status", "text"),
    [
        ({}, 400, "key must be the key's bytes in base64"),
        ({"key": 7}, 400, "base64"),
        ({"key": "not base64!"}, 400, "base64"),
        ({"key": "YQ==", "keys": ["YQ=="]}, 400, "either key, or keys"),
        ({"keys": []}, 400, "either key, or keys"),
        ({"key": base64(KEY), "reason": f"erase {KEY.decode()}"}, 400, "contains the key"),
        ({"key": base64(KEY), "requested_by": KEY.decode()}, 400, "contains the key"),
        ({"key": base64(KEY), "reason": "r" * 1025}, 400, "at most 1024 bytes"),
        ({"key": base64(KEY), "reason": 5}, 400, "reason must be a text"),
        ({"key": base64(KEY), "within_ms": -1}, 400, "whole number"),
        ({"key": base64(KEY), "within_ms": 0}, 400, "is not after"),
        ({"key": base64(KEY), "after_ms": True}, 400, "whole number"),
        ({"key": base64(KEY), "after_ms": 9, "within_ms": 5}, 400, "is not after"),
        ({"key": base64(KEY), "verifiers": "lake"}, 400, "list of names"),
        ({"key": base64(KEY), "verifiers": ["x"] * 65}, 400, "at most 64"),
    ],
)
def test_request_that_makes_no_sense_is_refused_and_leaves_nothing(
    content: dict[str, object], status: int, text: str
) -> None:
    machine = machine_with(partitions=1)

    page = machine.page("POST", f"topics/{TOPIC}/erasures", **content)

    assert page.status == status
    assert text in json.loads(page.body)["error"]
    assert KEY.decode() not in page.body
    assert machine.call("GET", "erasures")["erasures"] == []


def test_erasure_is_refused_where_a_tombstone_would_remove_nothing() -> None:
    machine = machine_with(partitions=1, cleanup_policy="delete")

    page = machine.page("POST", f"topics/{TOPIC}/erasures", key=base64(KEY))

    assert page.status == 409
    assert "cleanup.policy" in page.body


@pytest.mark.parametrize("topic", ["__erasures", "__consumer_offsets"])
def test_topics_of_the_cluster_itself_are_not_erased_from(topic: str) -> None:
    machine = machine_with(partitions=1)
    machine.put(0, (KEY, b"1"))
    machine.erase()

    page = machine.page("POST", f"topics/{topic}/erasures", key=base64(KEY))

    assert page.status in (404, 409)


def test_what_is_not_there_is_not_found() -> None:
    machine = machine_with(partitions=1)

    answers = [
        machine.page("POST", "topics/nowhere/erasures", key=base64(KEY)),
        machine.page("POST", "topics/nowhere/where", key=base64(KEY)),
        machine.page("GET", "erasures/ER-0000000000000000"),
        machine.page("GET", "erasures/ER-0000000000000000/receipt"),
        machine.page("POST", "erasures/ER-0000000000000000/cancel", by="me"),
        machine.page("GET", "searches/7"),
        machine.page("GET", "searches/seven"),
    ]

    assert [each.status for each in answers] == [404] * 7


def test_where_tells_every_place_and_not_the_key() -> None:
    machine = machine_with(partitions=2)
    machine.put(0, (KEY, b"1"), (KEY, b"2"))
    machine.put(1, (KEY, None))

    ticket = machine.call("POST", f"topics/{TOPIC}/where", key=base64(KEY))
    machine.settle()
    found = machine.page("GET", f"searches/{ticket['search']}")

    answer = json.loads(found.body)["answer"]
    assert ticket["done"] is False
    assert [(each["partition"], each["offset"], each["state"]) for each in answer["places"]] == [
        (0, 0, "superseded"), (0, 1, "live"), (1, 0, "tombstone"),
    ]  # fmt: skip
    assert KEY.decode() not in found.body
    assert not machine.fs.exists("/data/erasure.keys")


def test_where_asks_every_replica_and_names_those_that_do_not_answer() -> None:
    machine = machine_with(partitions=1)
    machine.put(0, (KEY, b"1"))
    machine.broker.controller_link.write(
        [RegisterBrokerRecord(broker_id=7, broker_epoch=70, incarnation_id=b"7" * 16, fenced=True)]
    )
    change_partition(machine, TopicPartition(TOPIC, 0), leader=1, replicas=[1, 7], isr=[1])

    ticket = machine.call("POST", f"topics/{TOPIC}/where", key=base64(KEY), replicas=True)
    machine.settle()
    answer = machine.call("GET", f"searches/{ticket['search']}")["answer"]

    assert [(each["broker"], each["offset"]) for each in answer["places"]] == [(1, 0)]
    assert answer["trouble"] == "broker 7: broker 7 is fenced: it is down, or cut off"
