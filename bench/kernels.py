"""How fast the per-record kernels are, beside memcpy, plain Python and C on this machine, now.

Run with `python -m bench.kernels`. Figures are CPU time, best of several: machines are shared and
drift, so the ratios inside one run are what counts. "Prototype" is what the first kernels of this
kind reached on a quiet Ice Lake machine at 2.8 GHz; it is the one limit that is not of this run.
"""

import ctypes
import pathlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from bench.table import Row, render
from ledgerstone.records.arrow import BinaryLayout, to_arrow
from ledgerstone.records.batch import HEADER_SIZE
from ledgerstone.records.builder import build_batch
from ledgerstone.records.kernels import (
    Columns,
    hash_keys,
    inspect_records,
    load,
    rewrite,
    scan,
    walk,
)
from ledgerstone.records.kernels.descriptors import WalkCall
from ledgerstone.records.kernels.filling import filled
from ledgerstone.records.kernels.loader import kernel
from ledgerstone.records.record import iter_spans

WINDOW_BYTES: Final = 8 * 2**20
KEY_BYTES: Final = 16
SEED: Final = bytes(range(16))
ROUNDS: Final = 9
SHAPES: Final = ((100, 16), (100, 1024), (1024, 16), (1024, 1024))  # value bytes, batch KB
PROTOTYPE_SHARE: Final = 0.6
C_SHARE: Final = 0.8

# M records a second of the prototypes, by value size.
PROTOTYPES: Final = {
    "walk": {100: 53.7, 1024: 17.0},
    "hash": {100: 33.0, 1024: 8.3},
    "arrow": {100: 17.6, 1024: 4.4},
    "arrow, crc checked": {100: 13.4, 1024: 2.5},
}


def run() -> list[Row]:
    load()
    with tempfile.TemporaryDirectory() as directory:
        reference = _compile_reference(pathlib.Path(directory))
        return [
            row
            for value_bytes, batch_kb in SHAPES
            for row in _measure_shape(value_bytes, batch_kb, reference)
        ]


def _measure_shape(
    value_bytes: int, batch_kb: int, reference: Callable[..., int] | None
) -> Iterator[Row]:
    batch, count = _batch(value_bytes, batch_kb * 1024)
    window = bytes(batch) * max(1, WINDOW_BYTES // len(batch))
    columns = walk(window)
    memcpy = _million(columns, _seconds(np.frombuffer(window, np.uint8).copy))
    payload = memoryview(batch)[HEADER_SIZE:]
    plain = count / _seconds(lambda: list(iter_spans(payload, record_count=count)), 3) / 1e6
    for name, work in _kernels(window, columns, payload, count).items():
        records = count if name == "inspect" else len(columns)
        value = records / _seconds(work) / 1e6
        shape = f"{name}, {value_bytes} B in {batch_kb} KB"
        yield _row(shape, value, "memcpy", memcpy, None)
        if name in PROTOTYPES:
            yield _row(shape, value, "prototype", PROTOTYPES[name][value_bytes], PROTOTYPE_SHARE)
        if name in ("walk", "inspect"):
            yield _row(shape, value, "plain Python", plain, None)
        if name == "walk" and reference is not None:
            yield _beside_reference(shape, window, columns, reference)


def _row(name: str, value: float, limit_name: str, limit_value: float, target: float | None) -> Row:
    return Row(name, value, "M rec/s", limit_name, limit_value, value / limit_value, target)


def _kernels(
    window: bytes, columns: Columns, payload: memoryview, count: int
) -> dict[str, Callable[[], object]]:
    keep_fifth = (np.arange(len(columns)) % 5 == 0).astype(np.uint8)
    views = BinaryLayout.VIEWS
    return {
        "inspect": lambda: inspect_records(payload, record_count=count),
        "walk": lambda: walk(window, verify_crc=False),
        "walk, crc checked": lambda: walk(window),
        "hash": lambda: hash_keys(window, columns.key_start, columns.key_length, SEED),
        "rewrite, a fifth kept": lambda: rewrite(columns, keep_fifth),
        "arrow": lambda: to_arrow(walk(window, verify_crc=False)),
        "arrow, crc checked": lambda: to_arrow(walk(window)),
        "arrow views": lambda: to_arrow(walk(window, verify_crc=False), layout=views),
    }


def _beside_reference(
    shape: str, window: bytes, columns: Columns, reference: Callable[..., int]
) -> Row:
    """The kernel under `walk` by itself: the C one gets its arrays for nothing, so must ours."""
    rows = scan(window).rows
    batches, room = rows.shape[1], len(columns)
    of_reference = np.ascontiguousarray(rows[[13, 14, 11, 2, 6]])
    wide, narrow = np.empty((5, room), np.int64), np.empty((5, room), np.int32)
    report = (ctypes.c_int64 * 4)()
    call = filled(
        WalkCall,
        buffer=window,
        split=len(window),
        arena=b"",
        rows=rows,
        capacity=batches,
        batch_end=batches,
        min_offset=0,
        wide=wide,
        narrow=narrow,
        room=room,
        report=report,
    )
    compiled = kernel("walk_batches")
    outputs = (wide.ctypes.data, narrow.ctypes.data, room)
    theirs = (window, of_reference.ctypes.data, batches, *outputs)
    pairs = [
        (
            room / _seconds(lambda: compiled(call), 3) / 1e6,
            room / _seconds(lambda: reference(*theirs), 3) / 1e6,
        )
        for _ in range(3 * ROUNDS)
    ]
    # The best of each, not the median: what disturbs a shared machine only ever slows.
    value, limit = (max(figures) for figures in zip(*pairs, strict=True))
    return _row(f"{shape}, kernel alone", value, "C -O3", limit, C_SHARE)


def _batch(value_bytes: int, batch_bytes: int) -> tuple[bytearray, int]:
    count = max(1, batch_bytes // (value_bytes + KEY_BYTES + 9))
    values = np.random.default_rng(7).bytes(count * value_bytes)
    records = [
        (
            1_700_000_000_000 + index,
            b"key-%012d" % index,
            values[index * value_bytes : (index + 1) * value_bytes],
            (),
        )
        for index in range(count)
    ]
    return build_batch(records), count


def _seconds(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """CPU seconds of this thread for the best of `rounds` calls, each repeated to last a while."""
    work()
    repeats = 1
    best = float("inf")
    for _ in range(rounds):
        started = time.thread_time()
        for _ in range(repeats):
            work()
        elapsed = time.thread_time() - started
        best = min(best, elapsed / repeats)
        if elapsed < 0.002:
            repeats = int(repeats * 0.003 / max(elapsed, 1e-5)) + 1
    return best


def _million(columns: Columns, seconds: float) -> float:
    return len(columns) / seconds / 1e6


def _compile_reference(directory: pathlib.Path) -> Callable[..., int] | None:
    """The walk in C, where there is a C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    source = pathlib.Path(__file__).with_name("kernels_reference.c")
    library = directory / "reference.so"
    options = ["-O3", "-march=native", "-shared", "-fPIC"]
    subprocess.run([compiler, *options, "-o", str(library), str(source)], check=True)
    function = ctypes.CDLL(str(library)).reference_window
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    function.argtypes = [pointer, pointer, number, pointer, pointer, number]
    function.restype = number
    reference: Callable[..., int] = function
    return reference


def main() -> None:
    report = load()
    state = "compiled and loaded" if report.compiled else "loaded"
    print(f"kernels {state} in {report.seconds * 1000:.0f} ms")
    print(render(run()))


if __name__ == "__main__":
    main()
