"""Searching logs for records of a key, and the answer to "where is it"."""

import pytest

from ledgerstone.erasure.audit_headers import ID_HEADER
from ledgerstone.erasure.erasure import RecordSpan
from ledgerstone.erasure.places import places_json
from ledgerstone.erasure.scan_plan import LiveSegment, SpanOfPrint
from ledgerstone.records.batch import Codec
from ledgerstone.records.builder import RecordHeaders, build_batch
from ledgerstone.records.control import end_txn_marker
from tests.kit.planted_keys import LOG, PARTITION, disk_with, searched

NO_HEADERS: RecordHeaders = ()


def batch(
    base_offset: int, *records: tuple[bytes, bytes | None], codec: Codec = Codec.NONE
) -> bytes:
    parts = [(100 + base_offset + at, *each, NO_HEADERS) for at, each in enumerate(records)]
    return bytes(build_batch(parts, base_offset=base_offset, codec=codec))


@pytest.mark.parametrize("codec", list(Codec))
def test_every_record_of_the_key_is_found_under_its_offset(codec: Codec) -> None:
    first = batch(0, (b"alice", b"1"), (b"bob", b"2"), codec=codec)
    second = batch(5, (b"carol", b"3"), (b"alice", None), codec=codec)
    fs = disk_with({f"{PARTITION}/{LOG}": first + second})

    report = searched(fs, b"alice")

    assert [(each.offset, each.position, each.is_tombstone) for each in report.places] == [
        (0, 0, False),
        (6, len(first), True),
    ]
    assert {each.codec for each in report.places} == {codec.config_name}
    assert [each.timestamp_ms for each in report.places] == [100, 106]
    assert report.spans_of(0) == (RecordSpan("customers", 0, 0, 6, 2, 1),)
    assert report.trouble is None


def test_keys_of_any_length_are_told_apart() -> None:
    keys = [b"", b"\0", b"a", b"aa", b"aaa", b"a" * 10_000]
    fs = disk_with({f"{PARTITION}/{LOG}": batch(0, *((key, b"v") for key in keys))})

    report = searched(fs, *keys)

    assert [(each.print_index, each.offset) for each in report.places] == [
        (at, at) for at in range(len(keys))
    ]


def test_two_prints_of_one_key_are_both_answered() -> None:
    fs = disk_with({f"{PARTITION}/{LOG}": batch(0, (b"alice", b"1"))})

    report = searched(fs, b"alice", b"bob", b"alice")

    assert [each.print_index for each in report.places] == [0, 2]
    assert [each.print_index for each in report.spans] == [0, 2]


def test_record_without_a_key_is_nobodys() -> None:
    data = bytes(build_batch([(1, None, b"", ())]))
    fs = disk_with({f"{PARTITION}/{LOG}": data})

    assert searched(fs, b"").places == ()


def test_marker_is_no_record_of_its_key() -> None:
    marker = end_txn_marker(
        commit=True, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=5
    )
    fs = disk_with({f"{PARTITION}/{LOG}": bytes(marker)})

    assert searched(fs, b"\0\0\0\1").places == ()


def test_what_lies_behind_the_end_the_owner_gave_is_not_read() -> None:
    first, second = batch(0, (b"alice", b"1")), batch(1, (b"alice", b"2"))
    fs = disk_with({f"{PARTITION}/{LOG}": first + second})

    report = searched(fs, b"alice", segments=[LiveSegment(0, len(first))])

    assert [each.offset for each in report.places] == [0]
    assert report.scanned_bytes == len(first)


@pytest.mark.parametrize("suffix", ["deleted", "cleaned", "swap"])
def test_files_that_wait_for_their_end_are_searched_too(suffix: str) -> None:
    fs = disk_with({
        f"{PARTITION}/{LOG}": batch(3, (b"alice", b"new")),
        f"{PARTITION}/{LOG}.{suffix}": batch(0, (b"alice", b"old")),
    })  # fmt: skip

    found = places_json(searched(fs, b"alice"))["places"]

    assert [(each["offset"], each["file_state"], each["state"]) for each in found] == [
        (0, suffix, "superseded"),
        (3, "live", "live"),
    ]


def test_erasure_that_wrote_a_tombstone_is_named() -> None:
    headers = [("other", None), (ID_HEADER, b"ER-0123456789ABCDEF")]
    data = build_batch([(1, b"alice", None, headers), (2, b"alice", b"back", headers)])
    fs = disk_with({f"{PARTITION}/{LOG}": bytes(data)})

    report = searched(fs, b"alice")

    assert [each.erasure_id for each in report.places] == ["ER-0123456789ABCDEF", None]


def test_latest_record_of_a_partition_decides_what_the_key_is() -> None:
    fs = disk_with({
        f"{PARTITION}/{LOG}": batch(0, (b"alice", b"1"), (b"alice", None), (b"alice", b"2")),
        f"{PARTITION}/00000000000000000003.log": batch(3, (b"alice", None)),
    })  # fmt: skip

    answer = places_json(searched(fs, b"alice"))

    assert [(each["offset"], each["state"]) for each in answer["places"]] == [
        (0, "superseded"),
        (1, "superseded"),
        (2, "superseded"),
        (3, "tombstone"),
    ]
    assert (answer["records"], answer["truncated"], answer["trouble"]) == (4, False, None)


def test_places_are_bounded_and_the_latest_is_always_among_them() -> None:
    log = b"".join(batch(at, (b"alice", b"v")) for at in range(50))
    fs = disk_with({f"{PARTITION}/{LOG}": log})

    report = searched(fs, b"alice", max_places=3)

    assert [each.offset for each in report.places] == [0, 1, 2, 49]
    assert report.is_truncated
    assert report.spans == (SpanOfPrint(0, RecordSpan("customers", 0, 0, 49, 50, 0)),)
    assert places_json(report)["places"][-1]["state"] == "live"


def test_torn_tail_is_told_and_what_lies_before_it_is_found() -> None:
    good, torn = batch(0, (b"alice", b"1")), batch(1, (b"alice", b"2"))
    fs = disk_with({f"{PARTITION}/{LOG}": good + torn[:-1]})

    report = searched(fs, b"alice")

    assert [each.offset for each in report.places] == [0]
    assert report.trouble is not None
    assert f"{LOG} at {len(good)}" in report.trouble


def test_batch_that_cannot_be_unpacked_does_not_hide_its_neighbours() -> None:
    parts = [batch(at, (b"alice", b"v" * 50), codec=Codec.ZSTD) for at in range(3)]
    broken = parts[1][:61] + b"\xff" * (len(parts[1]) - 61)
    fs = disk_with({f"{PARTITION}/{LOG}": parts[0] + broken + parts[2]})

    report = searched(fs, b"alice")

    assert [each.offset for each in report.places] == [0, 2]
    assert [each.position for each in report.damaged] == [len(parts[0])]


def test_segment_that_went_is_told() -> None:
    fs = disk_with({f"{PARTITION}/{LOG}": b""})

    report = searched(fs, b"alice", segments=[LiveSegment(7, 100)])

    assert report.vanished == ("customers-0/00000000000000000007.log",)
    assert report.trouble is not None


def test_batch_larger_than_a_window_is_searched_whole() -> None:
    large = batch(0, (b"bob", b"x" * (5 << 20)), (b"alice", b"1"))
    fs = disk_with({f"{PARTITION}/{LOG}": large + batch(2, (b"alice", b"2"))})

    assert [each.offset for each in searched(fs, b"alice").places] == [1, 2]
