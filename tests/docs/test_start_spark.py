"""Runs docs/start/spark.md in a shell, line by line, from the install to the table."""

import os
import re
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.docs.documents import ROOT

PAGE = ROOT / "docs" / "start" / "spark.md"
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)
TIMEOUT_S = 800.0

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The environment of a shell with an active venv. The venv borrows the packages installed here,
    pip included, so that pip finds everything and downloads nothing."""
    home = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    borrowed = home / "lib" / version / "site-packages" / "borrowed.pth"
    borrowed.write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    pip = home / "bin" / "pip"
    pip.write_text(f'#!/bin/sh\nexec {home / "bin" / "python"} -m pip "$@"\n', encoding="utf-8")
    pip.chmod(0o755)
    ours = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return {
        **ours,
        "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
        "VIRTUAL_ENV": str(home),
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # "0" is how pip spells "no isolation"
        # A wheel without kernels, which are in the cache already. tests/docs/test_wheel.py builds
        # one that has them.
        "LEDGERSTONE_WHEEL_MACHINE": "no-kernels",
    }


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The tracked files that the install needs, as in a clone."""
    target = tmp_path / "checkout"
    target.mkdir()
    listed = subprocess.run(
        [
            "git",
            "ls-files",
            "-z",
            "src",
            "pyproject.toml",
            "hatch_build.py",
            "README.md",
            "LICENSE",
        ],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes((ROOT / name).read_bytes())
    return target


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def test_the_page_does_what_it_says(checkout: Path, environment: dict[str, str]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    for port in ("9092", "9093"):
        # Another process may use the page's port.
        text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{free_port()}")
    blocks = BLOCK.findall(text)
    script = "".join(content for kind, content in blocks if kind == "sh")
    expected = [line for kind, content in blocks if kind == "text" for line in content.splitlines()]

    done = subprocess.run(
        ["bash", "-e", "-u", "-c", f"trap 'kill $! 2>/dev/null' EXIT\n{script}"],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    printed = iter(done.stdout.splitlines())
    assert [line for line in expected if line not in printed] == [], done.stdout
    assert expected
