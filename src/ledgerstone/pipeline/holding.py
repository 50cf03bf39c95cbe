"""Who may write a pipeline's table: one process at a time, whatever its definition. Shell.

The lock in the work directory keeps a definition from running twice. Nothing keeps two definitions
from naming one table of files; each would drop what the other has staged, and a manifest of Parquet
files would lose what the other has committed. So such a table has a lock of its own.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from ledgerstone.pipeline.definition import Pipeline, TargetType
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.status import held, locked

# Readers of such directories skip names that begin with an underscore.
TABLE_LOCK: Final = "_ledgerstone_lock"
_OF_FILES: Final = (TargetType.PARQUET, TargetType.DELTA)


@contextmanager
def held_with_table(pipeline: Pipeline, *, makes: bool = True) -> Iterator[None]:
    """Locks both against other processes. `makes`: the table's directory is made where there is
    none yet. Raises PipelineError, which says what is taken."""
    with ExitStack() as opened:
        opened.enter_context(held(Path(pipeline.work)))
        directory = _directory_of(pipeline)
        if directory is not None and makes:
            directory.mkdir(parents=True, exist_ok=True)
        if directory is not None and directory.is_dir():
            taken = PipelineError(f"{directory}: another pipeline works on this table")
            opened.enter_context(locked(directory / TABLE_LOCK, taken))
        yield


def _directory_of(pipeline: Pipeline) -> Path | None:
    """None for a table that keeps others out itself, or is not on this machine."""
    target = pipeline.target
    if target.type not in _OF_FILES or "://" in target.location:
        return None
    return Path(target.location)
