"""From the kernels' sources to LLVM code that knows no processor. Shell: a child process's.

Only this module and `descriptor_types.py` import numba, and it is used as a translator alone: it
infers types and writes plain code; `codegen.py` optimizes all of it at once. See README.md.
"""

import importlib
import inspect
import multiprocessing
from collections.abc import Callable
from itertools import chain, repeat
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
from ledgerstone.records.kernels.descriptor_types import NUMBA_TYPES, DescriptorType, as_declared
from ledgerstone.records.kernels.targets import CRC_BYTE, CRC_WORD, HAS_CRC

# As Any: numba's own annotations cover only part of what is used here.
numba: Any = importlib.import_module("numba")
cgutils: Any = importlib.import_module("numba.core.cgutils")
dispatching: Any = importlib.import_module("numba.core.dispatcher")
extending: Any = importlib.import_module("numba.extending")

# Kernels of these modules are translated in one process, all others in a second: halves of the
# work that share few helpers. Which process does what must not depend on the machine, as numba
# numbers what it names.
_FIRST_HALF: Final = ("record", "walk", "rewrite", "checking", "cleaning", "key_offsets", "newest")

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


def _target_function(name: str, argument_count: int) -> Callable[..., Any]:
    """A function that only the target has, `targets.py`; all words are 64 bits wide."""
    word = ir.IntType(64)
    # numba resolves what it compiles although nobody calls it there; any address will do.
    llvm.add_symbol(name, 1)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        kind = ir.FunctionType(word, [word] * argument_count)
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)

    if argument_count == 0:

        def typed_none(typing_context: Any) -> tuple[Any, Callable[..., Any]]:  # noqa: ANN401
            return numba.types.int64(), generate

        made: Callable[..., Any] = extending.intrinsic(typed_none)
        return made

    def typed(typing_context: Any, crc: Any, value: Any) -> tuple[Any, Callable[..., Any]]:  # noqa: ANN401
        return numba.types.uint64(numba.types.uint64, numba.types.uint64), generate

    made = extending.intrinsic(typed)
    return made


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
        "crc_word": _target_function(CRC_WORD, 2),
        "crc_byte": _target_function(CRC_BYTE, 2),
        "has_crc_instruction": _target_function(HAS_CRC, 0),
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
    arguments = [
        NUMBA_TYPES[each] if isinstance(each, str) else DescriptorType(each)
        for each in spec.arguments
    ]
    dispatcher = numba.njit(numba.types.int64(*arguments), **_JIT_OPTIONS)(function)
    signature = dispatcher.signatures[0]
    inner = dispatcher.overloads[signature].fndesc.llvm_func_name
    kinds = ["i64" if argument in ("i64", "u64") else "ptr" for argument in spec.arguments]
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


def _half(is_first: bool) -> list[bytes]:
    return [_bitcode(spec) for spec in KERNELS if (spec.module in _FIRST_HALF) == is_first]


def lowered() -> bytes:
    """All kernels as one module, not optimized. The same sources give the same bytes."""
    _forget_literals()
    # Forked before anything is compiled: numba is imported once, and nothing has threads yet.
    with multiprocessing.get_context("fork").Pool(2, _prepare) as pool:
        codes = [code for half in pool.map(_half, (True, False), chunksize=1) for code in half]
    linked, *others = (llvm.parse_bitcode(code) for code in codes)
    for module in others:
        linked.link_in(module)
    code: bytes = linked.as_bitcode()
    return code


def _forget_literals() -> None:
    """Has numba translate a helper once for its types. It would do so for each constant anew; LLVM
    knows them anyway where it inlines. Of descriptors a helper gets the class it declares."""
    ask = dispatching._DispatcherBase.get_call_template

    def ask_for_types(self: Any, args: Any, kws: Any) -> Any:  # noqa: ANN401
        plain = numba.types.unliteral
        # numba's own functions declare nothing.
        declared = chain(inspect.get_annotations(self.py_func).values(), repeat(None))
        given = (as_declared(plain(each), next(declared)) for each in args)
        return ask(self, tuple(given), {name: plain(each) for name, each in kws.items()})

    dispatching._DispatcherBase.get_call_template = ask_for_types
