"""Records that a table cannot hold are bad, when they are written and when they are compared."""

from contextlib import closing
from pathlib import Path

import pyarrow.compute as pc
import pytest

from ledgerstone.pipeline.bad_records import sorted_out
from ledgerstone.pipeline.definition_files import define
from ledgerstone.pipeline.layout import BAD
from ledgerstone.pipeline.state import comparing_tasks
from ledgerstone.pipeline.state.comparing_tasks import TopicRange
from ledgerstone.pipeline.tables.leaves import Incoming
from ledgerstone.pipeline.tables.opening import open_target
from tests.kit.table_model import Record, record_batch

DEFINITION = {
    "name": "p",
    "source": {"topic": "t"},
    "key": {"format": "string", "column": "id"},
    "value": {
        "format": "json",
        "columns": {
            "x": "float64",
            # Infinite less infinite: JSON has no word for what is no number.
            "y": {"type": "float64", "expression": "x * 1e300 * 1e300 - x * 1e300 * 1e300"},
        },
    },
}
RECORDS = [Record(0, 0, b"a", b'{"x": 1.5}', 1), Record(0, 1, b"b", b'{"x": 0.0}', 2)]


@pytest.mark.parametrize(("target", "bad"), [("sqlite", ["a"]), ("parquet", [])])
def test_sqlite_takes_no_nan_also_where_it_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, bad: list[str]
) -> None:
    table = {"type": target, "path": "t"}
    pipeline = define({**DEFINITION, "table": table}, directory=tmp_path)
    monkeypatch.setattr(comparing_tasks, "read_range", lambda *_: iter([record_batch(RECORDS)]))
    with closing(open_target(pipeline)) as opened:
        opened.prepare()
        stage = opened.stage(Incoming(2, 100))
    nothing: object = None

    side = TopicRange(pipeline, nothing, nothing, nothing, stage)  # type: ignore[arg-type]
    (latest,) = side.pieces()
    _, refused = sorted_out(latest, stage.unfit)

    assert refused.column("id").to_pylist() == bad
    assert latest.num_rows == 2
    assert pc.count(latest.column(BAD)).as_py() == len(bad)
