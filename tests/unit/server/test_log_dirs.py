"""Several log directories: where replicas go, what one that fails takes with it, what starts."""

import errno
from collections.abc import Sequence

import pytest

from ledgerstone.errors import ConfigError, StorageError
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsRequestTopic,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from ledgerstone.protocol.messages.fetch import FetchPartitionResponse
from ledgerstone.server.http.monitor import readiness
from ledgerstone.storage.filenames import META_PROPERTIES
from ledgerstone.storage.log_dir_files import read_meta_properties, write_meta_properties
from ledgerstone.types import TopicPartition
from tests.kit.in_process import Client, InProcess
from tests.kit.logs import batch
from tests.unit.server.asks import (
    TOPIC,
    create_topic,
    delete_topic,
    fetch,
    fetched,
    produced,
    values_in,
    write,
)

SEVERAL = {"log.dirs": "/a,/b,/c"}


def a_machine(**settings: str) -> InProcess:
    return InProcess(settings={**SEVERAL, **{k.replace("_", "."): v for k, v in settings.items()}})


def describe(client: Client, topics: Sequence[str] | None = None) -> list[DescribeLogDirsResult]:
    wanted = None if topics is None else [DescribeLogDirsRequestTopic(each, [0]) for each in topics]
    return client.ask(DescribeLogDirsRequest(wanted), DescribeLogDirsResponse).results


def read(client: Client, number: int) -> FetchPartitionResponse:
    return fetched(client, fetch({number: 0}))


def held_by(machine: InProcess) -> dict[str, list[int]]:
    """The numbers of the topic's partitions in each directory, by the names on disk."""
    found: dict[str, list[int]] = {}
    for path in machine.config.log_dirs:
        names = [name for name in machine.fs.list_dir(path) if name.startswith(f"{TOPIC}-")]
        found[path] = sorted(int(name.rpartition("-")[2]) for name in names if "." not in name)
    return found


def directory_of(machine: InProcess, number: int) -> str:
    log_dir = machine.broker.log_dirs.of(TopicPartition(TOPIC, number))
    assert log_dir is not None
    return log_dir.path


# -- placement --------------------------------------------------------------------------------


def test_new_partitions_go_where_the_fewest_are_and_the_metadata_learns_it() -> None:
    machine = a_machine()
    create_topic(machine.connect(), partitions=7)

    machine.advance(1)

    assert held_by(machine) == {"/a": [0, 3, 6], "/b": [1, 4], "/c": [2, 5]}
    image = machine.broker.image
    ids = {each.path: each.meta.directory_id for each in machine.broker.log_dirs.online}
    for number, partition in image.topics[TOPIC].partitions.items():
        assert partition.directories == (ids[directory_of(machine, number)],)
    assert set(image.brokers[1].log_dirs) == set(ids.values())
    machine.check_invariants()


def test_partitions_stay_where_they_are_after_a_restart() -> None:
    machine = a_machine()
    create_topic(machine.connect(), partitions=5)
    write(machine.connect(), "x", partition=4)
    before = held_by(machine)

    machine.stop()
    machine.start()

    assert held_by(machine) == before
    assert values_in(read(machine.connect(), 4)) == ["x"]


def test_each_directory_has_its_own_identity_and_checkpoints() -> None:
    machine = a_machine()
    create_topic(machine.connect(), partitions=3)
    write(machine.connect(), "x", partition=1)
    machine.stop()

    metas = [
        read_meta_properties(machine.fs, f"{path}/{META_PROPERTIES}")
        for path in machine.config.log_dirs
    ]
    assert len({meta.directory_id for meta in metas if meta}) == 3
    assert len({meta.cluster_id for meta in metas if meta}) == 1
    for path, number in (("/a", 0), ("/b", 1), ("/c", 2)):
        file = machine.fs.open(f"{path}/replication-offset-checkpoint")
        lines = file.pread(file.size(), 0).decode().splitlines()[2:]
        mine = [line for line in lines if line.startswith(TOPIC)]
        assert mine == [f"{TOPIC} {number} {1 if number == 1 else 0}"]
        assert machine.fs.exists(f"{path}/.kafka_cleanshutdown")


