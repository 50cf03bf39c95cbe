"""Whether this machine has a linker, without which kernels stay an object that LLVM loads."""

import pytest

from ledgerstone.records.kernels.loader import library_to_carry


def require_linker() -> None:
    if library_to_carry() is None:
        pytest.skip("no linker has made a library of the kernels: gcc is missing")
