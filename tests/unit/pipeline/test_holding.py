"""Which pipelines may run at the same time."""

from pathlib import Path

import pytest

from ledgerstone.pipeline.definition import Pipeline
from ledgerstone.pipeline.definition_files import define
from ledgerstone.pipeline.erasing import purge
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.holding import TABLE_LOCK, held_with_table


def pipeline_of(name: str, target: str, location: str) -> Pipeline:
    content = {
        "name": name,
        "source": {"topic": "people"},
        "key": {"format": "string", "column": "id"},
        "value": {"format": "string", "column": "said"},
        "table": {"type": target, "path": location},
        "work": f"work-{name}",
    }
    return define(content, directory=Path())


@pytest.mark.parametrize("target", ["parquet", "delta"])
def test_two_definitions_do_not_write_one_table_of_files(target: str) -> None:
    one, other = pipeline_of("one", target, "table"), pipeline_of("other", target, "table")

    with (
        held_with_table(one),
        pytest.raises(PipelineError, match="table: another pipeline works on this table"),
        held_with_table(other),
    ):
        pytest.fail("both hold it")

    with held_with_table(other):
        pass


def test_tables_beside_each_other_are_written_at_the_same_time() -> None:
    one, other = pipeline_of("one", "parquet", "table"), pipeline_of("other", "parquet", "second")

    with held_with_table(one), held_with_table(other):
        assert Path("table", TABLE_LOCK).exists()
        assert Path("second", TABLE_LOCK).exists()


def test_one_definition_does_not_run_twice() -> None:
    pipeline = pipeline_of("one", "sqlite", "table.db")

    with (
        held_with_table(pipeline),
        pytest.raises(PipelineError, match="work-one: another process works on this pipeline"),
        held_with_table(pipeline),
    ):
        pytest.fail("both hold it")


def test_a_key_is_not_purged_from_a_table_that_another_definition_writes() -> None:
    one, other = pipeline_of("one", "parquet", "table"), pipeline_of("other", "parquet", "table")

    with (
        held_with_table(one),
        pytest.raises(PipelineError, match="another pipeline works on this table"),
    ):
        purge(other, b"somebody")


def test_a_purge_makes_no_table() -> None:
    purge(pipeline_of("one", "parquet", "table"), b"somebody")

    assert not Path("table").exists()
