"""What a broker still knows after it was stopped, killed, or lost its power."""

from collections.abc import Callable

import pytest

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from ledgerstone.sim.filesystem import SimulatedCrash
from ledgerstone.sim.platter import PowerLoss
from ledgerstone.types import TopicPartition
from tests.kit.in_process import InProcess
from tests.kit.logs import batch
from tests.unit.server.asks import (
    TOPIC,
    commit_offset,
    committed_offset,
    create_topic,
    delete_topic,
    end_offset,
    produced,
    read_all,
    write,
)

GROUP = "readers"
FIRST_LOG = "00000000000000000000.log"


def stop(machine: InProcess) -> None:
    machine.stop()
    machine.start()


def kill(machine: InProcess) -> None:
    machine.kill()


def lose_power(machine: InProcess) -> None:
    machine.lose_power("none")


ENDS = [stop, kill, lose_power]
End = Callable[[InProcess], None]


@pytest.mark.parametrize("end", ENDS)
def test_topics_their_ids_and_their_configurations_are_kept(end: End) -> None:
    machine = InProcess()
    create_topic(machine.connect(), partitions=3, retention_ms="1000")
    before = machine.broker.image.topics[TOPIC]
    cluster_id = machine.broker.image.cluster_id

    end(machine)

    after = machine.broker.image.topics[TOPIC]
    log = machine.broker.partitions.get(TopicPartition(TOPIC, 2)).log
    assert after.topic_id == before.topic_id
    assert sorted(after.partitions) == [0, 1, 2]
    assert log.config.retention_ms == 1000
    assert machine.broker.image.cluster_id == cluster_id
    machine.check_invariants()


@pytest.mark.parametrize("end", ENDS)
def test_configuration_that_was_altered_is_kept(end: End) -> None:
    machine = InProcess()
    client = machine.connect()
    create_topic(client)
    config = IncrementalAlterConfigsConfig(name="segment.ms", config_operation=0, value="777")
    resource = IncrementalAlterConfigsResource(
        resource_type=2, resource_name=TOPIC, configs=[config]
    )
    client.ask(
        IncrementalAlterConfigsRequest(resources=[resource]), IncrementalAlterConfigsResponse
    )

    end(machine)

    assert machine.broker.partitions.get(TopicPartition(TOPIC, 0)).log.config.segment_ms == 777


@pytest.mark.parametrize("end", [stop, kill])
def test_acknowledged_records_and_offsets_survive_the_process(end: End) -> None:
    machine = InProcess()
    client = machine.connect()
    create_topic(client)
    write(client, "a", "b")
    commit_offset(client, GROUP, 2)

    end(machine)

    client = machine.connect()
    assert read_all(client) == ["a", "b"]
    assert committed_offset(client, GROUP) == 2
    assert write(client, "c") == [2]
    machine.check_invariants()


def test_records_survive_power_loss_where_every_message_is_flushed() -> None:
    machine = InProcess()
    client = machine.connect()
    create_topic(client, flush_messages="1")
    write(client, "a", "b")

    machine.lose_power("none")

    assert read_all(machine.connect()) == ["a", "b"]


@pytest.mark.parametrize("end", ENDS)
def test_deleted_topic_stays_deleted(end: End) -> None:
    machine = InProcess()
    client = machine.connect()
    create_topic(client)
    write(client, "old")
    delete_topic(client)

    end(machine)

    client = machine.connect()
    assert TOPIC not in machine.broker.image.topics
    create_topic(client)
    assert read_all(client) == []


@pytest.mark.parametrize("end", [stop, kill])
def test_repeated_batch_is_known_after_a_restart(end: End) -> None:
    machine = InProcess()
    client = machine.connect()
    create_topic(client)
    records = batch(("key", "v"), producer_id=7, producer_epoch=0, base_sequence=0)
    first = produced(client, records)

    end(machine)
    second = produced(machine.connect(), records)

    assert (second.error_code, second.base_offset) == (ErrorCode.NONE, first.base_offset)
    assert end_offset(machine) == 1


@pytest.mark.parametrize("end", [stop, kill])
def test_a_producer_is_known_after_a_restart_for_as_long_as_is_set(end: End) -> None:
    """A start forgot everyone who was silent for a day, and took the batch once more."""
    machine = InProcess(settings={"producer.id.expiration.ms": str(10 * 86_400_000)})
    client = machine.connect()
    create_topic(client)
    records = batch(("key", "v"), producer_id=7, producer_epoch=0, base_sequence=0)
    first = produced(client, records)
    machine.jump(days=3)

    end(machine)
    second = produced(machine.connect(), records)

    assert (second.error_code, second.base_offset) == (ErrorCode.NONE, first.base_offset)
    assert end_offset(machine) == 1


def test_unsynced_topic_directory_is_made_again_from_the_metadata() -> None:
    """The metadata is synced before the directory is made, so it alone decides what exists."""
    machine = InProcess()
    create_topic(machine.connect())
    path = machine.broker.partitions.get(TopicPartition(TOPIC, 0)).log.directory
    machine.stop()
    for name in machine.fs.list_dir(path):
        machine.fs.unlink(f"{path}/{name}")
    machine.fs.remove_dir(path)

    machine.start()

    client = machine.connect()
    assert write(client, "value") == [0]


def test_directory_that_the_metadata_does_not_know_is_set_aside_and_kept() -> None:
    machine = InProcess()
    client = machine.connect()
    create_topic(client)
    write(client, "value")
    machine.stop()
    machine.fs.rename("/data/events-0", "/data/foreign-0")
    before = machine.fs.files()[f"/data/foreign-0/{FIRST_LOG}"]

    machine.start()

    aside = [path for path in machine.fs.files() if path.endswith(f"-stray/{FIRST_LOG}")]
    assert len(aside) == 1
    assert machine.fs.files()[aside[0]] == before


def test_what_an_unclean_stop_tore_is_cut_from_a_log_that_is_set_aside() -> None:
    """Nobody opens it later, and a scan for erased keys proves nothing of bytes it cannot read."""
    machine = InProcess()
    client = machine.connect()
    create_topic(client)
    write(client, "value")
    machine.fs.kill()
    machine.fs.rename("/data/events-0", "/data/foreign-0")
    whole = machine.fs.files()[f"/data/foreign-0/{FIRST_LOG}"]
    file = machine.fs.open(f"/data/foreign-0/{FIRST_LOG}")
    file.pwrite(bytes(300), len(whole))
    file.close()

    machine.start()
    machine.fs.power_loss("none")

    aside = [path for path in machine.fs.files() if path.endswith(f"-stray/{FIRST_LOG}")]
    assert [machine.fs.files()[each] for each in aside] == [whole]


@pytest.mark.parametrize("mode", ["none", "random", "all"])
def test_broker_starts_after_power_loss_at_any_operation_of_a_topic_creation(
    mode: PowerLoss,
) -> None:
    origin = InProcess()
    before = origin.fs.operation_count
    create_topic(origin.connect(), partitions=2)
    count = origin.fs.operation_count - before
    failures = []

    for number in range(1, count + 1):
        machine = InProcess()
        machine.fs.crash_at(before + number)
        with pytest.raises(SimulatedCrash):
            create_topic(machine.connect(), partitions=2)
        machine.lose_power(mode)
        client = machine.connect()
        if TOPIC not in machine.broker.image.topics:
            create_topic(client, partitions=2)
        if write(client, "value", partition=1) != [0]:
            failures.append(number)
        machine.check_invariants()

    assert count > 10
    assert failures == []
