"""A process that holds secrets leaves no image of its memory."""

import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, os, resource
from ledgerstone.core_dumps import forbid_core_dumps
forbid_core_dumps(os.environ)
print(*resource.getrlimit(resource.RLIMIT_CORE), ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux'")


def said(value: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={"LEDGERSTONE_CORE_DUMPS": value},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


def test_neither_the_kernel_nor_a_program_of_its_gets_an_image() -> None:
    assert said("") == "0 0 0"


def test_whoever_has_to_look_into_a_process_can_allow_it() -> None:
    assert said("allow").endswith(" 1")
