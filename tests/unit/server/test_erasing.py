"""Erasures on a broker in process: the ordinary way, strays, lives after death, obstacles."""

import json
from dataclasses import replace
from typing import Any

import pytest

from ledgerstone.erasure.erasure import ReplicaScan, Stage
from ledgerstone.erasure.host_messages import ScanOrder
from ledgerstone.erasure.key_print import SALT_BYTES, PrintKey
from ledgerstone.erasure.receipt import verify
from ledgerstone.erasure.scan_plan import KeyPrints
from ledgerstone.metadata.image import ResourceType
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.metadata_records import (
    ConfigRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from ledgerstone.records.batch import Codec, iter_headers
from ledgerstone.records.control import end_txn_marker
from ledgerstone.records.record import iter_records
from ledgerstone.records.validation import Origin
from ledgerstone.server.erasing.looking import scan_here
from ledgerstone.server.erasing.next_steps import _delays
from ledgerstone.server.erasing.scans import ScanFailed
from ledgerstone.server.erasing.view import complaints
from ledgerstone.server.http.erasure import _erasable
from ledgerstone.server.movable_clock import MovableClock
from ledgerstone.types import TopicPartition
from ledgerstone.uuid_text import uuid_to_text
from tests.kit.roles import change_partition
from tests.unit.server.asks import commit_offset, create_topic, delete_topic
from tests.unit.server.erasing_kit import (
    DAY_MS,
    HOUR_MS,
    KEY,
    TOPIC,
    ErasingMachine,
    alter_topic,
    machine_with,
)
from tests.unit.server.leading_kit import register

# Where a murmur2 producer puts KEY among three partitions.
HOME = 1
STRAY = 0
PRODUCER = 4000


def stages(machine: ErasingMachine, erasure_id: str) -> list[str]:
    return [stage.value for stage, _ in machine.erasure(erasure_id).stage_times]


def tombstones(machine: ErasingMachine, erasure_id: str) -> list[tuple[int, int]]:
    return [(each.partition, each.offset) for each in machine.erasure(erasure_id).tombstones]


def receipt_of(machine: ErasingMachine, erasure_id: str) -> dict[str, Any]:
    page = machine.page("GET", f"erasures/{erasure_id}/receipt")
    secrets = machine.broker.erasing.secrets
    assert page.status == 200, page.body
    assert secrets is not None
    assert verify(page.body.encode(), key=KEY, salt=secrets.salt).ok
    content: dict[str, Any] = json.loads(page.body)
    return content


# -- the ordinary way -----------------------------------------------------------------------------


def test_erasure_waits_for_a_broker_that_cannot_be_reached() -> None:
    machine = machine_with()
    machine.put(HOME, (KEY, b"lives in Ulm"))
    erasure_id = machine.erase()
    machine.broker.controller_link.write([RegisterBrokerRecord(broker_id=7, fenced=True)])

    assert machine.run(erasure_id, until=Stage.UNLINKED).stage is Stage.UNLINKED
    machine.settle()
    outlook = machine.broker.erasing.outlooks[erasure_id]
    assert outlook.waits_for == "broker 7 is fenced: it is down, or cut off"
    assert outlook.forecast.blocked_by == outlook.waits_for
    machine.broker.controller_link.write([UnregisterBrokerRecord(broker_id=7)])

    # It had no disk that the metadata know of, so nothing of it is left to be scanned.
    assert machine.run(erasure_id).stage is Stage.RECEIPTED


def test_erasure_ends_with_a_receipt_and_without_a_trace_of_the_key() -> None:
    machine = machine_with()
    machine.put(HOME, (KEY, b"lives in Ulm"), (b"bob", b"1"))

    erasure_id = machine.erase(within_ms=30 * DAY_MS)
    erasure = machine.run(erasure_id)

    assert stages(machine, erasure_id) == [
        "requested", "searched", "tombstoned", "stamped", "removed", "unlinked", "verified",
        "receipted",
    ]  # fmt: skip
    assert erasure.reached_ms(Stage.REMOVED) is not None
    assert receipt_of(machine, erasure_id)["met_deadline"] is True
    assert not machine.files_with(KEY)
    assert machine.files_with(b"bob")


@pytest.mark.parametrize("codec", list(Codec))
def test_strays_get_a_tombstone_of_their_own_whatever_they_were_packed_with(codec: Codec) -> None:
    machine = machine_with()
    machine.put(HOME, (b"bob", b"1"))
    machine.put(STRAY, (b"carol", b"2"), (KEY, b"lives in Ulm"), codec=codec)

    erasure_id = machine.erase()
    machine.run(erasure_id)

    assert tombstones(machine, erasure_id) == [(STRAY, 2), (HOME, 1)]
    assert receipt_of(machine, erasure_id)["recreated"] == []
    assert not machine.files_with(KEY)


def test_tombstone_carries_the_audit_headers() -> None:
    machine = machine_with(partitions=1)
    machine.put(0, (KEY, b"1"))
    machine.held_passes = []

    erasure_id = machine.erase(within_ms=DAY_MS, reason="ticket 4711", requested_by="clerk")
    machine.run(erasure_id)

    segment = machine.broker.partitions.get(TopicPartition(TOPIC, 0)).log.segments.first
    content = segment.file.pread(segment.size, 0)
    positions = [position for position, _ in iter_headers(content)]
    (record,) = iter_records(content, positions[-1])
    assert (record.key, record.value) == (KEY, None)
    assert dict(record.headers) == {
        "ledgerstone.erasure.id": erasure_id.encode(),
        "ledgerstone.erasure.reason": b"ticket 4711",
        "ledgerstone.erasure.requested-by": b"clerk",
        "ledgerstone.erasure.requested-at": b"2023-11-14T22:13:20.000Z",
        "ledgerstone.erasure.deadline": b"2023-11-15T22:13:20.000Z",
    }


def test_key_that_is_nowhere_gets_an_answer_and_no_tombstone() -> None:
    machine = machine_with()
    machine.put(HOME, (b"bob", b"1"))

    erasure_id = machine.erase()
    erasure = machine.run(erasure_id)

    assert erasure.stage is Stage.NOT_FOUND
    assert "no partition of customers holds the key" in erasure.note
    assert [machine.end(number) for number in range(3)] == [0, 1, 0]


def test_scheduled_erasure_begins_when_it_is_due_and_not_before() -> None:
    machine = machine_with(partitions=1)
    machine.put(0, (KEY, b"1"))

    erasure_id = machine.erase(after_ms=7 * DAY_MS)
    machine.settle()
    early = machine.erasure(erasure_id).stage
    erasure = machine.run(erasure_id)

    assert early is Stage.SCHEDULED
    assert erasure.stage is Stage.RECEIPTED
    assert erasure.tombstones[0].written_ms >= erasure.requested_ms + 7 * DAY_MS


def test_scheduled_erasure_can_be_cancelled_and_leaves_nothing() -> None:
    machine = machine_with(partitions=1)
    machine.put(0, (KEY, b"1"))
    erasure_id = machine.erase(after_ms=7 * DAY_MS)

    cancelled = machine.call("POST", f"erasures/{erasure_id}/cancel", by="clerk")
    machine.run(erasure_id)

    assert cancelled["stage"] == "cancelled"
    assert cancelled["note"] == "cancelled by clerk"
    assert machine.end(0) == 1


def test_cancelling_is_refused_once_a_tombstone_is_written() -> None:
    machine = machine_with(partitions=1)
    machine.put(0, (KEY, b"1"))
    erasure_id = machine.erase()
    machine.run(erasure_id, until=Stage.STAMPED)

    page = machine.page("POST", f"erasures/{erasure_id}/cancel", by="clerk")

    assert page.status == 400
    assert "stamped and can no longer be cancelled" in page.body


# -- more than one life, more than one erasure ----------------------------------------------------


def test_key_written_again_is_told_and_only_its_older_life_is_erased() -> None:
    machine = machine_with(partitions=1)
    machine.put(0, (KEY, b"old value"))
    erasure_id = machine.erase()
    machine.run(erasure_id, until=Stage.STAMPED)
    machine.put(0, (KEY, b"new value"))

    machine.run(erasure_id)

    receipt = receipt_of(machine, erasure_id)
    (again,) = machine.erasure(erasure_id).recreated
    assert (again.partition, again.first_offset, again.records) == (0, 2, 1)
    assert "records of the key written after the erasure, listed under recreated" in str(receipt)
    assert not machine.files_with(b"old value")
    assert machine.files_with(b"new value")


def test_two_erasures_of_one_key_both_get_their_receipt() -> None:
    machine = machine_with(partitions=1)
    machine.put(0, (KEY, b"1"))
    first = machine.erase(reason="first")
    machine.run(first, until=Stage.STAMPED)
    second = machine.erase(reason="second")

    machine.run(second)
    machine.run(first)

    assert tombstones(machine, first) == [(0, 1)]
    assert tombstones(machine, second) == [(0, 2)]
    assert receipt_of(machine, first)["id"] == first
    assert receipt_of(machine, second)["id"] == second
    assert not machine.files_with(KEY)


def test_same_key_in_another_topic_is_named_in_the_receipt() -> None:
    machine = machine_with(partitions=1)
    create_topic(machine.connect(), "orders", 1, cleanup_policy="compact")
    machine.put(0, (KEY, b"1"))
    machine.put(0, (KEY, b"order"), topic="orders")

    erasure_id = machine.erase()
    machine.run(erasure_id)

    (other,) = machine.erasure(erasure_id).elsewhere
    assert (other.topic, other.partition) == ("orders", 0)
    assert receipt_of(machine, erasure_id)["other_topics"] != []


def test_key_inside_values_of_others_is_counted_as_a_mention() -> None:
    machine = machine_with(partitions=1)
    machine.put(0, (KEY, b"1"), (b"bob", b"friend of " + KEY))

    erasure_id = machine.erase()
    machine.run(erasure_id)

    (replica,) = machine.erasure(erasure_id).scans
    assert (replica.mentions, replica.residue) == (1, 0)


def test_many_erasures_cost_two_passes_of_each_partition() -> None:
    machine = machine_with(delete_retention_ms="0")
    keys = [b"customer-%05d" % number for number in range(200)]
    for number in range(3):
        machine.put(number, *((key, b"1") for key in keys[number::3]))
    erasures = [machine.erase(key) for key in keys]

    ended = [machine.run(each) for each in erasures]

    assert {each.stage for each in ended} == {Stage.RECEIPTED}
    assert max(machine.passes().values()) <= 3
    assert len(machine.scans_done) <= 4


def test_erasures_that_come_during_a_search_share_the_next_one() -> None:
    machine = machine_with(partitions=1)
    keys = [b"customer-%05d" % number for number in range(20)]
    machine.put(0, *((key, b"1") for key in keys))
    machine.held_scans = []
    erasures = [machine.erase(keys[0])]
    machine.settle()
    erasures += [machine.erase(key) for key in keys[1:]]
    machine.settle()

    (first,) = machine.held_scans
    machine.held_scans = []
    machine.finish_scan(first)
    machine.settle()

    (second,) = machine.held_scans
    assert len(second.plan.keys.prints) == 19


def test_keys_of_one_request_are_erased_together() -> None:
    machine = machine_with(partitions=1)
    machine.put(0, (b"a-customer", b"1"), (b"b-customer", b"1"), (b"c-customer", b"1"))

    erasures = machine.erase_all([b"a-customer", b"b-customer", b"nobody-here"])
    ended = [machine.run(each).stage for each in erasures]

    assert ended == [Stage.RECEIPTED, Stage.RECEIPTED, Stage.NOT_FOUND]
    assert not machine.files_with(b"a-customer")
    assert machine.files_with(b"c-customer")


# -- obstacles ------------------------------------------------------------------------------------


def test_open_transaction_holds_the_erasure_up_and_is_named() -> None:
    machine = machine_with(partitions=1, delete_retention_ms="0")
    machine.put(0, (KEY, b"1"))
    machine.put(
        0, (b"bob", b"1"), producer_id=PRODUCER, producer_epoch=0, base_sequence=0,
        transactional=True,
    )  # fmt: skip
    erasure_id = machine.erase(within_ms=DAY_MS)

    held = machine.run(erasure_id)
    waits_for = machine.call("GET", f"erasures/{erasure_id}")["waits_for"]
    marker = end_txn_marker(
        producer_id=PRODUCER, producer_epoch=0, commit=True, coordinator_epoch=0,
        timestamp=machine.clock.now_ms(),
    )  # fmt: skip
    partition = machine.broker.partitions.get(TopicPartition(TOPIC, 0))
    partition.append(marker, acks=-1, origin=Origin.COORDINATOR)
    machine.advance(6_000)
    done = machine.run(erasure_id)

    assert held.stage is Stage.TOMBSTONED
    assert f"producer {PRODUCER} has had a transaction open since offset 1" in waits_for
    assert "no coordinator here knows it" in waits_for
    assert done.stage is Stage.RECEIPTED
    assert not machine.files_with(KEY)


def test_min_compaction_lag_is_waited_for() -> None:
    machine = machine_with(partitions=1, min_compaction_lag_ms=str(HOUR_MS))
    machine.put(0, (KEY, b"1"))
    erasure_id = machine.erase()

    machine.settle()
    waits = machine.call("GET", f"erasures/{erasure_id}")
    erasure = machine.run(erasure_id)

    assert "min.compaction.lag.ms=3600000" in waits["waits_for"]
    assert waits["waits_until_ms"] >= erasure.requested_ms + HOUR_MS
    assert erasure.stage is Stage.RECEIPTED


def test_policy_that_no_longer_compacts_is_named_and_waited_out() -> None:
    machine = machine_with(partitions=1)
    machine.put(0, (KEY, b"1"))
    erasure_id = machine.erase()
    machine.run(erasure_id, until=Stage.STAMPED)
    alter_topic(machine, "cleanup.policy", "delete")

    machine.clock.advance(days=2)
    held = machine.run(erasure_id)
    waits_for = machine.call("GET", f"erasures/{erasure_id}")["waits_for"]
    alter_topic(machine, "cleanup.policy", "compact")
    done = machine.run(erasure_id)

    assert held.stage is Stage.STAMPED
    assert "cleanup.policy does not contain compact" in waits_for
    assert done.stage is Stage.RECEIPTED


def test_defaults_set_for_all_brokers_hold_for_a_topic_without_a_replica_here() -> None:
    machine = machine_with(partitions=1, cleanup_policy="delete")
    broker, of_brokers = machine.broker, ResourceType.BROKER
    topic_id = broker.image.topics[TOPIC].topic_id
    broker.controller_link.write(
        [
            ConfigRecord(ResourceType.TOPIC, TOPIC, "cleanup.policy", None),
            ConfigRecord(of_brokers, "", "log.cleanup.policy", "compact"),
            ConfigRecord(of_brokers, "", "log.cleaner.delete.retention.ms", "5"),
            ConfigRecord(of_brokers, "", "log.segment.delete.delay.ms", "6"),
        ]
    )
    register(machine, 2)
    change_partition(machine, TopicPartition(TOPIC, 0), leader=2, replicas=[2], isr=[2])

    assert broker.partitions.find(TopicPartition(TOPIC, 0)) is None
    assert _erasable(broker, TOPIC) == topic_id
    assert _delays(broker.erasing, TOPIC) == (5, 6)


def test_group_that_has_not_read_the_tombstone_holds_it_and_is_named() -> None:
    machine = machine_with(
        partitions=1, delete_retention_ms="0", ledgerstone_tombstone_hold_groups="billing"
    )
    machine.put(0, (KEY, b"1"))
    client = machine.connect()
    assert commit_offset(client, "billing", 1, TOPIC) == ErrorCode.NONE
    erasure_id = machine.erase()

    machine.settle()
    held = machine.call("GET", f"erasures/{erasure_id}")
    assert commit_offset(client, "billing", 2, TOPIC) == ErrorCode.NONE
    machine.advance(6_000)
    done = machine.run(erasure_id)

    assert held["stage"] == "stamped"
    assert "group billing has committed offset 1" in held["waits_for"]
    assert done.stage is Stage.RECEIPTED
    assert done.stage_ms < held["waits_until_ms"]


def test_deleted_topic_takes_its_erasure_along_to_the_scan() -> None:
    machine = machine_with(partitions=1)
    machine.put(0, (KEY, b"1"))
    erasure_id = machine.erase()
    machine.run(erasure_id, until=Stage.STAMPED)

    delete_topic(machine.connect(), TOPIC)
    erasure = machine.run(erasure_id)

    assert erasure.stage is Stage.RECEIPTED
    assert not machine.files_with(KEY)


def test_topic_that_came_back_under_its_old_name_is_another_topic() -> None:
    machine = machine_with(partitions=1)
    machine.put(0, (KEY, b"1"))
    erasure_id = machine.erase()
    machine.run(erasure_id, until=Stage.STAMPED)

    delete_topic(machine.connect(), TOPIC)
    create_topic(machine.connect(), TOPIC, 1, cleanup_policy="compact")
    machine.put(0, (KEY, b"another life"))
    erasure = machine.run(erasure_id)

    assert erasure.stage is Stage.RECEIPTED
    assert [each.topic for each in erasure.elsewhere] == [TOPIC]


def test_key_that_leaves_no_room_for_headers_is_erased_with_its_id_alone() -> None:
    machine = machine_with(partitions=1, max_message_bytes="1200")
    key = b"k" * 1050
    machine.put(0, (key, b"1"))

    erasure_id = machine.erase(key, reason="r" * 200)
    erasure = machine.run(erasure_id)

    assert erasure.stage is Stage.RECEIPTED
    assert not machine.files_with(key)


def test_tombstone_that_does_not_fit_at_all_is_told() -> None:
    machine = machine_with(partitions=1, max_message_bytes="1200")
    key = b"k" * 1120
    machine.put(0, (key, b"1"))

    erasure_id = machine.erase(key)
    machine.settle()

    waits_for = machine.call("GET", f"erasures/{erasure_id}")["waits_for"]
    assert machine.erasure(erasure_id).stage is Stage.SEARCHED
    assert "max.message.bytes is 1200" in waits_for


@pytest.mark.parametrize("codec", list(Codec))
def test_receipt_counts_the_mention_that_an_emptied_batch_lies_behind(codec: Codec) -> None:
    machine = machine_with(partitions=1)
    machine.put(0, (KEY, b"x"), (b"bob", b"friend of " + KEY), codec=codec)

    erasure_id = machine.erase()
    machine.run(erasure_id, days=3)

    (replica,) = receipt_of(machine, erasure_id)["replicas"]
    assert (replica["mentions"], replica["residue"]) == (1, 0)


# -- what receipts claim ---------------------------------------------------------------------------


def test_records_of_a_key_that_came_back_are_counted_and_listed() -> None:
    machine = machine_with(partitions=1)
    machine.put(0, (KEY, b"1"), (b"bob", b"1"))
    erasure_id = machine.erase()
    machine.run(erasure_id, until=Stage.STAMPED)
    for number in range(3):
        machine.put(0, (KEY, b"back %d" % number))

    machine.run(erasure_id, days=2)

    receipt = receipt_of(machine, erasure_id)
    (replica,) = receipt["replicas"]
    (span,) = receipt["recreated"]
    there = sum(
        record.key == KEY
        for path, content in machine.fs.files().items()
        if path.endswith(".log") and "/customers-0/" in path
        for position, _ in iter_headers(content)
        for record in iter_records(content, position)
    )
    assert there > 0
    assert replica["records"] == 0
    assert replica["recreated_records"] == span["records"] == there
    assert span["first_offset"] > receipt["tombstones"][0]["offset"]


def test_key_that_is_nowhere_gets_a_signed_statement() -> None:
    machine = machine_with()
    machine.put(HOME, (b"bob", b"1"))

    erasure_id = machine.erase()
    machine.run(erasure_id, days=2)

    statement = receipt_of(machine, erasure_id)
    assert statement["kind"] == "not_found"
    assert (statement["searched"]["partitions"], statement["searched"]["records"]) == (3, 0)
    assert statement["searched"]["bytes"] > 0
    assert machine.call("GET", f"erasures/{erasure_id}")["has_receipt"]
    machine.stop()
    machine.start()
    assert receipt_of(machine, erasure_id) == statement


def test_receipt_of_a_broker_on_a_virtual_clock_says_so_for_ever() -> None:
    machine = machine_with(partitions=1)
    machine.put(0, (KEY, b"1"))
    erasing = machine.broker.erasing
    erasing.clock, real = MovableClock(machine.clock), erasing.clock

    erasure_id = machine.erase()
    machine.settle()
    # The rest of its life goes by real time, and it is known all the same.
    erasing.clock = real
    machine.run(erasure_id, days=2)

    assert receipt_of(machine, erasure_id)["clock"] == "virtual"


def test_receipt_names_what_was_scanned() -> None:
    machine = machine_with()
    machine.put(HOME, (KEY, b"1"))

    erasure_id = machine.erase()
    machine.run(erasure_id, days=2)

    (replica,) = receipt_of(machine, erasure_id)["replicas"]
    assert sum(each["files"] for each in replica["kinds"]) == replica["files"]
    assert sum(each["bytes"] for each in replica["kinds"]) == replica["bytes"]
    assert [each["partition"] for each in replica["partitions"]] == [0, 1, 2]
    assert replica["partitions_in_all"] == 3
    assert len({each["digest"] for each in replica["partitions"]}) == 3


# -- a way out ------------------------------------------------------------------------------------


def blocked(machine: ErasingMachine, content: bytes = b"of " + KEY) -> str:
    """An erasure that a file of somebody else's stands in the way of."""
    put_file(machine, "notes.txt", content)
    machine.put(0, (KEY, b"1"))
    erasure_id = machine.erase()
    machine.run(erasure_id, until=Stage.UNLINKED)
    machine.settle()
    return erasure_id


def put_file(machine: ErasingMachine, name: str, content: bytes) -> None:
    file = machine.fs.open(f"{machine.broker.log_dir.path}/{name}", create=True)
    file.pwrite(content, 0)
    file.close()


def test_operator_can_accept_what_is_in_a_file_and_the_receipt_tells_it() -> None:
    machine = machine_with(partitions=1)
    erasure_id = blocked(machine)
    shown = machine.call("GET", f"erasures/{erasure_id}")
    assert shown["status"] == "residue found"
    found = {"file": "0/notes.txt", "hits": 1, "node_id": 1}
    assert shown["found"]["residue_files"] == [found]

    said = {"file": "0/notes.txt", "by": "operator", "reason": "a court file"}
    machine.call("POST", f"erasures/{erasure_id}/accept", **said)
    machine.run(erasure_id, days=2)

    receipt = receipt_of(machine, erasure_id)
    (replica,) = receipt["replicas"]
    (exception,) = receipt["exceptions"]
    assert (replica["residue"], replica["accepted"]) == (1, 1)
    assert {**said, "hits": 1, "accepted_hits": 1, "trouble": ""}.items() <= exception.items()
    assert any("exceptions" in text for text in receipt["not_covered"])
    assert machine.call("GET", f"erasures/{erasure_id}")["exceptions"][0]["by"] == "operator"


def test_more_than_was_accepted_is_not_accepted() -> None:
    machine = machine_with(partitions=1)
    put_file(machine, "more.txt", KEY)
    erasure_id = blocked(machine)
    said = {"by": "operator", "reason": "a court file"}
    machine.call("POST", f"erasures/{erasure_id}/accept", file="0/notes.txt", **said)
    put_file(machine, "notes.txt", b"of " + KEY + b" and " + KEY)
    machine.clock.advance(ms=HOUR_MS)
    machine.broker.clock_moved()
    machine.settle()

    machine.call("POST", f"erasures/{erasure_id}/accept", file="0/more.txt", **said)
    machine.settle()

    assert machine.erasure(erasure_id).stage is Stage.UNLINKED
    assert machine.call("GET", f"erasures/{erasure_id}")["status"] == "residue found"


def test_file_that_cannot_be_read_as_records_can_be_accepted_too() -> None:
    machine = machine_with(partitions=1)
    directory = f"old-0.{'0' * 32}-stray"
    machine.fs.make_dir(f"{machine.broker.log_dir.path}/{directory}")
    put_file(machine, f"{directory}/00000000000000000000.log", b"\7" * 100)
    erasure_id = blocked(machine, b"nothing")
    (trouble,) = machine.call("GET", f"erasures/{erasure_id}")["found"]["troubles"]

    said = {"file": trouble["file"], "by": "operator", "reason": "torn long ago"}
    machine.call("POST", f"erasures/{erasure_id}/accept", **said)
    machine.run(erasure_id, days=2)

    (exception,) = receipt_of(machine, erasure_id)["exceptions"]
    assert "no batch" in exception["trouble"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"file": "0/other"}, "found nothing to accept"),
        ({"reason": ""}, "needs a reason and a name"),
        ({"by": " "}, "needs a reason and a name"),
        ({"reason": "of " + KEY.decode()}, "contains the key"),
        ({"reason": "x" * 2000}, "at most 1024"),
        ({"file": 7}, "must be a text"),
    ],
)
def test_exception_that_says_nothing_is_refused(change: dict[str, Any], reason: str) -> None:
    machine = machine_with(partitions=1)
    erasure_id = blocked(machine)
    said = {"file": "0/notes.txt", "by": "operator", "reason": "a court file"}

    page = machine.page("POST", f"erasures/{erasure_id}/accept", **{**said, **change})

    assert (page.status, reason in page.body) == (400, True), page.body


