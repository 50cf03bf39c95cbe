"""Several topics into one table: whose rows and positions are whose."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from ledgerstone.pipeline.changes import one_per_key
from ledgerstone.pipeline.definition import Pipeline
from ledgerstone.pipeline.definition_files import define, load_definition
from ledgerstone.pipeline.erasing import purge
from ledgerstone.pipeline.errors import DefinitionError, TopicChanged
from ledgerstone.pipeline.explaining import explain
from ledgerstone.pipeline.following import begin_to_follow, check_followed
from ledgerstone.pipeline.tables.opening import open_target, positions_of
from ledgerstone.pipeline.tables.target import Followed, TableTarget
from ledgerstone.pipeline.verifying import PipelineVerifier
from tests.kit.table_model import (
    Record,
    changes_of,
    positions_after,
)
from tests.kit.table_targets import TARGETS, table_at


def pipeline_of(
    target: str, location: str, topics: object, deletes: str = "hard", **more: Any
) -> Pipeline:
    content = {
        "name": "all",
        "source": {"topics": topics},
        "key": {"format": "string", "column": "id"},
        "value": {"format": "string", "column": "said"},
        "table": table_at(target, location, deletes=deletes),
        "work": "unused" if "://" in location else f"{location}-work",
        **more,
    }
    return define(content, directory=Path())


@contextmanager
def opened(pipeline: Pipeline) -> Iterator[list[tuple[Pipeline, TableTarget]]]:
    """As a run has them: one for each topic, all open at once."""
    with ExitStack() as stack:
        tables = []
        for each in pipeline.each_topic:
            table = stack.enter_context(closing(open_target(each)))
            table.prepare()
            tables.append((each, table))
        yield tables


def apply(pipeline: Pipeline, table: TableTarget, *records: Record) -> None:
    begin_to_follow(pipeline, table, Followed(pipeline.source.topic, f"id-{pipeline.source.topic}"))
    changes = changes_of(pipeline, records)
    table.apply(one_per_key(changes, pipeline.key_names), positions_after(changes))


def rows_of(table: TableTarget) -> list[tuple[str, str, str]]:
    found = [row for piece in table.rows() for row in piece.to_pylist()]
    return sorted((row["_topic"], row["id"], row["said"]) for row in found)


@pytest.mark.parametrize("target", TARGETS)
def test_key_of_two_topics_has_two_rows_and_positions_are_those_of_the_topic(
    target: str, location: str
) -> None:
    pipeline = pipeline_of(target, location, ["a", "b"])

    with opened(pipeline) as ((a, in_a), (b, in_b)):
        apply(a, in_a, Record(0, 5, b"k", b"of a", 9), Record(0, 6, b"gone", b"soon", 9))
        # Older, and with a lower offset: of the same topic it would be stale.
        apply(b, in_b, Record(0, 2, b"k", b"of b", 1), Record(1, 0, b"gone", b"stays", 1))
        apply(a, in_a, Record(0, 7, b"gone", None, 10))
        found = rows_of(in_b)
        followed = in_a.followed()

    with opened(pipeline_of(target, location, ["b", "a", "c"])) as tables:
        positions = {each.source.topic: table.positions() for each, table in tables}
        for each, table in tables:
            begin_to_follow(each, table, Followed(each.source.topic, f"id-{each.source.topic}"))
        listed = tables[0][1].followed()

    assert found == [("a", "k", "of a"), ("b", "gone", "stays"), ("b", "k", "of b")]
    assert positions == {"a": {0: 8}, "b": {0: 3, 1: 1}, "c": {}}
    assert followed == Followed("a,b", "id-a,id-b")
    assert listed == Followed("a,b,c", "id-a,id-b,id-c")


@pytest.mark.parametrize("target", ["sqlite", "parquet"])
def test_topic_that_was_left_out_or_created_again_is_refused(target: str, tmp_path: Path) -> None:
    location = str(tmp_path / "table")
    pipeline = pipeline_of(target, location, ["a", "b"])
    with opened(pipeline) as tables:
        for each, table in tables:
            apply(each, table, Record(0, 0, b"k", b"v", 1))

        with pytest.raises(TopicChanged, match="deleted and created again"):
            check_followed(*tables[1], Followed("b", "another"))
        check_followed(*tables[0], Followed("a", "id-a"))
    with (
        opened(pipeline_of(target, location, ["a"])) as ((a, table),),
        pytest.raises(TopicChanged, match="also holds what was in topic b"),
    ):
        begin_to_follow(a, table, Followed("a", "id-a"))


def test_erasure_removes_the_row_of_its_topic_and_tells_of_the_other(tmp_path: Path) -> None:
    pipeline = pipeline_of("sqlite", str(tmp_path / "table"), ["a", "b"])
    with opened(pipeline) as tables:
        for each, table in tables:
            apply(each, table, Record(0, 0, b"somebody", b"v", 1))

    findings = purge(pipeline.each_topic[0], b"somebody")
    with opened(pipeline) as tables:
        left = rows_of(tables[0][1])

    assert left == [("b", "somebody", "v")]
    assert findings[0].verdict.value == "residue"


def test_condition_may_name_the_topic() -> None:
    pipeline = pipeline_of("sqlite", "unused", ["a", "b"], where="_topic = 'a' OR said = 'v'")
    record = Record(0, 0, b"k", b"other", 1)

    found = [changes_of(each, [record]).column("_deleted") for each in pipeline.each_topic]

    assert found == [pa.chunked_array([[False]]), pa.chunked_array([[True]])]


def test_table_that_is_not_there_has_no_positions(tmp_path: Path) -> None:
    pipeline = pipeline_of("parquet", str(tmp_path / "table"), ["a", "b"])

    assert [positions_of(each) for each in pipeline.each_topic] == [{}, {}]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"topic": "a", "topics": ["b"]}, "^source.topics: .*: give either topic or topics"),
        ({"topics": []}, "^source.topics: .*: expected a list of 1 to 100"),
        ({"topics": "a"}, "^source.topics: 'a': expected a list"),
        ({"topics": ["a", "a"]}, "^source.topics: 'a': is named twice"),
        ({"topics": ["a", "b,c"]}, "^source.topics: 'b,c': not a valid topic name"),
        ({"topics": ["a", 5]}, "^source.topics: 5: not a valid topic name"),
    ],
)
def test_list_of_topics_is_refused_with_the_reason(source: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        pipeline_of("sqlite", "unused", None, source=source)


def test_explain_says_which_rows_a_tombstone_deletes() -> None:
    text = "\n".join(explain(pipeline_of("sqlite", "unused", ["a", "b"])))

    assert "topics a, b" in text
    assert "_topic string (key)" in text
    assert "only the row of its own topic" in text


class Question(NamedTuple):
    """As a broker asks it."""

    topic: str
    key: bytes | None


def test_broker_is_answered_for_the_topic_it_asks_about(tmp_path: Path) -> None:
    definition = tmp_path / "all.yaml"
    definition.write_text(
        "name: all\n"
        "source: {topics: [a, b]}\n"
        "key: {format: string, column: id}\n"
        "value: {format: string, column: said}\n"
        "table: {type: sqlite, path: all.db}\n"
    )
    with opened(load_definition(definition)) as tables:
        for pipeline, table in tables:
            apply(
                pipeline, table, Record(0, 0, f"key-of-{pipeline.source.topic}".encode(), b"v", 1)
            )
        tables[0][1].apply(changes_of(tables[0][0], [Record(0, 1, b"key-of-a", None, 2)]), {0: 2})
    verifier = PipelineVerifier(definitions=(str(definition),))

    answers = {
        topic: verifier.verify(Question(topic, f"key-of-{topic}".encode()))[0][1]
        for topic in ("a", "b", "c")
    }

    assert answers == {"a": "clean", "b": "residue", "c": "clean"}
