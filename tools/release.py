"""Builds what is published, in dist/: source archive, wheel, list of parts, hashes. Shell grade.

    tools/release.py            what is committed, built twice; ends if the two differ
    tools/release.py --once     built once, to try it out

Only committed files are in it, and only tools that `requirements/wheel.txt` pins by hash build it,
in an environment of their own; nothing is fetched after these. The time in the archives is that of
the commit. docs/releasing.md says how to check the result, and what of the machine it depends on.
"""

import argparse
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from sbom import REPOSITORY, bill_of_materials, locked, sha256_of

SUMS = "SHA256SUMS"
INSTALL = (
    *("-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
    *("--require-hashes", "--only-binary", ":all:"),
)
VALIDATE = """
import pathlib, sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
text = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
sys.exit(None if fault is None else f"{sys.argv[1]}: {fault}")
"""


class ReleaseRefused(Exception):
    pass


def git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=REPOSITORY, check=True, capture_output=True).stdout


def environment(lock: str) -> Path:
    """The interpreter of a virtual environment with what the lock names, and nothing else."""
    home = REPOSITORY / "build" / Path(lock).stem
    python, stamp = home / "bin" / "python", home / "lock"
    wanted = (REPOSITORY / "requirements" / lock).read_text(encoding="utf-8") + sys.version
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        print(f"release: installing requirements/{lock}", flush=True)
        shutil.rmtree(home, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        subprocess.run([python, *INSTALL, "-r", f"requirements/{lock}"], cwd=REPOSITORY, check=True)
        stamp.write_text(wanted, encoding="utf-8")
    return python


def build(python: Path, commit: str, epoch_s: int, target: Path) -> None:
    """Source archive and wheel of what is committed, into `target`."""
    with tempfile.TemporaryDirectory(prefix="ledgerstone-release-") as place:
        source, home = Path(place, "source"), Path(place, "home")
        home.mkdir()
        with tarfile.open(fileobj=io.BytesIO(git("archive", commit))) as archive:
            archive.extractall(source, filter="data")
        # No C compiler of this machine is found: the pinned one links, everywhere alike.
        settings = {
            "HOME": str(home),
            "LEDGERSTONE_CACHE_DIR": str(home / "cache"),
            "PATH": str(python.parent),
            "PYTHONHASHSEED": "0",
            "SOURCE_DATE_EPOCH": str(epoch_s),
        }
        os.umask(0o022)
        for kind in ("sdist", "wheel"):
            command = [str(python), "-m", "hatchling", "build", "-t", kind, "-d", str(target)]
            subprocess.run(command, cwd=source, env=settings, check=True)


def sums_of(directory: Path) -> dict[str, str]:
    return {each.name: sha256_of(each) for each in sorted(directory.iterdir()) if each.name != SUMS}


def build_checked(python: Path, commit: str, epoch_s: int, target: Path, *, is_once: bool) -> None:
    print(f"release: building {commit[:12]}", flush=True)
    build(python, commit, epoch_s, target)
    if is_once:
        return
    print("release: building it again, to compare", flush=True)
    with tempfile.TemporaryDirectory(prefix="ledgerstone-again-") as place:
        build(python, commit, epoch_s, Path(place))
        first, second = sums_of(target), sums_of(Path(place))
    if first != second:
        differing = sorted(name for name in first if first[name] != second.get(name))
        raise ReleaseRefused(f"two builds of {', '.join(differing)} differ")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--once", action="store_true", help="build once, compare nothing")
    given = parser.parse_args()
    if changed := git("status", "--porcelain").decode().splitlines():
        print(f"release: not committed, so not in it: {len(changed)} files", file=sys.stderr)
    commit = git("rev-parse", "HEAD").decode().strip()
    epoch_s = int(git("show", "-s", "--format=%ct", commit))
    target = REPOSITORY / "dist"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    try:
        build_checked(environment("wheel.txt"), commit, epoch_s, target, is_once=given.once)
    except ReleaseRefused as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    (wheel,) = target.glob("*.whl")
    version = re.split("-", wheel.name)[1]
    bom = target / f"ledgerstone-{version}.cdx.json"
    content = bill_of_materials(
        version,
        locked("base.txt"),
        locked("wheel.txt"),
        epoch_s=epoch_s,
        files=sums_of(target),
    )
    bom.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    subprocess.run([environment("release.txt"), "-c", VALIDATE, str(bom)], check=True)
    lines = [f"{digest}  {name}\n" for name, digest in sums_of(target).items()]
    (target / SUMS).write_text("".join(lines), encoding="utf-8")
    print("".join(lines), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
