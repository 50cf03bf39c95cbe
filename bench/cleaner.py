"""A cleaning pass beside `cp` of the same file, and beside what memory and CRC allow.

    python -m bench.cleaner [--quick] [--large] [--kafka]

Logs are written once and cleaned several times from the page cache, on the disk the project lies
on. A pass reads everything twice, checks every CRC, judges every record, and writes and syncs what
is left; `cp` reads and writes once and syncs nothing. "Superseded" is the share of records that a
later one replaces. Each figure stands beside its limit from the same seconds.

`--kafka` puts Apache Kafka's own cleaner beside ours: its classes in one process that has cleaned
the same log before, with the broker's default buffers. Passes alternate, and what is compared is
the CPU time of the thread that cleans, so that neither a busy machine nor Kafka's threads for
collecting garbage and compiling count.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from crc32c import crc32c

from bench.kafka_cleaner import KafkaCleaner
from bench.table import Row, paired, render
from ledgerstone.cleaner.cleaning_pass import run_pass
from ledgerstone.cleaner.plan import CleaningPlan, SourceSegment
from ledgerstone.records.batch import Codec, stamp_offset_and_epoch
from ledgerstone.records.builder import build_batch
from ledgerstone.records.kernels import load
from ledgerstone.system import OsFilesystem, SystemDice
from ledgerstone.types import TopicPartition

MIB = 1 << 20
BATCH_BYTES = 16 * 1024
CP_SHARE = 0.4  # of cp at 1 KB values, on a quiet machine
# Of what Kafka's own cleaner does in a second of CPU, by value size and whether it is compressed.
KAFKA_SHARES = {(1000, False): 2.4, (100, False): 4.5, (1000, True): 1.5}
KAFKA_WARM_UP = 3
NOW_MS = 1_700_000_000_000
OVERHEAD_BYTES = 64 * MIB
DEDUPE_BYTES = 128 * MIB
SEGMENT_BYTES = 1024 * MIB
# Distinct batches that a log repeats under other keys; random, so that no codec gains on them.
VALUE_POOL_BYTES = 8 * MIB


class Shape(NamedTuple):
    """A log to clean: how many bytes, of what values, how many of them superseded."""

    total: int
    value_bytes: int
    superseded: float
    codec: Codec = Codec.NONE

    @property
    def label(self) -> str:
        codec = "" if self.codec is Codec.NONE else f", {self.codec.config_name}"
        return f"{self.value_bytes} B values{codec}, {self.superseded:.0%} superseded"


@contextmanager
def scratch() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix=".bench-", dir=Path.cwd()))
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


# -- writing logs ---------------------------------------------------------------------------------


def write_log(directory: Path, shape: Shape) -> list[SourceSegment]:
    """Sealed segments, as many as it takes."""
    per_batch = max(1, BATCH_BYTES // (shape.value_bytes + 25))
    batches = shape.total // (per_batch * (shape.value_bytes + 25))
    count = per_batch * batches
    keys = np.random.default_rng(7).permutation(count)
    # Each key about as often as it takes; which of them are last is up to the permutation.
    keys %= max(1, round(count * (1 - shape.superseded)))
    values = _values(shape)
    segment_batches = -(-batches // -(-shape.total // SEGMENT_BYTES))
    sources = []
    for first_batch in range(0, batches, segment_batches):
        end_batch = min(first_batch + segment_batches, batches)
        path = log_path(directory, first_batch * per_batch)
        with path.open("wb") as file:
            for first in range(first_batch * per_batch, end_batch * per_batch, per_batch):
                file.write(_batch(first, keys[first : first + per_batch].tolist(), values, shape))
        sources.append(_sealed(path, first_batch * per_batch, end_batch * per_batch))
    return sources


def log_path(directory: Path, base_offset: int = 0) -> Path:
    return directory / f"{base_offset:020d}.log"


def _sealed(path: Path, base_offset: int, end_offset: int) -> SourceSegment:
    for ending in (".index", ".timeindex"):
        path.with_suffix(ending).touch()
    return SourceSegment(
        base_offset=base_offset,
        end_offset=end_offset,
        size_bytes=path.stat().st_size,
        offset_index_bytes=0,
        time_index_bytes=0,
        mtime_ms=NOW_MS,
    )


def _values(shape: Shape) -> bytes:
    if shape.codec is Codec.NONE:
        return os.urandom(VALUE_POOL_BYTES)
    # Compressible by about four: text of few letters.
    letters = np.frombuffer(b"etaoin shrdlu0123", np.uint8)
    return letters[np.random.default_rng(7).integers(0, 4, VALUE_POOL_BYTES)].tobytes()


def _batch(first: int, keys: list[int], values: bytes, shape: Shape) -> bytearray:
    size = shape.value_bytes
    room = len(values) - size
    records = []
    for at, key in enumerate(keys):
        start = (first + at) * size % room
        records.append((NOW_MS + at, b"key-%012d" % key, values[start : start + size], ()))
    data = build_batch(records, codec=shape.codec)
    stamp_offset_and_epoch(data, 0, base_offset=first, leader_epoch=0)
    return data


# -- measuring ------------------------------------------------------------------------------------


def plan_for(directory: Path, sources: Sequence[SourceSegment]) -> CleaningPlan:
    return CleaningPlan(
        topic_partition=TopicPartition("bench", 0),
        directory=str(directory),
        segments=tuple(sources),
        first_dirty_offset=0,
        first_uncleanable_offset=sources[-1].end_offset,
        now_ms=NOW_MS,
        delete_retention_ms=86_400_000,
        segment_bytes=SEGMENT_BYTES,
        segment_index_bytes=10 << 20,
        index_interval_bytes=4096,
        dedupe_buffer_bytes=DEDUPE_BYTES,
    )


def clean_seconds(
    directory: Path,
    sources: Sequence[SourceSegment],
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    for leftover in directory.glob("*.cleaned"):
        leftover.unlink()
    plan = plan_for(directory, sources)
    started = clock()
    report = run_pass(
        OsFilesystem(),
        plan,
        dice=SystemDice(),
        on_group=lambda _: None,
        should_abort=lambda: False,
    )
    spent = clock() - started
    assert report.end_offset == sources[-1].end_offset
    return spent


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def measure(shape: Shape, *, rounds: int) -> list[Row]:
    with scratch() as directory:
        path = log_path(directory)
        (source,) = write_log(directory, shape)
        count, mb = source.end_offset, source.size_bytes / 1e6
        against_cp, against_limit, records = [], [], []
        for _ in range(rounds):
            spent = clean_seconds(directory, [source])
            copied = seconds(lambda: shutil.copyfile(path, directory / "copy"))
            limit = seconds(lambda: _read_and_check(path))
            against_cp.append((mb / spent, mb / copied))
            against_limit.append((mb / spent, mb / limit))
            records.append(count / spent / 1e6)
            (directory / "copy").unlink()
    name = f"pass, {shape.label}"
    target = CP_SHARE if shape.value_bytes >= 1000 and shape.codec is Codec.NONE else None
    return [
        paired(name, "MB/s", "cp", against_cp)._replace(target=target),
        paired(name, "MB/s", "read + crc32c + memcpy", against_limit),
        Row(name, sorted(records)[rounds // 2], "M rec/s", "", 0, 0, None),
    ]


def beside_kafka(shape: Shape, *, rounds: int) -> list[Row]:
    with scratch() as directory:
        peer = KafkaCleaner.start(directory)
        if peer is None:
            print("Kafka's jars are out of reach")
            return []
        path = log_path(directory)
        (source,) = write_log(directory, shape)
        mb = source.size_bytes / 1e6
        for _ in range(KAFKA_WARM_UP):
            peer.clean(path)
        pairs = []
        for _ in range(rounds):
            ours = clean_seconds(directory, [source], time.thread_time)
            pairs.append((mb / ours, mb / peer.clean(path).cpu_seconds))
        peer.close()
    row = paired(f"pass, {shape.label}", "MB/cpu-s", "Apache Kafka's cleaner", pairs)
    target = KAFKA_SHARES[shape.value_bytes, shape.codec is not Codec.NONE]
    return [row._replace(target=target)]


def _read_and_check(path: Path) -> None:
    """What the first half of any pass costs at least, and the copy of all that stays."""
    window, copy = bytearray(MIB), bytearray(MIB)
    fd = os.open(path, os.O_RDONLY)
    while (read := os.readv(fd, [window])) > 0:
        crc32c(memoryview(window)[:read])
        copy[:read] = memoryview(window)[:read]
    os.close(fd)


def growth(sizes: tuple[int, ...]) -> list[Row]:
    """Time per byte at several sizes: the same if the pass is linear."""
    per_gib = []
    for size in sizes:
        with scratch() as directory:
            sources = write_log(directory, Shape(size, 1000, 0.5))
            spent = min(clean_seconds(directory, sources) for _ in range(3))
            per_gib.append(spent / sum(each.size_bytes for each in sources) * 2**30)
    first, name = per_gib[0], f"{sizes[0] / 2**30:g} GiB"
    return [
        Row(
            f"a GiB of a pass over {size / 2**30:g} GiB",
            spent,
            "s",
            name,
            first,
            first / spent,
            None,
        )
        for size, spent in zip(sizes[1:], per_gib[1:], strict=True)
    ]


def memory(total: int) -> Row:
    """Peak of a process that does nothing else, above what it had once the kernels were loaded."""
    with scratch() as directory:
        (source,) = write_log(directory, Shape(total, 100, 0.5))
        facts = json.dumps([str(directory), source.end_offset])
        command = [sys.executable, "-m", "bench.cleaner", "--clean", facts]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    peak, allowed = int(output) / MIB, (DEDUPE_BYTES + OVERHEAD_BYTES) / MIB
    name = "peak memory of a pass over 100 B values"
    return Row(name, peak, "MiB", "dedupe buffer + 64 MiB", allowed, allowed / peak, 1.0)


def _report_peak(facts: str) -> None:
    directory, end_offset = json.loads(facts)
    load()
    source = _sealed(log_path(Path(directory)), 0, end_offset)
    before = _status_bytes("VmRSS")
    clean_seconds(Path(directory), [source])
    print(_status_bytes("VmHWM") - before)


def _status_bytes(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise LookupError(name)


def run(*, quick: bool = False, large: bool = False, kafka: bool = False) -> list[Row]:
    load()
    total = 128 * MIB if quick else 1024 * MIB
    shapes = [
        Shape(total, value_bytes, share) for value_bytes in (1000, 100) for share in (0.5, 0.95)
    ]
    shapes += [Shape(total // 4, 1000, 0.5, codec) for codec in (Codec.LZ4, Codec.ZSTD)]
    if kafka:
        return [row for shape in shapes for row in beside_kafka(shape, rounds=5)]
    rows = [row for shape in shapes for row in measure(shape, rounds=3)]
    sizes = (total // 4, total, *([4 * total] if large else []))
    return [*rows, *growth(sizes), memory(total // 2)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="an eighth of the data")
    parser.add_argument("--large", action="store_true", help="growth up to four times the data")
    parser.add_argument("--kafka", action="store_true", help="beside Apache Kafka's cleaner only")
    parser.add_argument("--clean", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.clean is not None:
        _report_peak(arguments.clean)
    else:
        options = {name: getattr(arguments, name) for name in ("quick", "large", "kafka")}
        print(render(run(**options)))
