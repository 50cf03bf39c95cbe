"""Stopping, killing and restarting a broker: its neighbours, its ports, its clients."""

import asyncio
import threading
from datetime import timedelta
from pathlib import Path
from urllib.request import HTTPCookieProcessor, build_opener, urlopen

import aiokafka
import confluent_kafka
import pytest

from ledgerstone.client.errors import BrokerUnreachable
from ledgerstone.testing.broker import LedgerstoneBroker
from ledgerstone.testing.waiting import WaitedInVain
from ledgerstone.types import TopicPartition


def threads_of(directory: Path) -> list[threading.Thread]:
    return [each for each in threading.enumerate() if str(directory) in each.name]


def test_restart_keeps_data_port_and_time(ledgerstone: LedgerstoneBroker) -> None:
    ledgerstone.topic("users")
    ledgerstone.produce("users", "a", "1")
    ledgerstone.clock.advance(days=1)
    before = (ledgerstone.bootstrap, ledgerstone.http, ledgerstone.clock.source.ahead_ms)

    ledgerstone.restart()

    assert (ledgerstone.bootstrap, ledgerstone.http, ledgerstone.clock.source.ahead_ms) == before
    ledgerstone.assert_state("users", {"a": "1"})


def test_stop_leaves_a_clean_directory_and_a_kill_does_not(ledgerstone: LedgerstoneBroker) -> None:
    marker = ledgerstone.directory / ".kafka_cleanshutdown"
    ledgerstone.topic("users", compacted=True)
    ledgerstone.produce("users", "a", "1")
    ledgerstone.compact("users")

    ledgerstone.kill()
    after_kill = marker.exists()
    ledgerstone.restart()
    ledgerstone.stop()

    assert (after_kill, marker.exists()) == (False, True)
    ledgerstone.restart()
    ledgerstone.assert_state("users", {"a": "1"})


def test_killed_broker_is_gone_for_clients_until_it_is_restarted(
    ledgerstone: LedgerstoneBroker,
) -> None:
    ledgerstone.topic("users")
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": ledgerstone.bootstrap, "log_level": 0, "message.timeout.ms": 20_000}
    )
    ledgerstone.kill()

    producer.produce("users", key="a", value="1")
    with pytest.raises(RuntimeError, match="call restart"):
        ledgerstone.records("users")
    ledgerstone.restart()

    assert producer.flush(20) == 0
    ledgerstone.assert_state("users", {"a": "1"})


def test_kill_leaves_no_thread_behind(tmp_path: Path) -> None:
    broker = LedgerstoneBroker(tmp_path)
    broker.start()
    alive = threads_of(tmp_path)

    broker.kill()

    assert (len(alive), threads_of(tmp_path)) == (1, [])
    assert not broker.is_running


def test_kill_in_the_middle_of_a_pass_loses_nothing(ledgerstone: LedgerstoneBroker) -> None:
    ledgerstone.topic("users", compacted=True, partitions=4)
    expected = {}
    for turn in range(5):
        for number in range(4):
            ledgerstone.produce("users", f"key-{number}", str(turn), partition=number)
            expected[f"key-{number}"] = str(turn)
        ledgerstone.api.post("topics/users/compact")

        ledgerstone.kill()
        ledgerstone.restart()

        ledgerstone.assert_state("users", expected)
    ledgerstone.compact("users")
    assert len(ledgerstone.records("users")) == 4


def test_two_brokers_live_side_by_side(ledgerstone: LedgerstoneBroker, tmp_path: Path) -> None:
    ledgerstone.topic("users")

    with LedgerstoneBroker(tmp_path) as other:
        other.topic("users")
        other.produce("users", "a", "1")
        other.clock.advance(days=1)

        assert ledgerstone.state("users") == {}
        assert other.bootstrap != ledgerstone.bootstrap
        assert other.clock.now - ledgerstone.clock.now > timedelta(hours=23)


def test_setting_nobody_knows_is_refused(tmp_path: Path) -> None:
    broker = LedgerstoneBroker(tmp_path, {"log_cleaner_tempo": "fast"})

    with pytest.raises(ValueError, match=r"not a setting of the broker: 'log\.cleaner\.tempo'"):
        broker.start()


def test_broker_that_cannot_start_says_why_and_leaves_no_thread(tmp_path: Path) -> None:
    with LedgerstoneBroker(tmp_path):
        second = LedgerstoneBroker(tmp_path)

        with pytest.raises(Exception, match="locked by another process"):
            second.start()

    assert threads_of(tmp_path) == []


def test_http_port_answers(ledgerstone: LedgerstoneBroker) -> None:
    with urlopen(f"{ledgerstone.http}/readyz", timeout=10) as response:
        assert response.read() == b"ready\n"


def test_page_opens_in_a_browser(ledgerstone: LedgerstoneBroker) -> None:
    ledgerstone.topic("customers-of-the-page")

    with build_opener(HTTPCookieProcessor()).open(ledgerstone.page, timeout=10) as first:
        assert first.status == 200
    with urlopen(f"{ledgerstone.http}/topics", timeout=10) as response:
        assert b"customers-of-the-page" in response.read()


def test_group_of_a_consumer_is_shown_with_what_it_committed(
    ledgerstone: LedgerstoneBroker,
) -> None:
    ledgerstone.topic("users")
    for number in range(3):
        ledgerstone.produce("users", "a", str(number))
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": ledgerstone.bootstrap,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["users"])
    message = consumer.poll(20)
    assert message is not None
    consumer.commit(message=message, asynchronous=False)

    members = ledgerstone.groups["readers"].members
    consumer.close()
    group = ledgerstone.groups["readers"]

    assert members == 1
    assert group.committed == {TopicPartition("users", 0): 1}
    assert group.lag == 2


def test_loop_of_the_test_is_left_alone(ledgerstone: LedgerstoneBroker) -> None:
    ledgerstone.topic("users", compacted=True)

    async def story() -> list[bytes | None]:
        loop = asyncio.get_running_loop()
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=ledgerstone.bootstrap)
        await producer.start()
        await producer.send_and_wait("users", key=b"a", value=b"1")
        await producer.stop()
        ledgerstone.compact("users")
        assert asyncio.get_running_loop() is loop
        return [each.value for each in ledgerstone.records("users")]

    assert asyncio.run(story()) == [b"1"]


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_fixture_serves_a_coroutine_test(ledgerstone: LedgerstoneBroker) -> None:
    ledgerstone.topic("users")
    consumer = aiokafka.AIOKafkaConsumer("users", bootstrap_servers=ledgerstone.bootstrap)
    await consumer.start()
    await consumer.seek_to_beginning()

    ledgerstone.produce("users", "a", "1")
    record = await asyncio.wait_for(consumer.getone(), 20)
    await consumer.stop()

    assert record.value == b"1"


def test_wait_says_what_it_waited_for_and_how_things_were(ledgerstone: LedgerstoneBroker) -> None:
    ledgerstone.topic("users", compacted=True)
    ledgerstone.produce("users", "a", "1")
    ledgerstone.on_the_loop(lambda running: setattr(running.broker.cleaning, "is_stopped", True))

    with pytest.raises(WaitedInVain) as failure:
        ledgerstone.compact("users", timeout_s=0.05)

    assert "waited 0.05 s in vain until the pass over users-0 is done" in str(failure.value)
    assert "what blocks the cleaner" in str(failure.value)


def test_client_of_a_stopped_broker_is_not_left_waiting(tmp_path: Path) -> None:
    with LedgerstoneBroker(tmp_path) as broker:
        broker.topic("users")

    with pytest.raises((RuntimeError, BrokerUnreachable)):
        broker.state("users")
