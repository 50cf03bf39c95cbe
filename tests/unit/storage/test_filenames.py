"""Names of files and directories. Grade P under test."""

import pytest

from ledgerstone.errors import InvalidTopic
from ledgerstone.storage.filenames import (
    CLEANED,
    DELETED,
    MAX_NAME_LENGTH,
    SWAP,
    TMP,
    DirState,
    Kind,
    ParsedName,
    PartitionDir,
    aside_suffix,
    delete_dir_name,
    file_name,
    future_dir_name,
    parse_file_name,
    parse_partition_dir,
    partition_dir_name,
    stray_dir_name,
)
from ledgerstone.types import INT64_MAX, TopicPartition

UUID_HEX = "0123456789abcdef0123456789abcdef"


def test_file_names_carry_the_offset_in_twenty_digits() -> None:
    names = [file_name(0, Kind.LOG), file_name(170, Kind.TIME_INDEX), file_name(7, Kind.LOG, SWAP)]

    assert names == [
        "00000000000000000000.log",
        "00000000000000000170.timeindex",
        "00000000000000000007.log.swap",
    ]


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("suffix", ["", DELETED, CLEANED, SWAP, TMP])
@pytest.mark.parametrize("offset", [0, 1, INT64_MAX])
def test_every_file_name_parses_back(kind: Kind, suffix: str, offset: int) -> None:
    parsed = parse_file_name(file_name(offset, kind, suffix))

    assert parsed == ParsedName(offset, kind, suffix)


@pytest.mark.parametrize(
    ("number", "suffix"), [(0, ".deleted"), (1, ".1.deleted"), (12, ".12.deleted")]
)
def test_deleted_file_whose_name_was_taken_has_a_number(number: int, suffix: str) -> None:
    name = file_name(7, Kind.LOG, aside_suffix(number))

    parsed = parse_file_name(name)

    assert name == f"00000000000000000007.log{suffix}"
    assert parsed == ParsedName(7, Kind.LOG, DELETED, number)
    assert file_name(*parsed) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "00000000000000000000.log.0.deleted",
        "00000000000000000000.log.1",
        "00000000000000000000.log.1.swap",
        "00000000000000000000.log.x.deleted",
        "leader-epoch-checkpoint",
        "00000000000000000000",
        "0000000000000000000.log",
        "000000000000000000000.log",
        "09223372036854775808.log",
        "-0000000000000000001.log",
        "00000000000000000000.log.old",
        "00000000000000000000.log.swap.deleted",
        "00000000000000000000.checkpoint",
        "٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠.log",
        "00000000000000000000.log\n",
    ],
)
def test_foreign_file_names_do_not_parse(name: str) -> None:
    assert parse_file_name(name) is None


@pytest.mark.parametrize(
    ("topic", "partition"), [("orders", 0), ("a-b-7", 12), ("with.dots_and-3.x", 2147483647)]
)
def test_partition_directory_is_split_at_the_last_dash(topic: str, partition: int) -> None:
    name = partition_dir_name(TopicPartition(topic, partition))

    assert parse_partition_dir(name) == PartitionDir(
        TopicPartition(topic, partition), DirState.LIVE, None
    )


def test_renamed_directories_say_their_state() -> None:
    tp = TopicPartition("a.b-1", 3)

    parsed = [
        parse_partition_dir(rename(tp, UUID_HEX))
        for rename in (delete_dir_name, future_dir_name, stray_dir_name)
    ]

    assert parsed == [
        PartitionDir(tp, DirState.DELETE, UUID_HEX),
        PartitionDir(tp, DirState.FUTURE, UUID_HEX),
        PartitionDir(tp, DirState.STRAY, UUID_HEX),
    ]


def test_a_live_topic_that_looks_renamed_is_live() -> None:
    tp = TopicPartition(f"t-0.{UUID_HEX}-delete", 4)

    assert parse_partition_dir(partition_dir_name(tp)) == PartitionDir(tp, DirState.LIVE, None)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "nodash",
        "-0",
        "topic-",
        "topic-x",
        "topic-007",
        "topic-2147483648",
        "to pic-0",
        "remote-log-index-cache",
        "meta.properties",
        f"topic-0.{UUID_HEX}-gone",
        f"topic-0.{UUID_HEX[1:]}-delete",
        f"topic-0.{UUID_HEX.upper()}-delete",
    ],
)
def test_foreign_directories_do_not_parse(name: str) -> None:
    assert parse_partition_dir(name) is None


def test_delete_and_stray_names_cut_the_topic_to_fit() -> None:
    tp = TopicPartition("x" * 249, 10)

    deleted = delete_dir_name(tp, UUID_HEX)
    stray = stray_dir_name(tp, UUID_HEX)

    assert (len(deleted), len(stray)) == (MAX_NAME_LENGTH, MAX_NAME_LENGTH)
    assert deleted.endswith(f"x-10.{UUID_HEX}-delete")
    assert stray.endswith(f"x-10.{UUID_HEX}-stray")


def test_a_future_name_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InvalidTopic, match="292 characters"):
        future_dir_name(TopicPartition("x" * 249, 10), UUID_HEX)
