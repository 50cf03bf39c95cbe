"""Who a log directory belongs to, and whether it was left cleanly."""

import pytest

from ledgerstone.errors import CorruptFile
from ledgerstone.fs import Filesystem
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem
from ledgerstone.storage.checkpoints import read_if_exists, write_atomically
from ledgerstone.storage.log_dir_files import (
    CleanShutdownFile,
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)

META = "/log/meta.properties"
CLEAN = "/log/.kafka_cleanshutdown"
DIRECTORY_ID = bytes(range(16))


def _disk(path: str = META, content: bytes | None = None) -> SimFilesystem:
    fs = SimFilesystem(dice=SeededDice(0))
    fs.make_dir("/log")
    fs.fsync_dir("/")
    if content is not None:
        write_atomically(fs, path, content)
    return fs


def _broker_epoch(fs: Filesystem) -> int:
    return CleanShutdownFile(fs, CLEAN).read_broker_epoch()


# -- meta.properties ------------------------------------------------------------------------------


def test_meta_properties_are_written_as_version_1() -> None:
    fs = _disk()
    meta = MetaProperties(cluster_id="a:b=c", node_id=3, directory_id=DIRECTORY_ID)

    write_meta_properties(fs, META, meta)

    assert read_if_exists(fs, META) == (
        b"#\ncluster.id=a\\:b\\=c\ndirectory.id=AAECAwQFBgcICQoLDA0ODw\nnode.id=3\nversion=1\n"
    )
    assert read_meta_properties(fs, META) == meta


def test_a_file_written_by_kafka_is_read() -> None:
    fs = _disk(
        content=b"#\n#Wed Nov 15 22:12:00 UTC 2023\ncluster.id=MkU3OEVBNTcwNTJENDM2Qk\nversion=1\n"
        b"directory.id=AAECAwQFBgcICQoLDA0ODw\nnode.id=1\n"
    )

    assert read_meta_properties(fs, META) == MetaProperties(
        cluster_id="MkU3OEVBNTcwNTJENDM2Qk", node_id=1, directory_id=DIRECTORY_ID
    )


def test_a_file_of_version_0_names_a_broker() -> None:
    fs = _disk(content=b"broker.id=7\nversion=0\n")

    assert read_meta_properties(fs, META) == MetaProperties(
        cluster_id=None, node_id=7, directory_id=None
    )


def test_a_directory_that_was_never_formatted_has_no_meta_properties() -> None:
    assert read_meta_properties(_disk(), META) is None


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"version=2\nnode.id=1\ncluster.id=c\n", "version '2'"),
        (b"version=1\ncluster.id=c\n", "node.id=''"),
        (b"version=1\nbroker.id=1\ncluster.id=c\n", "node.id=''"),
        (b"version=1\nnode.id=-1\ncluster.id=c\n", "node.id='-1'"),
        (b"version=1\nnode.id=2147483648\ncluster.id=c\n", "node.id='2147483648'"),
        (b"version=1\nnode.id=1\n", "cluster.id is missing"),
        (b"version=1\nnode.id=1\ncluster.id=c\ndirectory.id=x\n", "'x' is not a uuid"),
        (b"version=1\nnode.id=1\ncluster.id=\\u12\n", "broken escape"),
        (b"version=1\nnode.id=1\ncluster.id=\\uD800\n", "utf-16"),
    ],
)
def test_broken_meta_properties_are_corrupt_and_say_why(content: bytes, reason: str) -> None:
    fs = _disk(content=content)

    with pytest.raises(CorruptFile) as raised:
        read_meta_properties(fs, META)

    assert raised.value.path == META
    assert reason in raised.value.reason


# -- .kafka_cleanshutdown -------------------------------------------------------------------------


def test_a_clean_stop_is_noted_as_one_line_of_json() -> None:
    fs = _disk()

    CleanShutdownFile(fs, CLEAN).write(17)

    assert read_if_exists(fs, CLEAN) == b'{"version":0,"brokerEpoch":17}'
    assert _broker_epoch(fs) == 17


def test_a_clean_stop_without_an_epoch_is_noted_as_unknown() -> None:
    fs = _disk()

    CleanShutdownFile(fs, CLEAN).write()

    assert read_if_exists(fs, CLEAN) == b'{"version":0,"brokerEpoch":-1}'
    assert _broker_epoch(fs) == -1


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"brokerEpoch":"5"}',
        b'{"brokerEpoch":true}',
        b'{"brokerEpoch":1.5}',
        b'{"brokerEpoch":9223372036854775808}',
        b"[" * 4000,
        b" " * 5000 + b'{"version":0,"brokerEpoch":5}',
        b"\xff\xfe\xff",
    ],
)
def test_a_file_that_says_nothing_readable_still_means_a_clean_stop(content: bytes) -> None:
    fs = _disk(CLEAN, content)

    assert CleanShutdownFile(fs, CLEAN).exists()
    assert _broker_epoch(fs) == -1


def test_a_removed_mark_does_not_come_back_after_power_loss() -> None:
    fs = _disk()
    mark = CleanShutdownFile(fs, CLEAN)
    mark.write(17)

    mark.remove()
    mark.remove()
    fs.power_loss("none")

    assert not mark.exists()
    assert _broker_epoch(fs) == -1


def test_a_written_mark_survives_power_loss() -> None:
    fs = _disk()
    mark = CleanShutdownFile(fs, CLEAN)

    mark.write(17)
    fs.power_loss("none")

    assert mark.exists()
