"""Damage on disk as clients, operators and monitors meet it."""

import errno
import json
import logging

import pytest

from ledgerstone.errors import ConfigError, StorageError
from ledgerstone.fs import join
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ledgerstone.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ledgerstone.server.http.api import handle
from ledgerstone.server.http.monitor import readiness
from ledgerstone.server.http.server import HttpRequest
from ledgerstone.types import TopicPartition
from tests.kit.in_process import DATA, InProcess
from tests.kit.logs import batch
from tests.unit.server.asks import (
    TOPIC,
    commit_offset,
    committed_offset,
    create_topic,
    end_offset,
    fetch,
    fetched,
    produced,
    read_all,
    values_in,
    write,
)

LOG = f"{DATA}/{TOPIC}-0/00000000000000000000.log"
METADATA = f"{DATA}/__cluster_metadata-0/00000000000000000000.log"
VALUES = [f"value {number}" for number in range(10)]
CORRUPT_MESSAGE, STORAGE_ERROR, COORDINATOR_NOT_AVAILABLE = 2, 56, 15


def filled(*, partitions: int = 1) -> InProcess:
    machine = InProcess()
    client = machine.connect()
    create_topic(client, partitions=partitions)
    create_topic(client, "other")
    write(client, *VALUES)
    write(client, "safe", topic="other")
    return machine


def flip(machine: InProcess, path: str, position: int, count: int = 1) -> None:
    file = machine.fs.open(path)
    data = bytes(each ^ 0xFF for each in file.pread(count, position))
    file.pwrite(data, position)


def killed(machine: InProcess) -> None:
    machine.clients.clear()
    machine.fs.kill()


def is_red(machine: InProcess) -> str:
    page = readiness(machine.broker)
    assert page.status == 503
    return str(page.body)


def batch_bytes(machine: InProcess) -> int:
    return machine.fs.size_of(LOG) // len(VALUES)


def acknowledge(machine: InProcess, name: str) -> int:
    body = json.dumps({"partition": name}).encode()
    request = HttpRequest("POST", "/api/v1/damage/acknowledge", {}, {}, body)
    page = handle(machine.broker, request)
    assert page is not None
    return page.status


