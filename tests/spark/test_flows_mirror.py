"""A mirror carries deletes and erasures, between brokers and between clusters that lose brokers."""

import hashlib
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from pyspark.sql import SparkSession

from ledgerstone.pipeline.errors import DeletesMissed
from ledgerstone.pipeline.mirror.rounds import (
    Mirror,
    OnMissed,
    RoundReport,
    erase_missed,
    mirror_round,
)
from ledgerstone.pipeline.mirror.verifying import verify_mirror
from ledgerstone.testing.broker import LedgerstoneBroker
from ledgerstone.testing.cluster import LedgerstoneCluster
from ledgerstone.testing.waiting import wait_until
from tests.cluster.erasing_story import TOPIC as CUSTOMERS
from tests.cluster.erasing_story import Story

NAME = "eu-mirror"
KEY = "alice@example.com"
AUDIT = {"ledgerstone.erasure.id": "ER-0", "ledgerstone.erasure.reason": "asked"}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LedgerstoneBroker]:
    with LedgerstoneBroker(tmp_path_factory.mktemp("source")) as broker:
        yield broker


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LedgerstoneBroker]:
    with LedgerstoneBroker(tmp_path_factory.mktemp("target")) as broker:
        yield broker


@pytest.fixture
def mirror_of(
    source: LedgerstoneBroker,
    target: LedgerstoneBroker,
    tmp_path: Path,
    new_name: Callable[[str], str],
) -> Callable[..., Mirror]:
    """A mirror of a new compacted topic."""

    def make(stem: str, **settings: Any) -> Mirror:
        topic = source.topic(new_name(stem), compacted=True, delete_retention_ms=60_000)
        return Mirror(
            source=source.bootstrap,
            target=target.bootstrap,
            topics={topic: f"copy.{topic}"},
            work=str(tmp_path / "work"),
            group=new_name(NAME),
            **settings,
        )

    return make


def names_of(mirror: Mirror) -> tuple[str, str]:
    ((topic, copy),) = mirror.topics.items()
    return topic, copy


def ask_for_erasure(broker: LedgerstoneBroker, topic: str, key: str, **wish: Any) -> str:
    encoded = b64encode(key.encode()).decode()
    made = broker.api.post(f"topics/{topic}/erasures", key=encoded, reason="ticket 1", **wish)
    erasure_id: str = made["erasures"][0]["id"]
    wait_until(
        lambda: broker.api.get(f"erasures/{erasure_id}")["tombstones"], "its tombstone is written"
    )
    return erasure_id


def finished(broker: LedgerstoneBroker, erasure_id: str, *stages: str) -> dict[str, Any]:
    """Lets time pass until the erasure is at one of the stages."""

    def look() -> dict[str, Any] | None:
        now = broker.api.get(f"erasures/{erasure_id}")
        if now["stage"] in stages:
            return now
        broker.clock.advance(minutes=1)
        return None

    return wait_until(look, f"{erasure_id} is {' or '.join(stages)}")


# -- deletes ------------------------------------------------------------------------------------


def test_a_delete_that_was_removed_while_the_mirror_was_away_is_made_up_for(
    spark: SparkSession,
    source: LedgerstoneBroker,
    target: LedgerstoneBroker,
    mirror_of: Callable[..., Mirror],
) -> None:
    mirror = mirror_of("missed")
    topic, copy = names_of(mirror)
    source.produce_batch(topic, [("gone", "1"), ("kept", "1"), ("back", "1")])
    mirror_round(spark, mirror)
    source.tombstone(topic, "gone")
    source.tombstone(topic, "back")
    source.finish_deletes(topic)
    source.produce(topic, "back", "2")

    report = mirror_round(spark, mirror)
    again = mirror_round(spark, mirror)

    (repaired,) = report.repaired
    assert repaired.keys == 1
    assert "tombstones were removed below offset 5" in repaired.reason
    assert target.state(copy) == {b"kept": b"1", b"back": b"2"}
    assert again == RoundReport()
    source.produce(topic, "new", "3")
    assert [each.recognised for each in mirror_round(spark, mirror).copied] == [0]
    assert [each.is_equal for each in verify_mirror(mirror)] == [True]


