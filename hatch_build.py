"""Puts compiled kernels into the wheel. A hook of the build backend.

`pip wheel .` makes a wheel for this machine's family of processors. Another family by name:
`LEDGERSTONE_WHEEL_MACHINE=aarch64 pip wheel .`. A checkout that is installed for editing gets none:
there the loader compiles what was edited.
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# What each machine's wheel carries; the loader chooses by the processor.
TARGETS = {"x86_64": ("x86-64-v2", "x86-64-v3"), "aarch64": ("aarch64",)}
# The libraries ask for no symbol of a C library by version; Python itself needs more than this.
TAG = "py3-none-manylinux_2_17_{machine}.manylinux2014_{machine}"
PLACE = "ledgerstone/records/kernels/compiled"
# In a process of its own, with the sources of the kernels and whatever compiles them.
PROGRAM = """
import pathlib, sys
from ledgerstone.records.kernels.loader import library_for
from ledgerstone.records.kernels.targets import TARGETS
for name in sys.argv[2:]:
    path = pathlib.Path(sys.argv[1], f"kernels-{name}.so")
    path.write_bytes(library_for(TARGETS[name], print))
"""


def machine() -> str:
    return os.environ.get("LEDGERSTONE_WHEEL_MACHINE") or platform.machine()


def needs_ziglang() -> bool:
    is_ours = machine() == platform.machine()
    return shutil.which("cc" if is_ours else f"{machine()}-linux-gnu-gcc") is None


class KernelsHook(BuildHookInterface):  # type: ignore[type-arg]
    def dependencies(self) -> list[str]:
        return ["ziglang>=0.15"] if needs_ziglang() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or self.target_name != "wheel":
            return
        targets = TARGETS.get(machine())
        if targets is None:
            self.app.display_warning(
                f"no kernels are compiled for {machine()}: where this wheel is installed, "
                "ledgerstone[kernels] compiles them at the first start"
            )
            return
        self._directory = directory = tempfile.mkdtemp(prefix="ledgerstone-wheel-")
        environment = {**os.environ}
        # Behind what the build environment has: an isolated one has numba there, no other does.
        environment["PYTHONPATH"] = os.pathsep.join([str(Path(self.root, "src")), *sys.path])
        command = [sys.executable, "-P", "-c", PROGRAM, directory, *targets]
        subprocess.run(command, env=environment, check=True)
        for target in targets:
            library = Path(directory, f"kernels-{target}.so")
            build_data["force_include"][str(library)] = f"{PLACE}/{library.name}"
        build_data["pure_python"] = False
        build_data["tag"] = TAG.format(machine=machine())

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "_directory"):
            shutil.rmtree(self._directory, ignore_errors=True)
