"""A directory of files as a source. Shell.

`whole`: a file is a record, its path the key; a deleted file becomes a tombstone. `lines`: each
line is a record without a key; its header says where the next one begins, so that a run continues
exactly after the last line in the topic, whatever happened to the previous run.
"""

import os
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from stat import S_ISREG
from typing import Final

from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.sources.row_bytes import digest
from ledgerstone.pipeline.sources.shape import FileMode
from ledgerstone.pipeline.sources.topic_feed import FeedChange, TopicFeed

MAX_FILE_BYTES: Final = 1 << 20
_BLOCK_BYTES: Final = 1 << 20


def file_changes(
    feed: TopicFeed, directory: str, *, pattern: str, mode: FileMode
) -> Iterator[FeedChange]:
    root = Path(directory)
    if not root.is_dir():
        raise PipelineError(f"{directory} is not a directory")
    if mode is FileMode.WHOLE:
        yield from _whole_files(feed, root, pattern)
    else:
        yield from _new_lines(feed, root, pattern)


def found_files(root: Path, pattern: str) -> list[tuple[bytes, Path]]:
    """Sorted by name. Names are bytes, as on disk; links are not followed."""

    def refused(error: OSError) -> None:
        """What cannot be looked at is not gone: its files would get tombstones."""
        if isinstance(error, FileNotFoundError) and error.filename != str(root):
            return
        raise PipelineError(f"{root} cannot be read: {error}") from error

    found = []
    for parent, directories, names in os.walk(root, onerror=refused):
        directories.sort()
        for name in sorted(names):
            path = Path(parent, name)
            relative = path.relative_to(root).as_posix()
            if not fnmatch(relative, pattern):
                continue
            try:
                is_file = S_ISREG(path.lstat().st_mode)
            except OSError as error:
                refused(error)
                continue
            if is_file:
                found.append((os.fsencode(relative), path))
    return found


def _whole_files(feed: TopicFeed, root: Path, pattern: str) -> Iterator[FeedChange]:
    shadow = feed.shadow
    shadow.begin_comparison()
    for key, path in found_files(root, pattern):
        held = shadow.get(key)
        try:
            found = path.stat()
            version = f"{found.st_size}:{found.st_mtime_ns}"
            is_same = held is not None and held.version == version
            if found.st_size > MAX_FILE_BYTES and not is_same:
                raise PipelineError(
                    f"{path}: {found.st_size} bytes, a record takes up to {MAX_FILE_BYTES}"
                )
            content = b"" if is_same else path.read_bytes()
        except FileNotFoundError:
            # It went since the directory was listed, and is not there to be seen.
            continue
        except OSError as error:
            raise PipelineError(f"{path} cannot be read: {error}") from error
        shadow.see([key])
        if is_same:
            continue
        if held is None or held.digest != digest(content):
            yield FeedChange(key, content, version)
        else:
            shadow.put(key, held.digest, version)
    for key in shadow.unseen():
        yield FeedChange(key, None)


def _new_lines(feed: TopicFeed, root: Path, pattern: str) -> Iterator[FeedChange]:
    positions = feed.input_positions()
    for name, path in found_files(root, pattern):
        # Any bytes may be in a name, and a header is read back as text.
        source = name.hex()
        start = int(positions.get(source, "0"))
        try:
            size = path.stat().st_size
            if size < start:
                raise PipelineError(
                    f"{path} has {size} bytes and was read up to {start}; files of lines may only "
                    "grow"
                )
            for line, end in _lines_from(path, start):
                yield FeedChange(None, line, position=(source, str(end)))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise PipelineError(f"{path} cannot be read: {error}") from error


def _lines_from(path: Path, start: int) -> Iterator[tuple[bytes, int]]:
    """Whole lines and where each ends; an unfinished line is left for a later run."""
    with path.open("rb", buffering=_BLOCK_BYTES) as file:
        file.seek(start)
        position = start
        while line := file.readline(MAX_FILE_BYTES + 1):
            if not line.endswith(b"\n"):
                if len(line) > MAX_FILE_BYTES:
                    raise PipelineError(f"{path}: the line at byte {position} is too long")
                return
            position += len(line)
            yield line.removesuffix(b"\n").removesuffix(b"\r"), position
