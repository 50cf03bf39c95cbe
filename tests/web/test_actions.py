"""What can be done from a page."""

from urllib.parse import parse_qs, urlsplit

import pytest

from ledgerstone.client.partitioner import partition_of
from ledgerstone.records.record import Record
from ledgerstone.server.http.server import Page
from ledgerstone.types import TopicPartition
from tests.kit.logs import all_records
from tests.unit.server.asks import fetch
from tests.unit.server.erasing_kit import ErasingMachine
from tests.web.kit import COMPACTED, PLAIN, Visitor, append, header


def newest(machine: ErasingMachine, topic: str, partition: int) -> Record:
    log = machine.broker.partitions.get(TopicPartition(topic, partition)).log
    return all_records(log)[-1]


def led_to(page: Page) -> tuple[str, dict[str, list[str]]]:
    assert page.status == 303, page.body
    parts = urlsplit(header(page, "Location") or "")
    return parts.path, parse_qs(parts.query)


def produce(visitor: Visitor, topic: str = COMPACTED, **fields: str) -> Page:
    return visitor.post(f"/topics/{topic}/produce", {"kind": "record", **fields})


def test_record_goes_to_the_partition_its_key_belongs_to(
    visitor: Visitor, machine: ErasingMachine
) -> None:
    for key in ("alice", "bob", "carol", "dave"):
        page = produce(visitor, key=key, value=f"of {key}")

        number = partition_of(key.encode(), 2)
        path, query = led_to(page)
        assert path == f"/topics/{COMPACTED}/records"
        assert query["partition"] == [str(number)]
        found = newest(machine, COMPACTED, number)
        assert (found.key, found.value) == (key.encode(), f"of {key}".encode())


def test_record_goes_where_it_was_told_to(visitor: Visitor, machine: ErasingMachine) -> None:
    for number in ("0", "1"):
        produce(visitor, key="alice", value="here", partition=number)

    assert [newest(machine, COMPACTED, number).value for number in (0, 1)] == [b"here", b"here"]
    assert produce(visitor, key="a", value="b", partition="2").status == 400


def test_empty_value_and_tombstone_are_different_things(
    visitor: Visitor, machine: ErasingMachine
) -> None:
    produce(visitor, key="alice", value="", partition="0")
    empty = newest(machine, COMPACTED, 0)
    produce(visitor, key="alice", value="ignored", kind="tombstone", partition="0")
    tombstone = newest(machine, COMPACTED, 0)

    assert empty.value == b""
    assert tombstone.value is None


def test_bytes_and_headers_come_as_they_were_written(
    visitor: Visitor, machine: ErasingMachine
) -> None:
    produce(
        visitor, key="00ff10", key_as="hex", value="AP8=", value_as="base64", partition="0",
        headers="source: by hand\r\n\r\nempty:\r\n",
    )  # fmt: skip

    found = newest(machine, COMPACTED, 0)
    assert (found.key, found.value) == (b"\x00\xff\x10", b"\x00\xff")
    assert found.headers == (("source", b"by hand"), ("empty", b""))


@pytest.mark.parametrize(
    "fields",
    [
        {"key": "xyz", "key_as": "hex"},
        {"key": "!", "key_as": "base64"},
        {"key": "a", "headers": "no colon"},
        {"key": "a", "partition": "-1"},
    ],
)
def test_what_cannot_be_read_writes_nothing(
    visitor: Visitor, machine: ErasingMachine, fields: dict[str, str]
) -> None:
    before = [machine.end(number, COMPACTED) for number in (0, 1)]

    assert produce(visitor, **fields).status == 400
    assert [machine.end(number, COMPACTED) for number in (0, 1)] == before


def test_record_without_key_is_refused_by_a_compacted_topic_and_taken_by_another(
    visitor: Visitor, machine: ErasingMachine
) -> None:
    refused = produce(visitor, keyless="1", value="v")
    taken = produce(visitor, PLAIN, keyless="1", value="v")

    assert refused.status == 400
    assert "The record was not written" in str(refused.body)
    assert taken.status == 303
    assert newest(machine, PLAIN, 0).key is None


def test_internal_topic_takes_nothing(visitor: Visitor) -> None:
    assert produce(visitor, "__consumer_offsets", key="a", value="b").status == 400


