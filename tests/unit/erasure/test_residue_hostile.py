"""Keys and files that somebody chose to be difficult: every one is found, in bounded time."""

import pytest

from ledgerstone.erasure.key_print import MIN_RAW_BYTES
from ledgerstone.erasure.scan_plan import MAX_RAW_BYTES
from ledgerstone.records.batch import Codec
from ledgerstone.records.builder import build_batch
from tests.kit.planted_keys import LOG, PARTITION, disk_with, keys_of, scanned, searched

MIB = 1 << 20


def thue_morse(size: int) -> bytes:
    return bytes(b"ab"[index.bit_count() & 1] for index in range(size))


HOSTILE: dict[str, bytes] = {
    "empty": b"",
    "zero": b"\0",
    "one byte": b"a",
    "two bytes": b"\xff\xfe",
    "five bytes": b"alice",
    "six bytes": b"alice1",
    "seven zeros": bytes(7),
    "sixteen zeros": bytes(16),
    "page of zeros": bytes(4096),
    "all ones": b"\xff" * 12,
    "every byte": bytes(range(256)),
    "run": b"a" * 1000,
    "period two": b"ab" * 500,
    "thue morse": thue_morse(4096),
    "1 MiB": b"k" * MIB,
    "1 MiB of pattern": bytes(range(251)) * 4178,
    "latin": "straße-größe".encode("latin-1"),
    "umlauts": "Jürgen Müller".encode(),
    "combining": "e\u0301e\u0301e\u0301".encode(),
    "emoji": "👩‍👩‍👧‍👦👩‍👩‍👧‍👦".encode(),
    "right to left": "محمد بن علي".encode(),
    "bom": "\ufeffalice".encode(),
    "half a character": "Müller Müller".encode()[:-6] + b"\xc3",
    "newlines": b"a\r\nb\r\n\r\nc",
    "json": b'{"id":"alice","n":1}',
    "quotes": b"'\"`\\'\"`\\",
    "format": b"%s%n{0}{}%%d",
    "path": b"../../../etc/passwd",
    "terminal": b"\x1b[2J\x1b]0;x\x07",
    "nul inside": b"alice\0bob\0carol",
    "batch header": bytes(build_batch([(1, b"k", b"v", ())]))[:61],
    "batch": bytes(build_batch([(1, b"k", b"v", ())])),
    "record header": b"\x10ledgerstone.erasure.id",
    "header name": b"ledgerstone.erasure.id",
    "erasure id": b"ER-0123456789ABCDEF",
    "magic and crc": b"\x02\x00\x00\x00\x00\x00\x00",
    "varints": b"\xff\xff\xff\xff\x0f\x80\x80\x80\x80\x01",
    "gzip": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x00",
    "lz4": b"\x04\x22\x4d\x18\x60\x40\x82",
    "zstd": b"\x28\xb5\x2f\xfd\x00\x58\x00",
    "xerial": b"\x82SNAPPY\x00\x00\x00\x00\x01",
    "sql": b"'; DROP TABLE customers; --",
}


@pytest.mark.parametrize("name", list(HOSTILE))
def test_hostile_key_is_found_as_a_record_in_every_codec(name: str) -> None:
    key = HOSTILE[name]
    for codec in Codec:
        data = build_batch([(1, b"+" + key, b"v", ()), (2, key, b"w", ())], codec=codec)
        fs = disk_with({f"{PARTITION}/{LOG}": bytes(data)})

        report = scanned(fs, key)

        assert [each.offset for each in searched(fs, key).places] == [1]
        assert report.prints[0].records == 1
        assert report.trouble is None
        if is_telling(key) and name not in ("run", "1 MiB"):
            assert report.prints[0].mentions == 1
        assert (report.prints[0].raw_unsearched is None) == is_telling(key)


def is_telling(key: bytes) -> bool:
    """Whether its bytes are not everywhere by chance, as those of small numbers are."""
    return len(key.strip(b"\x00\xff")) >= MIN_RAW_BYTES


@pytest.mark.parametrize("name", [name for name in HOSTILE if is_telling(HOSTILE[name])])
def test_hostile_key_is_found_as_plain_bytes(name: str) -> None:
    key = HOSTILE[name]
    fs = disk_with({"file": b"\x07" * 100 + key + b"\x07" * 100})

    found = scanned(fs, key).prints[0]

    assert [place.position for place in found.residue_places] == [100]
    assert found.residue == 1


def test_all_hostile_keys_are_told_apart_in_one_scan() -> None:
    keys = list(HOSTILE.values())
    data = build_batch([(1, key, b"v", ()) for key in keys])
    fs = disk_with({f"{PARTITION}/{LOG}": bytes(data)})

    report = scanned(fs, *keys)

    assert [each.record_places[0].offset for each in report.prints] == list(range(len(keys)))
    assert [each.records for each in report.prints] == [1] * len(keys)


def test_run_of_the_keys_only_byte_costs_no_more_than_other_bytes() -> None:
    fs = disk_with({"file": b"k" * (3 * MIB)})

    found = scanned(fs, b"k" * MIB).prints[0]

    assert 1 <= found.residue <= 12


def test_key_too_long_for_a_window_is_still_found_as_a_record() -> None:
    key = b"k" * (MAX_RAW_BYTES + 1)
    fs = disk_with({f"{PARTITION}/{LOG}": bytes(build_batch([(1, key, b"v", ())])), "x": key})

    found = scanned(fs, key).prints[0]

    assert (found.records, found.residue) == (1, 0)
    assert found.raw_unsearched is not None


@pytest.mark.parametrize("size", [2**31 - 12 - 1, 2**31 - 1, -1, -(2**31), 0, 48, 49, 10**9])
def test_size_that_a_batch_claims_is_not_believed(size: int) -> None:
    data = bytearray(build_batch([(1, b"k", b"alice-in-a-value", ())]))
    good = bytes(data)
    data[8:12] = size.to_bytes(4, "big", signed=True)
    fs = disk_with({f"{PARTITION}/{LOG}": good + bytes(data)})

    report = scanned(fs, b"alice-in-a-value")

    found = report.prints[0]
    assert (found.mentions, found.residue) == (1, 1)
    assert report.trouble is not None


def test_record_count_that_a_batch_claims_is_not_believed() -> None:
    data = bytearray(build_batch([(1, b"alice-the-key", b"v", ())]))
    data[57:61] = (2**31 - 1).to_bytes(4, "big")
    fs = disk_with({f"{PARTITION}/{LOG}": bytes(data)})

    report = scanned(fs, b"alice-the-key")

    assert (report.prints[0].records, report.prints[0].residue) == (0, 1)
    assert report.trouble is not None


def test_plan_shows_neither_key_nor_secrets() -> None:
    keys = keys_of(b"alice-the-key")

    shown = repr(keys)

    assert "alice" not in shown
    assert keys.sip_seed.hex() not in shown
    assert str(keys.rolling_base) not in shown
    assert repr(keys.sip_seed) not in shown