def test_a_directory_that_is_added_later_is_formatted_and_used() -> None:
    machine = InProcess(settings={"log.dirs": "/a"})
    create_topic(machine.connect(), partitions=2)
    machine.stop()
    machine.config = InProcess(settings={"log.dirs": "/a,/b"}).config

    machine.start()
    create_topic(machine.connect(), name="more", partitions=2)

    assert [name for name in machine.fs.list_dir("/b") if name.startswith("more")] == [
        "more-0",
        "more-1",
    ]


def test_a_deleted_topic_leaves_every_directory() -> None:
    machine = a_machine()
    client = machine.connect()
    create_topic(client, partitions=6)

    delete_topic(client)
    machine.advance(70_000)

    assert held_by(machine) == {"/a": [], "/b": [], "/c": []}
    for path in machine.config.log_dirs:
        assert not [name for name in machine.fs.list_dir(path) if name.startswith(TOPIC)]


# -- what a start refuses ---------------------------------------------------------------------


def test_directories_of_two_clusters_are_refused() -> None:
    machine = a_machine()
    machine.stop()
    path = f"/b/{META_PROPERTIES}"
    meta = read_meta_properties(machine.fs, path)
    assert meta is not None
    write_meta_properties(
        machine.fs, path, type(meta)(cluster_id="x" * 22, node_id=1, directory_id=meta.directory_id)
    )

    with pytest.raises(StorageError, match="belongs to cluster"):
        machine.start()


def test_two_directories_with_one_id_are_refused() -> None:
    machine = a_machine()
    machine.stop()
    first = read_meta_properties(machine.fs, f"/a/{META_PROPERTIES}")
    assert first is not None
    write_meta_properties(machine.fs, f"/b/{META_PROPERTIES}", first)
    machine.fs.unlink("/b/last-start")

    with pytest.raises(StorageError, match="same directory id"):
        machine.start()


def test_a_metadata_log_in_another_directory_is_refused() -> None:
    machine = a_machine()
    machine.stop()
    machine.config = InProcess(settings={"log.dirs": "/b,/a,/c"}).config

    with pytest.raises(StorageError, match="unexpected metadata"):
        machine.start()


# -- offline ----------------------------------------------------------------------------------


def test_an_io_error_takes_one_directory_offline_and_the_others_serve() -> None:
    machine = a_machine()
    client = machine.connect()
    create_topic(client, partitions=6)
    machine.advance(1)
    for number in range(6):
        write(client, f"v{number}", partition=number)
    machine.fs.fail_matching("pwrite", "/b/*.log", errno.EIO)

    failed = produced(client, batch(("key", "x")), partition=1)
    machine.advance(1)
    answers = [produced(client, batch(("key", "y")), partition=number) for number in range(6)]

    storage, fine = ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE
    assert failed.error_code == storage
    assert [each.error_code for each in answers] == [fine, storage, fine, fine, storage, fine]
    assert read(client, 4).error_code == storage
    assert [each.error_code for each in describe(client)] == [0, storage, 0]
    assert "/b" in readiness(machine.broker).body
    assert machine.halted == []


def test_a_directory_that_fails_before_it_is_known_takes_its_leaders_along() -> None:
    """The controller is told where the replica was after all, and that this is offline."""
    machine = a_machine()
    client = machine.connect()
    machine.fs.fail_matching("pwrite", "/b/*.log", errno.EIO)
    create_topic(client, partitions=3)
    produced(client, batch(("k", "v")), partition=1)
    machine.advance(1_000)
    partitions = machine.broker.image.topics[TOPIC].partitions

    assert [each.path for each in machine.broker.log_dirs.offline] == ["/b"]
    assert partitions[1].directories == (machine.broker.log_dirs.offline[0].directory_id,)
    assert held_by(machine) == {"/a": [0], "/b": [1], "/c": [2]}


def test_a_failed_fsync_takes_the_directory_offline() -> None:
    machine = a_machine()
    client = machine.connect()
    create_topic(client, partitions=3, flush_ms="1000")
    write(client, "v", partition=2)
    machine.fs.fail_matching("fsync", "/c/*", errno.EIO)

    machine.advance(3_000)

    assert [each.path for each in machine.broker.log_dirs.offline] == ["/c"]
    assert produced(client, batch(("k", "v")), partition=2).error_code == 56


def test_a_full_disk_of_a_single_node_waits_for_room() -> None:
    machine = a_machine()
    client = machine.connect()
    create_topic(client, partitions=3)
    machine.fs.fail_matching("pwrite", "/b/*.log", errno.ENOSPC)

    refused = produced(client, batch(("k", "v")), partition=1)
    machine.advance(1_000)
    machine.fs.clear_faults()

    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert machine.broker.log_dirs.offline == []
    assert write(client, "v", partition=1) == [0]


