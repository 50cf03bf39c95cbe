"""A table as a directory of Parquet files with a manifest. Shell.

Rows lie in files by a hash of their key. A set of changes rewrites the files of the keys it
touches, wherever the executors are, and then the driver replaces `_manifest.json`, by a rename:
that is the commit. The manifest says which files are the table, how far it has come, and of each
file its rows and a digest of its bytes, which is checked whenever the file is read.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.layout import Layout
from ledgerstone.pipeline.synced_files import replace_text
from ledgerstone.pipeline.tables.evolution import evolution, type_names
from ledgerstone.pipeline.tables.file_area import FileArea
from ledgerstone.pipeline.tables.group_merging import SwappedFiles, read_leaf
from ledgerstone.pipeline.tables.leaf_table import LeafTable
from ledgerstone.pipeline.tables.leaves import LeafFile
from ledgerstone.pipeline.tables.target import Executors, Followed, Positions

MANIFEST: Final = "_manifest.json"
VERSION: Final = 2
_FIXED_BUCKETS: Final = 1  # the format of tables whose number of files was fixed


class ParquetTable(LeafTable):
    def __init__(
        self,
        path: str,
        topic: str,
        layout: Layout,
        *,
        buckets: int,
        executors: Executors | None = None,
    ) -> None:
        self._path = Path(path)
        super().__init__(
            FileArea(root=str(self._path)), layout, buckets=buckets, executors=executors
        )
        self._topic = topic

    def prepare(self) -> None:
        self._path.mkdir(parents=True, exist_ok=True)
        if not (self._path / MANIFEST).exists():
            self._commit(
                {
                    "format": VERSION,
                    "version": 0,
                    "topic": self._topic,
                    "deletes": self._layout.deletes.value,
                    "keys": list(self._layout.key_names),
                    "columns": type_names(self._layout),
                    "positions": {},
                    "files": [],
                }
            )
        self._evolve(self.manifest())
        self.drop_staged()
        self._drop_leftovers()

    def _evolve(self, manifest: Mapping[str, Any]) -> None:
        """Only the manifest: files say what they hold, and the rest of a row is null."""
        change = evolution(str(self._path), manifest["columns"], self._layout)
        # Which topics a table of several has is what `following` checks.
        topic = self._topic if self._layout.has_topic else manifest["topic"]
        said = (topic, manifest["deletes"])
        if said != (self._topic, self._layout.deletes.value):
            raise PipelineError(
                f"{self._path} holds a table of topic {said[0]} ({said[1]}), and the definition "
                f"says {self._topic} ({self._layout.deletes.value})"
            )
        if not change.is_none:
            version = int(manifest["version"]) + 1
            columns = type_names(self._layout)
            self._commit({**manifest, "version": version, "columns": columns})

    def manifest(self) -> dict[str, Any]:
        try:
            content = json.loads((self._path / MANIFEST).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise PipelineError(f"{self._path / MANIFEST} cannot be read: {error}") from error
        if isinstance(content, dict) and content.get("format") == _FIXED_BUCKETS:
            return _as_leaves(self._path, content)
        if not isinstance(content, dict) or content.get("format") != VERSION:
            raise PipelineError(f"{self._path / MANIFEST} is no manifest of format {VERSION}")
        return content

    def positions(self) -> Positions:
        if not (self._path / MANIFEST).exists():
            return {}
        return self._positions_in(self.manifest())

    def _positions_in(self, manifest: Mapping[str, Any]) -> Positions:
        said = manifest["positions"]
        if self._layout.has_topic:
            said = said.get(self._topic, {})
        return {int(each): int(at) for each, at in said.items()}

    def followed(self) -> Followed | None:
        manifest = self.manifest()
        topic_id = manifest.get("topic_id")
        return None if topic_id is None else Followed(manifest["topic"], topic_id)

    def follow(self, followed: Followed) -> None:
        manifest = self.manifest()
        self._commit({**manifest, "topic": followed.topic, "topic_id": followed.topic_id})

    def _files(self) -> list[LeafFile]:
        return _files(self.manifest())

    def _swap(self, swapped: SwappedFiles, positions: Mapping[int, int]) -> int:
        manifest = self.manifest()
        moved = {**self._positions_in(manifest), **positions}
        version = int(manifest["version"]) + 1
        manifest["version"] = version
        said: dict[str, Any] = {str(each): moved[each] for each in sorted(moved)}
        if self._layout.has_topic:
            said = {**manifest["positions"], self._topic: said}
        manifest["positions"] = said
        self._commit(_with_files(manifest, swapped.replaced, swapped.written))
        for file in swapped.replaced:
            (self._path / file.path).unlink(missing_ok=True)
        return version

    def _commit(self, manifest: Mapping[str, Any]) -> None:
        # Crash before: the old manifest counts, and the new files are leftovers.
        replace_text(self._path / MANIFEST, json.dumps(manifest, indent=1))

    def _drop_leftovers(self) -> None:
        """Files that no manifest names: of a run that died, and of versions that are past.

        They may hold what was deleted since, so they do not stay."""
        known = {file.path for file in self._files()}
        for path in sorted(self._path.glob("part-*.parquet")):
            if path.name not in known:
                path.unlink()

    def tidy(self) -> None:
        """Once more, for tasks that went on after their batch had failed."""
        self._drop_leftovers()

    def rows(self) -> Iterator[pa.Table]:
        for file in self._files():
            yield read_leaf(self._area, [file], self._layout)

    def close(self) -> None:
        """Nothing is kept open."""


def _as_leaves(path: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What an earlier version wrote. Its buckets are leaves where there is a power of two of them,
    as by default: both go by the last bits of the same hash. Its files have no digest."""
    buckets = int(manifest["buckets"])
    if buckets & (buckets - 1):
        raise PipelineError(
            f"{path} was written by an earlier version with {buckets} buckets, which is no power "
            "of two, and cannot be continued. Name another directory"
        )
    files = [
        {
            "path": each["path"],
            "leaf": buckets | int(each["bucket"]),
            "rows": each["rows"],
            "bytes": each["bytes"],
            "sha256": "",
        }
        for each in manifest["files"]
    ]
    kept = {name: value for name, value in manifest.items() if name != "buckets"}
    return {**kept, "format": VERSION, "files": files}


def _files(manifest: Mapping[str, Any]) -> list[LeafFile]:
    return [
        LeafFile(each["leaf"], each["path"], each["rows"], each["bytes"], each["sha256"])
        for each in manifest["files"]
    ]


def _with_files(
    manifest: Mapping[str, Any], replaced: Sequence[LeafFile], written: Sequence[LeafFile]
) -> dict[str, Any]:
    gone = {file.path for file in replaced}
    left = [file for file in _files(manifest) if file.path not in gone]
    files = [
        {
            "path": file.path,
            "leaf": file.leaf,
            "rows": file.rows,
            "bytes": file.size_bytes,
            "sha256": file.digest,
        }
        for file in sorted([*left, *written])
    ]
    return {**manifest, "files": files}
