"""What a source reads: the shape of a table, how files are taken. Pure."""

from collections.abc import Sequence
from enum import Enum

from ledgerstone.dataclasses import dataclass
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.sources.row_bytes import KeyFormat, key_bytes


class FileMode(Enum):
    WHOLE = "whole"
    LINES = "lines"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableShape:
    table: str
    key_columns: tuple[str, ...]
    key_format: KeyFormat = KeyFormat.JSON
    version_column: str | None = None
    columns: tuple[str, ...] = ()  # empty: all of them
    max_deletes: int | None = None  # more than these in one run are taken for an accident

    def key_of(self, values: Sequence[object]) -> bytes:
        try:
            return key_bytes(self.key_columns, values, self.key_format)
        except ValueError as error:
            raise PipelineError(f"table {self.table}: {error}") from error
