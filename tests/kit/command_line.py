"""`ledgerstone` as a user types it, without the half second that a new interpreter takes to start.

The program's own `main` runs here: with its arguments, its environment and its two outputs. What
only a process of its own can show is shown elsewhere: tests/docs/test_wheel.py (the program that
is installed), tests/unit/cli/test_dump.py (pipes that close).
"""

import io
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple
from unittest import mock

from ledgerstone.cli.main import main


class Done(NamedTuple):
    code: int
    stdout: str
    stderr: str


def ledgerstone(*arguments: str, environment: Mapping[str, str] | None = None) -> Done:
    """One run to its end; `environment` is added to that of this process."""
    # Files with an encoding, as a process has them: what `main` does to them is done here too.
    stdout, stderr = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    code: object = 0
    with (
        redirect_stdout(stdout),
        redirect_stderr(stderr),
        mock.patch.object(sys, "argv", ["ledgerstone", *arguments]),
        mock.patch.dict("os.environ", environment or {}),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    assert isinstance(code, int), code
    return Done(code, _text_of(stdout), _text_of(stderr))


def _text_of(file: io.TextIOWrapper) -> str:
    file.seek(0)
    return file.read()