def test_nothing_can_be_accepted_before_a_scan_has_found_it() -> None:
    machine = machine_with(partitions=1)
    machine.put(0, (KEY, b"1"))
    erasure_id = machine.erase()
    machine.run(erasure_id, until=Stage.STAMPED)

    page = machine.page("POST", f"erasures/{erasure_id}/accept", file="0/x", by="me", reason="r")

    assert (page.status, "no scan has found anything" in page.body) == (400, True)


@pytest.mark.parametrize("stage", [Stage.TOMBSTONED, Stage.STAMPED, Stage.UNLINKED])
def test_erasure_that_cannot_end_can_be_abandoned_and_gets_no_receipt(stage: Stage) -> None:
    machine = machine_with(partitions=1)
    put_file(machine, "notes.txt", KEY)
    machine.put(0, (KEY, b"1"))
    machine.held_passes = [] if stage is Stage.TOMBSTONED else None
    erasure_id = machine.erase(within_ms=HOUR_MS)
    machine.run(erasure_id, until=stage)
    assert machine.erasure(erasure_id).stage is stage
    assert machine.page("POST", f"erasures/{erasure_id}/cancel", by="me").status == 400

    machine.call("POST", f"erasures/{erasure_id}/abandon", by="me", reason="asked for twice")
    machine.settle()

    found = machine.call("GET", f"erasures/{erasure_id}")
    assert (found["stage"], found["is_over"], found["has_receipt"]) == ("abandoned", True, False)
    assert found["note"].endswith("by me: asked for twice")
    assert machine.page("GET", f"erasures/{erasure_id}/receipt").status == 409
    assert machine.erasure(erasure_id).sealed_key is None
    assert not any(erasure_id in line for line in complaints(machine.broker.erasing))
    machine.stop()
    machine.start()
    assert machine.erasure(erasure_id).stage is Stage.ABANDONED
    assert machine.page("POST", f"erasures/{erasure_id}/abandon", by="me", reason="r").status == 400


