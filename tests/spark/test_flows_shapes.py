"""The same program on a cluster of the installed package, and with the package shipped as a zip."""

import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ledgerstone.pipeline.shapes import (
    StandaloneCluster,
    package_zip,
    spark_environment,
    submit_command,
)
from tests.kit.broker import BrokerProcess

PROGRAM = Path(__file__).parents[2] / "examples" / "spark_same_everywhere.py"
TIMEOUT_S = 300.0


def test_the_zip_holds_both_packages_and_nothing_else(tmp_path: Path) -> None:
    path = package_zip(tmp_path / "ledgerstone.zip")

    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()

    assert {name.split("/")[0] for name in names} == {"ledgerstone", "pyspark_ledgerstone"}
    assert "ledgerstone/protocol/schemas/fetch.txt" in names
    assert not [name for name in names if "__pycache__" in name or name.endswith(".md")]


def test_a_cluster_in_a_used_directory_is_found_at_its_own_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "Starting Spark master at {}\nRegistering worker\n"
    (tmp_path / "master.log").write_text(lines.format("spark://127.0.0.1:1"))

    def launch(self: StandaloneCluster, name: str, _: list[str]) -> None:
        with (self.directory / "master.log").open("a") as log:
            log.write(lines.format("spark://127.0.0.1:2"))

    monkeypatch.setattr(StandaloneCluster, "_launch", launch)
    with StandaloneCluster(directory=tmp_path, workers=1) as made:
        url = made.url

    assert url == "spark://127.0.0.1:2"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(directory=tmp_path_factory.mktemp("cluster")) as made:
        yield made


def run(command: list[str]) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, env=spark_environment(), timeout=TIMEOUT_S
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_a_program_runs_on_a_cluster_of_two_workers(
    cluster: StandaloneCluster, broker: BrokerProcess, new_name: Callable[[str], str]
) -> None:
    options = ["--bootstrap", broker.bootstrap, "--topic", new_name("everywhere")]

    said = run([sys.executable, str(PROGRAM), *options, "--master", cluster.url])

    assert "90 keys are left, their sum is 4500" in said


@pytest.mark.slow
def test_the_same_program_is_submitted_with_the_zipped_package(
    cluster: StandaloneCluster,
    broker: BrokerProcess,
    new_name: Callable[[str], str],
    tmp_path: Path,
) -> None:
    package = package_zip(tmp_path / "ledgerstone.zip")
    options = ["--bootstrap", broker.bootstrap, "--topic", new_name("everywhere"), "--submitted"]
    conf = {"spark.ui.enabled": "false", "spark.sql.python.filterPushdown.enabled": "true"}
    command = submit_command(
        str(PROGRAM), options, master=cluster.url, package=str(package), conf=conf
    )

    said = run(command)

    assert "90 keys are left, their sum is 4500" in said
    assert "ledgerstone.zip/ledgerstone" in said
