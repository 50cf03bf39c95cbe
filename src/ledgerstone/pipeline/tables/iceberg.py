"""An Iceberg table, committed by pyiceberg. Shell.

Rows lie in files by a hash of their key. The executors rewrite the files that hold keys of a batch;
the driver's commit swaps them in and has no row. Positions are properties of the table, in the same
commit. Manifests carry no statistics, so no value of a key is in the metadata. Files have no field
ids: the name mapping of the table gives them theirs, as it does for files added from elsewhere.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent
from pyiceberg.table import Table
from pyiceberg.table.update.snapshot import ExpireSnapshots
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestamptzType,
)
from pyiceberg.types import DecimalType as IcebergDecimal

from ledgerstone.pipeline.column_types import AnyType, ColumnType, DecimalType
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.layout import Layout
from ledgerstone.pipeline.tables.evolution import as_noted, evolution, is_wider, type_names
from ledgerstone.pipeline.tables.file_area import FileArea
from ledgerstone.pipeline.tables.group_merging import SwappedFiles, read_leaf
from ledgerstone.pipeline.tables.leaf_table import LeafTable
from ledgerstone.pipeline.tables.leaves import LeafFile
from ledgerstone.pipeline.tables.target import Executors, Followed, Positions
from ledgerstone.system import SystemClock

CATALOG_FILE: Final = "catalog.db"
_DATA: Final = "data/"
_METADATA: Final = "metadata/"
_LEAF: Final = re.compile(r"data/part-(\d+)-[0-9a-f]{32}\.parquet")
_CATALOG: Final = "ledgerstone"
_NAMESPACE: Final = "default"
_NAME_MAPPING: Final = "schema.name-mapping.default"
_TOPIC: Final = "ledgerstone.topic"
_TOPIC_ID: Final = "ledgerstone.topic.id"
_COLUMNS: Final = "ledgerstone.columns"
_PROPERTIES: Final = {
    # Bytes of a key could be searched for, if it were there.
    "write.avro.compression-codec": "null",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "10",
}
_TYPES: Final[dict[ColumnType, Callable[[], PrimitiveType]]] = {
    ColumnType.STRING: StringType,
    ColumnType.INT32: IntegerType,
    ColumnType.INT64: LongType,
    ColumnType.FLOAT64: DoubleType,
    ColumnType.BOOLEAN: BooleanType,
    ColumnType.BINARY: BinaryType,
    ColumnType.TIMESTAMP: TimestamptzType,
    ColumnType.DATE: DateType,
    ColumnType.TIME: StringType,
    ColumnType.JSON: StringType,
}


class IcebergTable(LeafTable):
    """`path` is the directory of the table. `catalog` has the properties of a catalog by
    pyiceberg's names; without any, it is a SQLite file in that directory."""

    def __init__(
        self,
        path: str,
        name: str,
        topic: str,
        layout: Layout,
        *,
        catalog: Mapping[str, str],
        buckets: int,
        retention_ms: int,
        executors: Executors | None = None,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        if "://" in path:
            raise PipelineError(
                f"table.path: {path}: an Iceberg table of a pipeline is in a directory that all "
                "workers see, not in an object store"
            )
        super().__init__(
            FileArea(root=path), layout, buckets=buckets, executors=executors, directory=_DATA
        )
        self._path = Path(path)
        self._name = name
        self._identifier = tuple(name.split(".")) if "." in name else (_NAMESPACE, name)
        self._properties = dict(catalog)
        self._topic = topic
        self._retention_ms = retention_ms
        self._now_ms = now_ms or SystemClock().now_ms
        self._catalog: Catalog | None = None
        self._entries: dict[str, DataFile] = {}

    @contextmanager
    def _said(self) -> Iterator[None]:
        try:
            yield
        except PipelineError:
            raise
        except Exception as error:  # whatever a catalog raises
            said = " ".join(str(error).split())
            raise PipelineError(f"the Iceberg table {self._name}: {said}") from error

    def _opened(self) -> Catalog:
        if self._catalog is None:
            own = {"type": "sql", "uri": f"sqlite:///{self._path / CATALOG_FILE}"}
            properties = dict(self._properties or own)
            name = properties.pop("name", _CATALOG)
            with self._said():
                self._catalog = load_catalog(name, **properties)
        return self._catalog

    def _current(self) -> Table:
        with self._said():
            return self._opened().load_table(self._identifier)

    def prepare(self) -> None:
        self._path.mkdir(parents=True, exist_ok=True)
        with self._said():
            catalog = self._opened()
            catalog.create_namespace_if_not_exists(self._identifier[:-1])
            try:
                table = catalog.load_table(self._identifier)
            except NoSuchTableError:
                table = catalog.create_table(
                    self._identifier,
                    schema=self._layout.table_schema,
                    location=f"file://{self._path}",
                    properties={**_PROPERTIES, _COLUMNS: json.dumps(type_names(self._layout))},
                )
            if table.location() != f"file://{self._path}":
                raise PipelineError(
                    f"the Iceberg table {self._name} is at {table.location()}, and the definition "
                    f"says {self._path}"
                )
            if _NAME_MAPPING not in table.properties:
                mapping = table.schema().name_mapping.model_dump_json()
                table.transaction().set_properties({_NAME_MAPPING: mapping}).commit_transaction()
        self._evolve()
        self.drop_staged()

    def _evolve(self) -> None:
        table, wanted = self._current(), type_names(self._layout)
        noted = json.loads(table.properties.get(_COLUMNS, "{}"))
        names = [each.name for each in table.schema().fields]
        found = as_noted(names, noted, self._layout)
        place = f"the Iceberg table {self._name}"
        change = evolution(place, found, self._layout, widens=_is_promotion)
        if change.is_none:
            return
        types = self._layout.types
        with self._said(), table.transaction() as transaction:
            with transaction.update_schema() as update:
                for name in change.added:
                    update.add_column((name,), _iceberg_type(types[name]))
                for each in change.widened:
                    update.update_column((each.name,), _iceberg_type(each.new))
            transaction.set_properties({_COLUMNS: json.dumps(wanted)})

    def positions(self) -> Positions:
        if not self._properties and not (self._path / CATALOG_FILE).exists():
            return {}
        with self._said():
            catalog = self._opened()
            if not catalog.table_exists(self._identifier):
                return {}
        said = json.loads(self._current().properties.get(self._positions_property, "{}"))
        return {int(each): int(at) for each, at in said.items()}

    @property
    def _positions_property(self) -> str:
        return f"ledgerstone.positions.{self._topic}"

    def followed(self) -> Followed | None:
        said = self._current().properties
        topic, topic_id = said.get(_TOPIC), said.get(_TOPIC_ID)
        return None if topic is None or topic_id is None else Followed(topic, topic_id)

    def follow(self, followed: Followed) -> None:
        told = {_TOPIC: followed.topic, _TOPIC_ID: followed.topic_id}
        with self._said(), self._current().transaction() as transaction:
            transaction.set_properties(told)

    def _files(self) -> list[LeafFile]:
        table = self._current()
        self._entries = {}
        found = []
        with self._said():
            for file in _data_files(table):
                path = file.file_path.removeprefix(f"{table.location()}/")
                leaf = _LEAF.fullmatch(path)
                if leaf is None or file.content is not DataFileContent.DATA:
                    raise PipelineError(
                        f"the Iceberg table {self._name} has {file.file_path}, which no pipeline "
                        "wrote. Nobody else may write to it"
                    )
                self._entries[path] = file
                found.append(
                    LeafFile(int(leaf[1]), path, file.record_count, file.file_size_in_bytes)
                )
        return found

    def _swap(self, swapped: SwappedFiles, positions: Mapping[int, int]) -> int:
        table = self._current()
        with self._said(), table.transaction() as transaction:
            if swapped.replaced or swapped.written:
                with transaction.update_snapshot().overwrite() as update:
                    for file in swapped.replaced:
                        update.delete_data_file(self._entries[file.path])
                    for file in swapped.written:
                        update.append_data_file(_data_file(table, file))
            if positions:
                moved = {**self.positions(), **positions}
                said = json.dumps({str(each): moved[each] for each in sorted(moved)})
                transaction.set_properties({self._positions_property: said})
        snapshot = self._current().current_snapshot()
        return 0 if snapshot is None else int(snapshot.sequence_number or 0)

    def tidy(self) -> None:
        """Snapshots whose successor is older than the retention, then every file that no snapshot
        has and that is as old, those of dead runs among them."""
        self._expire(self._now_ms() - self._retention_ms)

    def forget_past(self) -> None:
        """All but the current version."""
        self._expire(self._now_ms() + 1)

    def _expire(self, before_ms: int) -> None:
        table = self._current()
        with self._said():
            ordered = sorted(table.snapshots(), key=lambda each: each.timestamp_ms)
            current = table.current_snapshot()
            old = [
                each.snapshot_id
                for each, following in pairwise(ordered)
                if following.timestamp_ms < before_ms and each != current
            ]
            if old:
                expired: ExpireSnapshots = table.maintenance.expire_snapshots().by_ids(old)
                expired.commit()
            self._remove_unreferenced(self._current(), before_ms)

    def _remove_unreferenced(self, table: Table, before_ms: int) -> None:
        kept = _referenced(table)
        for directory in (_DATA, _METADATA):
            for path in sorted((self._path / directory).glob("*")):
                name = f"{table.location()}/{directory}{path.name}"
                if name not in kept and path.stat().st_mtime * 1000 < before_ms:
                    path.unlink()

    def rows(self) -> Iterator[pa.Table]:
        for file in self._files():
            yield read_leaf(self._area, [file], self._layout)

    def close(self) -> None:
        if self._catalog is not None:
            self._catalog.close()
            self._catalog = None


def _is_promotion(old: AnyType, new: AnyType) -> bool:
    """What Iceberg's specification lets a type become, of the wider ones."""
    if isinstance(old, DecimalType) and isinstance(new, DecimalType):
        return old.scale == new.scale and is_wider(old, new)
    return new is ColumnType.INT64 and is_wider(old, new)


def _iceberg_type(kind: AnyType) -> PrimitiveType:
    """As pyiceberg makes it of Arrow's."""
    if isinstance(kind, DecimalType):
        return IcebergDecimal(kind.precision, kind.scale)
    return _TYPES[kind]()


def _data_files(table: Table) -> Iterator[DataFile]:
    snapshot = table.current_snapshot()
    for manifest in [] if snapshot is None else snapshot.manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            yield entry.data_file


def _data_file(table: Table, file: LeafFile) -> DataFile:
    found = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{table.location()}/{file.path}",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=file.rows,
        file_size_in_bytes=file.size_bytes,
    )
    found.spec_id = table.spec().spec_id
    return found


def _referenced(table: Table) -> set[str]:
    """All that any version names."""
    found = {table.metadata_location}
    found.update(each.metadata_file for each in table.metadata.metadata_log)
    for snapshot in table.snapshots():
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            found.add(manifest.manifest_path)
            if manifest.content is ManifestContent.DATA:
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                found.update(entry.data_file.file_path for entry in entries)
    return found
