"""The broker's own files: every place where users' bytes can be is found, and nothing else is."""

import json
from collections.abc import Callable
from dataclasses import replace
from struct import pack

import pytest

from ledgerstone.cleaner.history import Run, encode_runs
from ledgerstone.cleaner.plan import PassStats
from ledgerstone.cleaner.selection import CleaningReason
from ledgerstone.cleaner.tombstone_ledger import MissedDeletes, TombstoneLedger
from ledgerstone.config.properties import format_properties
from ledgerstone.erasure.erasure import Stage
from ledgerstone.erasure.journal import record_of
from ledgerstone.erasure.journal_chain import JournalMark
from ledgerstone.erasure.mark_slot import SLOT_BYTES, encoded
from ledgerstone.erasure.own_files import (
    DIRECTORIES,
    GROUP_IDS,
    IDENTITIES,
    LOG_DIRS,
    TOPIC_NAMES,
    is_own,
    read_fields,
)
from ledgerstone.erasure.own_records import journal_texts
from ledgerstone.erasure.receipt_issue import issue
from ledgerstone.erasure.scan_plan import PrintFindings
from ledgerstone.errors import Damage
from ledgerstone.raft.control_batches import bootstrap_snapshot
from ledgerstone.raft.hard_state import HardState, encode_hard_state
from ledgerstone.raft.replica import ReplicaKey
from ledgerstone.raft.voters import VoterSet
from ledgerstone.records.builder import build_batch
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem
from ledgerstone.storage.clean_stop import CleanStop, write_clean_stop
from ledgerstone.storage.damage_notes import OFFLINE, DamageNotes
from ledgerstone.storage.producer_snapshot import SnapshotEntry, encode_snapshot
from tests.kit.planted_keys import LOG, PARTITION, disk_with, scanned
from tests.unit.erasure.making import at_stage, requested
from tests.unit.server.asks import commit_offset
from tests.unit.server.erasing_kit import KEY as CUSTOMER
from tests.unit.server.erasing_kit import machine_with

KEY = "älice@example.org"
ASCII = "alice@example.org"
UUID = "0123456789abcdef0123456789abcdef"
NOW_MS = 1_794_800_000_000
INDEX = f"{PARTITION}/00000000000000000000.index"


def found_in(files: dict[str, bytes], key: str | bytes) -> PrintFindings:
    wanted = key.encode() if isinstance(key, str) else key
    return scanned(disk_with(files), wanted).prints[0]


def run(detail: str = "", **change: object) -> Run:
    fields: dict[str, object] = {
        "started_ms": NOW_MS, "ended_ms": NOW_MS + 17, "duration_ms": 17,
        "reason": CleaningReason.ASKED.value, "outcome": "cleaned", "detail": detail,
        "first_dirty_offset": 17948, "end_offset": 20_000, "segments_before": 2,
        "segments_after": 1, "stats": PassStats(records_read=17948),
    }  # fmt: skip
    return Run(**{**fields, **change})  # type: ignore[arg-type]


def history(group_id: str = "billing", detail: str = "") -> bytes:
    missed = MissedDeletes(group_id, 17948, 17948, 17949, NOW_MS)
    return encode_runs([run(detail)], TombstoneLedger(missed=(missed,)))


def checkpoint(topic: str = "customers") -> bytes:
    return f"0\n2\n__consumer_offsets 17 17948\n{topic} 0 1794800\n".encode()


def secrets(created_ms: int = NOW_MS) -> bytes:
    content = {"version": 1, "salt": "AAAA", "signing_key": "BBBB", "created_ms": created_ms}
    return json.dumps(content, indent=1).encode() + b"\n"


PARTITION_METADATA = b"version: 0\ntopic_id: AAAAAAAAQACAAAAAAAAAAg"
TIMES = pack(">qiqi", NOW_MS, 17, NOW_MS + 1, 17948)
ABORTED = pack(">hqqqq", 0, 17948, 5, 9, 10)
SNAPSHOT = encode_snapshot([SnapshotEntry(17948, 0, 5, 17948, 0, NOW_MS, 0, -1)])
META = format_properties(
    {"version": "1", "node.id": "17948", "cluster.id": "c", "directory.id": "d"}
)
SHUTDOWN = b'{"version":0,"brokerEpoch":17948}'


