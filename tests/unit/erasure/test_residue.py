"""Scanning every file of a log directory for a key."""

import errno
import hashlib

import pytest
from crc32c import crc32c

from ledgerstone.erasure.erasure import FileHits, RecordSpan
from ledgerstone.erasure.log_windows import WINDOW_BYTES
from ledgerstone.erasure.scan_plan import SHOWN_PLACES
from ledgerstone.fs import Filesystem, join
from ledgerstone.records.batch import Codec
from ledgerstone.records.builder import build_batch
from ledgerstone.storage.filenames import delete_dir_name
from ledgerstone.types import TopicPartition
from ledgerstone.workers.pace import JobAborted
from tests.kit.planted_keys import LOG, LOG_DIR, PARTITION, disk_with, put, scanned

KEY = b"alice@example.org"
UUID = "0123456789abcdef0123456789abcdef"
COMPRESSED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


def batch(
    *records: tuple[bytes, bytes | None], base_offset: int = 0, codec: Codec = Codec.NONE
) -> bytes:
    parts = [(1, *each, ()) for each in records]
    return bytes(build_batch(parts, base_offset=base_offset, codec=codec))


@pytest.mark.parametrize(
    "name",
    [
        f"{PARTITION}/00000000000000000000.index",
        f"{PARTITION}/00000000000000000000.timeindex",
        f"{PARTITION}/00000000000000000000.txnindex",
        f"{PARTITION}/00000000000000000007.snapshot",
        f"{PARTITION}/00000000000000000000.index.deleted",
        f"{PARTITION}/leader-epoch-checkpoint",
        f"{PARTITION}/partition.metadata",
        f"{PARTITION}/cleaning-history.json",
        f"{PARTITION}/foreign/deep/file",
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "replication-offset-checkpoint",
        "cleaner-offset-checkpoint",
        "meta.properties",
        ".kafka_cleanshutdown",
        "backup.tar",
        f"customers-1.{UUID}-delete/00000000000000000000.index",
        f"customers-1.{UUID}-stray/leader-epoch-checkpoint",
        "__consumer_offsets-3/00000000000000000000.timeindex",
    ],
)
@pytest.mark.parametrize("before", [0, 1, 1000])
def test_key_in_a_file_that_is_no_log_is_residue(name: str, before: int) -> None:
    fs = disk_with({name: b"\1" * before + KEY + b"\2" * 3, "other": b"nothing"})

    report = scanned(fs, KEY)

    found = report.prints[0]
    assert (found.records, found.mentions, found.residue) == (0, 0, 1)
    assert [str(place) for place in found.residue_places] == [f"0/{name} at {before}"]
    assert report.trouble is None


@pytest.mark.parametrize(
    "name",
    [
        f"{PARTITION}/{LOG}",
        f"{PARTITION}/{LOG}.deleted",
        f"{PARTITION}/{LOG}.cleaned",
        f"{PARTITION}/{LOG}.swap",
    ],
)
@pytest.mark.parametrize("codec", list(Codec))
def test_record_of_the_key_is_found_once_in_every_log_file(name: str, codec: Codec) -> None:
    data = batch((b"bob", b"1"), (KEY, b"about " + KEY), (KEY, None), codec=codec)
    fs = disk_with({name: data})

    found = scanned(fs, KEY).prints[0]

    assert (found.records, found.mentions, found.residue) == (2, 0, 0)
    assert found.spans == (RecordSpan("customers", 0, 1, 2, 2, 1),)
    assert [place.offset for place in found.record_places] == [1, 2]


@pytest.mark.parametrize("state", ["delete", "stray"])
@pytest.mark.parametrize("codec", list(Codec))
def test_record_in_a_directory_that_is_no_replica_any_more_is_of_no_known_life(
    state: str, codec: Codec
) -> None:
    """A former host may hold records of a leader that was replaced: nothing truncates them there,
    and with an offset behind the tombstone they would pass for a later life of the key."""
    file = f"{PARTITION}.{UUID}-{state}/{LOG}"
    fs = disk_with({file: batch((b"bob", b"1"), (KEY, b"1"), (KEY, None), codec=codec)})

    report = scanned(fs, KEY)

    own, other = (
        report.of_replica(0, topic=each, node_id=1, started_ms=0, ended_ms=0)
        for each in ("customers", "orders")
    )
    assert (own.residue, own.residue_files, own.records) == (2, (FileHits(f"0/{file}", 2),), ())
    assert own.residue_places == (f"0/{file}",)
    assert (other.residue, other.records) == (0, (RecordSpan("customers", 0, 1, 2, 2, 1),))