def test_a_mirror_can_stop_where_it_missed_deletes(
    spark: SparkSession,
    source: LedgerstoneBroker,
    target: LedgerstoneBroker,
    mirror_of: Callable[..., Mirror],
) -> None:
    mirror = mirror_of("stops", on_missed=OnMissed.STOP)
    topic, copy = names_of(mirror)
    source.produce(topic, "gone", "1")
    mirror_round(spark, mirror)
    source.tombstone(topic, "gone")
    source.finish_deletes(topic)
    source.produce(topic, "more", "1")

    for _ in range(2):
        with pytest.raises(DeletesMissed, match="tombstones were removed below offset 2"):
            mirror_round(spark, mirror)

    assert target.state(copy) == {b"gone": b"1", b"more": b"1"}


def test_what_was_compacted_before_the_mirror_began_was_not_missed(
    spark: SparkSession, source: LedgerstoneBroker, mirror_of: Callable[..., Mirror]
) -> None:
    mirror = mirror_of("begins", on_missed=OnMissed.STOP, max_offsets=2)
    topic, _ = names_of(mirror)
    source.produce_batch(topic, [("gone", "1"), ("kept", "1"), ("gone", None), ("last", "1")])
    source.finish_deletes(topic)

    copied = [mirror_round(spark, mirror).copied[0].records for _ in range(2)]

    assert copied == [1, 1]
    assert [each.is_equal for each in verify_mirror(mirror)] == [True]


# -- erasures -----------------------------------------------------------------------------------


def test_an_erasure_is_carried_and_the_receipt_names_the_mirror(
    spark: SparkSession,
    source: LedgerstoneBroker,
    target: LedgerstoneBroker,
    mirror_of: Callable[..., Mirror],
) -> None:
    mirror = mirror_of("erased")
    topic, copy = names_of(mirror)
    source.produce_batch(topic, [(KEY, "secret"), ("other", "1")])
    mirror_round(spark, mirror)
    erasure_id = ask_for_erasure(source, topic, KEY, verifiers=[mirror.group])

    (asked,) = mirror_round(spark, mirror).erasures
    target_id = asked.split()[-1]
    source.produce(topic, "after", "1")
    waiting = mirror_round(spark, mirror)
    finished(target, target_id, "receipted")
    (told,) = mirror_round(spark, mirror).erasures
    receipt = finished(source, erasure_id, "receipted")

    digest = hashlib.sha256(
        target.on_the_loop(
            lambda run: (run.broker.erasing.journal.get(target_id).receipt or "").encode()
        )
    ).hexdigest()
    assert waiting.erasures == []
    assert f"{erasure_id}: clean: {target_id}, receipted, receipt sha256 {digest}" in told
    statuses = {(each["kind"], each["name"]): each["status"] for each in receipt["outputs"]}
    assert statuses == {
        ("verifier", mirror.group): "verified",
        ("group", mirror.group): "verified",
    }
    target.assert_gone(copy, KEY)
    assert target.state(copy) == source.state(topic) == {b"other": b"1", b"after": b"1"}
    assert KEY.encode() not in (Path(mirror.work) / "mirror.sqlite").read_bytes()
    assert mirror_round(spark, mirror) == RoundReport()


def test_the_source_does_not_wait_for_the_copy_and_gets_a_supplement(
    spark: SparkSession,
    source: LedgerstoneBroker,
    target: LedgerstoneBroker,
    mirror_of: Callable[..., Mirror],
) -> None:
    mirror = mirror_of("supplement")
    topic, _ = names_of(mirror)
    source.produce(topic, KEY, "secret")
    mirror_round(spark, mirror)
    erasure_id = ask_for_erasure(source, topic, KEY)
    (asked,) = mirror_round(spark, mirror).erasures
    before = finished(source, erasure_id, "receipted")

    finished(target, asked.split()[-1], "receipted")
    mirror_round(spark, mirror)
    after = source.api.get(f"erasures/{erasure_id}")

    assert [each["status"] for each in before["outputs"]] == ["read"]
    assert {each["status"] for each in after["outputs"]} == {"verified"}
    assert [each["verdict"] for each in after["supplements"]] == ["clean"]


