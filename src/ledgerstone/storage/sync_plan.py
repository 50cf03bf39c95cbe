"""What has to reach the disk, as data, and how it does. Grade D.

A plan is made by the owner of a log and may be performed in a thread. It names open files, which
stay the same files whatever they are called meanwhile, and paths, which may be gone by then: what
replaced them is durable by other means.
"""

from collections.abc import Iterable
from typing import NamedTuple

from ledgerstone.fs import File, Filesystem, parent_of


class OpenFile(NamedTuple):
    file: File


class FileAt(NamedTuple):
    """Nothing to sync where the file is gone."""

    path: str


class DirectoryAt(NamedTuple):
    """The names in a directory."""

    path: str


class NewFile(NamedTuple):
    """A finished file under a temporary name: it is synced, made read-only and gets its name.

    Crash here: it has its name and all of its bytes, or it does not have its name."""

    temporary: str
    path: str


Syncable = OpenFile | FileAt | DirectoryAt | NewFile


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
            case NewFile(temporary, path):
                give_name(fs, temporary, path)


def give_name(fs: Filesystem, temporary: str, path: str) -> None:
    """See `NewFile`."""
    file = fs.open(temporary)
    try:
        file.fsync()
    finally:
        file.close()
    fs.make_read_only(temporary)
    fs.rename(temporary, path)
    fs.fsync_dir(parent_of(path))


def _sync_file(fs: Filesystem, path: str) -> None:
    try:
        file = fs.open(path)
    except FileNotFoundError:
        return
    try:
        file.fsync()
    finally:
        file.close()