def test_copy_for_another_directory_proves_nothing_and_cannot_be_accepted() -> None:
    """It may hold what was cut off the log since, and is the log soon."""
    file = f"{PARTITION}.{UUID}-future/{LOG}"
    report = scanned(disk_with({file: batch((KEY, b"1"))}), KEY)

    own = report.of_replica(0, topic="customers", node_id=1, started_ms=0, ended_ms=0)

    assert f"the key is in 0/{file}" in str(own.trouble)
    assert (own.residue, own.residue_files, own.records) == (0, (), ())


def test_name_of_a_directory_that_was_cut_is_of_every_topic_it_may_have_been_of() -> None:
    """Names of doomed directories are shortened: under another name the records would be told as
    those of another topic, and hold nothing back."""
    topic = "customers." + "x" * 230
    file = f"{delete_dir_name(TopicPartition(topic, 0), UUID)}/{LOG}"
    assert topic not in file
    fs = disk_with({file: batch((KEY, b"1"))})

    report = scanned(fs, KEY)

    own, other = (
        report.of_replica(0, topic=each, node_id=1, started_ms=0, ended_ms=0)
        for each in (topic, "customers")
    )
    assert (own.residue, own.residue_files) == (1, (FileHits(f"0/{file}", 1),))
    assert other.residue == 0


def test_log_of_a_directory_within_another_one_is_of_no_known_life() -> None:
    """A copy that somebody made may be of a former topic of this name."""
    file = f"backup/{PARTITION}/{LOG}"
    found = scanned(disk_with({file: batch((KEY, b"1"))}), KEY).prints[0]

    assert (found.records, found.spans, found.residue) == (0, (), 1)
    assert [each.file for each in found.residue_files] == [f"0/{file}"]


@pytest.mark.parametrize("codec", list(Codec))
def test_key_inside_another_record_is_a_mention(codec: Codec) -> None:
    records = [
        (1, b"<" + KEY + b">", b"", ()),
        (1, b"bob", b"see " + KEY, ()),
        (1, b"carol", None, [(KEY.decode(), b"header")]),
        (1, None, b"", [("header", KEY)]),
        (1, b"dave", b"not a word", ()),
    ]
    fs = disk_with({"__consumer_offsets-0/" + LOG: bytes(build_batch(records, codec=codec))})

    found = scanned(fs, KEY).prints[0]

    assert (found.records, found.mentions, found.residue) == (0, 4, 0)
    assert [place.offset for place in found.mention_places] == [0, 1, 2, 3]


def test_key_across_two_records_is_residue() -> None:
    # The second record's length, attributes, deltas and key length lie between.
    data = batch((b"b", b"abc"), (b"c", b"def"))
    across = data[-12:-1]
    fs = disk_with({f"{PARTITION}/{LOG}": data})

    found = scanned(fs, across).prints[0]

    assert (found.records, found.mentions, found.residue) == (0, 0, 1)
    assert found.residue_places[0].position == len(data) - 12


def test_key_in_a_batch_header_is_residue() -> None:
    data = batch((b"bob", b"1")) + batch((b"bob", b"2"), base_offset=1)
    fs = disk_with({f"{PARTITION}/{LOG}": data})

    assert scanned(fs, data[20:40]).prints[0].residue == 1
    assert scanned(fs, data[40:75], data[60:80]).prints[1].residue == 1


@pytest.mark.parametrize("cut", [1, 10, 30])
def test_key_in_a_torn_batch_is_residue(cut: int) -> None:
    good = batch((b"bob", b"1"))
    torn = batch((KEY, b"v" * 40), base_offset=1)
    fs = disk_with({f"{PARTITION}/{LOG}": good + torn[:-cut]})

    report = scanned(fs, KEY)

    assert (report.prints[0].records, report.prints[0].residue) == (0, 1)
    assert report.trouble is not None
    assert f"0/{PARTITION}/{LOG} at {len(good)}" in report.trouble


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("key", [KEY, b"abc"], ids=["long", "short"])
def test_record_in_a_batch_of_another_crc_is_residue(codec: Codec, key: bytes) -> None:
    data = bytearray(batch((key, b"v"), (b"bob", b"of " + KEY), codec=codec))
    data[17] ^= 1
    fs = disk_with({f"{PARTITION}/{LOG}": bytes(data)})

    found = scanned(fs, key).prints[0]

    assert (found.records, found.mentions) == (0, 0)
    assert found.residue == (2 if key == KEY else 1)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_bytes_of_a_compressed_batch_are_residue_only_where_nothing_explains_them(
    codec: Codec,
) -> None:
    data = batch((b"bob", bytes(range(256)) * 3), codec=codec)
    inside = data[61:][4:16]
    fs = disk_with({f"{PARTITION}/{LOG}": data})

    found = scanned(fs, inside).prints[0]

    # Snappy keeps literals as they are; the record they stand for explains them.
    assert found.records == 0
    assert found.residue + found.mentions == 1


