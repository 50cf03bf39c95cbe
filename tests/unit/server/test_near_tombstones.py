"""Deletes that look as if they had failed are counted and sampled, and never refused."""

import logging
from collections.abc import Iterator

import pytest

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.records.batch import Codec
from ledgerstone.records.builder import build_batch
from ledgerstone.server.erasing.scans import ScanFailed
from ledgerstone.server.http.monitor import samples
from ledgerstone.server.tombstones import stray
from ledgerstone.server.tombstones.stray import KEYS_TAKEN, first_tombstone
from ledgerstone.types import WritableBuffer
from tests.kit.in_process import Client
from tests.unit.server.asks import create_topic, delete_topic, produced
from tests.unit.server.erasing_kit import ErasingMachine

TOPIC = "events"
KEY = b"a key nobody may see"
FRAMED = b"\0\0\0\0\x07\0"


@pytest.fixture
def machine() -> Iterator[ErasingMachine]:
    machine = ErasingMachine(settings={"connections.max.idle.ms": str(1 << 40)})
    yield machine
    machine.check_invariants()


@pytest.fixture
def client(machine: ErasingMachine) -> Client:
    return machine.connect()


def put(
    machine: ErasingMachine,
    client: Client,
    *values: bytes | None,
    key: bytes = KEY,
    partition: int = 0,
    codec: Codec = Codec.NONE,
) -> int:
    records = [(machine.clock.now_ms(), key, value, ()) for value in values]
    answer = produced(client, build_batch(records, codec=codec), TOPIC, partition)
    assert answer.error_code == ErrorCode.NONE
    return answer.base_offset


def near(machine: ErasingMachine, partition: int = 0) -> dict[str, object]:
    answer = machine.call("GET", f"topics/{TOPIC}/tombstones")
    found: dict[str, object] = answer["partitions"][partition]["near"]
    return found


def counts(machine: ErasingMachine, partition: int = 0) -> dict[str, int]:
    found = near(machine, partition)["counts"]
    assert isinstance(found, dict)
    return {kind: count for kind, count in found.items() if count}


# -- values that look like deletes ----------------------------------------------------------------


def test_near_tombstones_are_counted_by_kind_and_the_first_of_a_batch_is_a_sample(
    machine: ErasingMachine, client: Client
) -> None:
    create_topic(client, TOPIC, 1, cleanup_policy="compact")
    put(machine, client, b"value", b"", b"")

    put(machine, client, b"null", FRAMED, None)

    assert near(machine) == {
        "counts": {"empty": 2, "null_text": 1, "framed_null": 1, "stray_tombstone": 0},
        "samples": [
            {"offset": 3, "kind": "null_text", "at_ms": machine.clock.now_ms(), "live_in": None},
            {"offset": 1, "kind": "empty", "at_ms": machine.clock.now_ms(), "live_in": None},
        ],
    }


def test_values_in_compressed_batches_are_seen_too(machine: ErasingMachine, client: Client) -> None:
    create_topic(client, TOPIC, 1, cleanup_policy="compact")

    put(machine, client, b"value", b"", codec=Codec.ZSTD)

    assert counts(machine) == {"empty": 1}


def test_topic_that_is_not_compacted_has_no_near_tombstones(
    machine: ErasingMachine, client: Client
) -> None:
    create_topic(client, TOPIC, 1)

    put(machine, client, b"", b"null", FRAMED)

    assert counts(machine) == {}


def test_near_tombstones_are_a_metric_of_their_topic(
    machine: ErasingMachine, client: Client
) -> None:
    create_topic(client, TOPIC, 2, cleanup_policy="compact")
    put(machine, client, b"", partition=0)
    put(machine, client, b"", partition=1)

    found = [each for each in samples(machine.broker) if "near_tombstones" in each.name]

    assert [(each.labels, each.value) for each in found] == [
        ((("topic", TOPIC), ("kind", "empty")), 2)
    ]


