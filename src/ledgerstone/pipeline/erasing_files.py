"""Searches files for a key: Parquet by its columns, logs of Delta, everything else. Shell.

Every file on disk counts, whether a table still refers to it or not: an old version is readable as
long as its files exist. Files in a format that we cannot parse make the verdict "unknown", never
"clean".
"""

import json
import os
import zipfile
import zlib
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import IO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.pipeline.erasing_key import WantedKey, rows_with, stats_hold

_BLOCK_BYTES: Final = 1 << 20
_ROWS_AT_ONCE: Final = 1 << 16
# RocksDB's tables are compressed, and only RocksDB can read them. Spark compresses the change logs
# and snapshots of its state stores.
_CLOSED_SUFFIXES: Final = (
    ".sst",
    ".changelog",
    ".delta",
    ".snapshot",
    ".gz",
    ".zst",
    ".lz4",
    ".snappy",
    ".orc",
)
DELTA_LOG: Final = "_delta_log"
# Damaged, cut off, encrypted, or of a kind that nobody here knows.
_UNREADABLE: Final = (
    OSError,
    EOFError,
    ValueError,
    RuntimeError,
    pa.ArrowException,
    zipfile.BadZipFile,
    zlib.error,
)


class FileVerdict(Enum):
    CLEAN = "clean"
    RESIDUE = "residue"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """About one output. `evidence` is text without the key."""

    output: str
    verdict: FileVerdict
    evidence: str


@dataclass(slots=True)
class Searched:
    """What a search has seen; file names are relative to where it began."""

    files: int = 0
    rows: int = 0
    hits: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)

    def finding(self, output: str, note: str = "") -> Finding:
        said = f"{self.files} files" + (f", {self.rows} rows" if self.rows else "")
        if self.hits:
            named = ", ".join(self.hits[:5]) + (", …" if len(self.hits) > 5 else "")
            evidence = f"found in {len(self.hits)} of {said}: {named}"
            return Finding(output=output, verdict=FileVerdict.RESIDUE, evidence=evidence + note)
        if self.closed:
            evidence = f"not found in {said}; {len(self.closed)} files cannot be read: "
            evidence += ", ".join(self.closed[:5])
            return Finding(output=output, verdict=FileVerdict.UNKNOWN, evidence=evidence + note)
        evidence = f"not found in {said}{note}"
        return Finding(output=output, verdict=FileVerdict.CLEAN, evidence=evidence)


def search_directory(root: Path, wanted: WantedKey) -> Searched:
    searched = Searched()
    for path in _files_in(root, searched):
        try:
            is_file = path.is_file()
        except OSError:
            searched.closed.append(str(path.relative_to(root)))
            continue
        if is_file:
            _search_file(path, str(path.relative_to(root)), wanted, searched)
    return searched


def _files_in(root: Path, searched: Searched) -> list[Path]:
    """Whatever is in it, at any depth. What cannot be listed counts as closed, and so does a link
    to a directory: it may lead anywhere, in a circle too."""

    def refused(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            searched.closed.append(os.path.relpath(error.filename, root))

    found = []
    for parent, directories, names in os.walk(root, onerror=refused):
        found += [Path(parent, name) for name in names]
        links = [each for each in directories if Path(parent, each).is_symlink()]
        searched.closed += [os.path.relpath(Path(parent, each), root) for each in links]
    return sorted(found)


def search_file(path: Path, wanted: WantedKey) -> Searched:
    searched = Searched()
    if path.is_file():
        _search_file(path, path.name, wanted, searched)
    return searched


def _search_file(path: Path, name: str, wanted: WantedKey, searched: Searched) -> None:
    searched.files += 1
    is_log = DELTA_LOG in path.parts
    try:
        if path.suffix == ".parquet":
            is_hit = _in_parquet(path, wanted, searched, is_log=is_log)
        elif is_log and path.suffix == ".json":
            is_hit = _in_delta_log(path, wanted)
        elif path.suffix == ".zip":
            is_hit = _in_zip(path, name, wanted, searched)
        elif path.suffix in _CLOSED_SUFFIXES:
            searched.closed.append(name)
            is_hit = False
        else:
            with path.open("rb") as file:
                is_hit = holds_bytes(_blocks(file), wanted.needles)
            _note_short_key(path, name, wanted, searched)
    except FileNotFoundError:
        return  # it went while we looked
    except _UNREADABLE:
        searched.closed.append(name)
        return
    if is_hit:
        searched.hits.append(name)


def _note_short_key(path: Path, name: str, wanted: WantedKey, searched: Searched) -> None:
    """Short byte strings occur everywhere by chance, so not finding them proves nothing."""
    if not wanted.needles and path.suffix not in (".json", ".crc", ".lock", ".yaml", ""):
        searched.closed.append(name)


def _in_parquet(path: Path, wanted: WantedKey, searched: Searched, *, is_log: bool) -> bool:
    found = 0
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(_ROWS_AT_ONCE):
            if is_log:
                texts = json.dumps(batch.to_pylist(), default=str)
                found += stats_hold(texts, wanted)
                continue
            searched.rows += batch.num_rows
            found += rows_with(pa.Table.from_batches([batch]), wanted)
    return found > 0


def _in_delta_log(path: Path, wanted: WantedKey) -> bool:
    """Statistics and the text of past commands; both contain column values."""
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if not line:
            continue
        content = json.loads(line)
        add = content.get("add") if isinstance(content, dict) else None
        stats = add.get("stats") if isinstance(add, dict) else None
        if stats_hold(content, wanted) or (stats and stats_hold(json.loads(stats), wanted)):
            return True
    return False


def _in_zip(path: Path, name: str, wanted: WantedKey, searched: Searched) -> bool:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if member.filename.endswith(_CLOSED_SUFFIXES):
                searched.closed.append(f"{name}/{member.filename}")
                continue
            with archive.open(member) as file:
                if holds_bytes(_blocks(file), wanted.needles):
                    return True
    return False


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    while block := file.read(_BLOCK_BYTES):
        yield block


def holds_bytes(blocks: Iterator[bytes], needles: list[bytes]) -> bool:
    """Finds needles across block boundaries too."""
    overlap = max((len(each) for each in needles), default=1) - 1
    tail = b""
    for block in blocks:
        window = tail + block
        if any(needle in window for needle in needles):
            return True
        tail = window[-overlap:] if overlap else b""
    return False