def test_two_payloads_side_by_side_in_memory_make_no_hit() -> None:
    first = batch((b"bob", b"1"), codec=Codec.LZ4)
    second = batch((b"bob", b"2"), base_offset=1, codec=Codec.LZ4)
    plain = [batch((b"bob", b"1"))[61:], batch((b"bob", b"2"), base_offset=1)[61:]]
    fs = disk_with({f"{PARTITION}/{LOG}": first + second})

    report = scanned(fs, plain[0][-4:] + plain[1][:4])

    assert report.prints[0].residue == 0


@pytest.mark.parametrize("shift", [-len(KEY), -len(KEY) + 1, -9, -1, 0, 1])
@pytest.mark.parametrize("windows", [1, 2])
def test_key_at_the_border_of_two_windows_is_found_once(shift: int, windows: int) -> None:
    content = bytearray(windows * WINDOW_BYTES + 1000)
    position = windows * WINDOW_BYTES + shift
    content[position : position + len(KEY)] = KEY
    fs = disk_with({"file": bytes(content)})

    # A longer key makes the lead longer than this key needs.
    found = scanned(fs, b"x" * 5000, KEY).prints[1]

    assert [place.position for place in found.residue_places] == [position]
    assert found.residue == 1


def test_log_of_many_windows_gives_the_same_hits_as_its_batches() -> None:
    values = [b"v" * 3000, b"v" * 700 + KEY, KEY * 2]
    parts = [
        batch((b"k%d" % at, values[at % 3]), (KEY if at % 100 == 5 else b"x", b"y" * 500),
              base_offset=2 * at, codec=Codec.ZSTD if at % 7 == 0 else Codec.NONE)
        for at in range(3000)
    ]  # fmt: skip
    fs = disk_with({f"{PARTITION}/{LOG}": b"".join(parts)})
    assert sum(map(len, parts)) > 2 * WINDOW_BYTES

    found = scanned(fs, KEY).prints[0]

    assert (found.records, found.mentions, found.residue) == (30, 1000 + 2 * 1000, 0)
    assert found.spans == (RecordSpan("customers", 0, 11, 5811, 30, 0),)
    assert len(found.record_places) == len(found.mention_places) == SHOWN_PLACES


def test_batch_that_does_not_fit_a_window_is_scanned_whole() -> None:
    large = batch((b"bob", b"x" * (5 << 20) + KEY), (KEY, b"1"))
    fs = disk_with({f"{PARTITION}/{LOG}": large + batch((KEY, b"2"), base_offset=2)})

    report = scanned(fs, KEY)

    assert (report.prints[0].records, report.prints[0].mentions) == (2, 1)
    assert report.trouble is None


def test_batch_that_cannot_be_unpacked_makes_the_scan_incomplete() -> None:
    data = batch((KEY, b"v" * 100), codec=Codec.ZSTD)
    fs = disk_with({f"{PARTITION}/{LOG}": data[:61] + b"\xff" * (len(data) - 61)})

    assert scanned(fs, KEY).trouble is not None


def test_room_taken_in_advance_is_no_damage() -> None:
    fs = disk_with({f"{PARTITION}/{LOG}": batch((KEY, b"v")) + bytes(3 * WINDOW_BYTES)})

    report = scanned(fs, KEY)

    assert report.prints[0].records == 1
    assert report.trouble is None


def test_file_that_goes_before_its_turn_is_listed_and_nothing_else() -> None:
    fs = disk_with({"a": b"first", "b": b"second " + KEY, "c": b"third"})

    report = scanned(fs, KEY, before_read=lambda size: _unlink(fs, "b"))

    assert report.vanished == ("0/b",)
    assert [each.path for each in report.files] == ["0/a", "0/c"]
    assert (report.prints[0].residue, report.trouble) == (0, None)


def test_file_that_comes_while_others_are_scanned_is_scanned_too() -> None:
    fs = disk_with({"a": b"first"})

    report = scanned(fs, KEY, before_read=lambda size: put(fs, "b", b"late " + KEY))

    assert [each.path for each in report.files] == ["0/a", "0/b"]
    assert report.prints[0].residue == 1


def test_records_that_move_into_a_file_already_scanned_are_found() -> None:
    log, later = f"{PARTITION}/{LOG}", f"{PARTITION}/00000000000000000005.log"
    fs = disk_with({log: batch((b"bob", b"1")), later: batch((KEY, b"2"), base_offset=5)})
    reads: list[int] = []

    def swap_after_the_first_file(size: int) -> None:
        # As the cleaner does: two segments become one, the second is gone before it is read.
        reads.append(size)
        if len(reads) == 2:
            merged = batch((b"bob", b"1")) + batch((KEY, b"2"), base_offset=5)
            put(fs, log, merged)
            file = fs.open(join(LOG_DIR, later))
            file.truncate(0)
            _unlink(fs, later)

    report = scanned(fs, KEY, before_read=swap_after_the_first_file)

    assert report.prints[0].records == 1
    assert report.vanished == (f"0/{later}",)
    assert [each.path for each in report.files] == [f"0/{log}"]


