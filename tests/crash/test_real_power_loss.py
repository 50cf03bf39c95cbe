"""A real filesystem that loses what was not synced: ext4 in a file, shut down under our feet.

FS_IOC_SHUTDOWN drops dirty pages and the open journal, which is what a machine that loses its
power does. Needs root and a kernel that mounts loop devices; skipped where that is not so.
"""

import fcntl
import gc
import os
import random
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ledgerstone.records.batch import read_header
from ledgerstone.records.builder import build_batch
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_dir import LogDir, open_log_dir
from ledgerstone.system import OsFilesystem, SystemClock, SystemDice
from tests.kit.log_checks import batches_of, check_log
from tests.kit.logs import T0, TP

FS_IOC_SHUTDOWN = 0x8004587D
WITHOUT_FLUSHING_THE_JOURNAL = 2
IMAGE_BYTES = 48 << 20
CONFIG = LogConfig(segment_bytes=60_000, index_interval_bytes=1_000)
CYCLES = 20


class Disk:
    def __init__(self, directory: Path) -> None:
        self.image = directory / "image"
        self.mount_point = directory / "mount"
        self.mount_point.mkdir()

    def make(self) -> None:
        with self.image.open("wb") as image:
            image.truncate(IMAGE_BYTES)
        run("mkfs.ext4", "-q", "-F", str(self.image))

    def mount(self) -> None:
        run("mount", "-o", "loop", str(self.image), str(self.mount_point))

    def unmount(self) -> None:
        run("umount", str(self.mount_point))

    def lose_power(self) -> None:
        fd = os.open(self.mount_point, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, FS_IOC_SHUTDOWN, struct.pack("I", WITHOUT_FLUSHING_THE_JOURNAL))
        finally:
            os.close(fd)


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


@contextmanager
def disk(directory: Path) -> Iterator[Disk]:
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        pytest.skip("needs root and mkfs.ext4")
    made = Disk(directory)
    made.make()
    try:
        made.mount()
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no loop mounts here: {error.stderr.decode(errors='replace').strip()}")
    try:
        yield made
    finally:
        # Lazily: after a failed assertion the log in the traceback still holds its files.
        run("umount", "--lazy", str(made.mount_point))


def open_directory(made: Disk) -> LogDir:
    log_dir = open_log_dir(OsFilesystem(), SystemClock(), SystemDice(), f"{made.mount_point}/data")
    for _ in log_dir.load(lambda _: CONFIG):
        pass
    if TP not in log_dir.logs:
        log_dir.create(TP, CONFIG)
    return log_dir


def append(log_dir: LogDir, count: int, dice: random.Random) -> list[bytes]:
    sent = []
    for _ in range(count):
        data = build_batch([(T0, b"k", dice.randbytes(dice.randrange(10, 4_000)), ())])
        log_dir.logs[TP].append_as_leader(data, leader_epoch=0)
        sent.append(bytes(data))
    return sent


@pytest.mark.slow
def test_what_was_flushed_survives_the_loss_of_power_and_the_rest_is_cut_cleanly(
    tmp_path: Path,
) -> None:
    dice = random.Random(1)
    kept: list[bytes] = []
    with disk(tmp_path) as made:
        for _ in range(CYCLES):
            log_dir = open_directory(made)
            flushed = kept + append(log_dir, dice.randrange(1, 30), dice)
            log_dir.logs[TP].flush()
            log_dir.checkpoint()
            sent = flushed + append(log_dir, dice.randrange(0, 60), dice)

            made.lose_power()
            # Its files are never closed, as by a machine that died; they only must not be open.
            del log_dir
            gc.collect()
            made.unmount()
            made.mount()

            log_dir = open_directory(made)
            kept = batches_of(log_dir.logs[TP])
            check_log(log_dir.logs[TP])
            assert kept == sent[: len(kept)]
            assert len(kept) >= len(flushed)
            assert log_dir.logs[TP].log_end_offset == read_header(kept[-1]).next_offset
            log_dir.close()
            del log_dir
