"""Changes on their way from the tasks that read to the tasks that write, as files. Shell.

A task that reads one partition writes its changes to a few files, one for each group of keys; then
one task for each group reads what all of them wrote for it. Files of attempts that did not count
have names that nobody asks for. They hold what was in records, so they are removed with their
batch; those of a run that died when the next one begins.
"""

import uuid
from collections.abc import Iterable
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledgerstone.dataclasses import dataclass
from ledgerstone.pipeline.column_types import ColumnType
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.layout import Layout
from ledgerstone.pipeline.tables.file_area import STAGING, FileArea
from ledgerstone.pipeline.tables.merging import key_hashes
from ledgerstone.pipeline.tables.target import Staged, counted
from ledgerstone.pipeline.tables.unfit import named

HASH: Final = "_hash"
_BUFFER: Final = 1 << 20


class ShardPlace(Protocol):
    """Where files of one form go, and what they are called."""

    @property
    def area(self) -> FileArea: ...

    @property
    def directory(self) -> str: ...

    @property
    def schema(self) -> pa.Schema: ...

    def path(self, name: str, group: int) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardStage:
    """Picklable: where the tasks of one batch put their changes."""

    area: FileArea
    batch: str
    layout: Layout
    slots: NDArray[np.int32]  # the group of every hash, by its last bits
    is_for_sqlite: bool = False

    def unfit(self, changes: pa.Table) -> dict[int, str]:
        reasons: dict[int, str] = {}
        for column in self.layout.keys + self.layout.values:
            if self.is_for_sqlite and column.type is ColumnType.FLOAT64:
                is_unfit = pc.is_nan(changes.column(column.name))
                reasons |= named(column.name, "is NaN, which SQLite takes for null", is_unfit)
        return reasons

    def open(self) -> "ShardSink":
        return ShardSink(self)

    @property
    def directory(self) -> str:
        return f"{STAGING}/{self.batch}"

    def path(self, name: str, group: int) -> str:
        return f"{self.directory}/{group:05d}-{name}.arrow"

    @property
    def schema(self) -> pa.Schema:
        return self.layout.change_schema.append(pa.field(HASH, pa.uint64()))


def new_stage(
    area: FileArea, layout: Layout, slots: NDArray[np.int32], *, is_for_sqlite: bool = False
) -> ShardStage:
    batch = uuid.uuid4().hex[:16]
    return ShardStage(
        area=area, batch=batch, layout=layout, slots=slots, is_for_sqlite=is_for_sqlite
    )


class ShardFiles:
    """What one attempt of a task writes, a file for each group that has something."""

    def __init__(self, place: ShardPlace) -> None:
        self._place = place
        self.name = uuid.uuid4().hex[:16]
        self._files = place.area.filesystem()
        if place.area.is_local:
            self._files.create_dir(place.directory, recursive=True)
        self._writers: dict[int, tuple[Any, Any]] = {}

    def write(self, group: int, rows: pa.Table) -> None:
        if group not in self._writers:
            path = self._place.path(self.name, group)
            out = self._files.open_output_stream(path, buffer_size=_BUFFER)
            self._writers[group] = (out, pa.ipc.new_stream(out, self._place.schema))
        self._writers[group][1].write_table(rows)

    def close(self) -> tuple[int, ...]:
        """The groups that have something."""
        for out, writer in self._writers.values():
            writer.close()
            out.close()
        return tuple(sorted(self._writers))


class ShardSink:
    def __init__(self, stage: ShardStage) -> None:
        self._stage = stage
        self._files = ShardFiles(stage)
        self._upserts = self._deletes = 0

    def add(self, changes: pa.Table) -> None:
        if not changes.num_rows:
            return
        upserts, deletes = counted(changes)
        self._upserts += upserts
        self._deletes += deletes
        slots = self._stage.slots
        hashes = key_hashes(changes, self._stage.layout)
        hashed = changes.append_column(self._stage.schema.field(HASH), pa.array(hashes))
        if len(slots) == 1:
            self._files.write(int(slots[0]), hashed)
            return
        groups = slots[hashes & np.uint64(len(slots) - 1)]
        for group, part in parts(hashed, groups):
            self._files.write(group, part)

    def finish(self) -> Staged:
        groups = self._files.close()
        return Staged(self._files.name, groups, self._upserts, self._deletes)

    def abandon(self) -> None:
        self._files.close()


def parts(table: pa.Table, numbers: NDArray[Any]) -> "Iterable[tuple[int, pa.Table]]":
    """The rows of each number, in their order."""
    order = np.argsort(numbers, kind="stable")
    sorted_numbers, rows = numbers[order], table.take(pa.array(order))
    starts = np.flatnonzero(np.r_[True, sorted_numbers[1:] != sorted_numbers[:-1]])
    ends = [*starts[1:].tolist(), len(order)]
    for start, end in zip(starts.tolist(), ends, strict=True):
        if end > start:
            yield int(sorted_numbers[start]), rows.slice(start, end - start)


def read_group(stage: ShardPlace, names: Iterable[str], group: int) -> pa.Table:
    """What the attempts of these names wrote for one group."""
    files = stage.area.filesystem()
    tables = [stage.schema.empty_table()]
    for name in names:
        path = stage.path(name, group)
        try:
            with files.open_input_file(path) as file, pa.ipc.open_stream(file) as reader:
                tables.append(reader.read_all())
        except FileNotFoundError as error:
            raise PipelineError(
                f"{stage.area.root}/{path}, which another task wrote, is not here: all of Spark's "
                "workers have to see this directory"
            ) from error
    return pa.concat_tables(tables)


def shard_names(staged: Iterable[Staged]) -> dict[int, tuple[str, ...]]:
    """By group, only those that have something."""
    found: dict[int, list[str]] = {}
    for each in staged:
        for group in each.groups:
            found.setdefault(group, []).append(each.name)
    return {group: tuple(names) for group, names in sorted(found.items())}
