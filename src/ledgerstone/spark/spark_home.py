"""A SPARK_HOME whose Python side is compiled already. Shell: makes links in the user's cache.

Spark puts `python/lib/pyspark.zip` of its home in front of the path of every Python process that it
starts. No byte code is in it, and none of what is imported from an archive is kept: every process
compiles half of pyspark again, which is 0.7 s of CPU for each planner, worker daemon and streaming
query. Here a directory has the name of each archive and leads to the package that was installed,
next to whose modules their byte code lies.
"""

import contextlib
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ledgerstone.records.kernels.cache import CacheRefused, prepare_directory

_LIBRARIES: Final = Path("python", "lib")


def linked_home(real_home: Path, packages: Mapping[str, Path], cache: Path) -> Path | None:
    """A home in `cache` that is `real_home`, but for archives of `packages`; None if it cannot be.

    `packages` says by name where each is installed."""
    libraries = real_home / _LIBRARIES
    if not libraries.is_dir() or not (real_home / "jars").is_dir():
        return None
    digest = hashlib.sha256(str(real_home).encode()).hexdigest()[:16]
    home = cache / f"spark-home-{digest}"
    try:
        prepare_directory(cache)
        _link_all(real_home, home, but_for="python")
        _link_all(real_home / "python", home / "python", but_for="lib")
        (home / _LIBRARIES).mkdir(mode=0o700, exist_ok=True)
        for archive in sorted(libraries.iterdir()):
            _replace(archive, home / _LIBRARIES / archive.name, packages)
    except (CacheRefused, OSError):
        return None
    return home


def _link_all(real: Path, copy: Path, *, but_for: str) -> None:
    """Everything of Spark's own; the modules of pyspark lie in the same directory."""
    copy.mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in sorted(real.iterdir()):
        is_code = (each / "__init__.py").exists() or each.name == "__pycache__"
        if each.is_dir() and each.name != but_for and not is_code:
            _link(each, copy / each.name)


def _replace(archive: Path, copy: Path, packages: Mapping[str, Path]) -> None:
    name = archive.stem.partition("-")[0]  # py4j-0.10.9.9-src.zip
    package = packages.get(name)
    if package is None:
        _link(archive, copy)
        return
    copy.mkdir(mode=0o700, exist_ok=True)
    _link(package, copy / name)


def _link(target: Path, link: Path) -> None:
    with contextlib.suppress(OSError):
        if os.readlink(link) == str(target):
            return
    # Renamed into place: another session may start from here at this moment.
    draft = link.with_name(f"{link.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    draft.symlink_to(target)
    draft.replace(link)
