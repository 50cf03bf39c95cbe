"""Loading the kernels: one compile for a machine, and no code from files others could write."""

import ctypes
import importlib.metadata
import os
import pathlib
import stat
import subprocess
import sys
import threading
import zipfile
from importlib.resources.abc import Traversable

import pytest

from ledgerstone.errors import KernelBuildFailed
from ledgerstone.records.kernels import FACT_FIELDS, LoadReport, cache, load, loader
from ledgerstone.records.kernels.library import open_library
from tests.kit.linker import require_linker

IMAGE = b"machine code" * 100
BUILT = loader.Built(IMAGE, ".so")
STEM = "kernels-0123-x86-64-v3"


@pytest.fixture
def directory(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """An empty cache."""
    path = tmp_path / "cache"
    monkeypatch.setenv("LEDGERSTONE_CACHE_DIR", str(path))
    cache.prepare_directory(path)
    return path


def cached_or_built(directory: pathlib.Path) -> tuple[loader.Built, bool]:
    """With a compiler that gives BUILT at once."""
    return loader.cached_or_built(directory / STEM, lambda: BUILT)


def test_compiled_library_is_found_by_the_next_process(directory: pathlib.Path) -> None:
    first = cached_or_built(directory)
    second = cached_or_built(directory)

    assert first == (BUILT, True)
    assert second == (BUILT, False)
    path = directory / f"{STEM}.so"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert sorted(entry.name for entry in directory.iterdir()) == ["build.lock", path.name]


def test_object_that_no_linker_was_there_for_is_found_as_well(directory: pathlib.Path) -> None:
    built = loader.Built(IMAGE, ".o")
    loader.cached_or_built(directory / STEM, lambda: built)

    assert cached_or_built(directory) == (built, False)


@pytest.mark.parametrize("kept", [0, 7, 8, 20, 47, 100, -1])
def test_cut_off_library_is_compiled_again(directory: pathlib.Path, kept: int) -> None:
    path = directory / f"{STEM}.so"
    cache.write_image(path, IMAGE)
    path.write_bytes(path.read_bytes()[:kept])

    assert cached_or_built(directory) == (BUILT, True)
    assert cache.read_image(path) == IMAGE


@pytest.mark.parametrize("position", [0, 8, 500, -48, -47, -40, -33, -32, -1])
def test_damaged_library_is_compiled_again(directory: pathlib.Path, position: int) -> None:
    path = directory / f"{STEM}.so"
    cache.write_image(path, IMAGE)
    damaged = bytearray(path.read_bytes())
    damaged[position] ^= 1
    path.write_bytes(damaged)

    assert cached_or_built(directory) == (BUILT, True)
    assert cache.read_image(path) == IMAGE


def test_library_that_others_may_write_is_not_run(directory: pathlib.Path) -> None:
    path = directory / f"{STEM}.so"
    cache.write_image(path, b"somebody's code")
    path.chmod(0o622)

    assert cached_or_built(directory) == (BUILT, True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_directory_that_others_may_write_is_refused(directory: pathlib.Path, mode: int) -> None:
    directory.chmod(mode)

    with pytest.raises(cache.CacheRefused, match="others may write"):
        cache.prepare_directory(directory)


def test_directory_of_another_user_is_refused(
    directory: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)

    with pytest.raises(cache.CacheRefused, match=f"belongs to user {owner}"):
        cache.prepare_directory(directory)


def test_directory_that_cannot_be_made_is_refused(tmp_path: pathlib.Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_bytes(b"")

    with pytest.raises(cache.CacheRefused, match="cannot be made"):
        cache.prepare_directory(in_the_way / "cache")


def test_environment_names_the_cache_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    for name in ("LEDGERSTONE_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    at_home = cache.cache_directory()
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/xdg")
    shared = cache.cache_directory()
    monkeypatch.setenv("LEDGERSTONE_CACHE_DIR", "/var/ours")
    explicit = cache.cache_directory()

    assert str(at_home) == "/home/somebody/.cache/ledgerstone"
    assert str(shared) == "/var/xdg/ledgerstone"
    assert str(explicit) == "/var/ours"


def image_of_these_kernels() -> bytes:
    require_linker()
    path = load().path
    assert path is not None
    image = cache.read_image(pathlib.Path(path))
    return pathlib.Path(path).read_bytes() if image is None else image


def calls(library: loader.Library) -> int:
    facts = (ctypes.c_int64 * FACT_FIELDS)()
    return library.kernels["inspect_records"](b"", 0, -1, facts)


def test_unusable_cache_still_gives_kernels(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    image = image_of_these_kernels()
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("LEDGERSTONE_CACHE_DIR", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(loader, "build", lambda target, tell: loader.Built(image, ".so"))

    library = loader.load_library(print)

    assert library.report.compiled
    assert library.report.path is None
    assert "kernels not cached" in caplog.text
    assert calls(library) == 8


def package_of(monkeypatch: pytest.MonkeyPatch, root: Traversable) -> None:
    monkeypatch.setattr(loader, "_package", lambda: root)


def test_what_a_wheel_carries_is_loaded_without_a_cache_or_a_compiler(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image, target = image_of_these_kernels(), loader.this_target()
    carried = tmp_path / loader.PACKAGED / f"kernels-{target.name}.so"
    carried.parent.mkdir()
    carried.write_bytes(image)
    package_of(monkeypatch, tmp_path)
    monkeypatch.setenv("LEDGERSTONE_CACHE_DIR", str(tmp_path / "cache"))

    library = loader.load_library(print)

    assert library.report._replace(seconds=0) == LoadReport(0, False, str(carried))
    assert calls(library) == 8
    assert not (tmp_path / "cache").exists()


def test_what_lies_in_an_archive_is_loaded_from_the_cache(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image, name = image_of_these_kernels(), f"kernels-{loader.this_target().name}.so"
    with zipfile.ZipFile(tmp_path / "package.zip", "w") as archive:
        archive.writestr(f"{loader.PACKAGED}/{name}", image)
    monkeypatch.setenv("LEDGERSTONE_CACHE_DIR", str(tmp_path / "cache"))

    for _ in range(2):
        with zipfile.ZipFile(tmp_path / "package.zip") as archive:
            package_of(monkeypatch, zipfile.Path(archive))
            library = loader.load_library(print)

        assert calls(library) == 8
        (kept,) = (tmp_path / "cache").iterdir()
        assert library.report._replace(seconds=0) == LoadReport(0, False, str(kept))


def test_installation_without_kernels_and_compiler_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def version(package_name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(package_name)

    monkeypatch.setattr(loader, "_named_version", lambda package_name: None)
    monkeypatch.setattr(importlib.metadata, "version", version)

    with pytest.raises(KernelBuildFailed, match=r"pip install 'ledgerstone\[kernels\]'"):
        loader.source_fingerprint()


def test_file_that_is_no_library_is_named(tmp_path: pathlib.Path) -> None:
    (tmp_path / "kernels.so").write_bytes(IMAGE)

    with pytest.raises(KernelBuildFailed, match=r"kernels\.so is not the kernels' library"):
        open_library(tmp_path / "kernels.so")


def test_failed_build_says_what_the_child_said(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\necho 'no such type: CPointer' >&2\nexit 3\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    told: list[str] = []

    with pytest.raises(KernelBuildFailed, match="ended with 3: no such type: CPointer"):
        loader.build(loader.this_target(), told.append)

    (line,) = told
    assert "kernels are being compiled" in line


def test_missing_interpreter_is_a_failed_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")

    with pytest.raises(KernelBuildFailed, match="did not run"):
        loader.build(loader.this_target(), print)


def test_build_ignores_the_settings_of_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    monkeypatch.setattr(sys, "path", ["", "/some/where", "/else/where"])

    environment = loader.build_environment()

    assert [name for name in environment if name.startswith("NUMBA_")] == []
    assert environment["PYTHONPATH"] == "/some/where:/else/where"


def test_kernels_are_built_without_what_the_broker_depends_on() -> None:
    """Set-up and the build of a wheel have numba, llvmlite and numpy, and nothing else."""
    program = (
        "import sys\n"
        "for name in ('crc32c', 'cramjam', 'lz4', 'zstandard', 'isal', 'cryptography', 'rich'):\n"
        "    sys.modules[name] = None\n"
        "import ledgerstone.records.kernels.build\n"
        "import ledgerstone.records.kernels.lowering\n"
        "import ledgerstone.records.kernels.codegen\n"
        "from ledgerstone.records.kernels import load\n"
        "load()\n"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)

    assert done.returncode == 0, done.stderr.decode()


def test_threads_that_ask_at_once_share_one_load() -> None:
    entered = threading.Barrier(4)
    loads: list[int] = []

    def load_library(tell: loader.Tell) -> loader.Library:
        loads.append(1)
        return loader.Library({}, LoadReport(0.0, False, None), ())

    shared = loader.Loader(load_library)
    libraries: list[loader.Library] = []

    def ask() -> None:
        entered.wait()
        libraries.append(shared.library())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert loads == [1]
    assert len(libraries) == 4


def test_failed_load_is_tried_again() -> None:
    answers = iter([KernelBuildFailed("no compiler"), None])

    def load_library(tell: loader.Tell) -> loader.Library:
        answer = next(answers)
        if answer is not None:
            raise answer
        return loader.Library({}, LoadReport(0.0, False, None), ())

    shared = loader.Loader(load_library)

    with pytest.raises(KernelBuildFailed):
        shared.library()
    assert shared.library().kernels == {}


def test_forked_child_uses_the_kernels_of_its_parent() -> None:
    program = (
        "import os\n"
        "from ledgerstone.records.kernels import inspect_records\n"
        "inspect_records(b'', record_count=0)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(inspect_records(b'x', record_count=0).status)\n"
        "os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )

    parent = subprocess.run([sys.executable, "-c", program], check=False)

    assert parent.returncode == 7


def test_fork_while_another_thread_loads_does_not_block_the_child() -> None:
    program = (
        "import os\n"
        "from ledgerstone.records.kernels import loader\n"
        "loader._LOADER._lock.acquire()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    loader.load()\n"
        "    os._exit(0)\n"
        "os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )

    parent = subprocess.run([sys.executable, "-c", program], check=False, timeout=120)

    assert parent.returncode == 0


@pytest.mark.slow
def test_real_build_works_although_numba_is_switched_off(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    monkeypatch.setenv("LEDGERSTONE_CACHE_DIR", str(tmp_path / "cache"))

    first = loader.load_library(print).report
    second = loader.load_library(print).report

    assert (first.compiled, second.compiled) == (True, False)
    assert first.path == second.path


@pytest.mark.slow
def test_same_sources_give_the_same_bytes(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = loader.this_target()
    made = loader.build(target, print)
    # Another place, another order of sets, another moment.
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(
        loader,
        "build_environment",
        lambda build=loader.build_environment: {**build(), "PYTHONHASHSEED": "7"},
    )

    assert loader.build(target, print) == made


@pytest.mark.slow
def test_machine_without_a_linker_gets_kernels_all_the_same(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEDGERSTONE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))

    library = loader.load_library(print)

    assert str(library.report.path).endswith(".o")
    assert calls(library) == 8


def test_version_of_a_package_is_the_one_that_its_metadata_say() -> None:
    for name in ("numba", "llvmlite"):
        assert loader._named_version(name) == importlib.metadata.version(name)


def test_package_without_a_directory_of_metadata_has_no_version_by_name() -> None:
    assert loader._named_version("no-such-package") is None
