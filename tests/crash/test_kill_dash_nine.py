"""A real process on the real disk, killed with SIGKILL in the middle of its work.

The child says on a pipe which offsets were acknowledged; the parent kills it after a number of
them that a seed decides, opens the directory and finds every one. Nobody sleeps.
"""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_dir import LogDir, open_log_dir
from ledgerstone.system import OsFilesystem, SystemClock, SystemDice
from tests.kit.log_checks import batches_of, check_log
from tests.kit.logs import TP, all_records

SOURCE = Path(__file__).parents[2]
CONFIG = LogConfig(segment_bytes=20_000, index_interval_bytes=1_000)

CHILD = """
import sys
from ledgerstone.records.builder import build_batch
from tests.crash.test_kill_dash_nine import open_directory
from tests.kit.logs import TP

log_dir = open_directory(sys.argv[1])
log = log_dir.logs[TP]
while True:
    offset = log.log_end_offset
    value = b"%d " % offset * (1 + offset % 97)
    data = build_batch([(log.clock.now_ms(), b"%d" % offset, value, ())])
    result = log.append_as_leader(data, leader_epoch=0)
    if offset % 50 == 0:
        log.flush()
        log_dir.checkpoint()
    sys.stdout.buffer.write(b"%d\\n" % result.last_offset)
    sys.stdout.buffer.flush()
"""


def open_directory(path: str) -> LogDir:
    log_dir = open_log_dir(OsFilesystem(), SystemClock(), SystemDice(), path)
    for _ in log_dir.load(lambda _: CONFIG):
        pass
    if TP not in log_dir.logs:
        log_dir.create(TP, CONFIG)
    return log_dir


def append_until_killed(path: str, acknowledgements: int) -> int:
    """Returns the last offset that the child said was acknowledged."""
    search = os.pathsep.join([str(SOURCE / "src"), str(SOURCE)])
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, path],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": search},
    )
    assert child.stdout is not None
    with child, child.stdout as pipe:
        lines = [pipe.readline() for _ in range(acknowledgements)]
        child.send_signal(signal.SIGKILL)
        # It continued until the signal came: what is still in the pipe was acknowledged too.
        lines += pipe.read().splitlines(keepends=True)
    assert child.wait() == -signal.SIGKILL
    return int([line for line in lines if line.endswith(b"\n")][-1])


def check_everything_is_there(path: str, last_acknowledged: int) -> int:
    log_dir = open_directory(path)
    log = log_dir.logs[TP]
    check_log(log)
    records = all_records(log)
    assert len(records) == len(batches_of(log)) == log.log_end_offset
    assert log.log_end_offset > last_acknowledged
    for offset, record in enumerate(records):
        assert record.offset == offset
        assert record.key == b"%d" % offset
        assert record.value == b"%d " % offset * (1 + offset % 97)
    end_offset = log.log_end_offset
    # As a process that ends without a word: the next child recovers.
    log_dir.lock.release()
    return end_offset


def kill_many_times(path: str, kills: int) -> None:
    dice = random.Random(kills)
    end_offset = 0
    for _ in range(kills):
        last_acknowledged = append_until_killed(path, dice.randrange(1, 150))

        reached = check_everything_is_there(path, last_acknowledged)

        assert reached > end_offset
        end_offset = reached


def test_four_kills_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    kill_many_times(str(tmp_path / "data"), 4)


@pytest.mark.slow
def test_two_hundred_kills_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    for life in range(10):
        kill_many_times(str(tmp_path / f"data{life}"), 20)
