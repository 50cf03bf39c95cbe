"""Compiles the kernel sources to one object file. Shell: the body of a child process.

`python -m ledgerstone.records.kernels.build OUT` writes the relocatable object to OUT. Only this
module imports numba; the process that loads the object needs llvmlite alone. See README.md.
"""

import importlib
import inspect
import multiprocessing
import os
import pathlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import llvmlite.binding as llvm
from llvmlite import ir

from ledgerstone.records.kernels.abi import (
    KERNEL_RAISED,
    KERNELS,
    SOURCE_MODULES,
    SOURCE_PACKAGE,
    SYMBOL_PREFIX,
    KernelSpec,
)

# As Any: numba's own annotations cover only part of what is used here.
numba: Any = importlib.import_module("numba")
cgutils: Any = importlib.import_module("numba.core.cgutils")
extending: Any = importlib.import_module("numba.extending")

_NUMBA_TYPES: Final = {
    "i64": numba.types.int64,
    "u64": numba.types.uint64,
    "u8*": numba.types.CPointer(numba.types.uint8),
    "i16*": numba.types.CPointer(numba.types.int16),
    "i32*": numba.types.CPointer(numba.types.int32),
    "i64*": numba.types.CPointer(numba.types.int64),
    "u64*": numba.types.CPointer(numba.types.uint64),
}

# More of them wait for the longest kernel.
MAX_PROCESSES: Final = 4

# Division by zero and friends give numpy's answer instead of a Python exception, which pointers
# into a file without an interpreter could not raise.
_JIT_OPTIONS: Final = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

# Kept out of line: the first three are rare, and inlining them would swell every loop that has a
# varint; the others are loops of their own, which the compiler does better one at a time.
_OUT_OF_LINE: Final = (
    *("read_long_varint", "read_long_varlong", "skip_headers"),
    *("read_batch", "hash_rows", "put_rows", "judge_rows", "rewrite_batch", "crc32c"),
    *("hash_spans", "mix_lanes", "finish_lanes"),
    *("read_rows", "settle_rows", "hash_latest", "hash_pieces", "hash_spread"),
)


def _copy_bytes(
    typing_context: Any,  # noqa: ANN401 - numba's own contexts and types
    target: Any,  # noqa: ANN401
    at: Any,  # noqa: ANN401
    source: Any,  # noqa: ANN401
    start: Any,  # noqa: ANN401
    size: Any,  # noqa: ANN401
) -> tuple[Any, Callable[..., Any]]:
    """`words.copy_bytes` as LLVM's memcpy; as a loop it would keep a check for overlap."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        target_at, at_value, source_at, start_value, size_value = arguments
        cgutils.raw_memcpy(
            builder,
            builder.gep(target_at, [at_value]),
            builder.gep(source_at, [start_value]),
            size_value,
            itemsize=1,
        )
        return context.get_dummy_value()

    return numba.types.void(target, at, source, start, size), generate


def _prefetch(
    typing_context: Any,  # noqa: ANN401
    source: Any,  # noqa: ANN401
    index: Any,  # noqa: ANN401
) -> tuple[Any, Callable[..., Any]]:
    """`words.prefetch` as LLVM's, for a read into every cache; nothing where there is none."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        source_at, index_value = arguments
        address = builder.bitcast(builder.gep(source_at, [index_value]), cgutils.voidptr_t)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, *[ir.IntType(32)] * 3])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [address, *(ir.IntType(32)(fact) for fact in (0, 3, 1))])
        return context.get_dummy_value()

    return numba.types.void(source, index), generate


def _crc_step(name: str, register_bits: int, value_bits: int) -> Callable[..., Any]:
    """`words.crc_word` or `crc_byte` as an LLVM intrinsic that is one instruction."""

    def typed(
        typing_context: Any,  # noqa: ANN401
        crc: Any,  # noqa: ANN401
        value: Any,  # noqa: ANN401
    ) -> tuple[Any, Callable[..., Any]]:
        register, taken = ir.IntType(register_bits), ir.IntType(value_bits)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
            function = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(register, [register, taken]), name
            )
            # Both come as 64 bits; truncating to the same width is no instruction.
            crc_value, value_value = (
                builder.trunc(argument, kind) if kind.width < 64 else argument
                for argument, kind in zip(arguments, (register, taken), strict=True)
            )
            answer = builder.call(function, [crc_value, value_value])
            return builder.zext(answer, ir.IntType(64)) if register_bits < 64 else answer

        return numba.types.uint64(numba.types.uint64, numba.types.uint64), generate

    step: Callable[..., Any] = extending.intrinsic(typed)
    return step


