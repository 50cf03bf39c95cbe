"""A MariaDB server, if the machine has one: `apt-get install mariadb-server-core`."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest

from tests.kit.broker import wait_until

DATABASE = "ledgerstone"


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[Path]:
    """Its socket."""
    server, install = shutil.which("mariadbd"), shutil.which("mariadb-install-db")
    if server is None or install is None:
        pytest.skip("needs mariadbd: apt-get install mariadb-server-core mariadb-server")
    base = Path(server).resolve().parent.parent
    # A path of pytest may be too long for a socket.
    with tempfile.TemporaryDirectory(prefix="maria-") as name:
        data, socket = Path(name) / "data", Path(name) / "socket"
        common = ("--no-defaults", f"--basedir={base}", f"--datadir={data}", "--user=root")
        made = [install, *common, "--auth-root-authentication-method=normal", "--skip-test-db"]
        subprocess.run(made, check=True, capture_output=True)
        with subprocess.Popen(
            [server, *common, f"--socket={socket}", "--skip-networking"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            wait_until(socket.exists, "MariaDB is up", 60.0)
            yield socket
            process.terminate()


@pytest.fixture
def mariadb(mariadb_server: Path) -> str:
    """A URL of a database without tables."""
    with pymysql.connect(unix_socket=str(mariadb_server), user="root") as admin:
        admin.cursor().execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        admin.cursor().execute(f"CREATE DATABASE {DATABASE}")
    return f"mysql+pymysql://root@localhost/{DATABASE}?unix_socket={mariadb_server}"
