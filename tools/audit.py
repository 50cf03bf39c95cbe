"""Asks PyPI for known faults of what a release runs with and is built with. Shell grade.

pip-audit comes from `requirements/release.txt`, into an environment of its own. It installs nothing
of what it looks at. It needs the JSON API of PyPI: a mirror
of packages alone does not have it, and then this ends with an error rather than with "none found".
"""

import subprocess
import sys

from release import environment
from sbom import REPOSITORY

LOCKS = ("base.txt", "wheel.txt", "spark.txt")
OPTIONS = ("--require-hashes", "--disable-pip", "--strict", "--progress-spinner", "off")


def main() -> int:
    python = environment("release.txt")
    code = 0
    for lock in LOCKS:
        print(f"audit: requirements/{lock}", flush=True)
        command = [str(python), "-m", "pip_audit", *OPTIONS, "-r", f"requirements/{lock}"]
        code |= subprocess.run(command, cwd=REPOSITORY, check=False).returncode
    if code:
        print("audit: not clean. Above are faults that are known, or why PyPI could not be asked.")
    return code


if __name__ == "__main__":
    sys.exit(main())
