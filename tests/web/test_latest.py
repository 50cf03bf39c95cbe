"""A partition as if it were fully compacted."""

import pytest

from ledgerstone.records.builder import build_batch
from ledgerstone.records.control import end_txn_marker
from ledgerstone.records.validation import Origin
from ledgerstone.types import TopicPartition
from ledgerstone.web import latest
from tests.kit.in_process import InProcess
from tests.unit.server.asks import TOPIC, create_topic
from tests.web.kit import Parsed, Visitor, append

LATEST = f"/topics/{TOPIC}/latest"


@pytest.fixture
def machine() -> InProcess:
    machine = InProcess()
    create_topic(machine.connect(), segment_bytes="2000")
    return machine


def rows(machine: InProcess, address: str = LATEST) -> list[tuple[str, str]]:
    """(key, value) of each row, as they are shown."""
    page = Visitor(machine).shown(address)
    found = []
    for row in page.split('<td class="key">')[1:]:
        key, _, rest = row.partition("</td>")
        value = rest.partition('<td class="value">')[2].partition("</td>")[0]
        found.append((Parsed(key).text, Parsed(value).text))
    return found


def test_each_key_is_shown_once_with_its_newest_record(machine: InProcess) -> None:
    for version in range(3):
        for key in ("a", "b", "c"):
            append(machine, TOPIC, key.encode(), f"{key}{version}".encode())
    append(machine, TOPIC, b"b", None)
    append(machine, TOPIC, b"c", b"")

    assert rows(machine) == [("c", "empty"), ("b", "deleted"), ("a", "a2")]
    assert rows(machine, f"{LATEST}?deleted=no") == [("c", "empty"), ("a", "a2")]


def test_numbers_say_how_many_keys_live_and_how_many_are_deleted(machine: InProcess) -> None:
    for key in (b"a", b"b", b"a"):
        append(machine, TOPIC, key, b"v")
    append(machine, TOPIC, b"b", None)

    text = " ".join(Parsed(Visitor(machine).shown(LATEST)).text.split())

    assert "1 live and 1 deleted keys, from 4 committed records." in text


def test_keys_are_paged_from_the_newest(
    machine: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latest, "SHOWN_KEYS", 2)
    monkeypatch.setattr(latest, "SLICE_BYTES", 100)
    for number in range(5):
        append(machine, TOPIC, b"key %d" % number, b"v")

    pages = [rows(machine, f"{LATEST}?before={before}") for before in (99, 3, 1)]

    assert [[key for key, _ in page] for page in pages] == [
        ["key 4", "key 3"], ["key 2", "key 1"], ["key 0"],
    ]  # fmt: skip
    assert 'rel="next"' in Visitor(machine).shown(LATEST)
    assert 'rel="next"' not in Visitor(machine).shown(f"{LATEST}?before=1")


def test_of_a_large_log_the_end_is_looked_through_and_that_is_said(
    machine: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latest, "LOOKED_AT_BYTES", 3000)
    for number in range(100):
        append(machine, TOPIC, b"key %d" % number, b"v" * 40)

    found = rows(machine)

    assert found[0][0] == "key 99"
    assert 10 < len(found) < 40
    assert "were looked through, from offset" in Visitor(machine).shown(LATEST)


def test_end_of_one_large_segment_is_found(
    machine: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topic(machine.connect(), "one")
    monkeypatch.setattr(latest, "LOOKED_AT_BYTES", 1000)
    for number in range(100):
        append(machine, "one", b"key %d" % number, b"v" * 40)
    log = machine.broker.partitions.get(TopicPartition("one", 0)).log

    start = latest.tail_start(log)

    sizes = log.size_bytes // 100
    assert 100 - 1000 // sizes - 2 <= start <= 100 - 1000 // sizes + 1


def test_what_a_transaction_has_not_committed_is_not_the_latest(machine: InProcess) -> None:
    append(machine, TOPIC, b"a", b"committed")
    append(
        machine, TOPIC, b"a", b"aborted",
        producer_id=1, producer_epoch=0, base_sequence=0, transactional=True,
    )  # fmt: skip
    partition = machine.broker.partitions.get(TopicPartition(TOPIC, 0))
    marker = end_txn_marker(
        commit=False, producer_id=1, producer_epoch=0, coordinator_epoch=0,
        timestamp=machine.clock.now_ms(),
    )  # fmt: skip
    partition.append(marker, acks=-1, origin=Origin.COORDINATOR)
    append(
        machine, TOPIC, b"a", b"open",
        producer_id=2, producer_epoch=0, base_sequence=0, transactional=True,
    )  # fmt: skip

    assert rows(machine) == [("a", "committed")]


def test_topic_without_keys_says_so(machine: InProcess) -> None:
    partition = machine.broker.partitions.get(TopicPartition(TOPIC, 0))
    partition.append(build_batch([(machine.clock.now_ms(), None, b"v", ())]), acks=-1)

    assert "No record with a key is here." in Visitor(machine).shown(LATEST)
