"""Runs pipelines on clusters instead of `local[*]`, and ships the package to them. Shell.

PySpark's wheel has no scripts that start a master or workers, but it has their classes. Everything
here comes from the installed packages; docs/shapes.md shows each kind of cluster.
"""

import os
import re
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import pyspark

import ledgerstone
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.records.kernels import library_to_carry
from ledgerstone.spark.java import find_java
from ledgerstone.spark.session_builder import home_on_this_machine

LOOPBACK: Final = "127.0.0.1"
Look = Callable[[str], str | None]

_PACKAGES: Final = ("ledgerstone", "pyspark_ledgerstone")
_MASTER: Final = "org.apache.spark.deploy.master.Master"
_WORKER: Final = "org.apache.spark.deploy.worker.Worker"
_MASTER_URL: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED: Final = "Registering worker"
_ANYWHERE: Final = ("--host", LOOPBACK, "--port", "0", "--webui-port", "0")
_START_TIMEOUT_S: Final = 180.0
_STOP_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 0.1


def package_zip(path: str | Path) -> Path:
    """Writes our packages in the form that `--py-files` and `spark.submit.pyFiles` accept.

    Their dependencies, above all pyarrow, have to be installed on the nodes. The zip includes the
    kernels compiled here, so that no node compiles."""
    target = Path(path)
    source = Path(ledgerstone.__file__).parent.parent
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in _PACKAGES:
            for file in sorted((source / package).rglob("*")):
                if file.is_file() and file.suffix != ".md" and "__pycache__" not in file.parts:
                    archive.write(file, file.relative_to(source))
        carried = library_to_carry()
        if carried is not None and carried[0] not in archive.namelist():
            archive.writestr(*carried)
    return target


def spark_environment(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of Spark's processes: their Java and Python, and loopback addresses."""
    given = os.environ if environment is None else environment
    return {
        **given,
        "JAVA_HOME": str(find_java(given).path),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_PYTHON": given.get("PYSPARK_PYTHON", sys.executable),
        "PYSPARK_DRIVER_PYTHON": given.get("PYSPARK_DRIVER_PYTHON", sys.executable),
        "SPARK_LOCAL_IP": given.get("SPARK_LOCAL_IP", LOOPBACK),
    }


def submit_command(
    script: str, arguments: Sequence[str], *, master: str, package: str, conf: Mapping[str, str]
) -> list[str]:
    """`spark-submit` with the zipped package; run it with `spark_environment()`."""
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    settings = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    return [submit, "--master", master, "--py-files", package, *settings, script, *arguments]


@dataclass(slots=True, kw_only=True)
class StandaloneCluster:
    """A master and workers on this machine; logs and their scratch files go to `directory`.

    For tests and experiments. A real cluster is started the same way, with a worker on each
    machine."""

    directory: Path
    workers: int = 2
    cores_of_a_worker: int = 1
    memory_of_a_worker: str = "1g"
    url: str = ""
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _started: int = 0  # workers, those that died included

    def __enter__(self) -> "StandaloneCluster":
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        # The log of an earlier cluster names a master that is gone.
        self._log.unlink(missing_ok=True)
        self._launch("master", [_MASTER, *_ANYWHERE])
        self.url = self._await(_url_in, "no master has started")
        for number in range(self.workers):
            self._start_worker(number)
        self._await_registered()

    @staticmethod
    def environment() -> dict[str, str]:
        """Of its processes, and of drivers on this machine. Their Python processes compile nothing:
        Spark gives those of a streaming query ten seconds to start."""
        return {**spark_environment(), "SPARK_HOME": str(home_on_this_machine())}

    @property
    def _log(self) -> Path:
        """The master's, which tells its address and what has registered."""
        return self.directory / "master.log"

    def worker_pid(self, number: int) -> int:
        return self._processes[f"worker-{number}"].pid

    def restart_worker(self, number: int) -> None:
        """Starts a worker, also in place of one that died; returns once the master knows it."""
        process = self._processes.pop(f"worker-{number}")
        process.kill()
        process.wait()
        self._start_worker(number)
        self._await_registered()

    def _start_worker(self, number: int) -> None:
        name = f"worker-{number}"
        limits = ["--cores", str(self.cores_of_a_worker), "--memory", self.memory_of_a_worker]
        scratch = ["--work-dir", str(self.directory / name)]
        self._launch(name, [_WORKER, *_ANYWHERE, *limits, *scratch, self.url])
        self._started += 1

    def _await_registered(self) -> None:
        self._await(
            lambda text: "all" if text.count(_REGISTERED) >= self._started else None,
            f"{self._started} workers have not come",
        )

    def _launch(self, name: str, arguments: list[str]) -> None:
        spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
        with (self.directory / f"{name}.log").open("ab") as output:
            self._processes[name] = subprocess.Popen(
                [spark_class, *arguments],
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                env=self.environment(),
            )

    def _await(self, look: Look, what: str) -> str:
        """Searches the master's log."""
        log = self._log
        deadline = time.monotonic() + _START_TIMEOUT_S
        pause = threading.Event()
        while True:
            text = log.read_text(encoding="utf-8", errors="replace")
            found = look(text)
            if found is not None:
                return found
            ended = [each for each in self._processes.values() if each.poll() is not None]
            if ended or time.monotonic() > deadline:
                raise PipelineError(f"{what}; {log}: {text[-500:]}")
            pause.wait(_POLL_S)

    def stop(self) -> None:
        processes = list(reversed(self._processes.values()))
        for process in processes:
            if process.poll() is None:
                process.terminate()
        for process in processes:
            try:
                process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()


def _url_in(text: str) -> str | None:
    found = _MASTER_URL.search(text)
    return None if found is None else found[1]
