"""A key's five stages of death, walked by real clients in seconds on a virtual clock."""

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import confluent_kafka
import pytest

from tests.compat.clients import CLIENTS, Client, Record
from tests.compat.confluent_admin import AdminClient, NewTopic
from tests.kit import command_line
from tests.kit.broker import BrokerProcess, wait_until
from tests.kit.cleaner_api import workers_of

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@pytest.fixture(scope="module")
def virtual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("virtual")
    with BrokerProcess(directory, arguments=("--clock", "virtual")) as process:
        yield process
        process.stop()
        assert " ERROR " not in process.log_text, process.log_text


def post(broker: BrokerProcess, path: str, **content: Any) -> Any:
    request = Request(
        f"{broker.http}/api/v1/{path}",
        data=json.dumps(content).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urlopen(request, timeout=10) as response:
        return json.load(response)


def get(broker: BrokerProcess, path: str) -> Any:
    return json.loads(broker.get(f"/api/v1/{path}"))


def advance(broker: BrokerProcess, ms: int) -> None:
    post(broker, "clock/advance", ms=ms)


def runs(broker: BrokerProcess, topic: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = get(broker, f"cleaner/history?topic={topic}")["runs"]
    return found


def await_runs(broker: BrokerProcess, topic: str, count: int) -> None:
    """Waits until this many passes are done; moving the clock makes them due at once."""
    wait_until(lambda: len(runs(broker, topic)) >= count, f"{count} passes over {topic}")


def compact(broker: BrokerProcess, topic: str) -> dict[str, Any]:
    (ticket,) = post(broker, f"topics/{topic}/compact")["tickets"]

    def done() -> Any:
        found = get(broker, f"tickets/{ticket['ticket']}")
        return found if found["done"] else None

    finished: dict[str, Any] = wait_until(done, "the pass is done")
    return finished


def create(broker: BrokerProcess, topic: str, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    settings = {"cleanup.policy": "compact", **{k.replace("_", "."): v for k, v in config.items()}}
    asked = NewTopic(topic, num_partitions=1, replication_factor=1, config=settings)
    admin.create_topics([asked])[topic].result(20)


def files_with(broker: BrokerProcess, topic: str, text: bytes) -> list[str]:
    """Names of the partition's files that hold these bytes, whatever their suffix."""
    found = []
    for path in sorted((broker.data / f"{topic}-0").iterdir()):
        # A file that goes while we look holds nothing.
        with contextlib.suppress(FileNotFoundError):
            if text in path.read_bytes():
                found.append(path.name)
    return found


def ledgerstone(broker: BrokerProcess, *arguments: str) -> str:
    done = command_line.ledgerstone(*arguments, "--bootstrap", broker.bootstrap)
    assert done.code == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", CLIENTS, ids=lambda kind: kind.name)
def test_key_dies_in_five_stages_without_anybody_writing_again(
    virtual: BrokerProcess, kind: type[Client]
) -> None:
    topic = f"life-{kind.name}"
    create(virtual, topic, delete_retention_ms=str(DAY_MS), file_delete_delay_ms="1000")
    client = kind(virtual.bootstrap)
    client.produce(topic, [Record(b"alice lives here", b"alice"), Record(b"1", b"bob")])

    # 1 alive: the value is readable.
    alive = [(seen.record.key, seen.record.value) for seen in client.consume(topic, 2)]
    # 2 deleted: the tombstone is written, the value still lies on disk.
    client.produce(topic, [Record(None, b"alice")])
    deleted = [(seen.record.key, seen.record.value) for seen in client.consume(topic, 3)]
    on_disk = files_with(virtual, topic, b"alice lives here")
    # 3 superseded: a day later, by itself, the value is gone and the tombstone has its horizon.
    advance(virtual, DAY_MS)
    await_runs(virtual, topic, 1)
    superseded = [(seen.offset, seen.record.value) for seen in client.consume(topic, 2)]
    # 4 retained: until the horizon, consumers that are behind still learn of the delete.
    advance(virtual, DAY_MS - HOUR_MS)
    retained = [(seen.offset, seen.record.value) for seen in client.consume(topic, 2)]
    # 5 gone: past the horizon, by itself, the tombstone goes too, and then the files.
    advance(virtual, HOUR_MS)
    await_runs(virtual, topic, 2)
    gone = [(seen.offset, seen.record.key) for seen in client.consume(topic, 1)]
    advance(virtual, 2_000)
    wait_until(lambda: not files_with(virtual, topic, b"alice"), "no file names alice")

    assert alive == [(b"alice", b"alice lives here"), (b"bob", b"1")]
    assert deleted == [*alive, (b"alice", None)]
    assert on_disk
    assert superseded == [(1, b"1"), (2, None)]
    assert retained == superseded
    assert gone == [(1, b"bob")]
    assert client.end_offsets(topic) == (0, 3)


def test_reader_from_the_start_ends_at_the_right_state_through_the_gaps(
    virtual: BrokerProcess,
) -> None:
    topic = "gaps"
    create(virtual, topic)
    writer = CLIENTS[0](virtual.bootstrap)
    for number in range(30):
        writer.produce(topic, [Record(b"%d" % number, b"key-%d" % (number % 7))])

    run = compact(virtual, topic)["run"]

    assert run["stats"]["records_kept"] == 7
    expected = {b"key-%d" % (number % 7): b"%d" % number for number in range(30)}
    for kind in CLIENTS:
        seen = kind(virtual.bootstrap).consume(topic, 7)
        assert {each.record.key: each.record.value for each in seen} == expected, kind.name


def test_commands_tell_the_same_story(virtual: BrokerProcess) -> None:
    topic = "story"
    create(virtual, topic, delete_retention_ms=str(HOUR_MS))
    CLIENTS[0](virtual.bootstrap).produce(topic, [Record(b"1", b"a"), Record(None, b"a")])

    fresh = ledgerstone(virtual, "why", topic, "a")
    compacted = ledgerstone(virtual, "compact", topic, "--wait")
    stamped = ledgerstone(virtual, "why", topic, "a")
    advanced = ledgerstone(virtual, "clock", "advance", "2h", "--json")
    await_runs(virtual, topic, 2)
    gone = ledgerstone(virtual, "why", topic, "a")
    history = ledgerstone(virtual, "cleaner", "history", topic)

    assert "offset 0 value: superseded by a later record of its key" in fresh
    assert "offset 1 tombstone: a tombstone that no pass has seen" in fresh
    assert "1 dropped: superseded by a later record of the same key" in compacted
    assert "1 tombstones were given their delete horizon" in compacted
    assert "stays readable until its delete horizon; until " in stamped
    assert json.loads(advanced)["virtual"] is True
    assert "has been compacted away" in gone
    assert "a delete horizon has passed" in history


def test_worker_killed_between_passes_is_replaced(virtual: BrokerProcess) -> None:
    topic = "killed"
    create(virtual, topic)
    CLIENTS[0](virtual.bootstrap).produce(topic, [Record(b"1", b"a")])
    compact(virtual, topic)

    for pid in workers_of(virtual.pid):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not workers_of(virtual.pid), "the worker is gone")
    CLIENTS[0](virtual.bootstrap).produce(topic, [Record(b"2", b"a")])
    ticket = compact(virtual, topic)

    assert ticket["run"]["outcome"] in ("cleaned", "failed")
    wait_until(
        lambda: compact(virtual, topic)["run"]["outcome"] == "cleaned", "a new worker cleans"
    )
    assert [seen.record.value for seen in CLIENTS[0](virtual.bootstrap).consume(topic, 1)] == [b"2"]


def test_worker_killed_in_the_middle_of_a_pass_costs_nothing_and_is_told(tmp_path: Path) -> None:
    settings = {"ledgerstone.cleaner.retry.ms": "3600000"}
    with BrokerProcess(tmp_path, settings=settings) as process:
        create(process, "topic")
        client = CLIENTS[0](process.bootstrap)
        client.produce("topic", [Record(b"1", b"a")])
        client.produce("topic", [Record(b"2", b"a")])

        # It is started for the pass and never comes to its end.
        (ticket,) = post(process, "topics/topic/compact")["tickets"]
        (worker,) = wait_until(lambda: workers_of(process.pid), "a worker is started")
        os.kill(worker, signal.SIGSTOP)
        assert state_of(process, "topic") == "in progress"
        os.kill(worker, signal.SIGKILL)
        died = wait_until(
            lambda: get(process, f"tickets/{ticket['ticket']}")["run"], "the pass is given up"
        )
        with pytest.raises(HTTPError) as not_ready:
            process.get("/readyz")
        with not_ready.value as error:
            why_not = error.read().decode()
        seen = [each.record.value for each in client.consume("topic", 2)]
        healed = compact(process, "topic")["run"]["outcome"]

        assert died["outcome"] == "failed"
        assert "the cleaning worker died" in died["detail"]
        assert "topic-0: uncleanable" in why_not
        assert seen == [b"1", b"2"]
        assert healed == "cleaned"
        assert process.get("/readyz") == "ready\n"
        process.stop()


def state_of(broker: BrokerProcess, topic: str) -> str:
    (partition,) = get(broker, f"topics/{topic}/cleaning")["partitions"]
    return str(partition["state"])


def test_no_process_is_left_when_the_broker_stops(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as process:
        create(process, "topic")
        CLIENTS[0](process.bootstrap).produce("topic", [Record(b"1", b"a")])
        compact(process, "topic")
        workers = workers_of(process.pid)

        process.stop()

        assert workers
        assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]


def test_real_clock_cannot_be_moved(broker: BrokerProcess) -> None:
    with pytest.raises(HTTPError) as refused:
        advance(broker, 1)

    with refused.value as error:
        assert error.code == 409
        assert "--clock virtual" in json.load(error)["error"]


def test_session_of_a_consumer_survives_a_day_that_passes_at_once(virtual: BrokerProcess) -> None:
    topic = "session"
    create(virtual, topic)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": virtual.bootstrap,
            "group.id": "watcher",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    writer = CLIENTS[0](virtual.bootstrap)
    writer.produce(topic, [Record(b"before", b"a")])
    first = wait_until(lambda: consumer.poll(0.2), "the first record")

    advance(virtual, 3 * DAY_MS)
    writer.produce(topic, [Record(b"after", b"b")])
    second = wait_until(lambda: consumer.poll(0.2), "the second record")
    consumer.close()

    assert first is not None
    assert second is not None
    assert (first.value(), second.value()) == (b"before", b"after")
