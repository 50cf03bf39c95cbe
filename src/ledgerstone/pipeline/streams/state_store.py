"""A version of a state: which files are it, and which micro-batch it has. Shell, on the driver.

`state.json` names the files of each table, the number of the last micro-batch, and what is still to
be told to the result topic. It is replaced by a rename: that is the commit. So a state and its
batch agree whatever dies. A repeated batch changes nothing, and what was not told is told by the
next run. Files that no version names may hold what was deleted since; they go with the next commit.
"""

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from ledgerstone.dataclasses import dataclass, field, replace
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.streams.state_tables import SwappedLeaves
from ledgerstone.pipeline.synced_files import replace_text
from ledgerstone.pipeline.tables.file_area import STAGING, FileArea
from ledgerstone.pipeline.tables.leaves import LeafFile

MANIFEST: Final = "state.json"
# 2: values are spread by themselves, and no longer by their group.
FORMAT: Final = 2
CHECKPOINT: Final = "checkpoint"
_STATE: Final = "state"
_BEFORE_FIRST: Final = -1
# What versions before this one kept, on the driver.
_SQLITE: Final = "totals.sqlite"


class Merged(NamedTuple):
    """What a batch makes of a state: names of files. Picklable."""

    swaps: Mapping[str, Sequence[SwappedLeaves]]  # of each table
    outbox: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateVersion:
    definition: str
    store_id: str
    spec: Mapping[str, Any] = field(default_factory=dict)  # the same for programs
    batch: int = _BEFORE_FIRST
    telling: int = 1  # the number of what is in the outbox, so that it is known again
    outbox: tuple[str, ...] = ()
    told_to: tuple[str, str] | None = None  # the result topic and its id
    tables: Mapping[str, tuple[LeafFile, ...]] = field(default_factory=dict)

    def files(self, table: str) -> tuple[LeafFile, ...]:
        return self.tables.get(table, ())

    def after(self, merged: Merged) -> "StateVersion":
        tables = dict(self.tables)
        for name, some in merged.swaps.items():
            gone = {file.path for each in some for file in each.replaced}
            left = [file for file in self.files(name) if file.path not in gone]
            tables[name] = tuple(sorted([*left, *(f for each in some for f in each.written)]))
        return replace(self, tables=tables, outbox=merged.outbox)

    def told(self) -> "StateVersion":
        return replace(self, outbox=(), telling=self.telling + 1)

    def as_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "definition": self.definition,
            "store_id": self.store_id,
            "spec": dict(self.spec),
            "batch": self.batch,
            "telling": self.telling,
            "outbox": list(self.outbox),
            "told_to": None if self.told_to is None else list(self.told_to),
            "tables": {
                name: [list(file) for file in files] for name, files in sorted(self.tables.items())
            },
        }


class StateStore:
    def __init__(self, work: str) -> None:
        if "://" in work:
            raise PipelineError(f"{work}: a state is in a directory, on this machine or mounted")
        self.work = Path(work)
        self._root = self.work / _STATE
        self.area = FileArea(root=str(self._root))

    @property
    def checkpoint(self) -> str:
        return str(self.work / CHECKPOINT)

    def open(self, definition: str, spec: Mapping[str, Any]) -> StateVersion:
        """Refuses the state of another definition. What a run that died has left is removed."""
        if (self.work / _SQLITE).exists():
            raise PipelineError(
                f"{self.work / _SQLITE} is a state of an earlier version, which kept it in SQLite "
                f"on the driver. Delete {self.work}: the next run reads the topic from the start"
            )
        has_checkpoint = (self.work / CHECKPOINT / "commits").exists()
        if not (self._root / MANIFEST).exists():
            if has_checkpoint:
                raise self._unusable("has a checkpoint and no state")
            self._root.mkdir(parents=True, exist_ok=True)
            store_id = uuid.uuid4().hex
            self.commit(StateVersion(definition=definition, store_id=store_id, spec=spec))
        version = self.read()
        if version.definition != definition:
            raise PipelineError(
                f"{self.work} holds the state of something else: it was made of "
                f"{version.definition}, and now it is {definition}. Delete {self.work} to start "
                "over"
            )
        if version.batch > _BEFORE_FIRST and not (self.work / CHECKPOINT).exists():
            raise self._unusable("has a state and no checkpoint")
        self.tidy(version)
        return version

    def _unusable(self, why: str) -> PipelineError:
        return PipelineError(
            f"{self.work} {why}, so what was applied is not known. Delete it to start over"
        )

    def read(self) -> StateVersion:
        path = self._root / MANIFEST
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise PipelineError(f"{path} cannot be read: {error}") from error
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise PipelineError(
                f"{path} is no state of format {FORMAT}. Delete {self.work} to start over"
            )
        told_to = content["told_to"]
        return StateVersion(
            definition=content["definition"],
            store_id=content["store_id"],
            spec=content["spec"],
            batch=content["batch"],
            telling=content["telling"],
            outbox=tuple(content["outbox"]),
            told_to=None if told_to is None else (told_to[0], told_to[1]),
            tables={
                name: tuple(LeafFile(*file) for file in files)
                for name, files in content["tables"].items()
            },
        )

    def commit(self, version: StateVersion) -> None:
        # Crash before: the old version counts, and the new files are leftovers.
        replace_text(self._root / MANIFEST, json.dumps(version.as_json()))

    def size_of(self, path: str) -> int:
        return (self._root / path).stat().st_size

    def remove(self, paths: Iterable[str]) -> None:
        for path in paths:
            (self._root / path).unlink(missing_ok=True)

    def tidy(self, version: StateVersion) -> None:
        """Removes every file that the version does not name."""
        self.area.drop(STAGING)
        named = {file.path for files in version.tables.values() for file in files}
        named |= set(version.outbox)
        for path in sorted(self._root.rglob("*.parquet")):
            if str(path.relative_to(self._root)) not in named:
                path.unlink(missing_ok=True)


def has_state(work: str) -> bool:
    return (Path(work) / _STATE / MANIFEST).is_file()
