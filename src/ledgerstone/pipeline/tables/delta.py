"""A Delta table, written by delta-rs: no jar, and readable by everything. Shell.

Few changes are merged. Many go the other way: buckets of the table, by a hash of the key, are
rewritten as files, by Spark's executors where there are some, and one commit swaps them in. Either
way the positions are application transactions in the same commit: one per partition, whose version
is the next offset.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.transaction import CommitProperties, Transaction

from ledgerstone.pipeline.definition import Deletes
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.layout import (
    DELETED,
    DELETED_AT,
    OFFSET,
    PARTITION,
    TIMESTAMP,
    VALID_TO,
    Layout,
)
from ledgerstone.pipeline.tables import sql
from ledgerstone.pipeline.tables.delta_buckets import BUCKET, RunJobs, rewrite_buckets, run_here
from ledgerstone.pipeline.tables.history import versions_of
from ledgerstone.pipeline.tables.merging import bucket_numbers
from ledgerstone.pipeline.tables.target import Applied, Followed, Positions, applied

_ROWS_AT_ONCE: Final = 1 << 16
# A topic has at most as many partitions as we ask the table about.
_MAX_PARTITIONS: Final = 100_000
_CLOSES: Final = "_closes"
# Properties of the table.
_BUCKETS: Final = "ledgerstone.buckets"
_TOPIC: Final = "ledgerstone.topic"
_TOPIC_ID: Final = "ledgerstone.topic.id"


class DeltaTarget:
    def __init__(
        self,
        uri: str,
        app: str,
        topic: str,
        layout: Layout,
        *,
        buckets: int = 1,
        bulk_rows: int = 200_000,
        run_jobs: RunJobs = run_here,
    ) -> None:
        self._uri = uri
        self._app = f"ledgerstone/{app}/{topic}"
        self._layout = layout
        self._buckets = buckets
        self._bulk_rows = bulk_rows
        self._run_jobs = run_jobs
        self._table: DeltaTable | None = None

    @property
    def _schema(self) -> pa.Schema:
        return self._layout.table_schema.append(pa.field(BUCKET, pa.int32()))

    def prepare(self) -> None:
        if not DeltaTable.is_deltatable(self._uri):
            if "://" not in self._uri:
                Path(self._uri).mkdir(parents=True, exist_ok=True)
            DeltaTable.create(
                self._uri,
                self._schema,
                partition_by=[BUCKET],
                configuration={_BUCKETS: str(self._buckets)},
                raise_if_key_not_exists=False,
            )
        table = self._current()
        found = [field.name for field in table.schema().fields]
        if found != self._schema.names:
            raise PipelineError(
                f"the Delta table {self._uri} has columns {', '.join(found)}, "
                f"and the definition says {', '.join(self._schema.names)}"
            )
        said = table.metadata().configuration.get(_BUCKETS)
        self._buckets = int(said) if said else self._buckets

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

    def unfit(self, changes: pa.Table) -> dict[int, str]:
        return {}

    def apply(self, changes: pa.Table, positions: Mapping[int, int]) -> Applied:
        return self._write(changes, positions, forced=False)

    def repair(self, changes: pa.Table) -> Applied:
        return self._write(changes, {}, forced=True)

    def _write(self, changes: pa.Table, positions: Mapping[int, int], *, forced: bool) -> Applied:
        table, commit = self._current(), self._commit(positions)
        numbers = bucket_numbers(changes, self._layout, self._buckets)
        placed = changes.append_column(BUCKET, numbers)
        try:
            if changes.num_rows >= self._bulk_rows or not changes.num_rows:
                rewrite_buckets(
                    table, placed, self._layout, commit, forced=forced, run_jobs=self._run_jobs
                )
            elif self._layout.deletes is Deletes.HISTORY:
                self._merge_versions(table, placed, commit)
            else:
                self._merge(table, placed, commit, forced=forced)
        except (DeltaError, OSError) as error:
            self._table = None
            raise PipelineError(f"the Delta table {self._uri}: {error}") from error
        return applied(changes, self._current().version())

    def _merge(
        self, table: DeltaTable, changes: pa.Table, commit: CommitProperties, *, forced: bool
    ) -> None:
        layout = self._layout
        columns = [*layout.key_names, *layout.content_names, BUCKET]
        source = changes.select([*columns, DELETED])
        sets = {sql.quoted(name): f"s.{sql.quoted(name)}" for name in columns}
        unknown = {**sets, sql.quoted(DELETED_AT): f"s.{sql.quoted(TIMESTAMP)}"}
        guard = "" if forced else f" AND {sql.is_newer()}"
        deleted = f"s.{sql.quoted(DELETED)}"
        merger = table.merge(
            source,
            f"{sql.same([BUCKET, *layout.key_names])}",
            source_alias="s",
            target_alias="t",
            commit_properties=commit,
        )
        if layout.deletes is Deletes.SOFT:
            ended = {sql.quoted(n): f"s.{sql.quoted(n)}" for n in (PARTITION, OFFSET, TIMESTAMP)}
            ended[sql.quoted(DELETED_AT)] = f"s.{sql.quoted(TIMESTAMP)}"
            sets[sql.quoted(DELETED_AT)] = "NULL"
            merger = merger.when_matched_update(ended, predicate=f"{deleted}{guard}")
            # A key without a row gets one: that it was deleted is known all the same.
            merger = merger.when_not_matched_insert(unknown, predicate=deleted)
        else:
            merger = merger.when_matched_delete(predicate=f"{deleted}{guard}")
        merger.when_matched_update(sets, predicate=f"NOT {deleted}{guard}").when_not_matched_insert(
            sets, predicate=f"NOT {deleted}"
        ).execute()

    def _merge_versions(
        self, table: DeltaTable, changes: pa.Table, commit: CommitProperties
    ) -> None:
        """Open rows end and new ones begin in one merge: what closes and what is new are rows of
        one source, told apart by a flag."""
        layout = self._layout
        versions = versions_of(changes, layout)
        closed = versions.closed.append_column(
            VALID_TO, versions.closed.column(TIMESTAMP)
        ).append_column(_CLOSES, pa.array([True] * versions.closed.num_rows, pa.bool_()))
        new = versions.new.append_column(_CLOSES, pa.array([False] * versions.new.num_rows))
        source = pa.concat_tables([new, closed], promote_options="default")
        source = source.append_column(BUCKET, bucket_numbers(source, layout, self._buckets))
        timeline = [BUCKET, *layout.key_names, PARTITION]
        closes, valid_to = f"s.{sql.quoted(_CLOSES)}", sql.quoted(VALID_TO)
        at = sql.quoted(OFFSET)
        # An open row ends; a version that is there already matches itself and stays.
        matches = (
            f"{sql.same(timeline)} AND (({closes} AND t.{valid_to} IS NULL AND t.{at} < s.{at}) "
            f"OR (NOT {closes} AND t.{at} = s.{at}))"
        )
        inserted = {sql.quoted(name): f"s.{sql.quoted(name)}" for name in [*layout.types, BUCKET]}
        table.merge(
            source,
            matches,
            source_alias="s",
            target_alias="t",
            commit_properties=commit,
        ).when_matched_update(
            {valid_to: f"s.{valid_to}"}, predicate=closes
        ).when_not_matched_insert(inserted, predicate=f"NOT {closes}").execute()

    def rows(self) -> Iterator[pa.Table]:
        names = self._layout.table_schema.names
        dataset: Any = self._current().to_pyarrow_dataset()
        for batch in dataset.to_batches(columns=names, batch_size=_ROWS_AT_ONCE):
            if batch.num_rows:
                yield pa.Table.from_batches([batch]).cast(self._layout.table_schema)

    def close(self) -> None:
        self._table = None
