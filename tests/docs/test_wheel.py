"""The wheel holds what it should and nothing else, and a broker runs from it in an empty venv."""

import json
import os
import platform
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.documents import ROOT
from tests.kit.broker import STOP_TIMEOUT_S, wait_until
from tests.kit.linker import require_linker

COMPILED = "ledgerstone/records/kernels/compiled"

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the wheel of another family carries other libraries"
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_linker()
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index"]
    command += ["--no-build-isolation", "--wheel-dir", str(target), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = target.glob("ledgerstone-*.whl")
    return found


@pytest.fixture(scope="module")
def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


@pytest.fixture(scope="module")
def scripts(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the programs of a venv are that holds the wheel alone. It borrows the dependencies of
    this one; what is installed here for editing stays invisible, as it hangs on a file that only
    a venv's own site-packages is searched for."""
    home = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    python = home / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    subprocess.run([*command, "--no-deps", "--no-compile", "--no-index", str(wheel)], check=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    borrowed = home / "lib" / version / "site-packages" / "borrowed.pth"
    borrowed.write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return python.parent


@pytest.fixture
def bootstrap(scripts: Path, tmp_path: Path) -> Iterator[str]:
    ready = tmp_path / "ready.json"
    command = [str(scripts / "ledgerstone"), "up", "--data", str(tmp_path / "data")]
    command += ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--ready-file", str(ready)]
    log_file = tmp_path / "broker.log"
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=tmp_path, env=_environment(tmp_path)
        )
    try:
        wait_until(lambda: ready.exists() or process.poll() is not None, "the broker is ready", 60)
        assert ready.exists(), log_file.read_text()
        yield str(json.loads(ready.read_text())["bootstrap"])
    finally:
        process.terminate()
        assert process.wait(STOP_TIMEOUT_S) == 0, log_file.read_text()


def _environment(home: Path) -> dict[str, str]:
    """Without what would lead Python to the sources, or be taken for settings; and without a
    compiler or anything that was compiled before."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("KAFKA_", "LEDGERSTONE_", "PYTHONPATH", "VIRTUAL_ENV", "XDG_"))
    }
    return {**kept, "HOME": str(home), "PATH": str(home)}


def run(scripts: Path, name: str, *words: str, directory: Path) -> str:
    done = subprocess.run(
        [str(scripts / name), *words],
        capture_output=True,
        text=True,
        cwd=directory,
        env=_environment(directory),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_wheel_holds_the_two_packages_and_nothing_else(names: list[str]) -> None:
    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}

    assert tops == {"ledgerstone", "pyspark_ledgerstone"}
    assert [name for name in names if "/tests/" in name or "__pycache__" in name] == []


def test_wheel_holds_every_file_of_the_package_that_is_no_document(names: list[str]) -> None:
    packages = [ROOT / "src" / "ledgerstone", ROOT / "src" / "pyspark_ledgerstone"]
    wanted = [
        path.relative_to(ROOT / "src").as_posix()
        for package in packages
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".md"
    ]

    assert sorted(set(wanted) - set(names)) == []
    added = {name for name in set(names) - set(wanted) if ".dist-info/" not in name}
    assert added == {f"{COMPILED}/kernels-x86-64-{level}.so" for level in ("v2", "v3")}
    assert "ledgerstone/py.typed" in names


def test_wheel_carries_templates_assets_and_the_licence(names: list[str]) -> None:
    web = [name for name in names if name.startswith("ledgerstone/web/")]

    assert any(name.endswith(".html") for name in web)
    assert any(name.startswith("ledgerstone/web/assets/") for name in web)
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_wheel_is_for_one_family_of_processors_and_every_python(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl")


def test_kernels_are_the_ones_the_wheel_carries(scripts: Path, tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from ledgerstone.records.kernels import load\n"
        "report = load()\n"
        "print(report.compiled, 'llvmlite' in sys.modules, report.path)\n"
    )

    compiled, has_llvm, path = run(scripts, "python", "-c", program, directory=tmp_path).split()

    assert (compiled, has_llvm) == ("False", "False")
    assert Path(path).is_relative_to(scripts.parent)
    assert list(tmp_path.iterdir()) == []


def test_installed_program_is_the_wheels_own(scripts: Path, tmp_path: Path) -> None:
    where = run(
        scripts, "python", "-c", "import ledgerstone; print(ledgerstone.__file__)",
        directory=tmp_path,
    )  # fmt: skip

    assert Path(where.strip()).is_relative_to(scripts.parent)


def test_broker_of_the_wheel_takes_a_record_and_gives_it_back(
    scripts: Path, bootstrap: str, tmp_path: Path
) -> None:
    at = ("--bootstrap", bootstrap)

    run(scripts, "ledgerstone", "topics", "create", "t", *at, directory=tmp_path)
    run(scripts, "ledgerstone", "produce", "t", "-k", "a", "-v", "1", *at, directory=tmp_path)
    seen = run(
        scripts, "ledgerstone", "consume", "t", "-b", "--until-end", "--json", *at,
        directory=tmp_path,
    )  # fmt: skip

    (record,) = map(json.loads, seen.splitlines())
    assert (record["key"], record["value"]) == ("a", "1")
