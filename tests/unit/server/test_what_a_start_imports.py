"""A single node that has just started has imported nothing that only others, or later, need; and
what a broker is made of imports nothing but what `requirements/base.txt` pins."""

import ast
import importlib.metadata
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

import ledgerstone
from tests.kit.linker import require_linker
from tests.kit.locks import pinned_names

MODULE = re.compile(r"^import time:.*\|\s+([\w.]+)$", re.MULTILINE)
# What clusters, pages, requests and the other planes need, and packages that are slow to import.
LATER = (
    "argparse",
    "cramjam",
    "crc32c",
    "cryptography",
    "email",
    "http",
    "importlib.metadata",
    "importlib.resources",
    "isal",
    "jinja2",
    "ledgerstone.client",
    "ledgerstone.cluster",
    "ledgerstone.pipeline",
    "ledgerstone.erasure.erasure",
    "ledgerstone.erasure.scan_plan",
    "ledgerstone.raft.wire.translation",
    "ledgerstone.server.auditing",
    "ledgerstone.server.authorising",
    "ledgerstone.server.broker_life.agent",
    "ledgerstone.server.cluster_join",
    "ledgerstone.server.cluster_start",
    "ledgerstone.server.cluster_stop",
    "ledgerstone.server.erasing.agent",
    "ledgerstone.server.erasing.journal",
    "ledgerstone.server.erasing.view",
    "ledgerstone.server.handlers",
    "ledgerstone.security.http_credentials",
    "ledgerstone.security.passwords",
    "ledgerstone.security.web_sessions",
    "ledgerstone.server.http.api",
    "ledgerstone.server.http.doorkeeper",
    "ledgerstone.server.http.gate",
    "ledgerstone.server.http.monitor",
    "ledgerstone.server.http.route_rights",
    "ledgerstone.server.http.tls_accepting",
    "ledgerstone.server.replicating.agent",
    "ledgerstone.server.tls_contexts",
    "ledgerstone.server.tls_transport",
    "ledgerstone.sim",
    "ledgerstone.spark",
    "lz4",
    "numba",
    "numpy",
    "pyarrow",
    "random",
    "rich",
    "tempfile",
    "zipfile",
    "zstandard",
)
# Of `cluster`, a page keeps what nodes say of their lag.
ALLOWED = {"ledgerstone.cluster", "ledgerstone.cluster.lag_reports"}


def imported_by_a_start(directory: Path) -> set[str]:
    command = [sys.executable, "-X", "importtime", "-m", "ledgerstone", "up", "--data"]
    command += [str(directory), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        is_ready = process.stdout.readline().startswith("ledgerstone ready")
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert is_ready, said
    return set(MODULE.findall(said))


def is_later(module: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in LATER)


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    require_linker()  # else LLVM is imported to load the kernels
    return imported_by_a_start(tmp_path_factory.mktemp("start"))


def test_start_of_a_single_node_imports_nothing_that_it_may_never_need(imported: set[str]) -> None:
    early = sorted(each for each in imported - ALLOWED if is_later(each))

    assert "ledgerstone.server.broker" in imported
    assert early == []


# -- other people's code ---------------------------------------------------------------------------

# Planes of their own, for which there are extras; the broker imports none of them.
IMPORT = re.compile(r"^\s*(?:import|from)\s+(\w+)", re.MULTILINE)
OTHER_PLANES = ("demo", "pipeline", "sim", "spark", "testing")
OF_OTHER_PLANES = (
    "cli/pipeline.py",
    "cli/pipeline_serve.py",
    "cli/spark_session.py",
    "records/arrow.py",
)
# Only where kernels are compiled, in a child process: the extra `kernels`.
COMPILING = {"llvmlite", "numba"}


@cache
def allowed() -> frozenset[str]:
    """The standard library, ourselves, and the modules of packages that a deployment installs."""
    pinned = pinned_names("base.txt")
    theirs = {
        module
        for module, packages in importlib.metadata.packages_distributions().items()
        if any(re.sub(r"[-_.]+", "-", each).lower() in pinned for each in packages)
    }
    return frozenset((*sys.stdlib_module_names, "ledgerstone", *theirs))


def imports_of(path: Path, known: frozenset[str]) -> Iterator[str]:
    """Also those that stand in functions, but not what only a type checker reads."""
    text = path.read_text(encoding="utf-8")
    # Most files have nothing but what is known on any line; parsing those would take seconds.
    if known.issuperset(IMPORT.findall(text)):
        return
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body.clear()
        elif isinstance(node, ast.Import):
            yield from (each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module.partition(".")[0]


def test_started_broker_has_no_code_of_a_package_that_is_not_pinned(imported: set[str]) -> None:
    # Of an editable install: the finder, and what .pth files of the environment import.
    of_the_environment = re.compile(r"_|sitecustomize|usercustomize")
    tops = {each.partition(".")[0] for each in imported}

    foreign = sorted(
        each
        for each in tops - allowed()
        # The list also has what was looked for and is not there.
        if not of_the_environment.match(each) and find_spec(each) is not None
    )

    assert foreign == []


def test_no_file_of_the_broker_imports_a_package_that_is_not_pinned() -> None:
    root = Path(ledgerstone.__file__).parent
    files = [
        path
        for path in root.rglob("*.py")
        if path.relative_to(root).parts[0] not in OTHER_PLANES
        and path.relative_to(root).as_posix() not in OF_OTHER_PLANES
    ]
    known = allowed() | COMPILING

    foreign = {
        f"{path.relative_to(root)}: {name}"
        for path in files
        for name in imports_of(path, known)
        if name not in known
    }

    assert sorted(foreign) == []
    assert len(files) > 500


@pytest.mark.parametrize("name", sorted(COMPILING | {"pyspark", "pyarrow", "yaml", "pytest"}))
def test_package_of_an_extra_is_not_allowed(name: str) -> None:
    assert name not in allowed()
