"""Changes of one batch as Parquet files, one per attempt of a task, for a database that reads them
by itself. Shell.

They hold what was in records, so they are removed with their batch; those of a run that died when
the next one begins.
"""

import uuid
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from ledgerstone.dataclasses import dataclass
from ledgerstone.pipeline.layout import DELETED, Layout
from ledgerstone.pipeline.tables.file_area import STAGING, FileArea
from ledgerstone.pipeline.tables.target import Staged, counted

# A database reads as many of these at once as it has threads.
_GROUP_ROWS: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStage:
    """Picklable: where the tasks of one batch put their changes."""

    area: FileArea
    batch: str
    layout: Layout

    def unfit(self, changes: pa.Table) -> dict[int, str]:
        return {}

    def open(self) -> "FileSink":
        return FileSink(self)

    @property
    def directory(self) -> str:
        return f"{STAGING}/{self.batch}"

    def path(self, name: str) -> Path:
        return Path(self.area.root) / self.directory / f"{name}.parquet"

    @property
    def schema(self) -> pa.Schema:
        names = [*self.layout.key_names, *self.layout.content_names, DELETED]
        return pa.schema([self.layout.change_schema.field(name) for name in names])


def new_file_stage(area: FileArea, layout: Layout) -> FileStage:
    return FileStage(area=area, batch=uuid.uuid4().hex[:16], layout=layout)


class FileSink:
    def __init__(self, stage: FileStage) -> None:
        self._stage = stage
        self._name = uuid.uuid4().hex[:16]
        self._writer: pq.ParquetWriter | None = None
        self._upserts = self._deletes = 0

    def add(self, changes: pa.Table) -> None:
        if not changes.num_rows:
            return
        upserts, deletes = counted(changes)
        self._upserts += upserts
        self._deletes += deletes
        schema = self._stage.schema
        if self._writer is None:
            path = self._stage.path(self._name)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(path, schema, compression="lz4")
        self._writer.write_table(changes.select(schema.names), row_group_size=_GROUP_ROWS)

    def finish(self) -> Staged:
        self.abandon()
        name = "" if self._writer is None else self._name
        return Staged(name, (), self._upserts, self._deletes)

    def abandon(self) -> None:
        if self._writer is not None:
            self._writer.close()