def test_samples_are_few_and_neither_log_nor_answer_has_a_key(
    machine: ErasingMachine, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    create_topic(client, TOPIC, 1, cleanup_policy="compact")

    with caplog.at_level(logging.DEBUG):
        for _ in range(50):
            put(machine, client, b"null")
        found = near(machine)

    assert isinstance(found["samples"], list)
    assert len(found["samples"]) == 16
    assert caplog.text.count("near-tombstone") == 1
    assert KEY.decode() not in caplog.text + str(found)


def test_deleted_topic_leaves_nothing_to_a_new_one_of_its_name(
    machine: ErasingMachine, client: Client
) -> None:
    create_topic(client, TOPIC, 1, cleanup_policy="compact")
    put(machine, client, b"")

    delete_topic(client, TOPIC)
    machine.tick()
    create_topic(client, TOPIC, 1, cleanup_policy="compact")
    machine.tick()

    assert counts(machine) == {}


# -- tombstones in the wrong partition ------------------------------------------------------------


def two_partitions(client: Client) -> None:
    create_topic(client, TOPIC, 2, cleanup_policy="compact")


def test_tombstone_whose_key_lives_in_another_partition_is_reported(
    machine: ErasingMachine, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    two_partitions(client)
    put(machine, client, b"value", partition=0)
    offset = put(machine, client, None, partition=1)

    with caplog.at_level(logging.DEBUG):
        machine.advance(6_000)

    found = near(machine, 1)
    assert counts(machine, 1) == {"stray_tombstone": 1}
    assert isinstance(found["samples"], list)
    assert (found["samples"][0]["offset"], found["samples"][0]["live_in"]) == (offset, 0)
    assert "stray tombstone partition=events-1" in caplog.text
    assert KEY.decode() not in caplog.text + str(found)


def test_tombstone_of_a_key_that_its_partition_has_is_none(
    machine: ErasingMachine, client: Client
) -> None:
    two_partitions(client)
    put(machine, client, b"value", partition=0)
    put(machine, client, b"value", None, partition=1)

    machine.advance(6_000)

    assert len(machine.scans_done) == 1
    assert counts(machine, 1) == {}


def test_tombstone_of_a_key_that_is_deleted_elsewhere_too_is_none(
    machine: ErasingMachine, client: Client
) -> None:
    two_partitions(client)
    put(machine, client, b"value", None, partition=0)
    put(machine, client, None, partition=1)

    machine.advance(6_000)

    assert counts(machine, 0) == {}
    assert counts(machine, 1) == {}


def test_only_so_many_keys_are_searched_together_and_in_a_minute(
    machine: ErasingMachine, client: Client
) -> None:
    two_partitions(client)
    for number in range(2 * KEYS_TAKEN):
        put(machine, client, None, key=b"%d" % number)

    machine.advance(30_000)
    for number in range(2 * KEYS_TAKEN):
        put(machine, client, None, key=b"%d" % number)
    machine.advance(20_000)
    first = [len(each.plan.keys.prints) for each in machine.scans_done]
    machine.advance(20_000)

    assert first == [KEYS_TAKEN]
    assert [len(each.plan.keys.prints) for each in machine.scans_done] == [KEYS_TAKEN] * 2


def test_one_search_is_under_way_at_a_time_and_a_failed_one_is_counted(
    machine: ErasingMachine, client: Client
) -> None:
    two_partitions(client)
    machine.held_scans = []
    put(machine, client, None)
    machine.advance(200_000)
    put(machine, client, None)
    machine.advance(200_000)
    (held,) = machine.held_scans

    machine.held_scans = None
    machine.finish_scan(held, ScanFailed("the worker died"))

    assert machine.broker.near_tombstones.strays.failures == 1


def test_topic_of_one_partition_is_never_searched(machine: ErasingMachine, client: Client) -> None:
    create_topic(client, TOPIC, 1, cleanup_policy="compact")
    put(machine, client, None)

    machine.advance(10_000)

    assert machine.scans_done == []


def test_search_can_be_switched_off() -> None:
    machine = ErasingMachine(settings={"ledgerstone.near.tombstones.check": "false"})
    client = machine.connect()
    two_partitions(client)
    put(machine, client, None, b"")

    machine.advance(10_000)

    assert machine.scans_done == []
    assert counts(machine) == {"empty": 1}


def test_tombstone_is_found_in_a_compressed_batch_and_not_behind_many_records() -> None:
    compressed = build_batch([(1, b"a", b"1", ()), (1, b"b", None, ())], codec=Codec.LZ4)
    many = build_batch([(1, b"a", b"1", ())] * 300 + [(1, b"b", None, ())])

    assert first_tombstone(compressed) == (1, b"b")
    assert first_tombstone(many) is None


def test_batches_that_hide_their_tombstones_are_not_all_looked_into(
    machine: ErasingMachine, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look costs time in which the broker does nothing else."""
    two_partitions(client)
    looks: list[int] = []

    def look(records: WritableBuffer) -> None:
        looks.append(len(records))

    monkeypatch.setattr(stray, "first_tombstone", look)
    for number in range(2 * KEYS_TAKEN):
        put(machine, client, None, key=b"%d" % number)
    first = len(looks)
    machine.advance(stray.PERIOD_MS)
    put(machine, client, None)

    assert (first, len(looks)) == (KEYS_TAKEN, KEYS_TAKEN + 1)


def test_topic_that_is_gone_before_its_search_is_not_searched(
    machine: ErasingMachine, client: Client
) -> None:
    two_partitions(client)
    put(machine, client, None)

    delete_topic(client, TOPIC)
    machine.advance(10_000)

    assert machine.scans_done == []
