"""Makes fsync fail and the wall clock jump in one node's process. Shell.

A small library, compiled here and preloaded, reads what to do from a shared file.
"""

import shutil
import struct
import subprocess
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("sabotage.c")
_CONTROL: Final = struct.Struct("=qq")


def compiled(directory: Path) -> Path | None:
    """The library; None where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    library = directory / "sabotage.so"
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    return library


class Sabotage:
    """Of one node. Nothing is wrong until it is asked for."""

    def __init__(self, library: Path, control: Path) -> None:
        self._library = library
        self._control = control
        self._shift_ms = 0
        self._fails_fsync = False
        self._control.write_bytes(_CONTROL.pack(0, 0))

    @property
    def prefix(self) -> tuple[str, ...]:
        """In front of the node's command."""
        return ("env", f"LD_PRELOAD={self._library}", f"NEMESIS_CONTROL={self._control}")

    def shift_clock(self, shift_ms: int) -> None:
        """From the true time, not from the present shift."""
        self._shift_ms = shift_ms
        self._write()

    def fail_fsync(self, fails: bool) -> None:
        self._fails_fsync = fails
        self._write()

    def _write(self) -> None:
        # In place: the node has mapped these bytes.
        with self._control.open("r+b") as file:
            file.write(_CONTROL.pack(self._shift_ms, self._fails_fsync))