def test_damaged_metadata_stops_the_start_and_nothing_is_renamed() -> None:
    machine = filled()
    killed(machine)
    flip(machine, METADATA, machine.fs.size_of(METADATA) // 2, 8)
    before = machine.fs.files()

    with pytest.raises(StorageError, match=rf"damaged: {METADATA} at \d+.*[Rr]estore"):
        machine.start()

    assert not [name for name in machine.fs.list_dir(DATA) if name.endswith("-stray")]
    assert machine.fs.files()[METADATA] == before[METADATA]


def test_metadata_that_ends_too_early_makes_no_partition_a_stray() -> None:
    machine = filled()
    killed(machine)
    machine.fs.open(METADATA).truncate(400)

    with pytest.raises(StorageError, match="metadata log"):
        machine.start()

    assert not [name for name in machine.fs.list_dir(DATA) if name.endswith("-stray")]


@pytest.mark.parametrize("field", ["length", "records", "offset"])
def test_bad_batch_in_the_middle_after_a_kill_takes_its_partition_offline(
    field: str, caplog: pytest.LogCaptureFixture
) -> None:
    machine = filled()
    size = batch_bytes(machine)
    killed(machine)
    flip(machine, LOG, 4 * size + {"length": 9, "records": size - 3, "offset": 5}[field])
    content = machine.fs.files()[LOG]

    machine.start()
    client = machine.connect()

    assert fetched(client).error_code == STORAGE_ERROR
    assert produced(client, batch(("key", "new"))).error_code == STORAGE_ERROR
    assert read_all(client, "other") == ["safe"]
    assert write(client, "more", topic="other") == [1]
    assert f"file={LOG} position={4 * size} bytes={size}" in caplog.text
    assert LOG in is_red(machine)
    assert machine.fs.files()[LOG] == content


def test_acknowledged_damage_costs_what_cannot_be_read_and_no_more() -> None:
    machine = filled()
    killed(machine)
    flip(machine, LOG, 4 * batch_bytes(machine) + 9)
    machine.start()

    assert acknowledge(machine, f"{TOPIC}-0") == 200
    client = machine.connect()

    assert readiness(machine.broker).status == 200
    assert read_all(client) == [*VALUES[:4], *VALUES[5:]]
    assert write(client, "new") == [10]
    machine.check_invariants()


@pytest.mark.parametrize("is_clean", [True, False])
def test_damage_is_remembered_until_it_is_acknowledged(is_clean: bool) -> None:
    machine = filled()
    killed(machine)
    flip(machine, LOG, 4 * batch_bytes(machine) + 9)
    machine.start()

    if is_clean:
        machine.stop()
    else:
        killed(machine)
    machine.start()
    assert LOG in is_red(machine)
    assert acknowledge(machine, f"{TOPIC}-0") == 200
    machine.kill()

    assert readiness(machine.broker).status == 200
    assert len(read_all(machine.connect())) == 9


def test_file_that_was_restored_is_no_damage_any_more(caplog: pytest.LogCaptureFixture) -> None:
    machine = filled()
    position = 4 * batch_bytes(machine) + 9
    killed(machine)
    flip(machine, LOG, position)
    machine.start()
    killed(machine)

    flip(machine, LOG, position)
    machine.start()

    assert readiness(machine.broker).status == 200
    assert read_all(machine.connect()) == VALUES
    assert "damage is gone" in caplog.text


def test_bad_batch_found_while_reading_is_served_around(caplog: pytest.LogCaptureFixture) -> None:
    machine = filled()
    size = batch_bytes(machine)
    machine.stop()
    flip(machine, LOG, 4 * size + size - 3)
    machine.start()
    client = machine.connect()

    assert readiness(machine.broker).status == 200
    assert values_in(fetched(client)) == VALUES[:4]
    assert fetched(client, fetch({0: 4})).error_code == CORRUPT_MESSAGE
    assert values_in(fetched(client, fetch({0: 5}))) == VALUES[5:]
    assert produced(client, batch(("key", "new"))).error_code == STORAGE_ERROR
    assert f"file={LOG} position={4 * size} bytes={size}" in caplog.text
    assert LOG in is_red(machine)

    assert acknowledge(machine, f"{TOPIC}-0") == 200
    assert write(machine.connect(), "new") == [10]


def test_segment_removed_from_the_middle_takes_its_partition_offline() -> None:
    for is_clean in (True, False):
        machine = filled()
        log = machine.broker.partitions.get(TopicPartition(TOPIC, 0)).log
        for _ in range(2):
            log.roll()
            write(machine.connect(), *VALUES)
        log.flush()
        if is_clean:
            machine.stop()
        else:
            killed(machine)
        directory = f"{DATA}/{TOPIC}-0"
        for name in machine.fs.list_dir(directory):
            if name.startswith("00000000000000000010."):
                machine.fs.unlink(join(directory, name))

        machine.start()

        assert fetched(machine.connect()).error_code == STORAGE_ERROR
        assert "00000000000000000010.log" in is_red(machine)
        assert acknowledge(machine, f"{TOPIC}-0") == 200
        assert read_all(machine.connect()) == VALUES
        machine.kill()
        assert readiness(machine.broker).status == 200
        assert end_offset(machine) == 30


def test_power_loss_may_mix_up_what_was_not_synced_and_is_told() -> None:
    machine = filled()
    size = batch_bytes(machine)
    killed(machine)
    flip(machine, LOG, 4 * size + size - 3)
    machine.boots += 1

    machine.start()

    assert read_all(machine.connect()) == VALUES[:4]
    assert f"cut: {LOG} at {4 * size}, {6 * size} bytes" in is_red(machine)
    assert acknowledge(machine, f"{TOPIC}-0") == 200
    assert readiness(machine.broker).status == 200


def test_damaged_offsets_partition_leaves_the_other_groups_their_coordinator() -> None:
    machine = filled()
    client = machine.connect()
    groups = [f"group {number}" for number in range(8)]
    for group in groups:
        assert commit_offset(client, group, 3) == ErrorCode.NONE
    lost = [each for each in groups if machine.broker.groups.number_for(each) == 0]
    assert 0 < len(lost) < len(groups)
    machine.stop()
    path = f"{DATA}/__consumer_offsets-0/00000000000000000000.log"
    flip(machine, path, 80)

    machine.start()
    client = machine.connect()

    assert path in is_red(machine)
    for group in groups:
        is_lost = group in lost
        request = FindCoordinatorRequest(coordinator_keys=[group])
        found = client.ask(request, FindCoordinatorResponse).coordinators[0]
        described = client.ask(DescribeGroupsRequest(groups=[group]), DescribeGroupsResponse)
        code = COORDINATOR_NOT_AVAILABLE if is_lost else 0
        assert found.error_code == described.groups[0].error_code == code
        assert commit_offset(client, group, 4) == code
        assert committed_offset(client, group) == (None if is_lost else 4)
    assert acknowledge(machine, "__consumer_offsets-0") == 200
    assert commit_offset(machine.connect(), lost[0], 5) == ErrorCode.NONE


def test_lost_identity_is_not_replaced_by_a_new_one() -> None:
    machine = filled()
    cluster_id = machine.broker.image.cluster_id
    machine.stop()
    machine.fs.unlink(f"{DATA}/meta.properties")

    with pytest.raises(StorageError, match=rf"meta\.properties is missing.*{cluster_id}"):
        machine.start()


def test_full_disk_is_red_with_the_reason_and_a_line_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine = filled()
    client = machine.connect()
    machine.fs.fail_matching("pwrite", "*.log", errno.ENOSPC, times=None)

    codes = [produced(client, batch(("key", "value"))).error_code for _ in range(50)]

    assert codes == [STORAGE_ERROR] * 50
    assert "No space left" in is_red(machine)
    assert caplog.text.count("disk refuses writes") == 1
    machine.fs.clear_faults()
    machine.advance(20_000)
    assert readiness(machine.broker).status == 200
    assert write(client, "new") == [10]


def test_start_on_a_full_disk_changes_nothing() -> None:
    machine = filled()
    machine.stop()
    machine.fs.fail_matching("pwrite", "*", errno.ENOSPC, times=None)
    before = machine.fs.files()

    with pytest.raises(ConfigError, match="No space left"):
        machine.start()

    assert machine.fs.files() == before
    machine.fs.clear_faults()
    machine.start()
    assert read_all(machine.connect()) == VALUES


def test_disk_that_became_read_only_is_told(caplog: pytest.LogCaptureFixture) -> None:
    machine = filled()
    client = machine.connect()
    machine.fs.fail_matching("pwrite", "*.log", errno.EROFS, times=None)
    machine.fs.fail_matching("truncate", "*.log", errno.EROFS, times=None)

    with caplog.at_level(logging.ERROR):
        assert produced(client, batch(("key", "value"))).error_code == STORAGE_ERROR

    assert f"log takes no writes partition={TOPIC}-0" in caplog.text
    assert "Read-only file system" in is_red(machine)
    assert read_all(client) == VALUES
