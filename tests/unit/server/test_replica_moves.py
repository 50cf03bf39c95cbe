"""AlterReplicaLogDirs: a replica moves between directories while it is read and written."""

import errno

import pytest

from ledgerstone.metadata.image import ResourceType
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirsTopic,
)
from ledgerstone.protocol.messages.describe_log_dirs import DescribeLogDirsPartition
from ledgerstone.protocol.messages.metadata_records import ConfigRecord
from ledgerstone.storage.filenames import parse_file_name
from ledgerstone.types import TopicPartition
from tests.kit.in_process import Client, InProcess
from tests.kit.logs import batch
from tests.unit.server.asks import (
    TOPIC,
    create_topic,
    delete_topic,
    end_offset,
    fetch,
    fetched,
    produced,
    values_in,
    write,
)
from tests.unit.server.test_log_dirs import describe, directory_of, held_by

TP = TopicPartition(TOPIC, 0)


RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


def a_machine(rate: int = 1 << 40) -> InProcess:
    machine = InProcess(settings={"log.dirs": "/a,/b", RATE: str(rate)})
    create_topic(machine.connect(), partitions=1)
    machine.advance(1)
    assert directory_of(machine, 0) == "/a"
    return machine


def move(client: Client, path: str, number: int = 0, topic: str = TOPIC) -> int:
    topics = [AlterReplicaLogDirsTopic(topic, [number])]
    request = AlterReplicaLogDirsRequest([AlterReplicaLogDirsDir(path, topics)])
    answer = client.ask(request, AlterReplicaLogDirsResponse)
    return answer.results[0].partitions[0].error_code


def settle(machine: InProcess) -> None:
    """Until no move is under way; each step is a tick of its own."""
    for _ in range(10_000):
        if not machine.broker.directories.moves.under_way:
            return
        machine.advance(1)
    raise AssertionError("the move does not end")


def futures(client: Client) -> list[tuple[str, DescribeLogDirsPartition]]:
    return [
        (result.log_dir, each)
        for result in describe(client)
        for topic in result.topics
        for each in topic.partitions
        if each.is_future_key
    ]


def fill(client: Client, count: int, size: int = 1000) -> list[str]:
    values = [f"{number:06d}" + "x" * (size - 6) for number in range(count)]
    for value in values:
        write(client, value)
    return values


def files(machine: InProcess, path: str) -> dict[str, bytes]:
    found = {}
    for name in machine.fs.list_dir(path):
        parsed = parse_file_name(name)
        if parsed is not None and parsed.suffix == "":
            file = machine.fs.open(f"{path}/{name}")
            found[name] = file.pread(file.size(), 0)
    return found


def test_a_replica_moves_with_all_its_files_and_the_metadata_follows() -> None:
    machine = a_machine()
    client = machine.connect()
    values = fill(client, 50)
    log = machine.broker.partitions.get(TP).log
    log.roll()
    values += fill(client, 3)

    assert move(client, "/b") == ErrorCode.NONE
    settle(machine)

    assert held_by(machine) == {"/a": [], "/b": [0]}
    assert read_all_of(client) == values
    ids = {each.path: each.meta.directory_id for each in machine.broker.log_dirs.online}
    assert machine.broker.image.topics[TOPIC].partitions[0].directories == (ids["/b"],)
    assert log is machine.broker.partitions.get(TP).log
    assert log.directory == f"/b/{TOPIC}-0"
    assert machine.broker.partitions.get(TP).is_leader
    machine.check_invariants()


def test_the_copy_is_equal_byte_for_byte() -> None:
    machine = a_machine()
    client = machine.connect()
    fill(client, 30)
    machine.broker.partitions.get(TP).log.roll()
    fill(client, 5)
    before = files(machine, f"/a/{TOPIC}-0")

    move(client, "/b")
    settle(machine)

    after = files(machine, f"/b/{TOPIC}-0")
    logs = {name: data for name, data in before.items() if name.endswith(".log")}
    assert {name: data for name, data in after.items() if name.endswith(".log")} == logs
    sealed = "00000000000000000000"
    for kind in (".index", ".timeindex"):
        assert after[sealed + kind] == before[sealed + kind]


