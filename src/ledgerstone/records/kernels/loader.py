"""Finds the compiled kernels, or has them compiled, and loads them. Shell.

The one door between records/ and the outside world. An installed package carries its kernels; a
checkout has them compiled once, in a child process (see build.py), and keeps them in the user's
cache. ctypes calls them and drops the GIL.
"""

import ctypes
import hashlib
import logging
import os
import pathlib
import platform
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from ledgerstone.errors import KernelBuildFailed
from ledgerstone.records.kernels import cache
from ledgerstone.records.kernels.abi import Kernel
from ledgerstone.records.kernels.library import Linked, link_object, open_library
from ledgerstone.records.kernels.targets import CompileTarget, arm_flags, cpu_flags, target_of

if TYPE_CHECKING:
    # What only a build or a package in an archive needs is imported there: it takes 2 MB.
    from importlib.resources.abc import Traversable

_LOG: Final = logging.getLogger(__name__)
_BUILD_TIMEOUT_SECONDS: Final = 600
_STDERR_TAIL: Final = 2000
# The first processor's lines; the rest of the file says the same of the others.
_CPUINFO_BYTES: Final = 8192
_AT_HWCAP: Final = 16
# What a build depends on beside the sources of the kernels.
_BUILDERS: Final = (
    *("abi.py", "build.py", "codegen.py", "descriptor_types.py", "descriptors.py"),
    *("lowering.py", "targets.py"),
)
# Where a wheel has its libraries, beside this module.
PACKAGED: Final = "compiled"


class PerThread(threading.local):
    """The base of memory that a thread has for its own calls: kernels run without the GIL."""


class LoadReport(NamedTuple):
    """What loading took. `path` is the file; None if no cache directory was usable."""

    seconds: float
    compiled: bool
    path: str | None


class Library(NamedTuple):
    kernels: Mapping[str, Kernel]
    report: LoadReport
    owners: tuple[object, ...]


class Built(NamedTuple):
    """What the build gave: a library, or an object where the machine has no linker."""

    image: bytes
    suffix: str  # ".so" or ".o"


# Told when somebody has to wait for a build, and when that is over.
Tell = Callable[[str], None]


class Loader:
    """One load per process, whichever thread asks first; a forked child inherits it."""

    def __init__(self, load_library: Callable[[Tell], Library]) -> None:
        self._load_library = load_library
        self._lock = threading.Lock()
        self._library: Library | None = None
        self.tell: Tell = _tell
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
                    library = self._library = self._load_library(self.tell)
        return library


def load(tell: Tell | None = None) -> LoadReport:
    """Loads the kernels now instead of at the first call; the report tells what that took.

    `tell` hears of a build, which takes some seconds; without it whoever started this process does.
    """
    if tell is not None:
        _LOADER.tell = tell
    return _LOADER.library().report


def _tell(line: str) -> None:
    """To the log where there is one, else to the terminal: somebody waits."""
    if _LOG.isEnabledFor(logging.INFO):
        _LOG.info("%s", line)
    elif sys.stderr is not None:
        sys.stderr.write(f"ledgerstone: {line}\n")
        sys.stderr.flush()


def kernel(symbol: str) -> Kernel:
    """The compiled function; it takes addresses and numbers as abi.py declares them."""
    return _LOADER.library().kernels[symbol]


def load_library(tell: Tell) -> Library:
    started = time.perf_counter()
    target = this_target()
    carried = _packaged(target)
    if carried is not None:
        (linked, path), compiled = carried, False
    else:
        linked, path, compiled = _cached_or_built(target, tell)
    seconds = time.perf_counter() - started
    report = LoadReport(seconds, compiled, None if path is None else str(path))
    return Library(linked.kernels, report, linked.owners)


def this_target() -> CompileTarget:
    return target_of(platform.machine(), _flags)


def _flags() -> frozenset[str]:
    if platform.machine() in ("aarch64", "arm64"):
        # Not by /proc/cpuinfo: a sandbox may hide it, and emulators show the host's.
        getauxval = ctypes.CDLL(None).getauxval
        getauxval.argtypes, getauxval.restype = (ctypes.c_ulong,), ctypes.c_ulong
        return arm_flags(getauxval(_AT_HWCAP))
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            return cpu_flags(file.read(_CPUINFO_BYTES))
    except OSError:
        return frozenset()


# -- what a wheel carries -------------------------------------------------------------------------


def _packaged(target: CompileTarget) -> tuple[Linked, pathlib.Path | None] | None:
    entry = _package() / PACKAGED / _file_name(target)
    if isinstance(entry, pathlib.Path):
        return (open_library(entry), entry) if entry.is_file() else None
    return _unpacked(entry) if entry.is_file() else None


def _package() -> "Traversable":
    directory = pathlib.Path(__file__).parent
    if directory.is_dir():
        return directory
    from importlib.resources import files

    return files(__package__)


def _file_name(target: CompileTarget) -> str:
    return f"kernels-{target.name}.so"


def library_to_carry() -> tuple[str, bytes] | None:
    """This process's library and its path in a package that carries it; None where no linker has
    made one. For an archive of the package that goes to machines like this one."""
    path = load().path
    if path is None or not path.endswith(".so"):
        return None
    image = cache.read_image(pathlib.Path(path)) or pathlib.Path(path).read_bytes()
    place = f"{str(__package__).replace('.', '/')}/{PACKAGED}/{_file_name(this_target())}"
    return place, image