def test_consumer_that_waits_is_woken_by_a_record_from_the_page(
    visitor: Visitor, machine: ErasingMachine
) -> None:
    client = machine.connect()
    end = machine.end(0, PLAIN)
    client.send(fetch({0: end}, PLAIN, max_wait_ms=60_000, min_bytes=1), 12)
    assert client.is_waiting

    produce(visitor, PLAIN, key="k", value="v", partition="0")

    assert not client.is_waiting


def test_topic_is_made_with_its_settings(visitor: Visitor, machine: ErasingMachine) -> None:
    page = visitor.post(
        "/topics",
        {
            "name": "made.by-hand_1",
            "partitions": "3",
            "policy": "compact",
            "configs": "segment.bytes=1000000\r\nmin.compaction.lag.ms = 5\r\n",
        },
    )

    assert led_to(page)[0] == "/topics/made.by-hand_1"
    image = machine.broker.image
    assert len(image.topics["made.by-hand_1"].partitions) == 3
    assert dict(image.topic_config("made.by-hand_1")) == {
        "cleanup.policy": "compact",
        "segment.bytes": "1000000",
        "min.compaction.lag.ms": "5",
    }


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "<script>"},
        {"name": ""},
        {"name": COMPACTED},
        {"name": "x", "partitions": "0"},
        {"name": "x", "partitions": "99999999"},
        {"name": "x", "configs": "nonsense"},
        {"name": "x", "configs": "segment.bytes=none"},
        {"name": "x", "configs": f"leader.replication.throttled.replicas={'0:1,' * 10_000}"},
    ],
)
def test_topic_that_cannot_be_is_not_made(
    visitor: Visitor, machine: ErasingMachine, fields: dict[str, str]
) -> None:
    before = list(machine.broker.image.topics)

    page = visitor.post("/topics", fields)

    assert page.status == 400
    assert list(machine.broker.image.topics) == before


def test_passes_are_asked_for(visitor: Visitor, machine: ErasingMachine) -> None:
    path, query = led_to(visitor.post(f"/topics/{COMPACTED}/compact", {}))
    one = visitor.post(f"/topics/{COMPACTED}/compact", {"partition": "1", "back": "cleaner"})

    assert path == f"/topics/{COMPACTED}/anatomy"
    assert query["notice"] == ["2 passes were requested."]
    assert led_to(one)[0] == "/cleaner"
    assert len(machine.broker.cleaning.asked) == 2
    assert visitor.woken == 2
    assert visitor.post(f"/topics/{PLAIN}/compact", {}).status == 409
    assert visitor.post("/topics/nothing/compact", {}).status == 404


def test_key_is_erased_from_a_form(visitor: Visitor, machine: ErasingMachine) -> None:
    append(machine, COMPACTED, b"dave", b"v")

    page = visitor.post(
        "/erasures",
        {
            "topic": COMPACTED,
            "key": "dave",
            "reason": "ticket 1",
            "requested_by": "desk",
            "within_days": "30",
        },
    )

    erasure_id = led_to(page)[0].rpartition("/")[2]
    erasure = machine.erasure(erasure_id)
    assert (erasure.topic, erasure.reason, erasure.requested_by) == (COMPACTED, "ticket 1", "desk")
    assert erasure.deadline_ms == machine.clock.now_ms() + 30 * 86_400_000
    # The key is nowhere to be seen.
    assert "dave" not in visitor.shown(f"/erasures/{erasure_id}")


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"topic": COMPACTED, "key": ""}, 400),
        ({"topic": "nothing", "key": "a"}, 404),
        ({"topic": PLAIN, "key": "a"}, 409),
        ({"topic": COMPACTED, "key": "alice", "reason": "alice asked"}, 400),
        ({"topic": COMPACTED, "key": "a", "within_days": "soon"}, 400),
    ],
)
def test_erasure_that_makes_no_sense_is_refused(
    visitor: Visitor, machine: ErasingMachine, fields: dict[str, str], status: int
) -> None:
    before = len(list(machine.broker.erasing.journal.book))

    page = visitor.post("/erasures", fields)

    assert page.status == status
    assert len(list(machine.broker.erasing.journal.book)) == before


def test_erasure_is_cancelled_from_its_page(visitor: Visitor, machine: ErasingMachine) -> None:
    erasure_id = machine.erase(b"dave", COMPACTED, after_ms=60_000)

    page = visitor.post(f"/erasures/{erasure_id}/cancel", {"by": "desk"})

    assert led_to(page)[0] == f"/erasures/{erasure_id}"
    assert machine.erasure(erasure_id).stage.value == "cancelled"
    assert visitor.post("/erasures/ER-nothing/cancel", {}).status == 404
