"""Shows each step while it runs, and its result. Shell.

On a terminal a step has a spinner while it runs and becomes a line when done; elsewhere only the
line is printed. Paths and names from outside are shown as text and never interpreted.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Final

from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from ledgerstone.cli.output import printable

_SPINNER: Final = "dots"
_PLAIN_SPINNER: Final = "line"


class Step:
    """A running step; `said` is printed when it has ended."""

    def __init__(self, title: str, status: Status | None) -> None:
        self._title = title
        self._status = status
        self.said: list[str] = []

    def progress(self, text: str) -> None:
        if self._status is not None:
            self._status.update(_one_line(f"{self._title}: {text}"))

    def say(self, text: str) -> None:
        self.said.append(printable(text))


class Teller:
    def __init__(self, console: Console) -> None:
        self._console = console
        is_unicode = console.encoding.lower().startswith("utf")
        self._done, self._failed = ("✓", "✗") if is_unicode else ("ok", "NOT")
        self._spinner = _SPINNER if is_unicode else _PLAIN_SPINNER

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        started_s = time.monotonic()
        title = printable(title)
        is_live = self._console.is_terminal
        status = self._console.status(_one_line(title), spinner=self._spinner) if is_live else None
        step = Step(title, status)
        try:
            with status or nullcontext():
                yield step
        except BaseException:
            self._line(Text.assemble((self._failed, "bold red"), f" {title}"))
            raise
        taken_s = time.monotonic() - started_s
        mark, clock = (self._done, "bold green"), (f" {taken_s:5.1f} s  ", "dim")
        self._line(Text.assemble(mark, clock, (title, "bold")))
        for each in step.said:
            self.line(f"           {each}")

    def line(self, text: str = "") -> None:
        self._line(Text(printable(text)))

    def heading(self, text: str) -> None:
        self._line(Text(printable(text), style="bold"))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """All columns but the first are numbers or short words."""
        made = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
        for index, column in enumerate(columns):
            made.add_column(column, justify="left" if index == 0 else "right", no_wrap=True)
        for row in rows:
            made.add_row(*(Text(printable(cell)) for cell in row))
        self._console.print(made)

    def _line(self, text: Text) -> None:
        self._console.print(text, soft_wrap=True, highlight=False)


def _one_line(text: str) -> Text:
    """A wrapped status would leave its other lines on the screen."""
    return Text(printable(text), no_wrap=True, overflow="ellipsis")


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def in_bytes(count: int) -> str:
    if count < 10_000:
        return f"{count} B"
    if count < 10_000_000:
        return f"{count / 1000:.0f} kB"
    return f"{count / 1_000_000:.0f} MB"
