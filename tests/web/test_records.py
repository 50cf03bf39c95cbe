"""Browsing records: by offset, by time, page by page, compressed, with gaps."""

import pytest

from ledgerstone.records.batch import Codec
from ledgerstone.records.builder import build_batch
from ledgerstone.records.control import end_txn_marker
from ledgerstone.records.validation import Origin
from ledgerstone.types import TopicPartition
from ledgerstone.web import record_pages
from ledgerstone.web.record_pages import Slice, Slices
from tests.kit.in_process import InProcess
from tests.kit.roles import leader_of
from tests.unit.server.asks import TOPIC, create_topic
from tests.web.kit import Parsed, Visitor, append

RECORDS = f"/topics/{TOPIC}/records"


@pytest.fixture
def machine() -> InProcess:
    machine = InProcess()
    create_topic(machine.connect())
    return machine


@pytest.fixture
def visitor(machine: InProcess) -> Visitor:
    return Visitor(machine)


def offsets(visitor: Visitor, address: str) -> list[int]:
    links = [str(each["href"]) for each in Parsed(visitor.shown(address)).all("a")]
    return [int(each.rpartition("/")[2]) for each in links if each.startswith(f"{RECORDS}/0/")]


def fill(machine: InProcess, count: int, **how: object) -> None:
    log = machine.broker.partitions.get(TopicPartition(TOPIC, 0))
    now_ms = machine.clock.now_ms()
    records = [(now_ms + n, b"key %d" % n, b"value %d" % n, ()) for n in range(count)]
    log.append(build_batch(records, **how), acks=-1)  # type: ignore[arg-type]


def link(visitor: Visitor, address: str, rel: str) -> str | None:
    found = [each for each in Parsed(visitor.shown(address)).all("a") if each.get("rel") == rel]
    return str(found[0]["href"]) if found else None


@pytest.mark.parametrize("codec", list(Codec))
def test_newest_records_are_shown_whatever_they_are_compressed_with(
    machine: InProcess, visitor: Visitor, codec: Codec
) -> None:
    fill(machine, 120, codec=codec)

    assert offsets(visitor, RECORDS) == list(range(70, 120))
    assert "value 119" in visitor.shown(RECORDS)


def test_pages_lead_through_the_whole_partition_in_both_directions(
    machine: InProcess, visitor: Visitor
) -> None:
    fill(machine, 120)
    seen: list[list[int]] = []

    address: str | None = f"{RECORDS}?offset=0"
    while address is not None:
        seen.append(offsets(visitor, address))
        address = link(visitor, address, "next")
    backwards: list[list[int]] = []
    address = RECORDS
    while address is not None:
        backwards.append(offsets(visitor, address))
        address = link(visitor, address, "prev")

    assert [each for page in seen for each in page] == list(range(120))
    assert [each for page in reversed(backwards) for each in page] == list(range(120))
    assert all(len(page) <= record_pages.PAGE_RECORDS for page in (*seen, *backwards))


def test_earlier_page_steps_over_what_was_compacted_away(
    machine: InProcess, visitor: Visitor
) -> None:
    partition = machine.broker.partitions.get(TopicPartition(TOPIC, 0))
    thinned = build_batch(
        [(machine.clock.now_ms(), b"k", b"v", ())],
        base_offset=0,
        offsets=[3],
        last_offset_delta=9_999,
    )
    partition.log.append_as_follower(thinned)
    leader_of(partition).advance_high_watermark()
    append(machine, TOPIC, b"new", b"v")

    assert offsets(visitor, f"{RECORDS}?before=10000") == [3]
    assert "9\u202f996 offsets have no record" in visitor.shown(RECORDS)


def test_records_from_a_time_on(machine: InProcess, visitor: Visitor) -> None:
    append(machine, TOPIC, b"a", b"old")
    machine.clock.advance(hours=5)
    append(machine, TOPIC, b"b", b"new")

    assert offsets(visitor, f"{RECORDS}?time=2h") == [1]
    assert offsets(visitor, f"{RECORDS}?time=9h") == [0, 1]
    assert offsets(visitor, f"{RECORDS}?time={machine.clock.now_ms() + 1}") == []
    assert offsets(visitor, f"{RECORDS}?time=2023-11-14T23:00:00Z") == [1]


