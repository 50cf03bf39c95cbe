"""Builds the kernels. Shell: the body of a child process.

`python -m ledgerstone.records.kernels.build DIRECTORY TARGET…` writes for each target
`kernels-TARGET.so`, or `kernels-TARGET.o` where the machine has no linker for it. Whoever loads the
library needs neither numba nor llvmlite. See README.md.
"""

import os
import pathlib
import sys

from ledgerstone.records.kernels.targets import TARGETS

# Read by numba when it is imported: it only translates, `codegen.py` optimizes.
NUMBA_SETTINGS = {"NUMBA_OPT": "0"}


def main(directory: pathlib.Path, names: list[str]) -> None:
    os.environ.update(NUMBA_SETTINGS)
    # Both bring LLVM, the first one numba too.
    from ledgerstone.records.kernels.codegen import find_linker, link, object_for
    from ledgerstone.records.kernels.lowering import lowered

    code = lowered()
    for name in names:
        target = TARGETS[name]
        image, linker = object_for(code, target), find_linker(target)
        if linker is None:
            (directory / f"kernels-{name}.o").write_bytes(image)
        else:
            (directory / f"kernels-{name}.so").write_bytes(link(image, linker))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2:])
