"""The status file of a run, during the run and afterwards. Shell.

It is written beside the old one and renamed, so that a reader never sees half of it.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any, Final

from ledgerstone.dataclasses import asdict, dataclass, field
from ledgerstone.pipeline.applying import BatchReport
from ledgerstone.pipeline.errors import PipelineError

STATUS_FILE: Final = "status.json"
LOCK_FILE: Final = "lock"


class RunState(Enum):
    RUNNING = "running"
    FINISHED = "finished"
    STOPPED = "stopped"  # it was asked to end, before it was through
    FAILED = "failed"


@dataclass(slots=True, kw_only=True)
class RunStatus:
    """Counts are those of this run."""

    pipeline: str
    pid: int
    started_ms: int
    updated_ms: int
    state: str = RunState.RUNNING.value
    batches: int = 0
    changes: int = 0
    already_applied: int = 0
    bad: int = 0
    upserts: int = 0
    deletes: int = 0
    lag: int = 0  # offsets behind the last batch, as far as they were known then
    reconciled: int = 0  # rows whose tombstone was missed, deleted all the same
    # By partition; with a list of topics by TOPIC-PARTITION.
    positions: dict[int | str, int] = field(default_factory=dict)
    error: str | None = None

    def add(self, batch: BatchReport) -> None:
        self.batches += 1
        self.changes += batch.changes
        self.already_applied += batch.already_applied
        self.bad += batch.bad
        self.upserts += batch.upserts
        self.deletes += batch.deletes


def write_json(path: Path, content: object) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(content, indent=1), encoding="utf-8")
    temporary.rename(path)


def read_json(path: Path) -> dict[str, Any] | None:
    """None if there is no such file, or it is not ours."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def write_status(work: Path, status: RunStatus) -> None:
    write_json(work / STATUS_FILE, asdict(status))


def read_status(work: Path) -> dict[str, Any] | None:
    """As written, except that the state of a killed run says so."""
    status = read_json(work / STATUS_FILE)
    if status is not None and status.get("state") == RunState.RUNNING.value and not is_held(work):
        status["state"] = "killed"
    return status


@contextmanager
def held(work: Path) -> Iterator[None]:
    """Locks the pipeline against other processes; the lock ends with its process."""
    work.mkdir(parents=True, exist_ok=True)
    with locked(work / LOCK_FILE, _taken(work)):
        yield


@contextmanager
def waited_for(work: Path) -> Iterator[None]:
    """As `held`, once whoever has it is done."""
    work.mkdir(parents=True, exist_ok=True)
    with (work / LOCK_FILE).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def locked(path: Path, taken: PipelineError) -> Iterator[None]:
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise taken from error
        yield


def check_free(work: Path) -> None:
    """An early check, before anything expensive starts; the run itself takes the lock later."""
    if work.exists() and is_held(work):
        raise _taken(work)


def _taken(work: Path) -> PipelineError:
    return PipelineError(f"{work}: another process works on this pipeline")


def is_held(work: Path) -> bool:
    try:
        with (work / LOCK_FILE).open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    return False


def own_pid() -> int:
    return os.getpid()