def damage_notes(partition: str = "orders-0", reason: str = "it is damaged") -> bytes:
    fs = SimFilesystem(dice=SeededDice(0))
    fs.make_dir("/data")
    notes = DamageNotes(fs, "/data/damage-notes.json")
    damage = Damage(f"/data/{partition}/{LOG}", 17948, 17948, reason)
    notes.add(partition, [damage], OFFLINE, now_ms=NOW_MS)
    notes.keep_sizes(partition, {17948: 17948})
    return fs.files()[notes.path]


def sizes_at_stop(partition: str = "orders-0") -> bytes:
    fs = SimFilesystem(dice=SeededDice(0))
    fs.make_dir("/data")
    stop = CleanStop(sizes={partition: {17948: 17948}}, ends={partition: 17948})
    write_clean_stop(fs, "/data/sizes", stop, marker=b"")
    return fs.files()["/data/sizes"]


LAST_START = format_properties({"boot.id": "b", "cluster.id": "c", "directory.id": "d"})

OWN = {
    "meta.properties": META,
    "recovery-point-offset-checkpoint": checkpoint(),
    "log-start-offset-checkpoint": checkpoint(),
    "replication-offset-checkpoint": checkpoint(),
    "cleaner-offset-checkpoint": checkpoint(),
    "cleaner-offset-checkpoint.tmp": checkpoint(),
    ".kafka_cleanshutdown": SHUTDOWN,
    ".lock": b"",
    "erasure.keys": secrets(),
    "erasure.keys.aside-0123456789abcdef": secrets(),
    "erasure.keys.aside-0123456789abcdef.1": secrets(),
    "erasure.mark": encoded(JournalMark(17948, bytes(32))).ljust(2 * SLOT_BYTES, b"\0"),
    "damage-notes.json": damage_notes(),
    "sizes-at-clean-stop.json": sizes_at_stop(),
    "last-start": LAST_START,
    f"{PARTITION}/leader-epoch-checkpoint": b"0\n1\n17948 17948\n",
    f"{PARTITION}/partition.metadata": PARTITION_METADATA,
    f"{PARTITION}/cleaning-history.json": history(),
    f"{PARTITION}/{LOG}": bytes(build_batch([(1, b"bob", b"v" * 40_000, ())])),
    INDEX: pack(">iiii", 17, 17948, 18, 17949),
    f"{PARTITION}/00000000000000000000.timeindex": TIMES,
    f"{PARTITION}/00000000000000000000.txnindex": ABORTED,
    f"{PARTITION}/00000000000000017948.snapshot": SNAPSHOT,
    f"{PARTITION}/00000000000000017948.log.follows": b"",
    "__cluster_metadata-0/quorum-state": encode_hard_state(
        HardState(17948, 1), kraft_version=0, voter_ids=(1, 17948)
    ),
    "__cluster_metadata-0/quorum-state.tmp": encode_hard_state(
        HardState(17948, 1, ReplicaKey(1)), kraft_version=1, voter_ids=()
    ),
    "__cluster_metadata-0/00000000000000017948-0000017948.checkpoint": bootstrap_snapshot(
        VoterSet(), wall_ms=1
    ),
}


@pytest.mark.parametrize(
    "key",
    [
        "17948", "1794800", "version", "offset", "records", "missed", "cleaned", "runs",
        "brokerEpoch", "created_ms", "topic_id", "node.id", "checkpoint", "somebody", "horizon",
        "signing_key", "00000", "snapshot", ".index",
    ],
)  # fmt: skip
def test_words_and_numbers_of_the_broker_are_nobodys_key(key: str) -> None:
    report = scanned(disk_with(OWN), key.encode())

    found = report.prints[0]
    assert report.trouble is None
    assert (found.records, found.mentions, found.residue, found.names) == (0, 0, 0, ())


@pytest.mark.parametrize("key", ["version", "node.id", "Nov 16", "17948"])
def test_properties_as_kafka_writes_them_are_read_too(key: str) -> None:
    kafka = b"#\n#Mon Nov 16 22:20:46 UTC 2026\nversion=1\nnode.id=17948\ncluster.id=alice\n"

    assert found_in({"meta.properties": kafka}, key).residue == 0
    assert found_in({"meta.properties": kafka}, "alice").names[0].what == IDENTITIES


def test_number_of_eight_bytes_in_an_index_is_nobodys_key() -> None:
    assert found_in(OWN, NOW_MS.to_bytes(8, "big")).residue == 0


