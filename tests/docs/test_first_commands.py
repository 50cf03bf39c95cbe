"""Runs the first commands of README and docs/start as written, in a checkout.

A shell runs each block that starts a broker in its own directory. Only the ports differ, because
this machine may already have a broker.
"""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.documents import ROOT
from tests.kit.broker import START_TIMEOUT_S, STOP_TIMEOUT_S, wait_until

_FENCED = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:^|\n\n)((?: {4}[^\n]*(?:\n+(?= {4})|\n|$))+)")
_PAGES = ("README.md", "docs/index.md", "docs/start/privacy.md", "docs/start/tester.md")
_COMMAND_S = 180


def blocks(page: str) -> list[str]:
    """Those with a broker in them, as lines to type."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = [*_FENCED.findall(text), *_INDENTED.findall(_FENCED.sub("\n\n", text))]
    cleaned = ["\n".join(line.strip() for line in each.splitlines()) for each in found]
    return [each for each in cleaned if re.search(r"^ledgerstone up ", each, re.MULTILINE)]


def stories() -> Iterator[tuple[str, str]]:
    for page in _PAGES:
        found = blocks(page)
        if page == "docs/start/tester.md":
            # Its ready file is shown between the start and what follows.
            found = [_rest_of_tester(found)]
        for number, text in enumerate(found):
            if "pipeline" not in text:  # Spark: tests/pipeline has the same file
                yield f"{page}:{number}", text


def _rest_of_tester(found: list[str]) -> str:
    (start,) = found
    text = (ROOT / "docs/start/tester.md").read_text(encoding="utf-8")
    (rest,) = (each for each in _INDENTED.findall(text) if "clock advance" in each)
    return start + "\n" + "\n".join(line.strip() for line in rest.splitlines())


STORIES = dict(stories())


class Shell:
    """A directory with the files of a checkout, and free ports."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name in ("ops", "examples"):
            (directory / name).symlink_to(ROOT / name)
        self._ports = {"9092": _free_port(), "9093": _free_port()}
        self._environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "LEDGERSTONE_BOOTSTRAP": f"127.0.0.1:{self._ports['9092']}",
        }
        self.broker: subprocess.Popen[bytes] | None = None
        self._exports: list[str] = []

    def _ported(self, line: str) -> str:
        for port, other in self._ports.items():
            line = line.replace(f"127.0.0.1:{port}", f"127.0.0.1:{other}")
        return line

    def start(self, line: str) -> None:
        command = self._ported(line.partition("#")[0].strip())
        # Where the line leaves it to a default or to a file.
        for option, port in (("--listen", "9092"), ("--http", "9093")):
            if option not in command:
                command += f" {option} 127.0.0.1:{self._ports[port]}"
        with (self.directory / "up.log").open("wb") as log:
            self.broker = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=self.directory, env=self._environment, stdout=log, stderr=log,
            )  # fmt: skip
        wait_until(self._is_ready, f"{command} is ready", START_TIMEOUT_S)

    def _is_ready(self) -> bool:
        text = (self.directory / "up.log").read_text(encoding="utf-8")
        assert self.broker is not None
        assert self.broker.poll() is None, text
        return "ledgerstone ready" in text

    def type(self, line: str) -> str:
        if line.startswith("export "):
            self._exports.append(line)
            return ""
        script = "\n".join([*self._exports, self._ported(line)])
        done = subprocess.run(
            ["bash", "-c", script], cwd=self.directory, env=self._environment,
            capture_output=True, text=True, timeout=_COMMAND_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    def stop(self) -> None:
        if self.broker is not None:
            self.broker.send_signal(signal.SIGTERM)
            self.broker.wait(STOP_TIMEOUT_S)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    shell.stop()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


def test_there_are_blocks_to_type() -> None:
    assert len(STORIES) >= 6, list(STORIES)


@pytest.mark.slow
@pytest.mark.parametrize("name", STORIES)
def test_block_works_as_it_is_written(shell: Shell, name: str) -> None:
    said = ""
    for line in STORIES[name].splitlines():
        if line.startswith("ledgerstone up "):
            shell.start(line)
        elif line and not line.startswith("#"):
            said = shell.type(line)
    if "tester" in name:
        assert "no record" in said


def test_nobody_is_told_to_install_what_the_index_does_not_have() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    for page in pages:
        if page.parent.name != "adr":
            text = page.read_text(encoding="utf-8")
            assert not re.search(r"pip install (--upgrade )?'?ledgerstone", text), page
