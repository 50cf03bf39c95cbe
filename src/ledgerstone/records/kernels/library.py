"""A file or an object of kernels as functions. Shell: links machine code into this process."""

import ctypes
import pathlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ledgerstone.errors import KernelBuildFailed
from ledgerstone.records.kernels.abi import (
    KERNELS,
    SYMBOL_PREFIX,
    Argument,
    Kernel,
    KernelSpec,
)
from ledgerstone.records.kernels.filling import struct_of


class Linked(NamedTuple):
    kernels: Mapping[str, Kernel]
    # Own the machine code; the functions above are only addresses into it.
    owners: tuple[object, ...]


def open_library(path: pathlib.Path) -> Linked:
    """A shared library: the process's own linker does the work, in a fifth of a millisecond."""
    try:
        library = ctypes.CDLL(str(path))
        kernels = {
            spec.symbol: _prototype(spec)((SYMBOL_PREFIX + spec.symbol, library))
            for spec in KERNELS
        }
    except (OSError, AttributeError) as error:
        raise KernelBuildFailed(f"{path} is not the kernels' library: {error}") from error
    return Linked(kernels, (library,))


def link_object(image: bytes) -> Linked:
    """A relocatable object, where no linker has made a library of it: llvmlite links it, which
    brings LLVM into the process, 45 MB of it."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    symbols = [SYMBOL_PREFIX + spec.symbol for spec in KERNELS]
    builder: Any = llvm.JITLibraryBuilder().add_object_img(image).add_current_process()
    for symbol in symbols:
        builder.export_symbol(symbol)
    compiler = llvm.create_lljit_compiler()
    try:
        tracker = builder.link(compiler, "ledgerstone_kernels")
    except RuntimeError as error:
        raise KernelBuildFailed(f"kernels of {len(image)} bytes do not link: {error}") from error
    kernels = {
        spec.symbol: _prototype(spec)(tracker[SYMBOL_PREFIX + spec.symbol]) for spec in KERNELS
    }
    return Linked(kernels, (tracker, compiler))


_C_TYPES: Final = {"u64": ctypes.c_uint64, "i64": ctypes.c_int64}


def _prototype(spec: KernelSpec) -> Any:  # noqa: ANN401 - ctypes makes the class
    return ctypes.CFUNCTYPE(ctypes.c_int64, *(_c_type(each) for each in spec.arguments))


def _c_type(argument: Argument) -> Any:  # noqa: ANN401
    """For a descriptor a pointer to its own struct: no other is taken."""
    if isinstance(argument, str):
        return _C_TYPES.get(argument, ctypes.c_void_p)
    return ctypes.POINTER(struct_of(argument))
