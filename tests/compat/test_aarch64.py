"""The ARM wheel on an ARM Python, emulated. `tools/aarch64` makes the directory they live in."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.documents import ROOT

HOME = os.environ.get("LEDGERSTONE_AARCH64")
QEMU = shutil.which("qemu-aarch64-static")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(QEMU is None, reason="apt-get install qemu-user-static"),
    pytest.mark.skipif(
        HOME is None, reason="LEDGERSTONE_AARCH64 names no directory: tools/aarch64"
    ),
]

# What runs every kernel against its twin; the others have no machine code of their own.
KERNEL_TESTS = (
    *("hash", "descriptors", "inspect", "walk", "rewrite", "numbering", "rolling"),
    *("cleaning", "folding", "rebuilding"),
)
# An emulated processor takes some twenty times as long.
EMULATED_S = 1800
PROGRAM = """
import platform, sys
from ledgerstone.records.kernels import load
report = load()
print(platform.machine(), report.compiled, "numba" in sys.modules, report.path)
"""


def run(*words: str) -> str:
    assert HOME is not None
    assert QEMU is not None
    home = Path(HOME)
    python = home / "root" / "usr" / "bin" / "python3.11"
    kept = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    done = subprocess.run(
        [QEMU, "-L", str(home / "root"), str(python), *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**kept, "PYTHONPATH": os.pathsep.join([str(home / "site"), str(ROOT)])},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_arm_python_loads_the_kernels_its_wheel_carries() -> None:
    machine, compiled, has_numba, path = run("-c", PROGRAM).split()

    assert (machine, compiled, has_numba) == ("aarch64", "False", "False")
    assert Path(path).name == "kernels-aarch64.so"


@pytest.mark.timeout(EMULATED_S)
@pytest.mark.parametrize("kernels", KERNEL_TESTS)
def test_kernels_of_the_arm_wheel_agree_with_their_twins(kernels: str) -> None:
    # Without our settings for pytest: they name plugins that are not there. The test left out
    # starts a Python itself, which this machine cannot run without the emulator's name before it.
    said = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "--noconftest", "-c", os.devnull,
               "--rootdir", str(ROOT), "-k", "not test_produce_path_imports",
               f"tests/unit/records/test_kernels_{kernels}.py")  # fmt: skip

    assert " passed" in said
    assert "failed" not in said
