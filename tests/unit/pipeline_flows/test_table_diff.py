"""A table against what its topic holds: every change is found, none is invented."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.sources.row_bytes import KeyFormat, digest
from ledgerstone.pipeline.sources.shadow import Shadow
from ledgerstone.pipeline.sources.shape import TableShape
from ledgerstone.pipeline.sources.sqlite_table import sqlite_snapshot
from ledgerstone.pipeline.sources.table_diff import changes, changes_of
from ledgerstone.pipeline.sources.topic_feed import FeedChange
from tests.kit.sized import examples

SHAPE = TableShape(table="users", key_columns=("id",), key_format=KeyFormat.STRING)
VERSIONED = TableShape(
    table="users", key_columns=("id",), key_format=KeyFormat.STRING, version_column="version"
)


@pytest.fixture
def shadow(tmp_path: Path) -> Iterator[Shadow]:
    with Shadow(tmp_path / "work" / "topic.sqlite") as made:
        yield made


class Database:
    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._run("CREATE TABLE users(id INTEGER PRIMARY KEY, name TEXT, version INTEGER)")

    def _run(self, statement: str, *values: object) -> None:
        db = sqlite3.connect(self.path)
        with db:
            db.execute(statement, values)
        db.close()

    def put(self, number: int, name: str, version: int) -> None:
        self._run("INSERT OR REPLACE INTO users VALUES (?,?,?)", number, name, version)

    def replace_all(self, table: dict[int, str]) -> None:
        db = sqlite3.connect(self.path)
        with db:
            db.execute("DELETE FROM users")
            db.executemany("INSERT INTO users VALUES (?,?,0)", table.items())
        db.close()

    def delete(self, number: int) -> None:
        self._run("DELETE FROM users WHERE id=?", number)


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path / "users.db")


def compare(database: Database, shadow: Shadow, shape: TableShape = SHAPE) -> list[FeedChange]:
    """The changes, noted down as if the topic had taken them."""
    with sqlite_snapshot(database.path, shape) as snapshot:
        found = list(changes(shape, snapshot, shadow))
    for change in found:
        assert change.key is not None
        if change.value is None:
            shadow.remove(change.key)
        else:
            shadow.put(change.key, digest(change.value), change.version)
    shadow.save()
    return found


@pytest.mark.parametrize("shape", [SHAPE, VERSIONED])
def test_only_what_changed_is_written_and_what_is_gone_is_a_tombstone(
    database: Database, shadow: Shadow, shape: TableShape
) -> None:
    for number in range(4):
        database.put(number, "first", 1)

    first = compare(database, shadow, shape)
    again = compare(database, shadow, shape)
    database.put(1, "second", 2)
    database.delete(2)
    database.put(9, "new", 1)
    third = compare(database, shadow, shape)

    assert [change.key for change in first] == [b"0", b"1", b"2", b"3"]
    assert again == []
    assert {(change.key, change.value is None) for change in third} == {
        (b"1", False),
        (b"9", False),
        (b"2", True),
    }


def test_a_version_that_went_back_is_a_change_too(database: Database, shadow: Shadow) -> None:
    database.put(1, "later", 7)
    compare(database, shadow, VERSIONED)

    database.put(1, "restored from a backup", 3)
    found = compare(database, shadow, VERSIONED)

    assert [change.version for change in found] == ["3"]


def test_a_new_version_of_the_same_bytes_is_not_written(database: Database, shadow: Shadow) -> None:
    shape = TableShape(
        table="users", key_columns=("id",), version_column="version", columns=("id", "name")
    )
    database.put(1, "same", 1)
    compare(database, shadow, shape)

    database.put(1, "same", 2)
    found = compare(database, shadow, shape)

    assert found == []
    held = shadow.get(b'{"id":1}')
    assert held is not None
    assert held.version == "2"


def test_too_many_deletes_are_taken_for_an_accident(database: Database, shadow: Shadow) -> None:
    shape = TableShape(table="users", key_columns=("id",), max_deletes=1)
    for number in range(3):
        database.put(number, "", 0)
    compare(database, shadow, shape)
    for number in range(3):
        database.delete(number)

    with pytest.raises(PipelineError, match=r"3 rows are gone .* max_deletes=1"):
        compare(database, shadow, shape)

    assert len(shadow) == 3


def test_known_keys_are_compared_alone(database: Database, shadow: Shadow) -> None:
    for number in range(3):
        database.put(number, "first", 0)
    compare(database, shadow)
    database.put(0, "second", 0)
    database.put(1, "second", 0)
    database.delete(2)

    with sqlite_snapshot(database.path, SHAPE) as snapshot:
        found = list(changes_of(SHAPE, [(1,), (2,), (77,)], snapshot, shadow))

    assert [(change.key, change.value is None) for change in found] == [(b"1", False), (b"2", True)]


def test_what_the_topic_lost_or_got_from_others_is_written_again(
    database: Database, shadow: Shadow
) -> None:
    database.put(1, "ours", 1)
    database.put(2, "ours", 1)
    compare(database, shadow, VERSIONED)

    shadow.read_back(b"1", digest(b"somebody else's"))
    shadow.remove(b"2")
    shadow.read_back(b"3", digest(b"somebody else's"))
    found = compare(database, shadow, VERSIONED)

    assert [(change.key, change.value is None) for change in found] == [
        (b"1", False),
        (b"2", False),
        (b"3", True),
    ]


def test_reading_back_our_own_bytes_keeps_the_version(shadow: Shadow) -> None:
    shadow.put(b"k", digest(b"v"), "5")

    shadow.read_back(b"k", digest(b"v"))

    assert shadow.get(b"k") == (digest(b"v"), "5")


@given(st.lists(st.dictionaries(st.integers(0, 5), st.text(max_size=3), max_size=6), max_size=4))
@examples(20)
def test_applying_the_changes_makes_the_topic_equal_to_the_table(
    tmp_path_factory: pytest.TempPathFactory, tables: list[dict[int, str]]
) -> None:
    directory = tmp_path_factory.mktemp("model")
    database = Database(directory / "users.db")
    topic: dict[bytes, bytes] = {}

    with Shadow(directory / "topic.sqlite") as shadow:
        for table in tables:
            database.replace_all(table)
            for change in compare(database, shadow):
                assert change.key is not None
                if change.value is None:
                    del topic[change.key]
                else:
                    topic[change.key] = change.value

            assert sorted(topic) == sorted(b"%d" % number for number in table)


def test_a_key_that_was_deleted_is_not_left_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "topic.sqlite"
    key = b"someone@example.com"
    with Shadow(path) as shadow:
        shadow.put(key, digest(b""), None)
        shadow.save()
        was_there = key in path.read_bytes()

        shadow.remove(key)
        shadow.save()

    assert was_there
    assert key not in path.read_bytes()


@pytest.mark.parametrize("version", [None, "version"])
def test_rows_that_share_a_key_are_refused(
    tmp_path: Path, shadow: Shadow, version: str | None
) -> None:
    path = tmp_path / "people.db"
    db = sqlite3.connect(path)
    with db:
        db.execute("CREATE TABLE people(id INTEGER, version INTEGER)")
        db.executemany("INSERT INTO people VALUES (?, ?)", [(1, 1), (2, 1), (1, 2)])
    db.close()
    shape = TableShape(table="people", key_columns=("id",), version_column=version)

    with (
        sqlite_snapshot(str(path), shape) as snapshot,
        pytest.raises(PipelineError, match="several rows have the same id"),
    ):
        list(changes(shape, snapshot, shadow))
