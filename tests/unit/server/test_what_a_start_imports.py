"""A single node that has just started has imported nothing that only others, or later, need."""

import re
import signal
import subprocess
import sys
from pathlib import Path

MODULE = re.compile(r"^import time:.*\|\s+([\w.]+)$", re.MULTILINE)
# What clusters, pages, requests and the other planes need, and packages that are slow to import.
LATER = (
    "argparse",
    "crc32c",
    "cryptography",
    "http.client",
    "jinja2",
    "ledgerstone.client",
    "ledgerstone.cluster",
    "ledgerstone.pipeline",
    "ledgerstone.raft.wire.translation",
    "ledgerstone.server.broker_life.agent",
    "ledgerstone.server.cluster_join",
    "ledgerstone.server.cluster_start",
    "ledgerstone.server.cluster_stop",
    "ledgerstone.server.handlers",
    "ledgerstone.security.http_credentials",
    "ledgerstone.security.passwords",
    "ledgerstone.security.web_sessions",
    "ledgerstone.server.http.api",
    "ledgerstone.server.http.doorkeeper",
    "ledgerstone.server.http.gate",
    "ledgerstone.server.http.route_rights",
    "ledgerstone.server.http.tls_accepting",
    "ledgerstone.server.replicating.agent",
    "ledgerstone.sim",
    "ledgerstone.spark",
    "numba",
    "numpy",
    "pyarrow",
    "rich",
)
# Of `client`, an erasure needs the partition of a key.
ALLOWED = {"ledgerstone.client", "ledgerstone.client.partitioner"}
# Of `cluster`, a page keeps what nodes say of their lag.
ALLOWED |= {"ledgerstone.cluster", "ledgerstone.cluster.lag_reports"}


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


def test_start_of_a_single_node_imports_nothing_that_it_may_never_need(tmp_path: Path) -> None:
    imported = imported_by_a_start(tmp_path)

    early = sorted(each for each in imported - ALLOWED if is_later(each))

    assert "ledgerstone.server.broker" in imported
    assert early == []