def test_offset_outside_the_log_is_moved_into_it(machine: InProcess, visitor: Visitor) -> None:
    fill(machine, 3)

    assert offsets(visitor, f"{RECORDS}?offset=2") == [2]
    assert offsets(visitor, f"{RECORDS}?offset=99") == []
    assert offsets(visitor, f"{RECORDS}?before=99") == [0, 1, 2]


def test_key_is_asked_for_in_a_form_that_is_no_address(visitor: Visitor) -> None:
    forms = Parsed(visitor.shown(RECORDS)).all("form")

    assert [(each["method"], each["action"]) for each in forms] == [
        ("get", RECORDS),
        ("post", f"/topics/{TOPIC}/keys"),
    ]


def test_tombstone_empty_value_and_no_key_are_told_apart(
    machine: InProcess, visitor: Visitor
) -> None:
    append(machine, TOPIC, b"gone", None)
    append(machine, TOPIC, b"empty", b"")
    append(machine, TOPIC, None, b"keyless", (("trace", b"\xff"), ("none", None)))

    rows = [row.split("</tr>")[0] for row in visitor.shown(RECORDS).split("<tr>")[2:]]

    assert ["tombstone" in row for row in rows] == [True, False, False]
    assert [">empty<" in row for row in rows] == [False, True, False]
    assert [">no key<" in row for row in rows] == [False, False, True]
    assert "trace: 0xff" in rows[2]
    assert "none: null" in rows[2]


def test_marker_of_a_transaction_is_shown_as_one(machine: InProcess, visitor: Visitor) -> None:
    partition = machine.broker.partitions.get(TopicPartition(TOPIC, 0))
    partition.append(
        build_batch(
            [(machine.clock.now_ms(), b"k", b"v", ())],
            producer_id=1, producer_epoch=0, base_sequence=0, transactional=True,
        ),
        acks=-1,
    )  # fmt: skip
    marker = end_txn_marker(
        commit=True, producer_id=1, producer_epoch=0, coordinator_epoch=0,
        timestamp=machine.clock.now_ms(),
    )  # fmt: skip
    partition.append(marker, acks=-1, origin=Origin.COORDINATOR)

    text = visitor.shown(RECORDS)

    assert "commit marker" in text
    assert ">transaction<" in text


def test_one_record_is_shown_with_all_of_its_value(machine: InProcess, visitor: Visitor) -> None:
    append(machine, TOPIC, b"k", b"x" * 2000 + b"END")

    assert "END" not in visitor.shown(RECORDS)
    assert "END" in visitor.shown(f"{RECORDS}/0/0")


def test_offset_without_a_record_says_what_may_have_happened(
    machine: InProcess, visitor: Visitor
) -> None:
    partition = machine.broker.partitions.get(TopicPartition(TOPIC, 0))
    thinned = build_batch(
        [(machine.clock.now_ms(), b"k", b"v", ())], offsets=[3], last_offset_delta=5
    )
    partition.log.append_as_follower(thinned)
    leader_of(partition).advance_high_watermark()

    page = visitor.get(f"{RECORDS}/0/4")

    assert page.status == 404
    assert "There is no longer a record at this offset" in str(page.body)


def test_page_gives_up_where_too_much_had_to_be_looked_through(
    machine: InProcess, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_pages, "BUDGET_RECORDS", 30)
    fill(machine, 120)

    assert len(offsets(visitor, f"{RECORDS}?offset=0")) <= 50


def worked_off(search: Slices, jobs: list[object]) -> Slice:
    """Notes what the search yields: a job, or None for a turn of the others."""
    result: object = None
    while True:
        try:
            job = search.send(result)
        except StopIteration as end:
            found: Slice = end.value
            return found
        jobs.append(job)
        result = job() if job is not None else None


def test_large_batch_is_decoded_in_turns(machine: InProcess) -> None:
    fill(machine, 1000)
    log = machine.broker.partitions.get(TopicPartition(TOPIC, 0)).log
    search = record_pages.rows_from(log, 990)
    jobs: list[object] = []

    found = worked_off(search, jobs)

    assert [row.offset for row in found.rows] == list(range(990, 1000))
    assert jobs.count(None) >= 9
