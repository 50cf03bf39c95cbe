"""Compaction of identical logs: our pass beside the classes of Kafka's cleaner. Shell.

The logs and both drivers are those of bench.cleaner; here one warm process of Kafka's cleans all of
them, and the clock counts as well as the CPU time of the thread that cleans.
"""

import os
import time
from pathlib import Path
from typing import Final

from bench.cleaner import KAFKA_WARM_UP, MIB, Shape, clean_seconds, log_path, write_log
from bench.kafka_cleaner import KafkaCleaner
from bench.peers.arena import Arena
from bench.peers.measures import Line, Pair
from bench.storage import scratch
from ledgerstone.records.batch import Codec
from ledgerstone.records.kernels import load

TARGET: Final = 2.0
NOTE: Final = (
    "One sealed segment, the same file for both, from the page cache; 128 MiB key maps, one "
    "thread, what is kept is written and synced. Kafka's cleaner is its own class in a process "
    "that has cleaned before. CPU is the thread that cleans, so neither Kafka's collector nor its "
    "compiler count."
)


class BothClocks:
    """A clock of seconds that keeps the CPU time of the thread at its first and last reading."""

    def __init__(self) -> None:
        self._cpu: list[float] = []

    def __call__(self) -> float:
        self._cpu.append(time.thread_time())
        return time.perf_counter()

    @property
    def cpu_s(self) -> float:
        return self._cpu[-1] - self._cpu[0]


def shapes(total: int) -> list[Shape]:
    plain = [Shape(total, size, share) for size in (1000, 100) for share in (0.5, 0.95)]
    return [*plain, *(Shape(total // 4, 1000, 0.5, codec) for codec in (Codec.LZ4, Codec.ZSTD))]


def run(arena: Arena) -> list[Line]:
    load()
    arena.notes.append(NOTE)
    lines = []
    with scratch() as directory:
        peer = KafkaCleaner.start(directory) if arena.jars is not None else None
        try:
            for shape in shapes(arena.size(256 * MIB, 16 * MIB)):
                lines.append(measure(arena, shape, peer))
        finally:
            if peer is not None:
                peer.close()
    return lines


def check_left(directory: Path, theirs: int) -> None:
    """Plain batches that keep the same records have the same size, whoever wrote them."""
    ours = sum(path.stat().st_size for path in directory.glob("*.log.cleaned"))
    if ours != theirs:
        raise RuntimeError(f"{ours} bytes left by our cleaner, {theirs} by Kafka's")


def measure(arena: Arena, shape: Shape, peer: KafkaCleaner | None) -> Line:
    rounds, cpu = [], []
    with scratch() as directory:
        path = log_path(directory)
        (source,) = write_log(directory, shape)
        os.sync()
        gb = source.size_bytes / 1e9
        clean_seconds(directory, [source])
        if peer is not None:
            for _ in range(KAFKA_WARM_UP):
                peer.clean(path)
        for _ in range(arena.rounds):
            clocks = BothClocks()
            spent = clean_seconds(directory, [source], clocks)
            theirs = None if peer is None else peer.clean(path)
            if theirs is not None and shape.codec is Codec.NONE:
                check_left(directory, theirs.bytes_written)
            rounds.append(
                Pair(gb * 1e3 / spent, None if theirs is None else gb * 1e3 / theirs.seconds)
            )
            cpu.append(Pair(clocks.cpu_s / gb, None if theirs is None else theirs.cpu_seconds / gb))
    return Line(
        name=f"compact {shape.label}",
        unit="MB/s",
        rounds=tuple(rounds),
        target=TARGET,
        cpu=tuple(cpu),
        cpu_unit="s/GB",
    )
