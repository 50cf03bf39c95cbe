"""Keeps a class data archive between starts, so that a JVM need not load and link again. Shell.

The first session writes the archive when its JVM ends; later sessions with the same Spark and Java
map it. It halves the time to a first result. A JVM that cannot use the archive starts without it.
"""

import atexit
import contextlib
import hashlib
import os
import subprocess
import time
from pathlib import Path
from typing import Any, Final

from ledgerstone.dataclasses import dataclass
from ledgerstone.records.kernels.cache import CacheRefused, cache_directory, prepare_directory
from ledgerstone.spark.java import JavaHome

_END_TIMEOUT_S: Final = 120.0
# A draft is written when its JVM ends and gets its name at once; one that waits that long was left
# behind by a process that was killed in between.
_LITTER_AGE_S: Final = 3600.0
# Do not warn users because the jars of their Spark were replaced in place.
_QUIET: Final = "-Xlog:disable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassArchive:
    """`draft` is where this JVM writes; None if the archive is there already."""

    path: Path
    draft: Path | None
    options: tuple[str, ...]


def archive_for(
    java: JavaHome, spark_version: str, spark_home: Path, *, keep: bool = True
) -> ClassArchive | None:
    """How to start the JVM; None if there is no trusted directory, or if there is no archive and
    the caller does not want to `keep` one."""
    directory = cache_directory()
    try:
        prepare_directory(directory)
    except CacheRefused:
        return None
    facts = f"{java.identity}\0{java.path}\0{spark_version}\0{spark_home}"
    digest = hashlib.sha256(facts.encode()).hexdigest()[:16]
    path = directory / f"spark-{spark_version}-{digest}.jsa"
    if not keep and not path.exists():
        return None
    # Our archive builds on that of the JDK's own classes; a JDK includes it, the wheel does not.
    base = _base_archive(java, directory / f"java-{digest}.jsa") if java.is_bundled else None
    below = "" if base is None else f"{base}:"
    if path.exists():
        used = (f"-XX:SharedArchiveFile={below}{path}", "-Xshare:auto", _QUIET)
        return ClassArchive(path=path, draft=None, options=used)
    _remove_litter(directory)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    made = [f"-XX:ArchiveClassesAtExit={draft}", _QUIET]
    if base is not None:
        made.insert(0, f"-XX:SharedArchiveFile={base}")
    return ClassArchive(path=path, draft=draft, options=tuple(made))


def _remove_litter(directory: Path) -> None:
    """Removes abandoned drafts: each takes a few hundred megabytes."""
    for draft in directory.glob("*.jsa.*"):
        with contextlib.suppress(OSError):
            if time.time() - draft.stat().st_mtime > _LITTER_AGE_S:
                draft.unlink()


def _base_archive(java: JavaHome, path: Path) -> Path | None:
    if path.exists():
        return path
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    command = [f"{java.path}/bin/java", "-Xshare:dump", f"-XX:SharedArchiveFile={draft}", _QUIET]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        made = subprocess.run(command, capture_output=True, timeout=_END_TIMEOUT_S, check=False)
        if made.returncode == 0 and draft.exists():
            draft.rename(path)
            return path
    draft.unlink(missing_ok=True)
    return None


def keep_when_ended(archive: ClassArchive, process: subprocess.Popen[Any]) -> None:
    """When Python exits, lets the JVM end first and renames its draft into place."""
    if archive.draft is not None:
        atexit.register(_keep, archive.draft, archive.path, process)


def _keep(draft: Path, path: Path, process: subprocess.Popen[Any]) -> None:
    # A JVM ends when its standard input is closed.
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        if process.stdin is not None:
            process.stdin.close()
        process.wait(_END_TIMEOUT_S)
    # Only a JVM that ended well has written all of it.
    if process.returncode == 0 and draft.exists():
        draft.rename(path)
    else:
        draft.unlink(missing_ok=True)
