"""Loading the kernels: one compile for a machine, and no code from files others could write."""

import ctypes
import logging
import os
import pathlib
import stat
import subprocess
import sys
import threading

import pytest

from ledgerstone.errors import KernelBuildFailed
from ledgerstone.records.kernels import FACT_FIELDS, LoadReport, cache, load, loader

IMAGE = b"machine code" * 100


@pytest.fixture
def directory(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """An empty cache, and a compiler that gives IMAGE at once."""
    path = tmp_path / "cache"
    monkeypatch.setenv("LEDGERSTONE_CACHE_DIR", str(path))
    monkeypatch.setattr(loader, "build_object", lambda: IMAGE)
    cache.prepare_directory(path)
    return path


def test_compiled_object_is_found_by_the_next_process(directory: pathlib.Path) -> None:
    path = directory / "kernels.o"

    first = loader.cached_or_built(path)
    second = loader.cached_or_built(path)

    assert first == (IMAGE, True)
    assert second == (IMAGE, False)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert sorted(entry.name for entry in directory.iterdir()) == ["build.lock", "kernels.o"]


@pytest.mark.parametrize("kept", [0, 7, 8, 20, 47, 100, -1])
def test_cut_off_object_is_compiled_again(directory: pathlib.Path, kept: int) -> None:
    path = directory / "kernels.o"
    cache.write_object(path, IMAGE)
    path.write_bytes(path.read_bytes()[:kept])

    assert loader.cached_or_built(path) == (IMAGE, True)
    assert cache.read_object(path) == IMAGE


@pytest.mark.parametrize("position", [0, 8, 15, 16, 500, -33, -1])
def test_damaged_object_is_compiled_again(directory: pathlib.Path, position: int) -> None:
    path = directory / "kernels.o"
    cache.write_object(path, IMAGE)
    damaged = bytearray(path.read_bytes())
    damaged[position] ^= 1
    path.write_bytes(damaged)

    assert loader.cached_or_built(path) == (IMAGE, True)
    assert cache.read_object(path) == IMAGE


def test_object_that_others_may_write_is_not_run(directory: pathlib.Path) -> None:
    path = directory / "kernels.o"
    cache.write_object(path, b"somebody's code")
    path.chmod(0o622)

    assert loader.cached_or_built(path) == (IMAGE, True)
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


def test_unusable_cache_still_gives_kernels(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = load().path
    image = None if path is None else cache.read_object(pathlib.Path(path))
    if image is None:
        pytest.skip("these kernels were loaded without a cache")
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("LEDGERSTONE_CACHE_DIR", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(loader, "build_object", lambda: image)

    library = loader.load_library()

    assert library.report.compiled
    assert library.report.path is None
    assert "kernels not cached" in caplog.text
    facts = (ctypes.c_int64 * FACT_FIELDS)()
    assert library.kernels["inspect_records"](b"", 0, -1, facts) == 8


def test_failed_build_says_what_the_child_said(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\necho 'no such type: CPointer' >&2\nexit 3\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    caplog.set_level(logging.INFO)

    with pytest.raises(KernelBuildFailed, match="ended with 3: no such type: CPointer"):
        loader.build_object()

    assert "kernels are being compiled" in caplog.text


def test_missing_interpreter_is_a_failed_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")

    with pytest.raises(KernelBuildFailed, match="did not run"):
        loader.build_object()


def test_build_ignores_the_settings_of_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    monkeypatch.setattr(sys, "path", ["", "/some/where", "/else/where"])

    environment = loader.build_environment()

    assert [name for name in environment if name.startswith("NUMBA_")] == []
    assert environment["PYTHONPATH"] == "/some/where:/else/where"


def test_threads_that_ask_at_once_share_one_load() -> None:
    entered = threading.Barrier(4)
    loads: list[int] = []

    def load_library() -> loader.Library:
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

    def load_library() -> loader.Library:
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

    first = loader.load_library().report
    second = loader.load_library().report

    assert (first.compiled, second.compiled) == (True, False)
    assert first.path == second.path
