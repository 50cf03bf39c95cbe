"""The partition log against plain files: append, open, recover, memory.

    python -m bench.storage [--quick]

Everything runs on the real filesystem, in a temporary directory below the current one, so that the
disk measured is the disk the project lies on.
"""

import argparse
import gc
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from crc32c import crc32c

from bench.table import Row, paired, render
from ledgerstone.records.batch import stamp_offset_and_epoch
from ledgerstone.records.builder import build_batch
from ledgerstone.records.kernels import load
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_dir import LogDir, open_log_dir
from ledgerstone.system import OsFilesystem, SystemClock, SystemDice
from ledgerstone.types import TopicPartition

MIB = 1 << 20
RECORD_BYTES = 1000
APPEND_TARGET = 0.6
TP = TopicPartition("bench", 0)


@contextmanager
def scratch() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix=".bench-", dir=Path.cwd()))
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


def open_dir(path: Path) -> LogDir:
    return open_log_dir(OsFilesystem(), SystemClock(), SystemDice(), str(path))


def record_set(size: int) -> bytearray:
    """About `size` bytes of records with 16-byte keys and values that do not compress."""
    count = size // (RECORD_BYTES + 24)
    values = os.urandom(RECORD_BYTES + count)
    now_ms = int(time.time() * 1000)
    return build_batch(
        [(now_ms, b"k%015d" % i, values[i : i + RECORD_BYTES], ()) for i in range(count)]
    )


def rate_mb_s(size: int, work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return size / (time.perf_counter() - started) / 1e6


def leader_append(*, total: int, rounds: int) -> Row:
    """1 MiB sets into a fresh log, against write() of the same bytes plus one CRC-32C over them."""
    data = record_set(MIB)
    # Several buffers, as a server has them: one buffer would sit in the CPU's cache.
    buffers = [bytearray(data) for _ in range(8)]
    sets = total // len(data)
    pairs = []
    for _ in range(rounds):
        with scratch() as path:
            pairs.append((_append_rate(path, buffers, sets), _write_rate(path, buffers, sets)))
    row = paired("leader append, 1 MiB sets of 1 KB", "MB/s", "write() + crc32c", pairs)
    return row._replace(target=APPEND_TARGET)


def _append_rate(path: Path, buffers: list[bytearray], sets: int) -> float:
    log_dir = open_dir(path / "log")
    log = log_dir.create(TP, LogConfig(max_message_bytes=2 * MIB))

    def work() -> None:
        for number in range(sets):
            buffer = buffers[number % len(buffers)]
            stamp_offset_and_epoch(buffer, 0, base_offset=0, leader_epoch=-1)
            log.append_as_leader(buffer, leader_epoch=0)

    rate = rate_mb_s(sets * len(buffers[0]), work)
    log_dir.close()
    return rate


def _write_rate(path: Path, buffers: list[bytearray], sets: int) -> float:
    fd = os.open(path / "plain", os.O_RDWR | os.O_CREAT)

    def work() -> None:
        for number in range(sets):
            buffer = buffers[number % len(buffers)]
            crc32c(memoryview(buffer)[21:])
            os.write(fd, buffer)

    rate = rate_mb_s(sets * len(buffers[0]), work)
    os.close(fd)
    return rate


def small_append(*, count: int) -> Row:
    """One record per append: what a request costs the log, whatever its size."""
    with scratch() as path:
        log_dir = open_dir(path / "log")
        log = log_dir.create(TP, LogConfig())
        data = record_set(RECORD_BYTES + 24)
        buffers = [bytearray(data) for _ in range(count)]
        fd = os.open(path / "plain", os.O_RDWR | os.O_CREAT)
        started = time.perf_counter()
        for buffer in buffers:
            log.append_as_leader(buffer, leader_epoch=0)
        ours_us = (time.perf_counter() - started) / count * 1e6
        started = time.perf_counter()
        for buffer in buffers:
            crc32c(memoryview(buffer)[21:])
            os.write(fd, buffer)
        plain_us = (time.perf_counter() - started) / count * 1e6
        os.close(fd)
        log_dir.close()
    name = "leader append of one 1 KB record"
    return Row(name, ours_us, "µs", "write() + crc32c", plain_us, plain_us / ours_us, None)


def recovery(*, total: int, rounds: int) -> Row:
    """An unclean start over one log, against reading the same file and one CRC-32C over it."""
    data = record_set(16 * 1024)
    with scratch() as path:
        log_dir = open_dir(path / "log")
        log = log_dir.create(TP, LogConfig())
        for _ in range(total // len(data)):
            log.append_as_leader(bytearray(data), leader_epoch=0)
        size = log.size_bytes
        files = [Path(segment.paths()[0]) for segment in log.segments]
        log_dir.lock.release()
        pairs = []
        for _ in range(rounds):
            ours = rate_mb_s(size, lambda: _recover(path / "log"))
            pairs.append((ours, rate_mb_s(size, lambda: _scan(files))))
    return paired(
        f"recovery of {size / 2**30:.2f} GiB, 16 KiB batches", "MB/s", "read + crc32c", pairs
    )


def _recover(path: Path) -> None:
    log_dir = open_dir(path)
    list(log_dir.load(lambda _: LogConfig()))
    log_dir.lock.release()


def _scan(files: list[Path]) -> None:
    window = bytearray(MIB)
    for file in files:
        fd = os.open(file, os.O_RDONLY)
        crc = 0
        while (read := os.readv(fd, [window])) > 0:
            crc = crc32c(memoryview(window)[:read], crc)
        os.close(fd)


def many_partitions(*, count: int) -> list[Row]:
    """Opening partitions after a clean stop, and what an idle one keeps in memory."""
    data = record_set(4 * 1024)
    with scratch() as path:
        log_dir = open_dir(path / "log")
        for number in range(count):
            log = log_dir.create(TopicPartition("many", number), LogConfig())
            log.append_as_leader(bytearray(data), leader_epoch=0)
        log_dir.close()
        files = [file for file in (path / "log").rglob("*") if file.is_file()]
        started = time.perf_counter()
        for file in files:
            file.read_bytes()
        plain_s = time.perf_counter() - started
        opened_s, kept_bytes = _open_in_child(path / "log")
    return [
        Row(
            f"open {count} partitions after a clean stop", opened_s, "s",
            "read() every file", plain_s, plain_s / opened_s, None,
        ),
        Row("memory of an idle partition", kept_bytes / count / 1024, "KiB", "", 0, 0, None),
    ]  # fmt: skip


def _open_in_child(path: Path) -> tuple[float, int]:
    """Seconds and bytes, in a process whose memory nothing else has touched before."""
    command = [sys.executable, "-m", "bench.storage", "--open", str(path)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seconds, kept = output.split()
    return float(seconds), int(kept)


def _report_open(path: Path) -> None:
    before = _rss_bytes()
    started = time.perf_counter()
    log_dir = open_dir(path)
    logs = list(log_dir.load(lambda _: LogConfig()))
    seconds = time.perf_counter() - started
    gc.collect()
    print(seconds, _rss_bytes() - before)
    assert logs
    log_dir.close()


def _rss_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def run(*, quick: bool = False) -> list[Row]:
    load()
    scale = 8 if quick else 1
    return [
        leader_append(total=512 * MIB // scale, rounds=3 if quick else 5),
        small_append(count=20_000 // scale),
        recovery(total=1024 * MIB // scale, rounds=3),
        *many_partitions(count=1000 // scale),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="an eighth of the data")
    parser.add_argument("--open", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.open is not None:
        _report_open(arguments.open)
    else:
        print(render(run(quick=arguments.quick)))
