"""Good batches behind a bad place, and what it costs to look for them."""

from random import Random
from struct import pack
from typing import Any

import pytest

from ledgerstone.fs import File
from ledgerstone.storage.damage_search import bad_spans, good_spans, next_good_batch
from ledgerstone.types import Buffer
from tests.kit.logs import World
from tests.kit.scenario import disk, put, stored

FAKES_BYTES = 1 << 19


class Counted:
    """A file that counts the bytes it was asked for."""

    def __init__(self, file: File) -> None:
        self._file = file
        self.bytes_read = 0

    def pread(self, size: int, position: int) -> bytes:
        self.bytes_read += size
        return self._file.pread(size, position)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def file_of(content: Buffer) -> Any:
    fs = disk(World())
    put(fs, "/log", content)
    return Counted(fs.open("/log"))


def fakes(end: int) -> bytes:
    """Headers one behind the other, each of a batch that reaches to `end`."""
    found = bytearray()
    while len(found) < FAKES_BYTES:
        found += pack(">qiibIhi", 7, end - len(found) - 12, 0, 2, 0, 0, 0).ljust(32, b"\1")
    return bytes(found)


def test_headers_that_claim_the_whole_file_cost_no_more_than_others() -> None:
    batch = bytes(stored(7, "k" * 40))
    end = FAKES_BYTES + len(batch)
    file = file_of(fakes(end) + batch)

    found = next_good_batch(file, 0, end, from_offset=7)

    assert found == (FAKES_BYTES, 7, len(batch), 7)
    assert file.bytes_read < 300 * end


def test_headers_of_other_offsets_cost_nothing() -> None:
    batch = bytes(stored(9, "k" * 40))
    end = FAKES_BYTES + len(batch)
    file = file_of(fakes(end) + batch)

    found = next_good_batch(file, 0, end, from_offset=9)

    assert found == (FAKES_BYTES, 9, len(batch), 9)
    assert file.bytes_read < 4 * end


@pytest.mark.parametrize("size", [1, 4_000, 4_096, 4_100, 8_192, 70_000, 1_500_000])
@pytest.mark.parametrize("debris", [0, 1, 4_095, 5_000])
def test_batch_of_any_size_is_found_anywhere(size: int, debris: int) -> None:
    batch = bytes(stored(0, Random(size).randbytes(size // 2).hex()))
    content = b"\7" * debris + batch + bytes(stored(1, "b"))
    damaged = bytearray(content)
    damaged[debris + len(batch) // 2] ^= 1

    assert good_spans(file_of(content), len(content), 0) == [(debris, len(content))]
    found = bad_spans(file_of(damaged), len(damaged), 0)
    assert found == [(0, debris + len(batch))]
