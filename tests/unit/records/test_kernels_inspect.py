"""`inspect_records`: the same facts as the plain twin, over every kind of buffer."""

import mmap
import subprocess
import sys
import threading

import numpy as np
import pytest

from ledgerstone.records.batch import HEADER_SIZE
from ledgerstone.records.builder import build_batch
from ledgerstone.records.kernels import inspect_records
from ledgerstone.records.record import (
    RecordFault,
    plain_inspect_records,
)
from ledgerstone.records.records_facts import NearKind, NearTombstones
from ledgerstone.types import Buffer

PAYLOAD = bytes(
    build_batch(
        [
            (1000, b"a", b"1", (("h", b"x"), ("n", None))),
            (1 << 40, None, b"2" * 300, ()),
            (5, b"", None, ()),
            (5, None, None, ()),
        ]
    )[HEADER_SIZE:]
)


def test_facts_are_those_of_the_plain_twin() -> None:
    facts = inspect_records(PAYLOAD, record_count=4)

    assert facts == plain_inspect_records(PAYLOAD, record_count=4)
    assert facts.null_key_count == 2
    assert facts.first_null_key_index == 1
    assert facts.max_timestamp_index == 1
    assert facts.tombstone_count == 2


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (b"", NearKind.EMPTY),
        (b"null", NearKind.NULL_TEXT),
        (b"\0\0\0\0\x07", NearKind.FRAMED_NULL),
        (b"\0\0\0\0\x07\0", NearKind.FRAMED_NULL),
        (None, None),
        (b"0", None),
        (b"NULL", None),
        (b"nul", None),
        (b"nulls", None),
        (b"\x01\0\0\0\x07", None),
        (b"\0\0\0\0\x07\x02", None),
        (b"\0\0\0\0\x07\0\0", None),
        (b"\0\0\0\0", None),
    ],
)
def test_values_that_look_like_failed_deletes_are_told_by_kind(
    value: bytes | None, kind: NearKind | None
) -> None:
    parts = [(1, b"k", each, ()) for each in (b"longer value", value, b"another", value)]
    payload = bytes(build_batch(parts)[HEADER_SIZE:])

    facts = inspect_records(payload, record_count=4)

    assert facts == plain_inspect_records(payload, record_count=4)
    if kind is None:
        assert facts.near is None
    else:
        counts = tuple(2 if each is kind else 0 for each in NearKind)
        assert facts.near == NearTombstones(counts, 1, kind)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("payload", "record_count", "fault"),
    [
        (PAYLOAD, 5, RecordFault.COUNT_MISMATCH),
        (PAYLOAD, 3, RecordFault.TRAILING_BYTES),
        (PAYLOAD, -1, RecordFault.COUNT_MISMATCH),
        (b"", 1, RecordFault.COUNT_MISMATCH),
        (PAYLOAD[:-1], 4, RecordFault.TRUNCATED),
        (b"\x80\x80\x80\x80\x80\x01", 1, RecordFault.VARINT_TOO_LONG),
        (b"\xff\xff\xff\xff\x1f", 1, RecordFault.VARINT_TOO_LONG),
        (b"\x01", 1, RecordFault.NEGATIVE_LENGTH),
        (b"\x00", 1, RecordFault.LENGTH_MISMATCH),
        (b"\x0c\x00\x00\x00\x01\x01\x01", 1, RecordFault.BAD_HEADER_COUNT),
        (b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", 1, RecordFault.NULL_HEADER_KEY),
    ],
)
def test_fault_is_found_where_the_plain_twin_finds_it(
    payload: bytes, record_count: int, fault: RecordFault
) -> None:
    facts = inspect_records(payload, record_count=record_count)

    assert facts.status == fault
    assert facts == plain_inspect_records(payload, record_count=record_count)


def _mapped(payload: bytes) -> memoryview:
    mapping = mmap.mmap(-1, len(payload))
    mapping[:] = payload
    return memoryview(mapping)


@pytest.mark.parametrize(
    "payload",
    [
        PAYLOAD,
        bytearray(PAYLOAD),
        memoryview(PAYLOAD),
        memoryview(bytearray(PAYLOAD)),
        memoryview(b"xx" + PAYLOAD + b"yy")[2:-2],
        memoryview(bytearray(b"xx" + PAYLOAD + b"yy"))[2:-2],
        np.frombuffer(PAYLOAD, np.uint8).data,
        np.frombuffer(PAYLOAD, np.uint8).copy().data,
        _mapped(PAYLOAD),
        _mapped(PAYLOAD).toreadonly(),
    ],
)
def test_every_kind_of_buffer_is_read_in_place(payload: Buffer) -> None:
    facts = inspect_records(payload, record_count=4)

    assert facts == plain_inspect_records(PAYLOAD, record_count=4)


def test_buffer_with_gaps_is_refused() -> None:
    with pytest.raises((BufferError, TypeError)):
        inspect_records(memoryview(bytes(20))[::2], record_count=1)


def test_buffer_is_free_again_after_the_call() -> None:
    payload = bytearray(PAYLOAD)

    inspect_records(payload, record_count=4)
    payload.append(0)

    assert inspect_records(payload, record_count=4).status == RecordFault.TRAILING_BYTES


def test_threads_do_not_share_facts() -> None:
    wrong: list[int] = []

    def inspect(count: int) -> None:
        payload = bytes(build_batch([(i, b"k", b"v", ()) for i in range(count)])[HEADER_SIZE:])
        for _ in range(200):
            facts = inspect_records(payload, record_count=count)
            if facts.last_offset_delta != count - 1:
                wrong.append(count)

    threads = [threading.Thread(target=inspect, args=(count,)) for count in (1, 50, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []


def test_produce_path_imports_neither_numpy_nor_numba() -> None:
    program = (
        "import sys; from ledgerstone.records.kernels import inspect_records;"
        "inspect_records(b'', record_count=0);"
        "sys.exit('numpy' in sys.modules or 'numba' in sys.modules)"
    )

    child = subprocess.run([sys.executable, "-c", program], check=False)

    assert child.returncode == 0
