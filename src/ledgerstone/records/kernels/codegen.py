"""From the kernels' common code to machine code, and to a library. Shell: a child process's.

Needs llvmlite, and a C compiler's linker where there is one. `lowering.py` makes the common code,
which knows no processor; the CRC steps, which do, are linked to it here. See README.md.
"""

import importlib.util
import pathlib
import shutil
import subprocess
import sys
import tempfile
from typing import Any, Final

import llvmlite.binding as llvm

from ledgerstone.records.kernels.abi import KERNELS, SYMBOL_PREFIX
from ledgerstone.records.kernels.targets import CompileTarget

# No C library is linked: memcpy and memset, all that is asked for, are in every process. Nothing
# of the machine or the moment goes into the file.
_LINK_OPTIONS: Final = (
    *("-shared", "-nostdlib", "-s"),
    *("-Wl,--build-id=none", "-Wl,--hash-style=gnu", "-Wl,-z,noexecstack", "-Wl,-z,relro,-z,now"),
)
_LINK_TIMEOUT_SECONDS: Final = 120


def object_for(bitcode: bytes, target: CompileTarget) -> bytes:
    """All kernels as one relocatable object for this target."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple = target.triple or llvm.get_default_triple()
    machine: Any = llvm.Target.from_triple(triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=3, reloc="pic", codemodel="default"
    )
    module: Any = llvm.parse_bitcode(bitcode)
    steps: Any = llvm.parse_assembly(target.crc)
    for each in (module, steps):
        each.triple = triple
        each.data_layout = str(machine.target_data)
    module.link_in(steps)
    _keep_only_entries(module)
    _optimize(module, machine)
    image: bytes = machine.emit_object(module)
    return image


def _keep_only_entries(module: Any) -> None:  # noqa: ANN401 - llvmlite has no types
    """What nobody outside can see may be inlined and dropped."""
    entries = {SYMBOL_PREFIX + spec.symbol for spec in KERNELS}
    for function in module.functions:
        if not function.is_declaration and function.name not in entries:
            function.linkage = "internal"
    for variable in module.global_variables:
        if not variable.is_declaration:
            variable.linkage = "internal"


def _optimize(module: Any, machine: Any) -> None:  # noqa: ANN401
    tuning = llvm.create_pipeline_tuning_options(speed_level=3)
    tuning.loop_vectorization = True
    tuning.slp_vectorization = True
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)


def find_linker(target: CompileTarget) -> tuple[str, ...] | None:
    """A C compiler that links for the target: the machine's own, else the package ziglang, which
    links for every target. None where there is neither."""
    family = (target.triple or llvm.get_default_triple()).partition("-")[0]
    is_ours = family == llvm.get_default_triple().partition("-")[0]
    command = shutil.which("cc" if is_ours else f"{family}-linux-gnu-gcc")
    if command is not None:
        return (command,)
    if importlib.util.find_spec("ziglang") is None:
        return None
    return (sys.executable, "-m", "ziglang", "cc", "-target", f"{family}-linux-gnu")


def link(image: bytes, linker: tuple[str, ...]) -> bytes:
    """The object as a shared library. The same object gives the same bytes."""
    with tempfile.TemporaryDirectory(prefix="ledgerstone-link-") as directory:
        source, target = pathlib.Path(directory, "kernels.o"), pathlib.Path(directory, "kernels.so")
        source.write_bytes(image)
        subprocess.run(
            [*linker, *_LINK_OPTIONS, "-o", target.name, source.name],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            check=True,
            timeout=_LINK_TIMEOUT_SECONDS,
        )
        return target.read_bytes()
