"""A Delta table, committed by delta-rs: no jar, and readable by everything. Shell.

Rows lie in files by a hash of their key, which is the partition column `_bucket`. The executors
rewrite the files that hold keys of a batch; the driver's commit swaps them in and has no row. The
positions are application transactions in the same commit: one per partition, whose version is the
next offset. Files that no commit names are not part of a Delta table.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, CommitProperties, Transaction

from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.layout import Layout
from ledgerstone.pipeline.tables.evolution import as_noted, evolution, type_names
from ledgerstone.pipeline.tables.file_area import FileArea
from ledgerstone.pipeline.tables.group_merging import SwappedFiles
from ledgerstone.pipeline.tables.leaf_table import LeafTable
from ledgerstone.pipeline.tables.leaves import ROOT, LeafFile
from ledgerstone.pipeline.tables.target import Executors, Followed, Positions

BUCKET: Final = "_bucket"
_ROWS_AT_ONCE: Final = 1 << 16
# A topic has at most as many partitions as we ask the table about.
_MAX_PARTITIONS: Final = 100_000
# Properties of the table.
_BUCKETS: Final = "ledgerstone.buckets"  # of tables whose number of files was fixed
_TOPIC: Final = "ledgerstone.topic"
_TOPIC_ID: Final = "ledgerstone.topic.id"
_COLUMNS: Final = "ledgerstone.columns"
# Of a definition, for types of Delta that may become wider.
_WORDS: Final = {"integer": "int32", "long": "int64"}
_HOUR_MS: Final = 3_600_000
DEFAULT_RETENTION_MS: Final = 7 * 24 * _HOUR_MS


class DeltaTarget(LeafTable):
    def __init__(
        self,
        uri: str,
        app: str,
        topic: str,
        layout: Layout,
        *,
        buckets: int = 1024,
        retention_ms: int = DEFAULT_RETENTION_MS,
        executors: Executors | None = None,
    ) -> None:
        super().__init__(
            FileArea(root=uri),
            layout,
            buckets=buckets,
            executors=executors,
            directory=f"{BUCKET}={{leaf}}/",
        )
        self._uri = uri
        self._app = f"ledgerstone/{app}/{topic}"
        self._retention_ms = retention_ms
        self._table: DeltaTable | None = None

    @property
    def _schema(self) -> pa.Schema:
        return self._layout.table_schema.append(pa.field(BUCKET, pa.int32()))

    def prepare(self) -> None:
        if not DeltaTable.is_deltatable(self._uri):
            if self._area.is_local:
                Path(self._uri).mkdir(parents=True, exist_ok=True)
            DeltaTable.create(
                self._uri,
                self._schema,
                partition_by=[BUCKET],
                configuration={_COLUMNS: json.dumps(type_names(self._layout))},
                raise_if_key_not_exists=False,
            )
        table = self._current()
        if table.metadata().configuration.get(_BUCKETS, "1") != "1":
            raise PipelineError(
                f"the Delta table {self._uri} has a fixed number of buckets, as tables of an "
                "earlier version had. Remove the directory and run again"
            )
        self._evolve()
        self.drop_staged()

    def _evolve(self) -> None:
        """A new column is a commit of the log alone. For a wider type all files are written again:
        few readers know a table whose files have another type than its schema."""
        table, wanted = self._current(), type_names(self._layout)
        said = table.metadata().configuration.get(_COLUMNS)
        noted = {} if said is None else json.loads(said)
        has, wants = _kinds(table.schema()), _kinds(DeltaSchema.from_arrow(self._schema))
        others = {
            name: _WORDS.get(kind, kind) for name, kind in has.items() if kind != wants.get(name)
        }
        place = f"the Delta table {self._uri}"
        change = evolution(place, as_noted(has, noted, self._layout, others), self._layout)
        if noted == wanted:
            return
        try:
            if change.added:
                fields = [self._schema.field(name) for name in change.added]
                table.alter.add_columns(DeltaSchema.from_arrow(pa.schema(fields)).fields)
            if change.widened:
                # Without a filter it replaces all files, and the schema with them.
                self._current().create_write_transaction(
                    [_add(each) for each in self._written_anew()],
                    mode="overwrite",
                    schema=self._ordered(),
                    partition_by=[BUCKET],
                )
            # Crash here: the next prepare finds the columns there, and notes them.
            told = {_COLUMNS: json.dumps(wanted)}
            self._current().alter.set_table_properties(told, raise_if_not_exists=False)
        except (DeltaError, OSError) as error:
            self._table = None
            raise PipelineError(f"{place}: {error}") from error

    def _ordered(self) -> pa.Schema:
        """As the table has it: a column that came in addition is the last."""
        names = [each.name for each in self._current().schema().fields]
        return pa.schema([self._schema.field(name) for name in names])

    def _current(self) -> DeltaTable:
        if self._table is None:
            self._table = DeltaTable(self._uri)
        else:
            self._table.update_incremental()
        return self._table

    def positions(self) -> Positions:
        if self._table is None and not DeltaTable.is_deltatable(self._uri):
            return {}
        table = self._current()
        counted = table.transaction_version(f"{self._app}/partitions")
        found: Positions = {}
        for number in range(min(counted or 0, _MAX_PARTITIONS)):
            at = table.transaction_version(f"{self._app}/{number}")
            if at is not None:
                found[number] = at
        return found

    def followed(self) -> Followed | None:
        said = self._current().metadata().configuration
        topic, topic_id = said.get(_TOPIC), said.get(_TOPIC_ID)
        return None if topic is None or topic_id is None else Followed(topic, topic_id)

    def follow(self, followed: Followed) -> None:
        said = {_TOPIC: followed.topic, _TOPIC_ID: followed.topic_id}
        self._current().alter.set_table_properties(said, raise_if_not_exists=False)

    def _commit(self, positions: Mapping[int, int]) -> CommitProperties:
        if not positions:
            return CommitProperties()
        known = self._current().transaction_version(f"{self._app}/partitions") or 0
        count = max(known, max(positions) + 1)
        told = [Transaction(f"{self._app}/{each}", at) for each, at in sorted(positions.items())]
        return CommitProperties(
            app_transactions=[*told, Transaction(f"{self._app}/partitions", count)]
        )

    def _files(self) -> list[LeafFile]:
        actions: Any = pa.table(self._current().get_add_actions(flatten=True))
        names = ("path", f"partition.{BUCKET}", "num_records", "size_bytes")
        columns = [actions.column(name).to_pylist() for name in names]
        return [
            # Zero is the only bucket of a table that was made when their number was fixed.
            LeafFile(int(leaf) or ROOT, path, int(rows or 0), int(size))
            for path, leaf, rows, size in zip(*columns, strict=True)
        ]

    def _swap(self, swapped: SwappedFiles, positions: Mapping[int, int]) -> int:
        commit = self._commit(positions)
        try:
            _swap(self._current(), swapped.replaced, swapped.written, self._ordered(), commit)
            return int(self._current().version())
        except (DeltaError, OSError) as error:
            self._table = None
            raise PipelineError(f"the Delta table {self._uri}: {error}") from error

    def tidy(self) -> None:
        """Files that no version within the retention has, those of dead runs among them."""
        try:
            self._current().vacuum(
                # Whole hours, at least as many as were asked for.
                -(-self._retention_ms // _HOUR_MS),
                dry_run=False,
                enforce_retention_duration=False,
                full=True,
            )
        except (DeltaError, OSError) as error:
            self._table = None
            raise PipelineError(f"the Delta table {self._uri}: {error}") from error

    def rows(self) -> Iterator[pa.Table]:
        names = self._layout.table_schema.names
        dataset: Any = self._current().to_pyarrow_dataset()
        for batch in dataset.to_batches(columns=names, batch_size=_ROWS_AT_ONCE):
            if batch.num_rows:
                yield pa.Table.from_batches([batch]).cast(self._layout.table_schema)

    def close(self) -> None:
        self._table = None


def _kinds(schema: DeltaSchema) -> dict[str, str]:
    kinds = {each.name: json.loads(each.type.to_json()) for each in schema.fields}
    return {name: str(kind) for name, kind in kinds.items() if name != BUCKET}


def _swap(
    table: DeltaTable,
    replaced: Sequence[LeafFile],
    written: Sequence[LeafFile],
    schema: pa.Schema,
    commit: CommitProperties,
) -> None:
    # Without a bucket nothing is swapped, and only the positions are told.
    buckets = {_bucket_of(each) for each in replaced} | {str(each.leaf) for each in written}
    table.create_write_transaction(
        [_add(each) for each in written],
        mode="overwrite" if buckets else "append",
        schema=schema,
        partition_by=[BUCKET],
        partition_filters=[(BUCKET, "in", sorted(buckets))] if buckets else None,
        commit_properties=commit,
    )


def _bucket_of(file: LeafFile) -> str:
    """As the table has it: the path says it."""
    return "0" if file.path.startswith(f"{BUCKET}=0/") else str(file.leaf)


def _add(file: LeafFile) -> AddAction:
    return AddAction(
        path=file.path,
        size=file.size_bytes,
        partition_values={BUCKET: str(file.leaf)},
        modification_time=0,
        data_change=True,
        stats=json.dumps({"numRecords": file.rows}),
    )
