"""A table whose rows lie in files by a hash of their key: what Delta, Parquet and Iceberg share.
Shell.

The executors rewrite the files that hold keys of a batch; the commit of the target names them and
has no row. A file that no commit names is not part of the table.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ledgerstone.pipeline.layout import Layout
from ledgerstone.pipeline.tables.file_area import STAGING, FileArea
from ledgerstone.pipeline.tables.group_merging import (
    LeafBatch,
    LeafRows,
    SwappedFiles,
    leaf_sources,
    read_leaf,
    write_leaf,
)
from ledgerstone.pipeline.tables.leaves import Incoming, LeafFile
from ledgerstone.pipeline.tables.shards import ShardStage
from ledgerstone.pipeline.tables.target import (
    Applied,
    BatchStage,
    Executors,
    InProcess,
    Staged,
    TableTarget,
)


class LeafTable(TableTarget):
    def __init__(
        self,
        area: FileArea,
        layout: Layout,
        *,
        buckets: int,
        executors: Executors | None,
        directory: str = "",
    ) -> None:
        """`directory` is where in the area a leaf's files are; `{leaf}` is its number."""
        self._area = area
        self._layout = layout
        self._buckets = buckets
        self._executors = executors or InProcess()
        self._directory = directory
        self._batch: LeafBatch | None = None

    @abstractmethod
    def _files(self) -> list[LeafFile]:
        """Those that are the table now."""

    @abstractmethod
    def _swap(self, swapped: SwappedFiles, positions: Mapping[int, int]) -> int:
        """One commit, with the positions. Returns the table's version."""

    def stage(self, incoming: Incoming) -> ShardStage:
        self._batch = LeafBatch(
            self._area,
            self._layout,
            self._files(),
            incoming,
            self._executors,
            most_leaves=self._buckets,
        )
        return self._batch.stage

    def apply_staged(
        self,
        stage: BatchStage,
        staged: Sequence[Staged],
        positions: Mapping[int, int],
        *,
        forced: bool = False,
    ) -> Applied:
        assert self._batch is not None, "nothing was staged"
        assert self._batch.stage is stage, "another batch's stage"
        done = self._batch.rewrite(staged, forced=forced, directory=self._directory)
        version = self._swap(done, positions)
        self._area.drop(self._batch.stage.directory)
        return Applied(upserts=done.applied.upserts, deletes=done.applied.deletes, version=version)

    def row_sources(self, wanted: int) -> Sequence[LeafRows]:
        return leaf_sources(self._area, self._files(), self._layout, wanted)

    def drop_rows(self, is_dropped: Callable[[pa.Table], pa.Array]) -> None:
        """Out of every file, whatever the rows say; files without such a row stay as they are."""
        replaced, written = [], []
        for file in self._files():
            rows = read_leaf(self._area, [file], self._layout)
            left = rows.filter(pc.invert(is_dropped(rows)))
            if left.num_rows < rows.num_rows:
                replaced.append(file)
                written += write_leaf(self._area, left, file.leaf, self._directory)
        if replaced:
            nothing = Applied(upserts=0, deletes=0)
            self._swap(SwappedFiles(tuple(replaced), tuple(written), nothing), {})

    def _written_anew(self) -> list[LeafFile]:
        """Every file, with the columns of the layout; the commit is still to come."""
        jobs = [(self._area, file, self._layout, self._directory) for file in self._files()]
        return [file for done in self._executors.run(write_anew, jobs) for file in done]

    def drop_staged(self) -> None:
        self._area.drop(STAGING)


def write_anew(job: tuple[FileArea, LeafFile, Layout, str]) -> list[LeafFile]:
    area, file, layout, directory = job
    return write_leaf(area, read_leaf(area, [file], layout), file.leaf, directory)
