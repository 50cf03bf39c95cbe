"""What a person or a program sees of a run on its way."""

import io
import sys

import pytest

from ledgerstone.cli.live_line import LiveLine
from ledgerstone.pipeline.applying import BatchReport
from ledgerstone.pipeline.progress import RunProgress


def report(deletes: int) -> BatchReport:
    return BatchReport(changes=9, already_applied=0, bad=0, upserts=9 - deletes, deletes=deletes)


def test_rate_lag_and_time_left_come_from_the_batches_so_far() -> None:
    progress = RunProgress(started_ms=1_000)
    progress.begins(2_000_000, 5_000_000)
    before = progress.line(1_500, (1, 4))
    progress.ends(report(3))

    assert before == ("0 rows/s · 5.0 M behind · 0 deletes applied · batch of 2.0 M, 1 of 4 tasks")
    assert (progress.lag, progress.rows_per_s(11_000), progress.eta_s(11_000)) == (
        3_000_000,
        200_000.0,
        15.0,
    )
    assert progress.line(11_000) == (
        "200.0 k rows/s · 3.0 M behind · 3 deletes applied · 15 s left"
    )


def test_run_that_has_done_nothing_promises_nothing() -> None:
    assert RunProgress(started_ms=0).eta_s(5_000) is None


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_live_line_is_for_terminals_and_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("ledgerstone.cli.live_line._EVERY_S", 0.001)
    with LiveLine(lambda: "on its way").shown():
        while "on its way" not in terminal.getvalue():
            pass
    file = io.StringIO()
    monkeypatch.setattr(sys, "stderr", file)
    with LiveLine(lambda: "on its way").shown() as live, live.paused():
        pass

    assert terminal.getvalue().endswith("\r\x1b[K")
    assert file.getvalue() == ""