@pytest.mark.parametrize("key", [KEY, ASCII, "eve"], ids=["escaped", "plain", "short"])
@pytest.mark.parametrize(
    ("name", "make", "what"),
    [
        ("recovery-point-offset-checkpoint", checkpoint, TOPIC_NAMES),
        ("log-start-offset-checkpoint", checkpoint, TOPIC_NAMES),
        ("replication-offset-checkpoint", checkpoint, TOPIC_NAMES),
        ("cleaner-offset-checkpoint.tmp", checkpoint, TOPIC_NAMES),
        (f"{PARTITION}/cleaning-history.json", history, GROUP_IDS),
        (
            "meta.properties",
            lambda text: format_properties({"version": "1", "node.id": "1", "cluster.id": text}),
            IDENTITIES,
        ),
    ],
)  # fmt: skip
def test_every_name_that_users_give_is_found_whatever_its_escaping(
    name: str, make: object, what: str, key: str
) -> None:
    assert callable(make)
    found = found_in({**OWN, name: make(key)}, key)

    assert [(each.what, each.hits) for each in found.names] == [(what, 1)]
    assert (found.records, found.mentions, found.residue) == (0, 0, 0)
    assert [str(place) for place in found.name_places] == [f"0/{name}, {what}"]


@pytest.mark.parametrize(
    ("name", "make", "names"),
    [
        ("damage-notes.json", damage_notes, {DIRECTORIES: 2, LOG_DIRS: 1}),
        ("sizes-at-clean-stop.json", sizes_at_stop, {DIRECTORIES: 2}),
    ],
)
def test_names_of_partitions_are_found_in_what_is_kept_about_them(
    name: str, make: Callable[[str], bytes], names: dict[str, int]
) -> None:
    found = found_in({**OWN, name: make("orders-of-alice-0")}, "alice")

    assert {each.what: each.hits for each in found.names} == names
    assert found.residue == 0


def test_id_that_holds_the_key_is_told() -> None:
    files = {
        **OWN,
        f"{PARTITION}/partition.metadata": b"version: 0\ntopic_id: " + b"alice" * 4 + b"ab",
    }

    assert [each.what for each in found_in(files, "alice").names] == [IDENTITIES]


@pytest.mark.parametrize("key", [KEY, ASCII])
@pytest.mark.parametrize(
    ("name", "make"),
    [
        (f"{PARTITION}/cleaning-history.json", lambda text: history(detail=f"of {text} it says")),
        (
            f"{PARTITION}/cleaning-history.json",
            lambda text: encode_runs([run(outcome=text)]),
        ),
        (
            f"{PARTITION}/cleaning-history.json",
            lambda text: json.dumps({text: 1}, separators=(",", ":")).encode() + b"\n",
        ),
        # In another form than the broker's: searched whole, and what escapes hide as well.
        (f"{PARTITION}/cleaning-history.json", lambda text: json.dumps([text]).encode()),
        ("erasure.keys", lambda text: json.dumps({"salt": text}, indent=1).encode() + b"\n"),
        (".kafka_cleanshutdown", lambda text: json.dumps({"version": text}).encode()),
        ("damage-notes.json", lambda text: damage_notes(reason=f"of {text} it says")),
        ("meta.properties", lambda text: format_properties({"node.id": text})),
        ("meta.properties", lambda text: format_properties({text: "1"})),
        ("meta.properties", lambda text: b"! a comment\n" + format_properties({"a": text})),
        ("meta.properties", lambda text: b"#of " + text.encode() + b"\nversion=1\n"),
    ],
)
def test_every_text_in_an_own_file_is_searched(name: str, make: object, key: str) -> None:
    assert callable(make)

    found = found_in({**OWN, name: make(key)}, key)

    assert (found.residue, found.names) == (1, ())