@pytest.mark.parametrize("loses", [True, False])
def test_only_a_directory_that_loses_logs_all_the_while_makes_the_scan_incomplete(
    loses: bool,
) -> None:
    fs = disk_with({f"{PARTITION}/{LOG}": batch((b"bob", b"1"))})
    count = 0

    def roll(size: int) -> None:
        nonlocal count
        count += 1
        put(fs, f"{PARTITION}/{count:020d}.log", batch((b"bob", b"1"), base_offset=count))
        if loses:
            _unlink(fs, f"{PARTITION}/{count - 1:020d}.log")

    report = scanned(fs, KEY, before_read=roll)

    assert report.restless == ((f"0/{PARTITION}",) if loses else ())
    assert (report.trouble is not None) == loses


def test_file_that_grows_is_scanned_up_to_the_size_first_seen() -> None:
    log = f"{PARTITION}/{LOG}"
    first = batch((b"bob", b"1"))
    fs = disk_with({log: first})

    report = scanned(
        fs, KEY, before_read=lambda size: put(fs, log, first + batch((KEY, b"2"), base_offset=1))
    )

    assert report.grown == (f"0/{log}",)
    assert report.files[0].size_bytes == len(first)
    assert (report.prints[0].records, report.trouble) == (0, None)


def test_file_that_shrinks_is_scanned_as_far_as_it_reaches() -> None:
    fs = disk_with({"file": KEY + bytes(100)})

    report = scanned(
        fs, KEY, before_read=lambda size: fs.open(join(LOG_DIR, "file")).truncate(len(KEY))
    )

    assert report.files[0].size_bytes == len(KEY)
    assert report.prints[0].residue == 1


def test_unreadable_file_makes_the_scan_incomplete() -> None:
    fs = disk_with({"a": b"", "b": KEY})
    fs.fail_matching("pread", join(LOG_DIR, "b"), errno.EIO)

    report = scanned(fs, KEY)

    assert report.trouble is not None
    assert "0/b" in report.trouble


def test_log_directory_that_is_not_there_makes_the_scan_incomplete() -> None:
    fs = disk_with({})
    fs.remove_dir(LOG_DIR)

    assert scanned(fs, KEY).trouble is not None


def test_digest_names_every_file_and_its_content() -> None:
    files = {"b": b"two", "a/c": b"three", "a.d": b""}
    lines = [
        f"0/{name}\0{len(content)}\0{crc32c(content):08x}\n"
        for name, content in sorted(files.items())
    ]

    report = scanned(disk_with(files), KEY)

    assert report.digest == hashlib.sha256("".join(lines).encode()).hexdigest()
    assert report.digest != scanned(disk_with({**files, "b": b"twO"}), KEY).digest
    assert report.scanned_bytes == 8


def test_same_key_in_another_topic_is_told_apart_by_its_span() -> None:
    fs = disk_with({
        f"{PARTITION}/{LOG}": batch((b"bob", b"1")),
        f"orders-2/{LOG}": batch((KEY, b"2")),
    })  # fmt: skip

    found = scanned(fs, KEY).prints[0]

    assert found.spans == (RecordSpan("orders", 2, 0, 0, 1, 0),)


def test_scan_of_a_replica_is_what_the_life_cycle_wants_to_know() -> None:
    fs = disk_with({f"{PARTITION}/{LOG}": batch((KEY, b"1"), (b"b", KEY)), "x": KEY})

    report = scanned(fs, b"other key", KEY)
    scan = report.of_replica(1, topic="customers", node_id=3, started_ms=5, ended_ms=9)

    assert (scan.node_id, scan.files, scan.mentions, scan.residue) == (3, 2, 1, 1)
    assert scan.records == (RecordSpan("customers", 0, 0, 0, 1, 0),)
    assert scan.residue_places == ("0/x at 0",)
    assert scan.residue_files == (FileHits("0/x", 1),)
    assert (scan.trouble, scan.troubles) == (None, ())
    assert [(each.kind, each.files) for each in scan.kinds] == [
        ("logs", 1),
        ("files that are not the broker's", 1),
    ]
    (partition,) = scan.partitions
    assert (partition.partition, partition.files, scan.partition_count) == (0, 1, 1)


def test_scan_ends_where_it_is_no_longer_wanted() -> None:
    fs = disk_with({"a": b"1", "b": b"2"})

    def give_up(size: int) -> None:
        raise JobAborted("enough")

    with pytest.raises(JobAborted):
        scanned(fs, KEY, before_read=give_up)


def _unlink(fs: Filesystem, name: str) -> None:
    path = join(LOG_DIR, name)
    if fs.exists(path):
        fs.unlink(path)
