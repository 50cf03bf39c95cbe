"""Splits both sides of a comparison by key into files, so that a part fits into memory. Shell.

The files are in the pipeline's work directory. They contain data of the table and the topic, so
they are removed when the comparison ends; those of a killed process when the next one begins.
"""

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Final

import numpy as np
import pyarrow as pa

from ledgerstone.pipeline.layout import Layout
from ledgerstone.pipeline.tables.merging import bucket_numbers

PARTS: Final = 64
_PREFIX: Final = "comparing-"


def own_directory(work: Path) -> Path:
    """Of this process, since others may compare the same table; drops those of dead ones."""
    for path in sorted(work.glob(f"{_PREFIX}*")):
        number = path.name.removeprefix(_PREFIX)
        if number.isdecimal() and not _is_alive(int(number)):
            shutil.rmtree(path, ignore_errors=True)
    return work / f"{_PREFIX}{os.getpid()}"


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


class Spill:
    """One side: takes rows in any order and returns them part by part."""

    def __init__(self, directory: Path, layout: Layout, schema: pa.Schema) -> None:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        self._directory = directory
        self._layout = layout
        self._schema = schema
        self._writers: dict[int, pa.ipc.RecordBatchStreamWriter] = {}

    def __enter__(self) -> "Spill":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def add(self, pieces: Iterable[pa.Table]) -> None:
        for piece in pieces:
            numbers = bucket_numbers(piece, self._layout, PARTS).to_numpy()
            order = np.argsort(numbers, kind="stable")
            sorted_numbers, rows = numbers[order], piece.take(pa.array(order))
            starts = np.flatnonzero(np.r_[True, sorted_numbers[1:] != sorted_numbers[:-1]])
            ends = [*starts[1:].tolist(), len(order)]
            for start, end in zip(starts.tolist(), ends, strict=True):
                if end > start:
                    part = int(sorted_numbers[start])
                    self._writer(part).write_table(rows.slice(start, end - start))

    def _writer(self, part: int) -> pa.ipc.RecordBatchStreamWriter:
        if part not in self._writers:
            path = str(self._directory / f"{part:02d}.arrow")
            self._writers[part] = pa.ipc.new_stream(path, self._schema)
        return self._writers[part]

    def parts(self) -> Iterator[pa.Table]:
        """Every part in order, also the empty ones; nothing is added afterwards."""
        self._close()
        for part in range(PARTS):
            path = self._directory / f"{part:02d}.arrow"
            if not path.exists():
                yield self._schema.empty_table()
                continue
            with pa.ipc.open_stream(str(path)) as reader:
                yield reader.read_all()

    def _close(self) -> None:
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()
