"""The parts of a run that need no Spark session."""

from pathlib import Path

from ledgerstone.pipeline.runner import _said, batch_ends
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


def test_our_words_are_found_in_what_spark_makes_of_them() -> None:
    text = """[STREAM_FAILED] Query terminated with exception: Error from Python worker:
Traceback (most recent call last):
  File "x.py", line 1, in <module>
ledgerstone.spark.errors.DataLoss: people-0 begins at 9, but was read up to 3
=== Streaming Query ===
Identifier: people
"""

    assert _said(text) == "DataLoss: people-0 begins at 9, but was read up to 3"
    assert _said("[STREAM_FAILED] Nothing of ours\nIdentifier: x") == (
        "[STREAM_FAILED] Nothing of ours"
    )
