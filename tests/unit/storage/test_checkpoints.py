"""Files that are replaced as a whole: exact bytes, broken content, and a crash at every step."""

from collections.abc import Callable

import pytest

from ledgerstone.errors import CorruptFile
from ledgerstone.fs import Filesystem
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem, SimulatedCrash
from ledgerstone.storage.checkpoints import (
    LeaderEpochCheckpoint,
    OffsetCheckpoint,
    PartitionMetadata,
    read_if_exists,
    write_atomically,
)
from ledgerstone.storage.leader_epochs import EpochEntry
from ledgerstone.types import INT64_MAX, TopicPartition

PATH = "/log/a-file"


def _disk(content: bytes | None = None, seed: int = 0) -> SimFilesystem:
    fs = SimFilesystem(dice=SeededDice(seed))
    fs.make_dir("/log")
    fs.fsync_dir("/")
    if content is not None:
        write_atomically(fs, PATH, content)
    return fs


def test_replacing_a_file_leaves_no_temporary_file() -> None:
    fs = _disk(b"a longer old content")

    write_atomically(fs, PATH, b"new")

    assert fs.list_dir("/log") == ["a-file"]
    assert read_if_exists(fs, PATH) == b"new"


def test_a_longer_temporary_file_of_an_earlier_crash_does_not_show_through() -> None:
    fs = _disk()
    fs.open(PATH + ".tmp", create=True).pwrite(b"left over from before", 0)

    write_atomically(fs, PATH, b"new")

    assert read_if_exists(fs, PATH) == b"new"


def _steps_of_a_replacement() -> int:
    fs = _disk(b"old")
    before = fs.operation_count
    write_atomically(fs, PATH, b"new")
    return fs.operation_count - before


@pytest.mark.parametrize("step", range(1, _steps_of_a_replacement() + 1))
@pytest.mark.parametrize("seed", range(5))
def test_power_loss_at_any_step_leaves_the_old_or_the_new_content(step: int, seed: int) -> None:
    fs = _disk(b"old", seed)
    fs.crash_at(fs.operation_count + step, torn=True)

    with pytest.raises(SimulatedCrash):
        write_atomically(fs, PATH, b"new")
    fs.power_loss()

    assert read_if_exists(fs, PATH) in (b"old", b"new")


def test_a_finished_replacement_survives_power_loss() -> None:
    fs = _disk(b"old")

    write_atomically(fs, PATH, b"new")
    fs.power_loss("none")

    assert read_if_exists(fs, PATH) == b"new"


def test_offsets_are_written_sorted_in_kafkas_format() -> None:
    fs = _disk()

    OffsetCheckpoint(fs, PATH).write(
        {TopicPartition("b", 0): INT64_MAX, TopicPartition("a", 10): 0, TopicPartition("a", 9): 7}
    )

    assert read_if_exists(fs, PATH) == b"0\n3\na 9 7\na 10 0\nb 0 9223372036854775807\n"


def test_offsets_read_back() -> None:
    offsets = {TopicPartition("a", 9): 7, TopicPartition("dots.and-dashes", 0): 5}
    checkpoint = OffsetCheckpoint(_disk(), PATH)

    checkpoint.write(offsets)

    assert checkpoint.read() == offsets


def test_no_offsets_are_two_lines() -> None:
    fs = _disk()

    OffsetCheckpoint(fs, PATH).write({})

    assert read_if_exists(fs, PATH) == b"0\n0\n"
    assert OffsetCheckpoint(fs, PATH).read() == {}


@pytest.mark.parametrize("content", [None, b""], ids=["no file", "empty file"])
def test_no_content_means_no_entries(content: bytes | None) -> None:
    fs = _disk(content)

    assert OffsetCheckpoint(fs, PATH).read() == {}
    assert LeaderEpochCheckpoint(fs, PATH).read() == []


