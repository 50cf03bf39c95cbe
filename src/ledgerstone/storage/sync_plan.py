"""What has to reach the disk, as data, and how it does. Grade D.

A plan is made by the owner of a log and may be performed in a thread. It names open files, which
stay the same files whatever they are called meanwhile, and paths, which may be gone by then: what
replaced them is durable by other means.
"""

from collections.abc import Iterable
from typing import NamedTuple

from ledgerstone.fs import File, Filesystem


class OpenFile(NamedTuple):
    file: File


class FileAt(NamedTuple):
    """Nothing to sync where the file is gone."""

    path: str


class DirectoryAt(NamedTuple):
    """The names in a directory."""

    path: str


Syncable = OpenFile | FileAt | DirectoryAt


def sync_all(fs: Filesystem, syncs: Iterable[Syncable]) -> None:
    """In the order given, up to the first refusal."""
    for each in syncs:
        match each:
            case OpenFile(file):
                file.fsync()
            case FileAt(path):
                _sync_file(fs, path)
            case DirectoryAt(path):
                fs.fsync_dir(path)


def _sync_file(fs: Filesystem, path: str) -> None:
    try:
        file = fs.open(path)
    except FileNotFoundError:
        return
    try:
        file.fsync()
    finally:
        file.close()
