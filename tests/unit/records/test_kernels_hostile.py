"""Kernels over every truncation and every changed byte: no access out of bounds, no other answer.

The sources run uncompiled over pointers that check each access; the machine code made from them
must then give the same answers.
"""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from ledgerstone.errors import KafkaError
from ledgerstone.records.batch import HEADER_SIZE
from ledgerstone.records.builder import build_batch
from ledgerstone.records.kernels import inspect_records, rewrite, walk
from ledgerstone.records.record import plain_inspect_records
from tests.oracles.uncompiled import (
    gather_uncompiled,
    inspect_uncompiled,
    rewrite_uncompiled,
    span_headers_uncompiled,
    views_uncompiled,
    walk_uncompiled,
)
from tests.unit.records import vectors

PAYLOADS = {
    "headers": (bytes(vectors.THREE[HEADER_SIZE:]), 3),
    "tombstone": (bytes(vectors.STAMPED_TOMBSTONE[HEADER_SIZE:]), 1),
    "long fields": (
        bytes(build_batch([(-(2**62), b"k" * 70, b"v" * 130, ()), (2**61, None, b"", ())])[61:]),
        2,
    ),
}
WINDOWS = {
    "three and a marker": vectors.THREE + vectors.COMMIT,
    "empty between": vectors.TOMBSTONE + vectors.EMPTY + vectors.K1_V1,
}


def _mutations(sample: bytes, *, every_value: bool = False) -> Iterator[bytes]:
    for end in range(len(sample)):
        yield sample[:end]
    for position, byte in enumerate(sample):
        few = (byte ^ 0x01, byte ^ 0x80, 0x00, 0x7F, 0xFF)
        for other in range(256) if every_value else few:
            yield sample[:position] + bytes([other]) + sample[position + 1 :]


@pytest.mark.parametrize("name", list(PAYLOADS))
def test_inspection_stays_in_bounds_and_agrees_with_both_twins(name: str) -> None:
    payload, record_count = PAYLOADS[name]
    faults = set()

    for mutation in _mutations(payload, every_value=len(payload) < 50):
        uncompiled = inspect_uncompiled(mutation, record_count)
        assert uncompiled == tuple(inspect_records(mutation, record_count=record_count))
        assert uncompiled == tuple(plain_inspect_records(mutation, record_count=record_count))
        faults.add(uncompiled[0])

    assert {0, 1, 4} <= faults


@pytest.mark.parametrize("name", list(WINDOWS))
def test_walk_stays_in_bounds_and_compiled_gives_the_same_columns(name: str) -> None:
    compared = 0

    for mutation in _mutations(WINDOWS[name]):
        walked = walk_uncompiled(mutation)
        try:
            columns = walk(mutation, verify_crc=False)
        except KafkaError:
            assert walked is None or walked.status != 0
            continue
        if walked is None:
            # A codec the flip made up, over a payload that happens to be a stream of it.
            continue
        assert walked.status == 0
        assert walked.wide.numbers[: walked.written] == columns.offset.tolist()
        assert walked.narrow.numbers[-walked.room :][: walked.written] == (
            columns.batch_index.tolist() if walked.room else []
        )
        compared += 1

    assert compared > len(WINDOWS[name])


def test_walk_writes_no_more_rows_than_it_has_room_for() -> None:
    for room in range(3):
        walked = walk_uncompiled(vectors.THREE, room=room)

        assert walked is not None
        assert walked.status != 0
        assert walked.written == room


@pytest.mark.parametrize("name", list(WINDOWS))
def test_rewrite_stays_in_bounds_and_compiled_gives_the_same_bytes(name: str) -> None:
    compared = 0

    for mutation in _mutations(WINDOWS[name]):
        walked = walk_uncompiled(mutation)
        if walked is None or walked.status != 0 or walked.written != walked.room:
            continue
        keep = [index % 2 for index in range(walked.room)]
        actions = [1] * walked.batch_count
        status, data = rewrite_uncompiled(mutation, walked, keep, actions, 5)
        compiled = rewrite(
            walk(mutation, verify_crc=False),
            np.array(keep, np.uint8),
            actions=np.array(actions, np.uint8),
            delete_horizon_ms=5,
        )
        assert status == 0
        assert _without_crcs(data) == _without_crcs(bytes(compiled.data))
        compared += 1

    assert compared > len(WINDOWS[name])


def _without_crcs(window: bytes) -> bytes:
    out = bytearray(window)
    position = 0
    while position < len(out):
        out[position + 17 : position + 21] = bytes(4)
        position += 12 + int.from_bytes(out[position + 8 : position + 12], "big")
    return bytes(out)


@pytest.mark.parametrize("keep", [[1, 0, 1], [0, 1, 1]], ids=["copied", "encoded anew"])
def test_rewrite_believes_no_record_end(keep: list[int]) -> None:
    walked = walk_uncompiled(vectors.THREE)
    assert walked is not None
    assert rewrite_uncompiled(vectors.THREE, walked, keep, [0], -1)[0] == 0
    statuses = set()

    for ends in itertools.product([-1, 0, 61, 70, 77, 86, 94, 95, 96, 2**62], repeat=3):
        status, _ = rewrite_uncompiled(vectors.THREE, walked, keep, [0], -1, record_end=ends)
        statuses.add(status)

    assert 101 in statuses


def test_rewrite_stops_where_the_room_ends() -> None:
    window = vectors.THREE + vectors.TOMBSTONE
    walked = walk_uncompiled(window)
    assert walked is not None
    _, whole = rewrite_uncompiled(window, walked, [0, 1, 1, 1], [0, 0], 5)

    for room in range(len(whole)):
        status, _ = rewrite_uncompiled(window, walked, [0, 1, 1, 1], [0, 0], 5, room=room)
        assert status == 100
    assert rewrite_uncompiled(window, walked, [0, 1, 1, 1], [0, 0], 5, room=len(whole)) == (
        0,
        whole,
    )


SPANS = [(0, 3), (3, 2), (5, 0), (2, 2), (0, -1), (-1, 1), (4, 2), (5, 1), (2**62, 2**31 - 1)]


@pytest.mark.parametrize("span", SPANS)
def test_columns_believe_no_span(span: tuple[int, int]) -> None:
    start, length = span
    inside = length < 0 or (start, length) in {(0, 3), (3, 2), (5, 0)}

    status, data, offsets, validity = gather_uncompiled(
        b"abc", b"de", [start], [length], room=max(0, min(length, 8))
    )

    assert (status == 0) == inside
    assert (views_uncompiled(b"abc", b"de", [start], [length]) == 0) == inside
    if inside:
        assert data == b"abcde"[start : start + max(length, 0)]
        assert offsets == [0, max(length, 0)]
        assert validity == bytes([length >= 0])


def test_gather_stops_where_the_room_ends() -> None:
    assert gather_uncompiled(b"abc", b"", [0, 1], [3, 2], room=4)[0] == 100
    assert gather_uncompiled(b"abc", b"", [0, 1], [3, 2], room=5)[1] == b"abcbc"


def test_headers_stay_in_bounds_over_every_change() -> None:
    headers = b"\x02h\x02x\x02n\x01"
    statuses = set()

    for mutation in _mutations(headers, every_value=True):
        for count in range(4):
            for room in (count, 1):
                statuses.add(
                    span_headers_uncompiled(mutation, [0], [len(mutation)], [count], room=room)
                )

    assert statuses == {0, 100, 103}