def test_appends_go_on_during_the_move_and_after_it() -> None:
    machine = a_machine(rate=1 << 20)
    client = machine.connect()
    values = fill(client, 1500)
    move(client, "/b")

    while machine.broker.directories.moves.under_way:
        machine.advance(20)
        value = f"during {len(values)}" + "y" * 2000
        write(client, value)
        values.append(value)
    write(client, "after")

    assert read_all_of(client) == [*values, "after"]
    machine.kill()
    assert directory_of(machine, 0) == "/b"
    assert read_all_of(machine.connect()) == [*values, "after"]


def read_all_of(client: Client) -> list[str]:
    values: list[str] = []
    while True:
        answer = fetched(client, fetch({0: len(values)}))
        got = values_in(answer)
        if not got:
            return values
        values += got


def test_a_move_is_described_with_its_size_and_lag() -> None:
    machine = a_machine(rate=1 << 20)
    client = machine.connect()
    fill(client, 900)
    move(client, "/b")

    (path, begun) = futures(client)[0]
    lags = [begun.offset_lag]
    while found := futures(client):
        lags.append(found[0][1].offset_lag)
        machine.advance(100)

    assert (path, begun.partition_size, begun.offset_lag) == ("/b", 0, 900)
    assert lags == sorted(lags, reverse=True)
    assert lags[-1] < 900


def test_a_higher_rate_counts_for_a_move_that_waits_for_the_lower_one() -> None:
    machine = a_machine(rate=1)
    client = machine.connect()
    values = fill(client, 700)
    assert move(client, "/b") == ErrorCode.NONE
    machine.advance(60_000)
    waits = held_by(machine)

    record = ConfigRecord(ResourceType.BROKER, "1", RATE, "1000000")
    machine.broker.controller_link.write([record])
    machine.advance(1000)

    assert waits == {"/a": [0], "/b": []}
    assert held_by(machine) == {"/a": [], "/b": [0]}
    assert read_all_of(client) == values


def test_the_rate_of_a_move_is_limited() -> None:
    machine = a_machine(rate=1 << 20)
    client = machine.connect()
    fill(client, 3000)
    move(client, "/b")
    began_ms = machine.clock.monotonic_ms()

    while machine.broker.directories.moves.under_way:
        machine.advance(50)

    assert 2_500 <= machine.clock.monotonic_ms() - began_ms <= 4_500