def _crc_instructions() -> dict[str, object]:
    """What stands for the steps of a CRC on this processor; without instructions they stay loops,
    and the glue, which is told, has the package crc32c do it."""
    triple, features = llvm.get_process_triple(), llvm.get_host_cpu_features()
    if triple.startswith("x86_64") and features.get("sse4.2"):
        word, byte = ("x86.sse42.crc32.64.64", 64, 64), ("x86.sse42.crc32.32.8", 32, 8)
    elif triple.startswith(("aarch64", "arm64")) and features.get("crc"):
        word, byte = ("aarch64.crc32cx", 32, 64), ("aarch64.crc32cb", 32, 32)
    else:
        return {"has_crc_instruction": numba.njit(_no_crc_instruction, **_JIT_OPTIONS)}
    return {
        "crc_word": _crc_step(f"llvm.{word[0]}", *word[1:]),
        "crc_byte": _crc_step(f"llvm.{byte[0]}", *byte[1:]),
    }


def _no_crc_instruction() -> int:
    return 0


def _compile_helpers(modules: dict[str, ModuleType]) -> None:
    """Replaces every helper, wherever it was imported to, by its compiled self.

    The modules are this process's own copies, and the process ends with the build.
    """
    stand_ins: dict[str, object] = {
        "i16": numba.types.int16,
        "i64": numba.types.int64,
        "u64": numba.types.uint64,
        "copy_bytes": extending.intrinsic(_copy_bytes),
        "prefetch": extending.intrinsic(_prefetch),
        **_crc_instructions(),
    }
    # By the functions themselves: two modules may each have a helper of the same name.
    compiled = {getattr(modules["words"], name): made for name, made in stand_ins.items()}
    exported = {(spec.module, spec.function) for spec in KERNELS}
    for module_name, module in modules.items():
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if (module_name, name) in exported:
                continue
            if function not in compiled:
                inline = name not in _OUT_OF_LINE
                compiled[function] = numba.njit(function, forceinline=inline, **_JIT_OPTIONS)
            setattr(module, name, compiled[function])


def _kernel_module(spec: KernelSpec, function: Callable[..., int]) -> llvm.ModuleRef:
    """The kernel's LLVM module, and a plain C entry point before numba's calling convention."""
    arguments = [_NUMBA_TYPES[argument] for argument in spec.arguments]
    dispatcher = numba.njit(numba.types.int64(*arguments), **_JIT_OPTIONS)(function)
    signature = dispatcher.signatures[0]
    inner = dispatcher.overloads[signature].fndesc.llvm_func_name
    kinds = ["ptr" if argument.endswith("*") else "i64" for argument in spec.arguments]
    names = [f"{kind} %a{index}" for index, kind in enumerate(kinds)]
    entry = f"""
define i64 @{SYMBOL_PREFIX}{spec.symbol}({", ".join(names)}) {{
  %result = alloca i64
  %exception = alloca ptr
  %status = call i32 @{inner}({", ".join(["ptr %result", "ptr %exception", *names])})
  %value = load i64, ptr %result
  %ok = icmp eq i32 %status, 0
  %answer = select i1 %ok, i64 %value, i64 {KERNEL_RAISED}
  ret i64 %answer
}}
"""
    module = llvm.parse_assembly(dispatcher.inspect_llvm(signature) + entry)
    module.verify()
    return module


def _prepare() -> None:
    """In every process that compiles."""
    modules = {name: importlib.import_module(f"{SOURCE_PACKAGE}.{name}") for name in SOURCE_MODULES}
    _compile_helpers(modules)


def _bitcode(spec: KernelSpec) -> bytes:
    """One kernel, ready to be linked. `_prepare` leaves exported functions as they are."""
    module = importlib.import_module(f"{SOURCE_PACKAGE}.{spec.module}")
    code: bytes = _kernel_module(spec, getattr(module, spec.function)).as_bitcode()
    return code


def _bitcodes() -> list[bytes]:
    # Forked before anything is compiled: numba is imported once, and nothing has threads yet.
    processes = min(len(os.sched_getaffinity(0)), MAX_PROCESSES)
    with multiprocessing.get_context("fork").Pool(processes, _prepare) as pool:
        return pool.map(_bitcode, KERNELS, chunksize=1)


def compile_object() -> bytes:
    """All kernels as one relocatable object for this very CPU."""
    linked, *others = (llvm.parse_bitcode(code) for code in _bitcodes())
    for module in others:
        linked.link_in(module)
    # Compiling would have done this, but that was elsewhere.
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        reloc="pic",
        codemodel="default",
    )
    image: bytes = machine.emit_object(linked)
    return image


if __name__ == "__main__":
    pathlib.Path(sys.argv[1]).write_bytes(compile_object())