def test_blanks_and_a_missing_last_newline_are_accepted() -> None:
    fs = _disk(b"0\r\n1\r\ntopic \t 3   42")

    assert OffsetCheckpoint(fs, PATH).read() == {TopicPartition("topic", 3): 42}


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"1\n0\n", 1),
        (b"\n", 1),
        (b"0\n", 2),
        (b"0\nx\n", 2),
        (b"0\n-1\n", 2),
        (b"0\n2\na 0 1\n", 2),
        (b"0\n0\na 0 1\n", 2),
        (b"0\n99999999999999999999\na 0 1\n", 2),
        (b"0\n1\na 0\n", 3),
        (b"0\n2\na 0 1\na 0 1 2\n", 4),
        (b"0\n2\na 0 1\n\n", 4),
        (b"0\n1\na 2147483648 1\n", 3),
        (b"0\n1\na 0 9223372036854775808\n", 3),
        (b"0\n1\na 0 -1\n", 3),
        (b"0\n1\na 0 1_0\n", 3),
        (b"0\n1\na 0 \xd9\xa1\n", 3),
        (b"0\n1\n\xff 0 1\n", 3),
    ],
)
def test_malformed_offsets_are_corrupt_and_name_the_line(content: bytes, line: int) -> None:
    fs = _disk(content)

    with pytest.raises(CorruptFile) as raised:
        OffsetCheckpoint(fs, PATH).read()

    assert (raised.value.path, raised.value.position) == (PATH, line)


def test_leader_epochs_are_one_line_each() -> None:
    fs = _disk()
    entries = [EpochEntry(0, 0), EpochEntry(3, 170)]

    LeaderEpochCheckpoint(fs, PATH).write(entries)

    assert read_if_exists(fs, PATH) == b"0\n2\n0 0\n3 170\n"
    assert LeaderEpochCheckpoint(fs, PATH).read() == entries


@pytest.mark.parametrize("content", [b"0\n1\n0 0 0\n", b"0\n1\n2147483648 0\n", b"0\n1\n0 x\n"])
def test_malformed_epochs_are_corrupt(content: bytes) -> None:
    fs = _disk(content)

    with pytest.raises(CorruptFile, match="at 3"):
        LeaderEpochCheckpoint(fs, PATH).read()


def test_partition_metadata_has_kafkas_43_bytes() -> None:
    fs = _disk()
    topic_id = bytes(range(16))

    PartitionMetadata(fs, PATH).write(topic_id)

    content = read_if_exists(fs, PATH)
    assert content == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert len(content) == 43
    assert PartitionMetadata(fs, PATH).read() == topic_id


def test_a_partition_without_metadata_has_no_topic_id_yet() -> None:
    assert PartitionMetadata(_disk(), PATH).read() is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw",
        b"version: 0\n",
        b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0OD",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        b"\xff",
    ],
)
def test_broken_partition_metadata_is_corrupt(content: bytes) -> None:
    fs = _disk(content)

    with pytest.raises(CorruptFile):
        PartitionMetadata(fs, PATH).read()


def test_the_zero_topic_id_is_never_written() -> None:
    fs = _disk()

    with pytest.raises(ValueError, match="zero uuid"):
        PartitionMetadata(fs, PATH).write(bytes(16))

    assert not fs.exists(PATH)


@pytest.mark.parametrize(
    "write",
    [
        lambda fs: OffsetCheckpoint(fs, PATH).write({}),
        lambda fs: LeaderEpochCheckpoint(fs, PATH).write([]),
        lambda fs: PartitionMetadata(fs, PATH).write(bytes(range(16))),
    ],
    ids=["offsets", "epochs", "metadata"],
)
def test_every_file_is_replaced_atomically(write: Callable[[Filesystem], None]) -> None:
    fs = _disk(b"old")
    before = fs.operation_count

    write(fs)

    operations = [line.split()[0] for line in fs.trace[before:]]
    assert operations[-3:] == ["fsync", "rename", "fsync_dir"]