def test_an_erasure_whose_tombstone_was_missed_is_said_to_be_unknown_until_the_key_is_given(
    spark: SparkSession,
    source: LedgerstoneBroker,
    target: LedgerstoneBroker,
    mirror_of: Callable[..., Mirror],
) -> None:
    mirror = mirror_of("missed-erasure")
    topic, copy = names_of(mirror)
    source.produce_batch(topic, [(KEY, "secret"), ("other", "1")])
    mirror_round(spark, mirror)
    erasure_id = ask_for_erasure(source, topic, KEY)
    held = finished(source, erasure_id, "verified")

    report = mirror_round(spark, mirror)
    receipt = finished(source, erasure_id, "receipted")
    asked = erase_missed(mirror, erasure_id, topic, KEY.encode())
    finished(target, asked.split()[-1], "receipted")
    mirror_round(spark, mirror)
    after = source.api.get(f"erasures/{erasure_id}")

    assert [each["reason"] for each in held["outputs"]] == ["missed_tombstone"]
    assert [each.keys for each in report.repaired] == [1]
    assert f"{erasure_id}: unknown" in report.erasures[0]
    assert {each["reason"] for each in receipt["outputs"]} == {"could_not_tell"}
    assert {each["status"] for each in after["outputs"]} == {"verified"}
    target.assert_gone(copy, KEY)


def test_a_round_that_died_after_writing_recognises_its_records_beside_those_of_an_erasure(
    spark: SparkSession,
    source: LedgerstoneBroker,
    target: LedgerstoneBroker,
    mirror_of: Callable[..., Mirror],
    tmp_path: Path,
) -> None:
    mirror = mirror_of("recognised")
    topic, copy = names_of(mirror)
    source.produce_batch(topic, [("a", "1"), ("b", "1")])
    mirror_round(spark, mirror)
    notes = (tmp_path / "work" / "mirror.sqlite").read_bytes()
    ask_for_erasure(target, copy, "a")
    source.produce_batch(topic, [("c", "1"), ("d", "1")])
    mirror_round(spark, mirror)
    ask_for_erasure(target, copy, "b")
    # As if the last round had been killed before it noted anything.
    (tmp_path / "work" / "mirror.sqlite").write_bytes(notes)
    source.produce(topic, "e", "1")

    report = mirror_round(spark, mirror)

    assert [(each.recognised, each.records) for each in report.copied] == [(2, 1)]
    written = [each.key for each in target.records(copy) if each.value is not None]
    assert [each for each in written if each not in (b"a", b"b")] == [b"c", b"d", b"e"]


# -- clusters -----------------------------------------------------------------------------------


