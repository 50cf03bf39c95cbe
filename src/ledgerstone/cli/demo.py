"""`ledgerstone demo`: takes a change history through a log, a table and an erasure. Shell.

The steps and their checks are described in `ledgerstone/demo/README.md`. Exit code 1: a step
failed; the last line says which and why.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer


def demo(
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Exit when done; the default without a terminal.")
    ] = False,
    repository: Annotated[
        Path | None,
        typer.Option(help="A git repository. Default: the current one, or a sample."),
    ] = None,
    keep: Annotated[
        Path | None, typer.Option(help="An empty directory for logs, tables and the receipt.")
    ] = None,
    max_commits: Annotated[
        int | None,
        typer.Option(help="How many of the newest commits to replay.", min=3),
    ] = None,
) -> None:
    """Show everything at work: a git history goes into a compacted topic and a Spark table,
    tombstones expire, a person is erased with a receipt. Each step is checked against git."""
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
