"""A table as a directory of Parquet files with a manifest. Shell.

Rows lie in files by a hash of their key. A set of changes rewrites the files of the keys it
touches and then replaces `_manifest.json`, by a rename: that is the commit. The manifest says
which files are the table, how far it has come, and counts and a checksum for each file.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ledgerstone.pipeline.canonical import cells_of, checksum
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.layout import Layout
from ledgerstone.pipeline.tables.merging import bucket_numbers, merged
from ledgerstone.pipeline.tables.target import Applied, Followed, Positions, applied

MANIFEST: Final = "_manifest.json"
VERSION: Final = 1


class ParquetTable:
    def __init__(self, path: str, topic: str, layout: Layout, *, buckets: int) -> None:
        self._path = Path(path)
        self._topic = topic
        self._layout = layout
        self._buckets = buckets

    def prepare(self) -> None:
        self._path.mkdir(parents=True, exist_ok=True)
        if not (self._path / MANIFEST).exists():
            columns = {name: kind.value for name, kind in self._layout.types.items()}
            self._commit(
                {
                    "format": VERSION,
                    "version": 0,
                    "topic": self._topic,
                    "deletes": self._layout.deletes.value,
                    "keys": list(self._layout.key_names),
                    "columns": columns,
                    "buckets": self._buckets,
                    "positions": {},
                    "files": [],
                }
            )
        self._check(self.manifest())
        self._drop_leftovers()

    def _check(self, manifest: Mapping[str, Any]) -> None:
        columns = {name: kind.value for name, kind in self._layout.types.items()}
        said = (manifest["topic"], manifest["columns"], manifest["deletes"])
        if said != (self._topic, columns, self._layout.deletes.value):
            raise PipelineError(
                f"{self._path} holds a table of topic {said[0]} with columns "
                f"{', '.join(said[1])} ({said[2]}), and the definition says {self._topic}, "
                f"{', '.join(columns)} ({self._layout.deletes.value})"
            )

    def manifest(self) -> dict[str, Any]:
        try:
            content = json.loads((self._path / MANIFEST).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise PipelineError(f"{self._path / MANIFEST} cannot be read: {error}") from error
        if not isinstance(content, dict) or content.get("format") != VERSION:
            raise PipelineError(f"{self._path / MANIFEST} is no manifest of format {VERSION}")
        return content

    def positions(self) -> Positions:
        if not (self._path / MANIFEST).exists():
            return {}
        return {int(each): int(at) for each, at in self.manifest()["positions"].items()}

    def followed(self) -> Followed | None:
        topic_id = self.manifest().get("topic_id")
        return None if topic_id is None else Followed(self._topic, topic_id)

    def follow(self, followed: Followed) -> None:
        manifest = self.manifest()
        self._commit({**manifest, "topic": followed.topic, "topic_id": followed.topic_id})

    def unfit(self, changes: pa.Table) -> dict[int, str]:
        return {}

    def apply(self, changes: pa.Table, positions: Mapping[int, int]) -> Applied:
        return self._write(changes, positions, forced=False)

    def repair(self, changes: pa.Table) -> Applied:
        return self._write(changes, {}, forced=True)

    def _write(self, changes: pa.Table, positions: Mapping[int, int], *, forced: bool) -> Applied:
        manifest = self.manifest()
        version = int(manifest["version"]) + 1
        files = {int(each["bucket"]): each for each in manifest["files"]}
        numbers = bucket_numbers(changes, self._layout, int(manifest["buckets"]))
        for bucket in sorted(pc.unique(numbers).to_pylist()):
            mine = changes.filter(pc.equal(numbers, bucket))
            rows = merged(self._read(files.get(bucket)), mine, self._layout, forced=forced)
            files[bucket] = self._write_file(rows, bucket, version)
        old = {int(each): at for each, at in manifest["positions"].items()}
        moved = {**old, **positions}
        manifest |= {
            "version": version,
            "positions": {str(each): moved[each] for each in sorted(moved)},
            "files": [files[bucket] for bucket in sorted(files)],
        }
        self._commit(manifest)
        self._drop_leftovers()
        return applied(changes, version)

    def drop_rows(self, is_dropped: Callable[[pa.Table], pa.Array]) -> None:
        """Out of every file, whatever the rows say; files without such a row stay as they are."""
        manifest = self.manifest()
        version = int(manifest["version"]) + 1
        files = list(manifest["files"])
        for at, file in enumerate(files):
            rows = self._read(file)
            left = rows.filter(pc.invert(is_dropped(rows)))
            if left.num_rows < rows.num_rows:
                files[at] = self._write_file(left, int(file["bucket"]), version)
        if files != manifest["files"]:
            self._commit({**manifest, "version": version, "files": files})
            self._drop_leftovers()

    def _read(self, file: Mapping[str, Any] | None) -> pa.Table:
        schema = self._layout.table_schema
        if file is None:
            return schema.empty_table()
        return pq.read_table(self._path / file["path"], partitioning=None).cast(schema)

    def _write_file(self, rows: pa.Table, bucket: int, version: int) -> dict[str, Any]:
        name = f"part-{bucket:04d}-{version:08d}.parquet"
        path = self._path / name
        with path.open("wb") as file:
            pq.write_table(rows, file, compression="zstd")
            file.flush()
            os.fsync(file.fileno())
        keys = cells_of(rows, self._layout.key_names)
        content = cells_of(rows, [n for n in rows.column_names if n not in self._layout.key_names])
        return {
            "path": name,
            "bucket": bucket,
            "rows": rows.num_rows,
            "bytes": path.stat().st_size,
            "checksum": f"{checksum(keys, content):032x}",
        }

    def _commit(self, manifest: Mapping[str, Any]) -> None:
        temporary = self._path / f"{MANIFEST}.tmp"
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(manifest, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        # Crash here: the old manifest counts, and the new files are leftovers.
        temporary.rename(self._path / MANIFEST)
        directory = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def _drop_leftovers(self) -> None:
        """Files that no manifest names: of a run that died, and of versions that are past.

        They may hold what was deleted since, so they do not stay."""
        known = [each["path"] for each in self.manifest()["files"]]
        for path in sorted(self._path.glob("part-*.parquet")):
            if path.name not in known:
                path.unlink()

    def rows(self) -> Iterator[pa.Table]:
        for file in self.manifest()["files"]:
            yield self._read(file)

    def close(self) -> None:
        """Nothing is kept open."""