@pytest.mark.parametrize(
    ("path", "number", "code"),
    [
        ("/elsewhere", 0, ErrorCode.LOG_DIR_NOT_FOUND),
        ("/b", 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("/a", 0, ErrorCode.NONE),
        ("/b/", 0, ErrorCode.NONE),
    ],
)
def test_wishes_are_answered_as_by_kafka(path: str, number: int, code: ErrorCode) -> None:
    machine = a_machine()

    assert move(machine.connect(), path, number) == code


def test_a_topic_name_that_is_too_long_for_a_copy_is_refused() -> None:
    machine = a_machine()
    client = machine.connect()
    name = "t" * 230
    create_topic(client, name=name)

    assert move(client, "/b", topic=name) == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_wish_for_a_replica_to_come_is_kept() -> None:
    machine = a_machine()
    client = machine.connect()

    assert move(client, "/b", topic="later") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    create_topic(client, name="first")
    create_topic(client, name="later")

    log_dir = machine.broker.log_dirs.of(TopicPartition("later", 0))
    assert log_dir is not None
    assert log_dir.path == "/b"


def test_wishes_for_replicas_that_never_come_are_forgotten_in_the_end() -> None:
    machine = a_machine()
    client = machine.connect()
    most = 10_000
    topics = [AlterReplicaLogDirsTopic("never", list(range(most)))]
    request = AlterReplicaLogDirsRequest([AlterReplicaLogDirsDir("/b", topics)])
    move(client, "/b", topic="first")

    client.ask(request, AlterReplicaLogDirsResponse)
    move(client, "/b", topic="last")

    wishes = list(machine.broker.partitions.preferred)
    assert len(wishes) == most
    assert wishes[0] == ("never", 1)
    assert wishes[-1] == ("last", 0)


def test_a_move_is_called_off_by_a_wish_for_the_old_directory() -> None:
    machine = a_machine(rate=1 << 20)
    client = machine.connect()
    values = fill(client, 1200)
    move(client, "/b")
    machine.advance(1)

    assert move(client, "/a") == ErrorCode.NONE
    settle(machine)
    machine.advance(3_000)

    assert held_by(machine) == {"/a": [0], "/b": []}
    assert not [name for name in machine.fs.list_dir("/b") if name.startswith(TOPIC)]
    assert read_all_of(client) == values


def test_a_topic_that_is_deleted_takes_its_copy_with_it() -> None:
    machine = a_machine(rate=1 << 20)
    client = machine.connect()
    fill(client, 1200)
    move(client, "/b")
    machine.advance(1)

    delete_topic(client)
    machine.advance(61_000)
    machine.advance(5_000)

    for path in ("/a", "/b"):
        assert not [name for name in machine.fs.list_dir(path) if name.startswith(TOPIC)]
    machine.check_invariants()


def test_a_copy_that_the_disk_refuses_takes_its_directory_offline_and_not_the_replica() -> None:
    machine = a_machine()
    client = machine.connect()
    values = fill(client, 1200)
    machine.fs.fail_matching("pwrite", "/b/*-future/*", errno.EIO)

    move(client, "/b")
    settle(machine)
    machine.advance(1)

    assert [each.path for each in machine.broker.log_dirs.offline] == ["/b"]
    assert read_all_of(client) == values
    assert produced(client, batch(("k", "v"))).error_code == ErrorCode.NONE


def test_an_interrupted_move_goes_on_after_a_restart() -> None:
    machine = a_machine(rate=1 << 20)
    values = fill(machine.connect(), 1200)
    move(machine.connect(), "/b")
    machine.advance(1)
    machine.advance(1)

    machine.stop()
    machine.start()
    assert len(machine.broker.directories.moves.under_way) == 1
    settle(machine)

    assert held_by(machine) == {"/a": [], "/b": [0]}
    assert read_all_of(machine.connect()) == values


def test_files_beside_the_segments_move_too() -> None:
    machine = a_machine()
    client = machine.connect()
    fill(client, 2)
    old = f"/a/{TOPIC}-0"
    for name in ("cleaning-history.json", "removal-marks"):
        machine.fs.open(f"{old}/{name}", create=True).pwrite(name.encode(), 0)
    names = [name for name in machine.fs.list_dir(old) if parse_file_name(name) is None]

    move(client, "/b")
    settle(machine)

    new = f"/b/{TOPIC}-0"
    assert [name for name in machine.fs.list_dir(new) if parse_file_name(name) is None] == names
    marks = machine.fs.open(f"{new}/removal-marks")
    assert marks.pread(marks.size(), 0) == b"removal-marks"


def test_deleted_records_stay_deleted_after_a_move() -> None:
    machine = a_machine()
    client = machine.connect()
    fill(client, 20)
    log = machine.broker.partitions.get(TP).log
    log.raise_log_start_offset(7)

    move(client, "/b")
    settle(machine)
    machine.kill()

    assert machine.broker.partitions.get(TP).log.log_start_offset == 7
    assert end_offset(machine) == 20


def test_a_log_that_is_cut_during_its_move_is_copied_again() -> None:
    machine = a_machine(rate=1 << 20)
    client = machine.connect()
    values = fill(client, 2500)
    log = machine.broker.partitions.get(TP).log
    move(client, "/b")
    machine.advance(1_200)
    assert machine.broker.directories.moves.under_way[TP].future.size_bytes > 0

    # As a follower does that has diverged.
    log.high_watermark = 300
    machine.broker.log_dirs.truncate_to(TP, 400)
    values = values[:400]
    for number in range(3):
        write(client, f"after {number}")
        values.append(f"after {number}")
    while machine.broker.directories.moves.under_way:
        machine.advance(100)

    assert held_by(machine) == {"/a": [], "/b": [0]}
    assert read_all_of(client) == values
    machine.kill()
    assert read_all_of(machine.connect()) == values
