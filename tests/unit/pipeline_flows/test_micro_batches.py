"""A small micro-batch goes through its state in one task, and ends as a large one does."""

import json
from pathlib import Path
from typing import Any

import pytest

from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.streams.measures import Aggregate, MeasureKind
from ledgerstone.pipeline.streams.micro_batches import apply_rows, offsets_of_batch
from ledgerstone.pipeline.streams.staging import ArrowFunction
from ledgerstone.pipeline.streams.state_shares import fits_one_task
from ledgerstone.pipeline.tables import leaves
from ledgerstone.pipeline.tables.leaves import LeafFile
from tests.kit.aggregates import Aggregated, Change
from tests.kit.micro_batches import HeldRows

TOTAL = Aggregate(name="total", kind=MeasureKind.SUM, column="value.amount")
MOST = Aggregate(name="most", kind=MeasureKind.MAX, column="value.amount")


def row(key: str, offset: int, amount: int) -> Change:
    return Change(key.encode(), 0, offset, 0, "x", (amount,))


class Watched(HeldRows):
    """Notes whether one task had all rows; the first attempts may lose a file on their way."""

    def __init__(self, totals: Aggregated, changes: list[Change], *, missing: int = 0) -> None:
        super().__init__([totals.columns(changes)], alone=True)
        self.runs: list[bool] = []
        self._state = Path(totals.store.area.root)
        self._missing = missing

    def run(self, function: ArrowFunction, *, alone: bool) -> list[Any]:
        self.runs.append(alone)
        if len(self.runs) > self._missing:
            return super().run(function, alone=alone)
        hidden = [path.rename(path.with_suffix(".away")) for path in self._state.rglob("keys/*")]
        try:
            return super().run(function, alone=alone)
        finally:
            for path in hidden:
                path.rename(path.with_suffix(".parquet"))


def test_a_small_batch_is_one_run_and_comes_again_to_nothing(tmp_path: Path) -> None:
    totals = Aggregated(tmp_path, (TOTAL,), ("bigint",))
    rows = Watched(totals, [row("a", 0, 5), row("b", 1, 7)])

    first = apply_rows(totals.state, 0, rows, totals.tell)
    again = apply_rows(totals.state, 0, rows, totals.tell)

    assert (first, again, rows.runs) == (True, False, [True])
    assert totals.take() == {"x": {"total": 12}}


def test_what_fails_for_a_reason_that_may_pass_is_repeated_by_more_tasks(tmp_path: Path) -> None:
    totals = Aggregated(tmp_path, (TOTAL,), ("bigint",))
    totals.apply(0, [row("a", 0, 5)])
    rows = Watched(totals, [row("a", 1, 6)], missing=1)

    apply_rows(totals.state, 1, rows, totals.tell)

    assert rows.runs == [True, False]
    assert totals.take() == {"x": {"total": 6}}


def test_a_damaged_state_is_told_as_it_is_by_one_task(tmp_path: Path) -> None:
    totals = Aggregated(tmp_path, (TOTAL,), ("bigint",))
    totals.apply(0, [row("a", 0, 5)])
    for path in (tmp_path / "state" / "keys").iterdir():
        path.write_bytes(path.read_bytes() + b"!")

    with pytest.raises(PipelineError, match="is not as it was written"):
        totals.apply(1, [row("a", 1, 6)], alone=True)


@pytest.mark.parametrize(
    ("rows", "files", "fits"),
    [(None, 0, False), (1, 4000, True), (10_000, 16, True), (17, 17, False), (20_000, 1, False)],
)
def test_one_task_is_for_few_files(rows: int | None, files: int, fits: bool) -> None:
    table = [LeafFile(1, f"f{number}", 1, 1) for number in range(files)]

    assert fits_one_task(rows, [table, []]) is fits


def noted(checkpoint: Path, batch: int, *offsets: dict[str, Any], version: str = "v1") -> None:
    (checkpoint / "offsets").mkdir(exist_ok=True)
    lines = [version, "{}", *(json.dumps(each) for each in offsets)]
    (checkpoint / "offsets" / str(batch)).write_text("\n".join(lines))


def test_the_size_of_a_batch_is_what_spark_has_noted(tmp_path: Path) -> None:
    noted(tmp_path, 3, {"t": {"0": 5, "1": 7}, "t#id": {}}, {"u": {"0": 1}})
    # Another partition came, with all that is in it.
    noted(tmp_path, 4, {"t": {"0": 6, "1": 7, "2": 10}, "t#id": {}}, {"u": {"0": 4}})
    noted(tmp_path, 5, {"t": {"0": 6, "1": 7, "2": 10}, "t#other": {}}, {"u": {"0": 4}})
    noted(tmp_path, 6, {"t": {"0": 6}}, {"u": {"0": 4}}, version="v2")
    noted(tmp_path, 7, {"t": {"0": 6}})

    found = [offsets_of_batch(str(tmp_path), batch) for batch in range(3, 9)]

    assert found == [None, 1 + 10 + 3, None, None, None, None]


def test_one_changed_value_of_many_rewrites_one_file_of_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaves, "LEAF_ROWS", 8)
    totals = Aggregated(tmp_path, (MOST,), ("bigint",))
    totals.apply(0, [row(f"k{number}", number, number) for number in range(200)])
    before = totals.store.read().files("values")

    totals.apply(1, [row("k199", 200, 0)])

    after = totals.store.read().files("values")
    changed = {file.leaf for file in set(before) ^ set(after)}
    assert len(before) > 10
    # The file that had 199 and the one that has 0.
    assert len(changed) <= 2
    assert max(file.rows for file in before) <= 16
    assert totals.take() == {"x": {"most": 198}}