def test_no_new_partition_goes_to_an_offline_directory() -> None:
    machine = a_machine()
    client = machine.connect()
    create_topic(client, partitions=3)
    machine.fs.fail_matching("*", "/b/*", errno.EIO)
    produced(client, batch(("k", "v")), partition=1)
    machine.advance(1)

    create_topic(client, name="later", partitions=4)

    dirs = [machine.broker.log_dirs.of(TopicPartition("later", n)) for n in range(4)]
    assert {each.path for each in dirs if each} == {"/a", "/c"}
    assert None not in dirs


def test_the_metadata_directory_takes_the_process_with_it() -> None:
    machine = a_machine()
    client = machine.connect()
    create_topic(client, partitions=3)
    machine.fs.fail_matching("pwrite", "/a/events-0/*.log", errno.EIO)

    produced(client, batch(("k", "v")), partition=0)
    machine.advance(1)

    assert len(machine.halted) == 1
    assert "/a" in machine.halted[0]


def test_a_start_without_one_directory_serves_the_others_and_loses_nothing() -> None:
    machine = a_machine()
    create_topic(machine.connect(), partitions=6)
    machine.advance(1)
    for number in range(6):
        write(machine.connect(), f"v{number}", partition=number)
    machine.stop()
    machine.fs.fail_matching("*", "/b*", errno.EIO)

    machine.start()
    client = machine.connect()
    codes = [read(client, number).error_code for number in range(6)]
    made = create_topic(client, name="later", partitions=2).topics[0].error_code
    machine.stop()
    machine.fs.clear_faults()
    machine.start()

    assert codes == [0, 56, 0, 0, 56, 0]
    assert made == 0
    client = machine.connect()
    assert [values_in(read(client, n)) for n in range(6)] == [[f"v{n}"] for n in range(6)]


def test_a_start_without_the_metadata_directory_is_refused() -> None:
    machine = a_machine()
    machine.stop()
    machine.fs.fail_matching("*", "/a*", errno.EIO)

    with pytest.raises(ConfigError, match="cannot be used"):
        machine.start()
    machine.fs.clear_faults()
    machine.start()


def test_metadata_may_have_a_directory_of_its_own() -> None:
    machine = a_machine(metadata_log_dir="/meta")
    create_topic(machine.connect(), partitions=3)
    write(machine.connect(), "v", partition=0)
    machine.stop()
    machine.start()

    assert machine.fs.exists("/meta/__cluster_metadata-0")
    assert not machine.fs.exists("/a/__cluster_metadata-0")
    assert held_by(machine) == {"/a": [0], "/b": [1], "/c": [2]}
    assert values_in(read(machine.connect(), 0)) == ["v"]


def test_a_partition_in_two_directories_is_kept_where_the_metadata_says() -> None:
    machine = a_machine()
    create_topic(machine.connect(), partitions=2)
    machine.advance(1)
    write(machine.connect(), "v", partition=1)
    machine.stop()
    machine.fs.make_dir(f"/c/{TOPIC}-1")

    machine.start()

    assert held_by(machine) == {"/a": [0], "/b": [1], "/c": []}
    assert values_in(read(machine.connect(), 1)) == ["v"]


# -- DescribeLogDirs --------------------------------------------------------------------------


def test_log_dirs_are_described_with_room_and_sizes() -> None:
    machine = a_machine()
    machine.fs.capacity_bytes = 1 << 20
    client = machine.connect()
    create_topic(client, partitions=4)
    write(client, "v", partition=3)

    results = describe(client)

    assert [each.log_dir for each in results] == ["/a", "/b", "/c"]
    sizes = {
        (each.log_dir, partition.partition_index): partition.partition_size
        for each in results
        for topic in each.topics
        for partition in topic.partitions
    }
    assert set(sizes) == {("/a", 0), ("/b", 1), ("/c", 2), ("/a", 3)}
    assert sizes["/a", 3] > 0 == sizes["/a", 0]
    assert {each.total_bytes for each in results} == {1 << 20}
    assert all(0 < each.usable_bytes < 1 << 20 for each in results)
    only = describe(client, [TOPIC])
    assert [len(each.topics) for each in only] == [1, 0, 0]
