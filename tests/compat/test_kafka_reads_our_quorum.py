"""Apache Kafka's dump tool on a metadata log and a snapshot that our quorum wrote."""

import subprocess
from pathlib import Path

import pytest

from ledgerstone.raft.control_batches import bootstrap_snapshot
from tests.kit.quorum import WALL_MS, Desk

pytestmark = pytest.mark.kafka

_DUMP = "org.apache.kafka.tools.DumpLogSegments"


def _dump(path: Path) -> str:
    from golden.kafka_tools import fetch_jars

    command = fetch_jars().java(_DUMP, "--cluster-metadata-decoder", "--files", str(path))
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_kafka_reads_our_control_records(tmp_path: Path) -> None:
    desk = Desk(2, observers=1)
    desk.start()
    desk.elect(0)
    desk.run(600)
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(desk[1].log.read(0, 1 << 20))

    said = _dump(path)

    assert "CreateTime" in said
    assert '"leaderId":0' in said.replace(" ", "")
    assert "KRaftVersion" in said
    assert "KRaftVoters" in said
    assert "host1" in said
    assert "isvalid: true" in said


def test_kafka_reads_our_bootstrap_snapshot(tmp_path: Path) -> None:
    desk = Desk(3)
    path = tmp_path / "00000000000000000000-0000000000.checkpoint"
    path.write_bytes(bootstrap_snapshot(desk.voter_set, wall_ms=WALL_MS))

    said = _dump(path)

    for word in ("SnapshotHeader", "KRaftVersion", "KRaftVoters", "SnapshotFooter", "host2"):
        assert word in said
