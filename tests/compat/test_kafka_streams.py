"""Kafka Streams from Kafka's own jars: foreign-key joins over compacted topics, killed, restored.

The same recorded input goes to Apache Kafka and to a broker of ours, and both have to give what two
dicts give. Topics, changelogs included, are compacted as eagerly as can be; between parts the
program is killed and loses its state, once the broker is killed too.
Every wave of the input ends at a barrier: `streams_story` says why. Needs Java, and Maven for the
first run: `make kafka-reads`.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import pytest

from golden.kafka_broker import KafkaBroker
from golden.kafka_tools import fetch_jars
from tests.compat.streams_runner import APPLICATION, Runner
from tests.compat.streams_story import ORDERS, STEP_MS, Story
from tests.kit.broker import FAST_GROUPS, BrokerProcess, wait_until

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(shutil.which("java") is None, reason="needs Java"),
]

SETTINGS = {**FAST_GROUPS, "log.cleaner.backoff.ms": "300"}
# Stores are restored from the input topics, and two changes between commits are emitted as one.
OPTIMIZED = {"topology.optimization": "all", "statestore.cache.max.bytes": "10485760"}


class Broker(Protocol):
    @property
    def bootstrap(self) -> str: ...

    def start(self) -> None: ...

    def kill(self) -> None: ...


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[BrokerProcess]:
    (tmp_path / "broker").mkdir()
    with BrokerProcess(tmp_path / "broker", dict(SETTINGS)) as process:
        yield process
        assert " ERROR " not in process.log_text, process.log_text


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[KafkaBroker]:
    broker = KafkaBroker(jars=fetch_jars(), work=tmp_path / "broker", settings=SETTINGS)
    broker.format()
    broker.start()
    yield broker
    broker.kill()


def three_lives(
    broker: Broker, story: Story, work: Path, settings: Mapping[str, str] | None = None
) -> Iterator[Runner]:
    """After each of them. The program is told a part, killed, and its state is gone."""
    runner = Runner.on(broker.bootstrap, work / "program", settings)
    try:
        for life in range(3):
            runner.start()
            for wave in story.part():
                runner.feed(wave)
                runner.quiet()
            runner.kill_and_forget()
            if life == 1:
                broker.kill()
                broker.start()
            yield runner
    finally:
        runner.program.kill()


def keys_of(records: Sequence[tuple[str, str | None]]) -> set[str]:
    return {key for key, _ in records}


@pytest.mark.parametrize(
    ("seed", "settings"), [(1, {}), (2, OPTIMIZED)], ids=["changelogs", "optimized"]
)
def test_joins_on_our_broker_are_what_two_dicts_give(
    ours: BrokerProcess, tmp_path: Path, seed: int, settings: Mapping[str, str]
) -> None:
    story = Story(seed)

    for runner in three_lives(ours, story, tmp_path, settings):
        assert runner.outputs() == story.tables.expected()

    # All this on logs that were cleaned: of older deletes nothing is left once their time is up.
    # The newest segments are not cleaned; those of the last wave of orders are left out.
    newest_ms = max(story.deleted.values()) - story.orders * STEP_MS
    old = {order for order, told_ms in story.deleted.items() if told_ms < newest_ms}
    assert old
    wait_until(lambda: not old & keys_of(runner.records(ORDERS)), "old tombstones are gone", 120.0)


def test_joins_survive_a_broker_that_is_killed_under_the_program(
    ours: BrokerProcess, tmp_path: Path
) -> None:
    """What was sent and not answered is sent again, and must not be there twice: orders counted
    twice would show."""
    story, runner = Story(3), Runner.on(ours.bootstrap, tmp_path / "program")
    runner.start()

    try:
        for wave in story.part():
            runner.feed(wave)
            ours.kill()
            ours.start()
            runner.quiet()
    finally:
        runner.program.kill()

    assert runner.outputs() == story.tables.expected()


def test_joins_on_apache_kafka_are_what_two_dicts_give(kafka: KafkaBroker, tmp_path: Path) -> None:
    """So that the test above does not demand what Kafka does not give."""
    story = Story(1)

    for runner in three_lives(kafka, story, tmp_path):
        assert runner.outputs() == story.tables.expected()

    assert any(log.startswith(f"{APPLICATION}-") for log, _, _ in kafka.cleaned())
