"""A directory that tasks write files to, on this machine or in an object store. Shell.

Picklable: a task opens it for itself. Staged files are in a directory of ours inside of it, which
readers of Delta and of Parquet directories skip because its name begins with an underscore.
"""

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.fs as pafs

from ledgerstone.dataclasses import dataclass
from ledgerstone.pipeline.errors import PipelineError

STAGING: Final = "_ledgerstone_staging"
_WRITE_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FileArea:
    root: str

    @property
    def is_local(self) -> bool:
        return "://" not in self.root

    def filesystem(self) -> Any:  # noqa: ANN401 - of pyarrow, which has no types
        if self.is_local:
            return pafs.SubTreeFileSystem(self.root, pafs.LocalFileSystem())
        from deltalake.fs import DeltaStorageHandler

        return pafs.PyFileSystem(DeltaStorageHandler(self.root))

    def write(self, path: str, content: Any) -> str:  # noqa: ANN401 - a buffer
        """Durably. Returns a digest of the bytes."""
        view = memoryview(content)
        if self.is_local:
            target = Path(self.root) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                file.write(view)
                file.flush()
                os.fsync(file.fileno())
        else:
            # The handler takes bytes, which is what a buffered stream hands on of pieces below
            # its size.
            with self.filesystem().open_output_stream(path, buffer_size=2 * _WRITE_BYTES) as out:
                for start in range(0, len(view), _WRITE_BYTES):
                    out.write(view[start : start + _WRITE_BYTES])
        return hashlib.sha256(view).hexdigest()

    def read(self, path: str, digest: str = "") -> pa.Buffer:
        """Refuses a file that is not as it was written."""
        try:
            with self.filesystem().open_input_file(path) as file:
                content = file.read_buffer()
        except FileNotFoundError as error:
            raise PipelineError(f"{self.root}/{path} is not there") from error
        if digest and hashlib.sha256(content).hexdigest() != digest:
            raise PipelineError(
                f"{self.root}/{path} is not as it was written. Remove the table and run again"
            )
        return content

    def drop(self, directory: str) -> None:
        """Whether or not it is there."""
        with suppress(FileNotFoundError):
            self.filesystem().delete_dir(directory)