@pytest.mark.parametrize("name", list(OWN))
@pytest.mark.parametrize("before", [0, 7])
def test_own_file_of_any_kind_that_holds_other_bytes_is_searched_whole(
    name: str, before: int
) -> None:
    foreign = b"\1" * before + ASCII.encode() + b"\2" * 3

    for content in (foreign, OWN[name] + foreign, foreign + OWN[name]):
        found = found_in({**OWN, name: content}, ASCII)

        assert found.residue == 1, content
        assert [each.file for each in found.residue_files] == [f"0/{name}"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (INDEX, pack(">iiii", 18, 5, 17, 9)),
        (INDEX, pack(">ii", 17, 50_000)),
        (INDEX, pack(">ii", -1, 5)),
        (f"{PARTITION}/00000000000000000000.timeindex", pack(">qi", 1 << 44, 5)),
        (f"{PARTITION}/00000000000000000000.timeindex", pack(">qiqi", 9, 1, 8, 2)),
        (f"{PARTITION}/00000000000000000000.txnindex", pack(">hqqqq", 1, 1, 5, 9, 10)),
        (f"{PARTITION}/00000000000000000000.txnindex", pack(">hqqqq", 0, 1, 9, 5, 10)),
        (f"{PARTITION}/00000000000000000007.snapshot", SNAPSHOT[:-1] + b"\x07"),
        ("cleaner-offset-checkpoint", b"0\n3\na 1 2\n"),
        ("cleaner-offset-checkpoint", b"0\n1\na 1 2"),
        (f"{PARTITION}/partition.metadata", b"version: 1\ntopic_id: A"),
        (f"{PARTITION}/cleaning-history.json", b'{"version":1,"version":1,"runs":[]}\n'),
        (f"{PARTITION}/cleaning-history.json", b'{"version": 1,"runs":[]}\n'),
        ("quorum-state", b'{"leaderId":1,"leaderEpoch":2,"votedId":-1,"data_version":0}'),
        ("quorum-state", b'{"clusterId":"bob","leaderId":1}'),
    ],
)
def test_what_is_not_exactly_the_brokers_form_is_foreign(name: str, content: bytes) -> None:
    assert read_fields(name.rpartition("/")[2], content, 40_000) is None


def test_index_without_its_log_is_searched_whole() -> None:
    files = {name: content for name, content in OWN.items() if not name.endswith(LOG)}

    assert found_in(files, OWN[INDEX][1:8]).residue == 1
    assert found_in(OWN, OWN[INDEX][1:8]).residue == 0


def test_room_taken_in_advance_belongs_to_an_index() -> None:
    assert read_fields("00000000000000000000.index", OWN[INDEX] + bytes(64), 40_000) == []


# -- names of files and directories ---------------------------------------------------------------


@pytest.mark.parametrize(
    "directory",
    ["orders-of-alice-0", f"orders-of-alice-1.{UUID}-delete", f"alice-7.{UUID}-stray"],
)
def test_topic_in_the_name_of_a_directory_is_a_name(directory: str) -> None:
    found = found_in({f"{directory}/{LOG}": b"", "other": b""}, "alice")

    assert [(each.what, each.hits) for each in found.names] == [(DIRECTORIES, 1)]
    assert found.residue == 0
    assert "alice" not in str(found)


def test_directory_without_files_is_looked_at_too() -> None:
    fs = disk_with({})
    fs.make_dir("/data/alice-0")

    assert scanned(fs, b"alice").prints[0].names[0].what == DIRECTORIES


@pytest.mark.parametrize("name", ["alice.tar", "backup/of-alice", "alice/x", "orders-alice/x"])
def test_foreign_name_that_holds_the_key_is_residue_and_not_shown(name: str) -> None:
    report = scanned(disk_with({name: b""}), b"alice")

    found = report.prints[0]
    assert (found.residue, found.names) == (1, ())
    assert "…" in str(found.residue_places[0])
    assert "alice" not in str(found)


def test_path_of_the_log_directory_is_looked_at() -> None:
    found = scanned(disk_with({}), b"/data").prints[0]

    assert [(each.what, each.hits) for each in found.names] == [(LOG_DIRS, 1)]


def test_no_path_that_is_shown_holds_a_key() -> None:
    torn = bytes(build_batch([(1, b"alice", b"1", ())]))[:-1]
    report = scanned(
        disk_with({f"alice-0/{LOG}": torn, "notes-alice": b"alice"}), b"alice", b"bobby"
    )

    for shown in (report.prints, report.damaged, report.trouble, report.restless):
        assert "alice" not in str(shown)
    assert report.prints[0].residue == 3
    assert f"0/…-0/{LOG}" in str(report.trouble)


def test_records_of_a_log_outside_of_partitions_are_residue() -> None:
    copy = bytes(build_batch([(1, ASCII.encode(), b"1", ()), (1, b"bob", ASCII.encode(), ())]))

    found = found_in({f"backup/{LOG}": copy}, ASCII)

    assert (found.records, found.residue, found.spans) == (0, 1, ())
    assert found.mentions == 1


# -- the journal ----------------------------------------------------------------------------------


def journal(*records: tuple[bytes, bytes | None]) -> dict[str, bytes]:
    parts = [(NOW_MS, key, value, ()) for key, value in records]
    return {f"__erasures-0/{LOG}": bytes(build_batch(parts))}


