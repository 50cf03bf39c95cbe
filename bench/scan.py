"""Looking for keys in log files, beside a plain read of the same files.

    python -m bench.scan [--quick]

Logs are written once and read several times from the page cache, on the disk the project lies on.
A search hashes the key of every record; a scan also rolls over every byte, and over every byte that
compressed batches unpack to. Times are of the processor, so that neighbours disturb less. Each
figure stands beside its limit from the same seconds.
"""

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

from bench.cleaner import MIB, Shape, log_path, scratch, write_log
from bench.table import Row, paired, render
from ledgerstone.erasure.key_print import PrintKey
from ledgerstone.erasure.residue import scan_dirs
from ledgerstone.erasure.scan_plan import (
    KeyPrints,
    LiveSegment,
    ResiduePlan,
    ScannedPartition,
    SearchPlan,
)
from ledgerstone.erasure.search import search_partitions
from ledgerstone.records.batch import Codec
from ledgerstone.records.kernels import load
from ledgerstone.system import OsFilesystem
from ledgerstone.types import TopicPartition

TOPIC = "bench"
ROUNDS = 5


def keys_of(print_key: PrintKey, count: int) -> KeyPrints:
    """Of one length, that of the keys in the log; none of them is in it."""
    names = [b"yek-%012d" % number for number in range(count)]
    return KeyPrints.under(print_key, [print_key.print_of(TOPIC, name) for name in names])


def plain_read(path: Path) -> None:
    window = bytearray(2 * MIB)
    fd = os.open(path, os.O_RDONLY)
    while os.readv(fd, [window]) > 0:
        pass
    os.close(fd)


def search(directory: Path, size: int, keys: KeyPrints) -> None:
    files = ScannedPartition(
        topic_partition=TopicPartition(TOPIC, 0),
        directory=str(directory),
        segments=(LiveSegment(0, size),),
    )
    report = search_partitions(OsFilesystem(), SearchPlan(partitions=(files,), keys=keys))
    assert report.scanned_bytes == size
    assert not report.spans


def scan(log_dir: Path, size: int, keys: KeyPrints) -> None:
    report = scan_dirs(OsFilesystem(), ResiduePlan(log_dirs=(str(log_dir),), keys=keys))
    assert report.scanned_bytes == size
    assert report.trouble is None
    assert not any(each.records or each.mentions or each.residue for each in report.prints)


def cpu_seconds(work: Callable[[], None]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def measure(shape: Shape, what: str, count: int, *, promised: float | None = None) -> list[Row]:
    keys = keys_of(PrintKey.from_salt(bytes(32)), count)
    with scratch() as log_dir:
        directory = log_dir / f"{TOPIC}-0"
        directory.mkdir()
        path = log_path(directory)
        (source,) = write_log(directory, shape)
        size = source.size_bytes
        works: dict[str, Callable[[], None]] = {
            "search": lambda: search(directory, size, keys),
            "scan": lambda: scan(log_dir, size, keys),
        }
        pairs = []
        for _ in range(ROUNDS):
            spent, read = cpu_seconds(works[what]), cpu_seconds(lambda: plain_read(path))
            pairs.append((size / spent / 1e9, size / read / 1e9))
    codec = "" if shape.codec is Codec.NONE else f", {shape.codec.config_name}"
    name = f"{what} for {count} key{'s' * (count > 1)}, {shape.value_bytes} B values{codec}"
    row = paired(name, "GB/s", "plain read", pairs)
    if promised is None:
        return [row]
    return [row, Row(name, row.value, "GB/s", "promised", promised, row.value / promised, 1.0)]


def run(*, quick: bool = False) -> list[Row]:
    load()
    total = 64 * MIB if quick else 512 * MIB
    large, small = Shape(total, 1000, 0.5), Shape(total, 100, 0.5)
    packed = Shape(total // 4, 1000, 0.5, Codec.LZ4)
    return [
        *measure(large, "search", 1, promised=1.0),
        *measure(large, "search", 1000),
        *measure(small, "search", 1),
        *measure(large, "scan", 1, promised=0.7),
        *measure(large, "scan", 1000),
        *measure(small, "scan", 1),
        *measure(packed, "scan", 1),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="an eighth of the data")
    print(render(run(quick=parser.parse_args().quick)))
