"""The parts of a run that need no Spark session."""

from pathlib import Path

from ledgerstone.pipeline.runner import batch_ends
from ledgerstone.pipeline.tables.target import Followed


def test_ends_of_a_batch_come_from_sparks_log(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    head = ["v1", '{"batchWatermarkMs":0}']
    for batch, ends in ((3, '{"people":{"0":7,"1":0}}'), (5, '{"people":{"0":9},"people#ID":{}}')):
        path = tmp_path / "offsets" / str(batch)
        path.write_text("\n".join([*head, ends]), encoding="utf-8")

    assert batch_ends(tmp_path, 3, "people") == ({0: 7, 1: 0}, None)
    assert batch_ends(tmp_path, 5, "people") == ({0: 9}, Followed("people", "ID"))
    assert batch_ends(tmp_path, 4, "people") == ({}, None)
    assert batch_ends(tmp_path, 3, "other") == ({}, None)
