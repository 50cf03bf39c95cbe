"""Loads the compiled kernels, compiling them first if the cache has none. Shell.

The one door between records/ and the outside world. A child process compiles (see build.py), so
this process never imports numba; llvmlite links the object, ctypes calls it and drops the GIL.
"""

import ctypes
import hashlib
import importlib.metadata
import importlib.resources
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from ledgerstone.errors import KernelBuildFailed
from ledgerstone.records.kernels import cache
from ledgerstone.records.kernels.abi import KERNELS, SYMBOL_PREFIX

_LOG: Final = logging.getLogger(__name__)
_BUILD_TIMEOUT_SECONDS: Final = 600
_STDERR_TAIL: Final = 2000

Kernel = Callable[..., int]


class LoadReport(NamedTuple):
    """What loading took. `path` is the cached object; None if no cache directory was usable."""

    seconds: float
    compiled: bool
    path: str | None


class Library(NamedTuple):
    kernels: Mapping[str, Kernel]
    report: LoadReport
    # Own the machine code; the functions above are only addresses into it.
    owners: tuple[object, ...]


class Loader:
    """One load per process, whichever thread asks first; a forked child inherits it."""

    def __init__(self, load_library: Callable[[], Library]) -> None:
        self._load_library = load_library
        self._lock = threading.Lock()
        self._library: Library | None = None
        # A thread of the parent may hold the lock at the moment of a fork.
        os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()

    def library(self) -> Library:
        library = self._library
        if library is None:
            with self._lock:
                library = self._library
                if library is None:
                    library = self._library = self._load_library()
        return library


def load() -> LoadReport:
    """Loads the kernels now instead of at the first call; the report tells what that took."""
    return _LOADER.library().report


def ensure_compiled() -> None:
    """Compiles now if nothing is cached, without loading: LLVM alone is 45 MB of a process.

    Only the sources are compared. A cache taken to another processor is noticed when loading."""
    pattern = f"kernels-{source_fingerprint()}-*.o"
    directory = cache.cache_directory()
    if not directory.is_dir() or not any(directory.glob(pattern)):
        load()


def kernel(symbol: str) -> Kernel:
    """The compiled function; it takes addresses and numbers as abi.py declares them."""
    return _LOADER.library().kernels[symbol]


def load_library() -> Library:
    started = time.perf_counter()
    # Imported here: a process that never calls a kernel should not pay for LLVM.
    import llvmlite.binding as llvm

    directory = cache.cache_directory()
    try:
        cache.prepare_directory(directory)
    except cache.CacheRefused as refusal:
        _LOG.warning("kernels not cached reason=%s", refusal)
        image, compiled, path = build_object(), True, None
    else:
        path = directory / f"kernels-{source_fingerprint()}-{machine_fingerprint(llvm)}.o"
        image, compiled = cached_or_built(path)
    owners, addresses = _link(llvm, image)
    seconds = time.perf_counter() - started
    report = LoadReport(seconds, compiled, None if path is None else str(path))
    return Library(_prototypes(addresses), report, owners)


def cached_or_built(path: pathlib.Path) -> tuple[bytes, bool]:
    image = cache.read_object(path)
    if image is not None:
        return image, False
    with cache.one_builder(path.parent):
        image = cache.read_object(path)
        if image is not None:
            return image, False
        image = build_object()
        try:
            cache.write_object(path, image)
        except OSError as error:
            _LOG.warning("kernels not cached path=%s reason=%s", path, error)
        return image, True


def source_fingerprint() -> str:
    """What the machine code says, whatever the machine: our sources, and who compiles them."""
    digest = hashlib.sha256()
    for package_name in ("numba", "llvmlite"):
        digest.update(importlib.metadata.version(package_name).encode() + b"\0")
    package = importlib.resources.files(__package__)
    sources = [package / "abi.py", package / "build.py"]
    sources += sorted(
        (entry for entry in (package / "source").iterdir() if entry.name.endswith(".py")),
        key=lambda entry: entry.name,
    )
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:24]


def machine_fingerprint(llvm: Any) -> str:  # noqa: ANN401 - llvmlite has no types
    """What the machine code is for: another processor gets a file of its own."""
    digest = hashlib.sha256()
    for fact in (
        llvm.get_process_triple(),
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
    ):
        digest.update(fact.encode() + b"\0")
    return digest.hexdigest()[:8]


def build_object() -> bytes:
    """Compiles in a child process; KernelBuildFailed carries what the child said last."""
    started = time.perf_counter()
    _LOG.info("kernels are being compiled, once for this machine: some seconds")
    with tempfile.TemporaryDirectory(prefix="ledgerstone-kernels-") as directory:
        target = pathlib.Path(directory) / "kernels.o"
        command = [sys.executable, "-P", "-m", "ledgerstone.records.kernels.build", str(target)]
        try:
            child = subprocess.run(
                command,
                env=build_environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_BUILD_TIMEOUT_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise KernelBuildFailed(f"kernel build did not run: {error}") from error
        if child.returncode != 0:
            tail = child.stderr.decode(errors="replace")[-_STDERR_TAIL:].strip()
            raise KernelBuildFailed(f"kernel build ended with {child.returncode}: {tail}")
        image = target.read_bytes()
    _LOG.info(
        "kernels compiled seconds=%.1f size_bytes=%d", time.perf_counter() - started, len(image)
    )
    return image


def build_environment() -> dict[str, str]:
    """Our own environment and import path, without any setting that would change the code."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")
    }
    environment["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
    return environment


def _link(llvm: Any, image: bytes) -> tuple[tuple[object, ...], dict[str, int]]:  # noqa: ANN401
    """Links the object into this process; returns what keeps it there, and the entry points."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    symbols = [SYMBOL_PREFIX + spec.symbol for spec in KERNELS]
    builder = llvm.JITLibraryBuilder().add_object_img(image).add_current_process()
    for symbol in symbols:
        builder.export_symbol(symbol)
    compiler = llvm.create_lljit_compiler()
    try:
        tracker = builder.link(compiler, "ledgerstone_kernels")
    except RuntimeError as error:
        raise KernelBuildFailed(f"kernels of {len(image)} bytes do not link: {error}") from error
    return (tracker, compiler), {symbol: tracker[symbol] for symbol in symbols}


def _prototypes(addresses: Mapping[str, int]) -> dict[str, Kernel]:
    kernels: dict[str, Kernel] = {}
    for spec in KERNELS:
        kinds = [
            ctypes.c_void_p
            if argument.endswith("*")
            else ctypes.c_uint64
            if argument == "u64"
            else ctypes.c_int64
            for argument in spec.arguments
        ]
        prototype = ctypes.CFUNCTYPE(ctypes.c_int64, *kinds)
        kernels[spec.symbol] = prototype(addresses[SYMBOL_PREFIX + spec.symbol])
    return kernels


_LOADER: Final = Loader(load_library)
