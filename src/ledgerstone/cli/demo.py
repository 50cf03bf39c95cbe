"""`ledgerstone demo`: a change history through the log, a table and an erasure. Shell.

What is shown and checked is in `ledgerstone/demo/README.md`. Exit code 1: a step failed, and the
last line says which and why.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer


def demo(
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="End when the story does; so without a terminal.")
    ] = False,
    repository: Annotated[
        Path | None,
        typer.Option(help="Whose git history; without it where you stand, or a sample."),
    ] = None,
    keep: Annotated[
        Path | None, typer.Option(help="An empty directory for logs, tables and the receipt.")
    ] = None,
    max_commits: Annotated[
        int | None, typer.Option(help="The newest so many; the first one as a whole tree.", min=3)
    ] = None,
) -> None:
    """Show the whole of it: a git history into a compacted topic and a Spark table, tombstones that
    go when their time has come, a person erased with a receipt; each step checked against git."""
    from rich.console import Console

    from ledgerstone.demo.git_history import DEFAULT_MAX_COMMITS, Limits
    from ledgerstone.demo.running import Wishes, run_demo

    wishes = Wishes(
        repository=repository,
        keep=keep,
        limits=Limits(max_commits=max_commits or DEFAULT_MAX_COMMITS),
        wait=not no_wait and sys.stdin is not None and sys.stdin.isatty(),
    )
    run_demo(wishes, Console())