def test_text_in_the_journal_is_a_mention_whatever_its_escaping() -> None:
    erasure = at_stage(Stage.VERIFIED, requested(reason=f"friend of {KEY}"))
    receipt = issue(erasure, cluster_id="c", signing_seed=bytes(32), now_ms=NOW_MS)
    signed = replace(erasure, stage=Stage.RECEIPTED, receipt=receipt.decode())

    found = found_in(journal(record_of(erasure), record_of(signed)), KEY)

    # In the reason of the first, and in that of the second and of its receipt.
    assert (found.mentions, found.residue, found.records) == (3, 0, 0)
    assert [place.offset for place in found.mention_places] == [0, 1, 1]


@pytest.mark.parametrize(
    ("directory", "residue"),
    [("__erasures-0", 0), (f"__erasures-0.{UUID}-stray", 1), (f"__erasures-0.{UUID}-delete", 1)],
)
def test_sealed_key_in_a_journal_that_was_set_aside_is_residue(
    directory: str, residue: int
) -> None:
    """It opens with the operator's secrets, and no pass will take it. Of a journal that is hosted
    the copies are waited for before the scan; a second erasure of the key may be in it."""
    sealed = requested(key=KEY.encode())
    records = [record_of(sealed), record_of(at_stage(Stage.TOMBSTONED, sealed))]
    parts = [(NOW_MS, *each, ()) for each in records]

    found = found_in({f"{directory}/{LOG}": bytes(build_batch(parts))}, KEY)

    assert (found.records, found.mentions, found.residue) == (0, 0, residue)


@pytest.mark.parametrize(
    "key",
    ["17948", "secrets", "version", "scanned_bytes", "receipt", "deletion", "2027-01-15", "backups",
     "verified", "records", "hmac_sha256"],
)  # fmt: skip
def test_words_and_numbers_of_the_journal_are_nobodys_key(key: str) -> None:
    erasure = at_stage(Stage.VERIFIED, requested(reason="as asked for"))
    erasure = replace(erasure, requested_ms=NOW_MS)
    receipt = issue(erasure, cluster_id="c", signing_seed=bytes(32), now_ms=NOW_MS)
    signed = replace(erasure, stage=Stage.RECEIPTED, receipt=receipt.decode())
    secrets_record = (b"secrets", json.dumps({"version": 1, "public_key": "ab"}).encode())

    found = found_in(journal(secrets_record, record_of(erasure), record_of(signed)), key)

    assert (found.records, found.mentions, found.residue) == (0, 0, 0)


@pytest.mark.parametrize("value", [b"of " + ASCII.encode(), b'{"a": "' + ASCII.encode() + b'" }'])
def test_record_of_the_journal_that_the_broker_did_not_write_is_searched_as_any_other(
    value: bytes,
) -> None:
    assert found_in(journal((b"ER-0123456789ABCDEF", value)), ASCII).mentions == 1
    assert found_in(journal((ASCII.encode(), value)), ASCII).records == 1


def test_journal_field_of_another_form_is_told() -> None:
    value = json.dumps({"id": "of alice", "deadline": "alice", "other": {"alice": 1}})

    texts = journal_texts(b"secrets", value.encode())

    assert texts is not None
    assert sum(b"alice" in text for text in texts) == 3


# -- what a broker really writes ------------------------------------------------------------------


def test_every_file_that_a_broker_writes_has_a_reader() -> None:
    machine = machine_with(partitions=2)
    machine.put(0, (CUSTOMER, b"1"), (b"bob", b"2"))
    commit_offset(machine.connect(), "billing", 1, "customers")
    machine.run(machine.erase())
    machine.put(1, (b"carol", b"3"), producer_id=7, producer_epoch=0, base_sequence=0)
    during = machine.fs.files()
    machine.stop()

    for path, content in {**during, **machine.fs.files()}.items():
        name = path.rpartition("/")[2]
        assert is_own(name), path
        if not name.endswith(".log"):
            assert read_fields(name, content, 1 << 40) is not None, (path, content[:200])


def test_lists_of_own_words_are_those_of_the_cleaner() -> None:
    runs = [run(reason=reason.value, outcome=outcome) for reason in CleaningReason
            for outcome in ("cleaned", "aborted", "failed")]  # fmt: skip
    told = read_fields("cleaning-history.json", encode_runs(runs, TombstoneLedger()), 0)

    # The one text is the detail, and there is none.
    assert told is not None
    assert {each.content for each in told} == {b""}