def test_erasure_that_can_be_cancelled_is_not_abandoned() -> None:
    machine = machine_with(partitions=1)
    machine.put(0, (KEY, b"1"))
    erasure_id = machine.erase(after_ms=DAY_MS)

    page = machine.page("POST", f"erasures/{erasure_id}/abandon", by="me", reason="r")

    assert (page.status, "it can be cancelled" in page.body) == (400, True)


def test_scan_of_an_older_broker_is_made_again_before_it_is_signed() -> None:
    machine = machine_with(partitions=1)
    machine.verifiers["lake"] = "not now"
    machine.put(0, (KEY, b"1"))
    erasure_id = machine.erase(verifiers=["lake"])
    machine.run(erasure_id, until=Stage.VERIFIED)
    known = machine.erasure(erasure_id)
    older = replace(known, scans=tuple(replace(each, counts=None) for each in known.scans))
    machine.broker.erasing.keep([older])
    scans = len(machine.scans_done)

    machine.settle()

    assert len(machine.scans_done) == scans + 1
    again = machine.erasure(erasure_id)
    assert again.stage is Stage.VERIFIED
    assert again.scans[0].counts is not None


def test_record_that_is_not_committed_is_no_later_life_of_the_key() -> None:
    """It may be of a leader that was replaced, from before the tombstone, and go."""
    machine = machine_with(partitions=1)
    machine.put(0, (KEY, b"Ulm"))
    orders = [ScanOrder("ER-1", TOPIC, uuid_to_text(machine.broker.image.topics[TOPIC].topic_id))]
    print_key = PrintKey.from_salt(bytes(SALT_BYTES))
    keys = KeyPrints.under(print_key, [print_key.print_of(TOPIC, KEY)])
    said: list[str | None] = []

    def ended(scans: list[ReplicaScan] | ScanFailed) -> None:
        assert not isinstance(scans, ScanFailed)
        said.append(scans[0].trouble)

    for high_watermark in (0, 1):
        partition = machine.broker.partitions.get(TopicPartition(TOPIC, 0))
        partition.log.high_watermark = high_watermark
        scan_here(machine.broker.erasing, orders, keys, ended)
        machine.settle()

    assert said == [f"offset 0 of {TOPIC}-0 is not committed here", None]
