"""Walking batches in a file: whole ones only, whatever lies after them."""

import pytest

from ledgerstone.errors import CorruptRecord
from ledgerstone.fs import File
from ledgerstone.records.batch import HEADER_SIZE, read_header
from ledgerstone.records.builder import empty_batch
from ledgerstone.storage.batch_scan import scan_batches, scan_headers
from ledgerstone.types import Buffer
from tests.kit.logs import World
from tests.kit.scenario import disk, put, stored

# Small ones, one that ends inside a second chunk of headers, one larger than the window.
SIZES = (1, 300, 9_000, 1, 1_500_000, 1, 40)


def batches() -> list[bytearray]:
    return [stored(n, "k" * size) for n, size in enumerate(SIZES)]


def file_of(content: Buffer) -> File:
    fs = disk(World())
    put(fs, "/log", content)
    return fs.open("/log")


def test_headers_and_batches_are_those_that_were_written() -> None:
    written = batches()
    content = b"".join(written)
    file = file_of(content)

    headers = list(scan_headers(file, 0, len(content)))
    found = [(at, header, bytes(view)) for at, header, view in scan_batches(file, 0, len(content))]

    assert [header.base_offset for _, header in headers] == list(range(len(SIZES)))
    assert [(at, header) for at, header, _ in found] == headers
    assert [data for _, _, data in found] == written


@pytest.mark.parametrize("last", ["empty", "larger than the window"])
def test_last_batch_is_found_whatever_its_size(last: str) -> None:
    batch = stored(1, "k" * 1_500_000)
    if last == "empty":
        batch = bytearray(empty_batch(read_header(stored(1, "a"))))
    content = stored(0, "a") + batch
    file = file_of(content)

    headers = [header.base_offset for _, header in scan_headers(file, 0, len(content))]
    whole = [header.base_offset for _, header, _ in scan_batches(file, 0, len(content))]

    assert headers == whole == [0, 1]


def test_walk_begins_in_the_middle_when_told_to() -> None:
    written = batches()
    content = b"".join(written)
    start = len(written[0]) + len(written[1])
    file = file_of(content)

    headers = [header.base_offset for _, header in scan_headers(file, start, len(content))]
    whole = [header.base_offset for _, header, _ in scan_batches(file, start, len(content))]

    assert headers == whole == list(range(2, len(SIZES)))


@pytest.mark.parametrize("missing", [1, 5, 20, 69])
def test_incomplete_last_batch_ends_the_walk_without_a_word(missing: int) -> None:
    content = b"".join(stored(n, "a") for n in range(5))
    end = len(content) - missing
    file = file_of(content[:end])

    headers = [header.base_offset for _, header in scan_headers(file, 0, end)]
    whole = [header.base_offset for _, header, _ in scan_batches(file, 0, end)]

    assert headers == whole == [0, 1, 2, 3]


def test_bytes_past_the_end_are_not_looked_at() -> None:
    content = b"".join(stored(n, "a") for n in range(3))
    file = file_of(content + b"\xff" * 500)

    assert len(list(scan_headers(file, 0, len(content)))) == 3
    assert len(list(scan_batches(file, 0, len(content)))) == 3


def test_file_that_is_shorter_than_it_should_be_ends_the_walk() -> None:
    content = b"".join(stored(n, "a") for n in range(3))
    file = file_of(content[:-10])

    assert len(list(scan_headers(file, 0, len(content)))) == 2
    assert len(list(scan_batches(file, 0, len(content)))) == 2


def test_zeros_after_the_last_batch_are_no_batch() -> None:
    content = bytes(stored(0, "a")) + bytes(4 * HEADER_SIZE)
    file = file_of(content)

    with pytest.raises(CorruptRecord, match="magic 0 with batch length 0"):
        list(scan_headers(file, 0, len(content)))
    with pytest.raises(CorruptRecord, match="magic 0 with batch length 0"):
        list(scan_batches(file, 0, len(content)))


def test_length_that_exceeds_the_file_is_not_allocated() -> None:
    lying = stored(0, "a")
    lying[8:12] = (2**31 - 1).to_bytes(4, "big")
    file = file_of(bytes(lying))

    assert list(scan_batches(file, 0, len(lying))) == []
