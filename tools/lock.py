"""Resolves requirements/*.txt from pyproject.toml, with hashes. Shell grade.

`dev.txt` is everything to develop and test, the build backend included. The others are held to the
same versions: `base.txt` is what a deployment needs, `spark.txt` what the demo needs, `build.txt`
what builds the package and its kernels, `wheel.txt` the same with a linker, `release.txt` what
looks at a release, `pyspark-build.txt` what builds pyspark from its source archive, `connect.txt`
what Spark Connect needs besides, and `docs.txt` what the site is made with. Hashes cover every
platform a release was built for, and no index is named: whoever installs brings their own.
"""

import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
LOWEST_PYTHON = (3, 11)
FLAGS = (
    "--quiet",
    "--upgrade",
    "--allow-unsafe",  # pip and setuptools are locked like everything else.
    "--generate-hashes",
    "--no-emit-index-url",
    "--no-emit-trusted-host",
    "--no-emit-find-links",
    "--strip-extras",
)


def resolve(target: str, *options: str, source: str = "pyproject.toml") -> None:
    print(f"lock: resolving requirements/{target}", flush=True)
    command = [sys.executable, "-m", "piptools", "compile", *FLAGS, *options]
    subprocess.run(
        [*command, "--output-file", f"requirements/{target}", source],
        cwd=REPOSITORY,
        check=True,
        env={**os.environ, "CUSTOM_COMPILE_COMMAND": "tools/lock.py"},
    )


def main() -> int:
    if sys.version_info[:2] != LOWEST_PYTHON:
        # Environment markers ask for the most packages on the oldest Python we support; a lock
        # made on a newer one could lack a backport.
        print(f"lock: needs Python 3.11, found {sys.version.split()[0]}: make clean, then")
        print("      make setup PYTHON=python3.11")
        return 1
    named = ("dev", "spark", "lake", "duckdb", "iceberg", "sql")
    extras = tuple(word for name in named for word in ("--extra", name))
    resolve("dev.txt", *extras, "--all-build-deps")
    pinned = ("--constraint", "requirements/dev.txt")
    resolve("base.txt", *pinned)
    resolve("spark.txt", "--extra", "spark", *pinned)
    resolve("pyspark-build.txt", *pinned, source="requirements/pyspark-build.in")
    resolve("build.txt", "--only-build-deps", "--all-build-deps", *pinned)
    resolve("wheel.txt", *pinned, source="requirements/wheel.in")
    resolve("release.txt", *pinned, source="requirements/release.in")
    resolve("connect.txt", *pinned, source="requirements/connect.in")
    resolve("docs.txt", "--extra", "docs", *pinned)
    return 0


if __name__ == "__main__":
    sys.exit(main())
