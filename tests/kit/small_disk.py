"""A directory on a disk of its own, small enough to be filled. Needs root."""

import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

MIB: Final = 1 << 20


class SmallDisk:
    def __init__(self, directory: Path, size_mb: int) -> None:
        self._directory = directory
        self._size_mb = size_mb

    def __enter__(self) -> "SmallDisk":
        self._directory.mkdir(parents=True, exist_ok=True)
        options = f"size={self._size_mb}m"
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self._directory)]
        subprocess.run(command, check=True, capture_output=True)
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", "-l", str(self._directory)], check=True, capture_output=True)

    @property
    def _filler(self) -> Path:
        return self._directory / "filler"

    def fill(self) -> None:
        """To the last byte."""
        with self._filler.open("ab", buffering=0) as file:
            for size in (MIB, 4096, 1):
                with suppress(OSError):
                    while True:
                        file.write(bytes(size))

    def free(self) -> None:
        self._filler.unlink()


def is_permitted(scratch: Path) -> bool:
    if os.geteuid() != 0:
        return False
    try:
        with SmallDisk(scratch / "probe", 1):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False
