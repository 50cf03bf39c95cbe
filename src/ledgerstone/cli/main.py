"""The entry point of `ledgerstone`: the list of commands, and error handling. Shell.

An expected error is one line on stderr and exit code 1; usage errors and missing paths are 2.
Anything else is a bug and keeps its traceback.
"""

import io
import os
import sys
from typing import Annotated, Final

import typer

from ledgerstone import __version__
from ledgerstone.cli.lazy import LazyGroup
from ledgerstone.cli.output import OutputClosed, printable
from ledgerstone.errors import InvariantViolation, LedgerstoneError

# The exit code a shell reports for a program killed by SIGPIPE.
BROKEN_PIPE_EXIT: Final = 128 + 13

app = typer.Typer(
    name="ledgerstone",
    cls=LazyGroup,
    help="A Kafka-compatible log whose deletes are visible, bounded in time and provable.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"ledgerstone {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """A Kafka-compatible log whose deletes are visible, bounded in time and provable."""


def main() -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A key may contain characters that the terminal's encoding lacks.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app()
    except InvariantViolation:
        raise
    except LedgerstoneError as error:
        sys.stderr.write(f"ledgerstone: {printable(str(error))}\n")
        sys.exit(1)
    except OutputClosed:
        # The interpreter flushes stdout again on exit, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(BROKEN_PIPE_EXIT)