def read_with_confluent(bootstrap: str, topic: str, partitions: int) -> list[list[tuple[Any, ...]]]:
    """What is in each partition: key, value, headers."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, each, 0) for each in range(partitions)])
    found: list[list[tuple[Any, ...]]] = [[] for _ in range(partitions)]
    ends: set[int] = set()

    def all_read() -> bool:
        for message in consumer.consume(1000, 0.5):
            number = message.partition()
            assert number is not None
            if message.error() is None:
                found[number].append((message.key(), message.value(), message.headers()))
            else:
                ends.add(number)
        return len(ends) == partitions

    wait_until(all_read, f"{topic} is read to its end")
    consumer.close()
    return found


def _of_the_mirror(headers: list[tuple[str, bytes]] | None) -> bool:
    return ("ledgerstone.erasure.requested-by", b"ledgerstone-mirror") in (headers or ())


def test_clusters_lose_brokers_while_a_mirror_runs_and_nothing_else(
    spark: SparkSession, tmp_path: Path
) -> None:
    with (
        LedgerstoneCluster(tmp_path / "one") as one,
        LedgerstoneCluster(tmp_path / "two") as two,
    ):
        # Each side compacts when it likes; here every record is compared.
        topic = one.topic("users", compacted=True, partitions=2, min_compaction_lag_ms=86_400_000)
        mirror = Mirror(
            source=one.bootstrap,
            target=two.bootstrap,
            topics={topic: "copy"},
            work=str(tmp_path / "work"),
            max_offsets=50,
        )

        def write(turn: int) -> None:
            records = [(f"k{each % 40}", f"{turn}-{each}") for each in range(100)]
            one.produce_batch(topic, records)
            one.tombstone(topic, f"k{turn}", headers=AUDIT)

        def killed(cluster: LedgerstoneCluster, name: str) -> int:
            node = cluster.leader_of(name, 0)
            cluster.kill(node)
            return node

        write(0)
        mirror_round(spark, mirror)
        two.wait_in_sync("copy")
        for turn, (cluster, name) in enumerate(((one, topic), (two, "copy")), 1):
            write(turn)
            dead: list[int] = []
            killer = threading.Thread(target=lambda: dead.append(killed(cluster, name)))  # noqa: B023
            killer.start()
            for _ in range(2):
                mirror_round(spark, mirror)
            killer.join()
            cluster.start(*dead)
            cluster.wait_in_sync(name)
        wait_until(
            lambda: not (report := mirror_round(spark, mirror)).copied and not report.failed,
            "there is nothing left to copy",
        )

        ours, theirs = (
            read_with_confluent(cluster.bootstrap, name, 2)
            for cluster, name in ((one, topic), (two, "copy"))
        )
        # The copied erasures are carried out there as well, with tombstones of their own.
        assert [[each for each in part if not _of_the_mirror(each[2])] for part in theirs] == ours
        assert sum(len(each) for each in ours) == 303
        assert [each.is_equal for each in verify_mirror(mirror)] == [True]


def test_a_replica_that_died_after_removing_a_delete_is_not_trusted(
    spark: SparkSession, tmp_path: Path, target: LedgerstoneBroker
) -> None:
    with LedgerstoneCluster(tmp_path / "one") as one:
        topic = one.topic("silent", compacted=True, delete_retention_ms=60_000)
        mirror = Mirror(
            source=one.bootstrap,
            target=target.bootstrap,
            topics={topic: "copy.silent"},
            work=str(tmp_path / "work"),
        )
        one.produce_batch(topic, [("gone", "1"), ("kept", "1")])
        mirror_round(spark, mirror)
        one.wait_in_sync(topic)

        dead = one.leader_of(topic)
        one.kill(dead)
        one.leader_of(topic)
        (repaired,) = wait_until(lambda: mirror_round(spark, mirror).repaired, "it compares")
        second = mirror_round(spark, mirror)

        assert repaired.keys == 0
        assert f"replicas {dead} do not say" in repaired.reason
        assert second.repaired == []
        one.start(dead)
        one.wait_in_sync(topic)
        assert mirror_round(spark, mirror).repaired == []


def test_an_erasure_on_one_cluster_is_carried_to_another(
    spark: SparkSession, tmp_path: Path
) -> None:
    with (
        LedgerstoneCluster(tmp_path / "one") as one,
        LedgerstoneCluster(tmp_path / "two") as two,
    ):
        here, there = Story(one), Story(two)
        here.topic(partitions=2, delete_retention_ms=60_000)
        here.put((KEY, "secret"), ("other", "1"))
        mirror = Mirror(
            source=one.bootstrap,
            target=two.bootstrap,
            topics={CUSTOMERS: "copy"},
            work=str(tmp_path / "work"),
        )
        mirror_round(spark, mirror)
        erasure_id = here.erase(key=KEY, verifiers=[mirror.group])
        here.run(erasure_id, until="tombstoned")

        asked = wait_until(lambda: mirror_round(spark, mirror).erasures, "the target is asked")
        there.run(asked[0].split()[-1])
        told = wait_until(lambda: mirror_round(spark, mirror).erasures, "the source is told")
        receipt = here.run(erasure_id)

        assert f"{erasure_id}: clean: {asked[0].split()[-1]}, receipted" in told[0]
        assert {each["status"] for each in receipt["outputs"]} == {"verified"}
        assert receipt["stage"] == "receipted"
        assert two.state("copy") == {b"other": b"1"}
