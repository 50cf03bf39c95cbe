"""What a driver writes by itself: dead letters and totals, each once, whenever it is killed."""

from dataclasses import replace
from pathlib import Path

import pytest

from ledgerstone.client.blocking import Client
from ledgerstone.pipeline.bad_records import Letter
from ledgerstone.pipeline.dead_letters import LettersOnce, letter_sender
from ledgerstone.pipeline.definition import Pipeline
from ledgerstone.pipeline.definition_files import define
from ledgerstone.pipeline.errors import DefinitionError, PipelineError
from ledgerstone.pipeline.streams.frames import Topic
from ledgerstone.pipeline.streams.measures import Aggregate, MeasureKind
from ledgerstone.pipeline.streams.outbox import teller
from ledgerstone.pipeline.streams.state_store import StateStore, StateVersion
from ledgerstone.pipeline.tables.target import InProcess
from tests.kit.aggregates import Aggregated, Change, Killed
from tests.transactions.conftest import MakeTopic, NewName
from tests.transactions.kit import committed


def pipeline_of(name: str, bootstrap: str, source: str, letters: str) -> Pipeline:
    return define(
        {
            "name": name,
            "source": {"bootstrap": bootstrap, "topic": source},
            "key": {"format": "string", "column": "id"},
            "value": {"format": "string", "column": "said"},
            "table": {"type": "sqlite", "path": "table.db"},
            "on_bad_record": "dead_letter",
            "dead_letter_topic": letters,
            "exactly_once": True,
        },
        directory=Path(),
    )


@pytest.fixture
def pipeline(bootstrap: str, make_topic: MakeTopic, new_name: NewName) -> Pipeline:
    return pipeline_of(
        new_name("p"), bootstrap, make_topic("from", partitions=2), make_topic("bad")
    )


def letters(pipeline: Pipeline, *places: tuple[int, int]) -> list[Letter]:
    assert pipeline.dead_letter_topic is not None
    return [
        Letter(
            pipeline.dead_letter_topic, f"{partition}-{offset}".encode(), b"", [], partition, offset
        )
        for partition, offset in places
    ]


def keys(client: Client, topic: str | None) -> list[str]:
    assert topic is not None
    return sorted((key or b"").decode() for key, _ in committed(client, topic))


def test_letters_of_a_repeated_batch_are_sent_once(
    client: Client, other: Client, pipeline: Pipeline
) -> None:
    letter_sender(client, pipeline)(letters(pipeline, (0, 3), (0, 7), (1, 2)))

    # Killed before the table advanced; the next run cuts its batches elsewhere.
    again = letter_sender(other, pipeline)
    again(letters(pipeline, (0, 3)))
    again(letters(pipeline, (0, 7), (0, 9), (1, 2), (1, 4)))

    assert keys(client, pipeline.dead_letter_topic) == ["0-3", "0-7", "0-9", "1-2", "1-4"]


def test_tasks_of_two_partitions_send_at_once_and_a_second_attempt_sends_nothing_again(
    client: Client, other: Client, pipeline: Pipeline
) -> None:
    first, second = letter_sender(client, pipeline, 0), letter_sender(other, pipeline, 1)
    first(letters(pipeline, (0, 3)))
    second(letters(pipeline, (1, 2)))
    first(letters(pipeline, (0, 7)))

    letter_sender(other, pipeline, 0)(letters(pipeline, (0, 3), (0, 7), (0, 9)))
    with pytest.raises(PipelineError, match="dead letter"):
        first(letters(pipeline, (0, 9)))

    assert keys(client, pipeline.dead_letter_topic) == ["0-3", "0-7", "0-9", "1-2"]


def test_letters_of_a_run_that_still_lives_are_fenced(
    client: Client, other: Client, pipeline: Pipeline
) -> None:
    older, newer = letter_sender(client, pipeline), letter_sender(other, pipeline)
    older(letters(pipeline, (0, 1)))
    newer(letters(pipeline, (0, 1), (0, 2)))

    with pytest.raises(PipelineError, match="dead letter"):
        older(letters(pipeline, (0, 2), (0, 3)))

    assert keys(client, pipeline.dead_letter_topic) == ["0-1", "0-2"]


def test_letters_of_a_topic_that_was_created_again_are_sent(
    client: Client, pipeline: Pipeline
) -> None:
    letter_sender(client, pipeline)(letters(pipeline, (0, 9)))
    anew = LettersOnce(client, pipeline)
    anew._topic_id = "another"

    anew.send(letters(pipeline, (0, 3)))

    assert keys(client, pipeline.dead_letter_topic) == ["0-3", "0-9"]


def test_exactly_once_is_about_dead_letters(pipeline: Pipeline) -> None:
    content = {
        "name": "n",
        "source": {"topic": "t"},
        "key": {"format": "string", "column": "id"},
        "value": {"format": "string", "column": "said"},
        "table": {"type": "sqlite", "path": "table.db"},
        "exactly_once": True,
    }

    with pytest.raises(DefinitionError, match="is about dead letters"):
        define(content, directory=Path())


# -- totals --------------------------------------------------------------------------------------


COUNTED = (Aggregate(name="rows", kind=MeasureKind.COUNT),)


@pytest.fixture
def results(bootstrap: str, make_topic: MakeTopic) -> Topic:
    return Topic(bootstrap=bootstrap, name=make_topic("totals"))


def row(number: int, country: str) -> Change:
    return Change(b"%d" % number, 0, number, number, country, (None,))


class Written(Aggregated):
    """Its results go to a topic, in transactions."""

    def __init__(self, work: Path, topic: Topic) -> None:
        self.topic_tell = teller(topic, InProcess(), exactly_once=True)
        super().__init__(work, COUNTED, ("int",), to=(topic.name, "a"))

    def tell(self, store: StateStore, version: StateVersion) -> None:
        self.topic_tell(store, version)
        super().tell(store, version)


def test_totals_of_a_killed_run_are_written_once(
    client: Client, results: Topic, tmp_path: Path
) -> None:
    totals = Written(tmp_path, results)
    totals.dies = True
    with pytest.raises(Killed):
        totals.apply(0, [row(1, "PE"), row(2, "PE"), row(3, "NZ")])

    again = Written(tmp_path, results)
    again.apply(1, [row(4, "NZ")])

    assert committed(client, results.name) == [
        (b'{"g": "NZ"}', b'{"rows": 1}'),
        (b'{"g": "PE"}', b'{"rows": 2}'),
        (b'{"g": "NZ"}', b'{"rows": 2}'),
    ]


def test_totals_are_told_again_to_another_topic(
    client: Client, results: Topic, make_topic: MakeTopic, tmp_path: Path
) -> None:
    Written(tmp_path, results).apply(0, [row(1, "PE")])
    moved = replace(results, name=make_topic("other-totals"))

    Written(tmp_path, moved)

    assert committed(client, moved.name) == [(b'{"g": "PE"}', b'{"rows": 1}')]