def _unpacked(entry: "Traversable") -> tuple[Linked, pathlib.Path | None]:
    """From a package in an archive, as Spark's executors get it: no linker looks in there."""
    image = entry.read_bytes()
    name = f"kernels-{hashlib.sha256(image).hexdigest()[:24]}.so"
    directory = _usable_cache()
    if directory is None:
        return _link(Built(image, ".so")), None
    path = directory / name
    if cache.read_image(path) != image:
        cache.write_image(path, image)
    return open_library(path), path


# -- what is compiled here ------------------------------------------------------------------------


def _cached_or_built(target: CompileTarget, tell: Tell) -> tuple[Linked, pathlib.Path | None, bool]:
    name = f"kernels-{source_fingerprint()}-{target.name}"
    directory = _usable_cache()
    if directory is None:
        return _link(build(target, tell)), None, True
    found, compiled = cached_or_built(directory / name, lambda: build(target, tell))
    path = (directory / name).with_name(name + found.suffix)
    if found.suffix == ".so" and path.is_file():
        return open_library(path), path, compiled
    return _link(found), path, compiled


def library_for(target: CompileTarget, tell: Tell) -> bytes:
    """The library for some target, as a package carries it; built, or found where it was."""
    directory = _usable_cache()
    if directory is None:
        built = build(target, tell)
    else:
        stem = directory / f"kernels-{source_fingerprint()}-{target.name}"
        built, _ = cached_or_built(stem, lambda: build(target, tell))
    if built.suffix != ".so":
        raise KernelBuildFailed(f"no linker for {target.name}: install gcc, or pip install ziglang")
    return built.image


def _usable_cache() -> pathlib.Path | None:
    directory = cache.cache_directory()
    try:
        cache.prepare_directory(directory)
    except cache.CacheRefused as refusal:
        _LOG.warning("kernels not cached reason=%s", refusal)
        return None
    return directory


def cached_or_built(stem: pathlib.Path, build_now: Callable[[], Built]) -> tuple[Built, bool]:
    found = _cached(stem)
    if found is not None:
        return found, False
    with cache.one_builder(stem.parent):
        found = _cached(stem)
        if found is not None:
            return found, False
        built = build_now()
        path = stem.with_name(stem.name + built.suffix)
        try:
            cache.write_image(path, built.image)
        except OSError as error:
            _LOG.warning("kernels not cached path=%s reason=%s", path, error)
        return built, True


def _cached(stem: pathlib.Path) -> Built | None:
    for suffix in (".so", ".o"):
        image = cache.read_image(stem.with_name(stem.name + suffix))
        if image is not None:
            return Built(image, suffix)
    return None


def _link(built: Built) -> Linked:
    if built.suffix == ".o":
        return link_object(built.image)
    import tempfile

    # The file is not needed any more once it is mapped.
    with tempfile.TemporaryDirectory(prefix="ledgerstone-kernels-") as directory:
        path = pathlib.Path(directory) / "kernels.so"
        path.write_bytes(built.image)
        return open_library(path)


def source_fingerprint() -> str:
    """What the machine code says, whatever the machine: our sources, and who compiles them."""
    digest = hashlib.sha256()
    for package_name in ("numba", "llvmlite"):
        digest.update(_version(package_name).encode() + b"\0")
    package = _package()
    sources = [package / name for name in _BUILDERS]
    sources += sorted(
        (entry for entry in (package / "source").iterdir() if entry.name.endswith(".py")),
        key=lambda entry: entry.name,
    )
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:24]


def _version(package_name: str) -> str:
    found = _named_version(package_name)
    if found is not None:
        return found
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package_name)
    except PackageNotFoundError:
        raise KernelBuildFailed(
            f"this installation carries no kernels for {this_target().name}, and {package_name}, "
            "which compiles them, is missing: pip install 'ledgerstone[kernels]'"
        ) from None


def _named_version(package_name: str) -> str | None:
    """What `importlib.metadata` would say, by the names of directories alone: importing it costs
    24 ms and 1.6 MB. None where a package was installed in another way."""
    start, end = f"{package_name}-", ".dist-info"
    for place in sys.path:
        try:
            names = os.listdir(place or ".")
        except OSError:
            continue
        for name in names:
            if name.startswith(start) and name.endswith(end):
                return name[len(start) : -len(end)]
    return None


def build(target: CompileTarget, tell: Tell) -> Built:
    """Compiles in a child process; KernelBuildFailed carries what the child said last."""
    import subprocess
    import tempfile

    started = time.perf_counter()
    tell("kernels are being compiled, once for this machine: ten to thirty seconds")
    with tempfile.TemporaryDirectory(prefix="ledgerstone-kernels-") as directory:
        command = [sys.executable, "-P", "-m", "ledgerstone.records.kernels.build"]
        try:
            child = subprocess.run(
                [*command, directory, target.name],
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
        (made,) = pathlib.Path(directory).iterdir()
        built = Built(made.read_bytes(), made.suffix)
    tell(f"kernels compiled in {time.perf_counter() - started:.1f} s")
    return built


def build_environment() -> dict[str, str]:
    """Our own environment and import path, without any setting that would change the code."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")
    }
    environment["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
    # So that whatever goes through a set comes out the same way every time.
    environment["PYTHONHASHSEED"] = "0"
    return environment


_LOADER: Final = Loader(load_library)
