"""The journal of erasures against whoever would have it gone: clients, files, older brokers."""

import errno
import logging
from collections.abc import Callable
from contextlib import suppress

import pytest

from ledgerstone.erasure.erasure import Stage
from ledgerstone.erasure.journal import record_of
from ledgerstone.metadata.image import ConfigResource, ResourceType
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.alter_configs import (
    AlterConfigsConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)
from ledgerstone.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ledgerstone.protocol.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
    DeleteRecordsResponse,
)
from ledgerstone.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicsTopic,
)
from ledgerstone.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from ledgerstone.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from ledgerstone.protocol.messages.metadata_records import ConfigRecord, RemoveTopicRecord
from ledgerstone.records.batch import iter_headers
from ledgerstone.records.builder import RecordHeaders, build_batch
from ledgerstone.records.record import iter_records
from ledgerstone.records.validation import Origin
from ledgerstone.server.http.monitor import readiness, samples
from ledgerstone.sim.filesystem import SimulatedCrash
from ledgerstone.types import TopicPartition
from tests.unit.server.asks import create_topic, exposition, produced
from tests.unit.server.erasing_kit import (
    DAY_MS,
    HOUR_MS,
    KEY,
    TOPIC,
    ErasingMachine,
    base64,
    machine_with,
)

JOURNAL = TopicPartition("__erasures", 0)
MARK = "/data/erasure.mark"
SETTINGS = ConfigResource(ResourceType.TOPIC, "__erasures")


def with_evidence() -> tuple[ErasingMachine, str, str]:
    """A broker with a receipt and an erasure that waits."""
    machine = machine_with(partitions=1)
    machine.put(0, (KEY, b"lives in Ulm"), (b"bob", b"1"))
    done = machine.erase()
    machine.run(done)
    waiting = machine.erase(b"bob", after_ms=DAY_MS)
    machine.settle()
    assert readiness(machine.broker).status == 200
    return machine, done, waiting


def check_all_there(machine: ErasingMachine, done: str, waiting: str) -> None:
    assert machine.erasure(done).receipt is not None
    assert machine.erasure(waiting).stage is Stage.SCHEDULED
    assert machine.run(waiting).stage is Stage.RECEIPTED


def append_to_journal(
    machine: ErasingMachine, key: bytes | None, value: bytes | None, headers: RecordHeaders = ()
) -> int:
    """Past every guard, as somebody does who can write the files."""
    partition = machine.broker.partitions.get(JOURNAL)
    batch = build_batch([(machine.clock.now_ms(), key, value, headers)])
    offset = partition.append(batch, acks=-1, origin=Origin.COORDINATOR).first_offset
    partition.log.flush()
    return offset


# -- what clients ask for -------------------------------------------------------------------------


def delete_by_name(machine: ErasingMachine) -> tuple[int, str | None]:
    request = DeleteTopicsRequest(topics=[DeleteTopicsTopic(name="__erasures")], timeout_ms=1)
    (result,) = machine.connect().ask(request, DeleteTopicsResponse).responses
    return result.error_code, result.error_message


def delete_by_id(machine: ErasingMachine) -> tuple[int, str | None]:
    topic_id = machine.broker.image.topics["__erasures"].topic_id
    topic = DeleteTopicsTopic(name=None, topic_id=topic_id)
    request = DeleteTopicsRequest(topics=[topic], timeout_ms=1)
    (result,) = machine.connect().ask(request, DeleteTopicsResponse).responses
    return result.error_code, result.error_message


def add_partitions(machine: ErasingMachine) -> tuple[int, str | None]:
    topic = CreatePartitionsTopic(name="__erasures", count=3, assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=1)
    (result,) = machine.connect().ask(request, CreatePartitionsResponse).results
    return result.error_code, result.error_message


def weaken(machine: ErasingMachine) -> tuple[int, str | None]:
    changes = [
        IncrementalAlterConfigsConfig(name=name, config_operation=0, value=value)
        for name, value in (("cleanup.policy", "delete"), ("retention.ms", "1"))
    ]
    resource = IncrementalAlterConfigsResource(2, "__erasures", changes)
    request = IncrementalAlterConfigsRequest(resources=[resource])
    (result,) = machine.connect().ask(request, IncrementalAlterConfigsResponse).responses
    return result.error_code, result.error_message


def replace_settings(machine: ErasingMachine) -> tuple[int, str | None]:
    resource = AlterConfigsResource(2, "__erasures", [AlterConfigsConfig("retention.ms", "1")])
    request = AlterConfigsRequest(resources=[resource])
    (result,) = machine.connect().ask(request, AlterConfigsResponse).responses
    return result.error_code, result.error_message


@pytest.mark.parametrize(
    "attack", [delete_by_name, delete_by_id, add_partitions, weaken, replace_settings]
)
def test_no_client_changes_what_becomes_of_the_journal(
    attack: Callable[[ErasingMachine], tuple[int, str | None]],
) -> None:
    machine, done, waiting = with_evidence()

    code, reason = attack(machine)
    machine.advance(10_000)
    machine.stop()
    machine.start()
    machine.advance(10_000)

    assert code == ErrorCode.POLICY_VIOLATION
    assert "the journal of erasures" in (reason or "")
    check_all_there(machine, done, waiting)
    assert readiness(machine.broker).status == 200


def test_records_of_the_journal_cannot_be_deleted() -> None:
    machine, done, waiting = with_evidence()
    partition = DeleteRecordsRequestPartition(partition_index=0, offset=-1)
    topic = DeleteRecordsRequestTopic(name="__erasures", partitions=[partition])

    answer = machine.connect().ask(
        DeleteRecordsRequest(topics=[topic], timeout_ms=1), DeleteRecordsResponse
    )

    assert answer.topics[0].partitions[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    check_all_there(machine, done, waiting)


@pytest.mark.parametrize("client_id", ["somebody", "__admin_client"])
def test_nobody_writes_to_the_journal_whatever_their_client_id(client_id: str) -> None:
    machine, done, waiting = with_evidence()
    client = machine.connect()
    client.client_id = client_id
    end = machine.journal_end

    answers = [
        produced(client, build_batch([(0, done.encode(), value, ())]), "__erasures")
        for value in (None, b"{}")
    ]

    assert [each.error_code for each in answers] == [ErrorCode.INVALID_TOPIC_EXCEPTION] * 2
    assert "the broker alone writes to it" in (answers[0].error_message or "")
    assert machine.journal_end == end
    check_all_there(machine, done, waiting)


@pytest.mark.parametrize("name", ["__erasures", "._erasures", "_.erasures"])
def test_nobody_but_the_broker_makes_the_journal(name: str) -> None:
    machine = machine_with(partitions=1)
    machine.put(0, (KEY, b"1"))

    (refused,) = create_topic(machine.connect(), name, 3, cleanup_policy="delete").topics
    wanted = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True
    )
    machine.connect().ask(wanted, MetadataResponse)

    assert refused.error_code == ErrorCode.POLICY_VIOLATION
    assert name not in machine.broker.image.topics
    assert machine.run(machine.erase()).stage is Stage.RECEIPTED
    assert machine.broker.image.config_of(SETTINGS)["cleanup.policy"] == "compact"


def test_settings_that_an_older_broker_let_somebody_weaken_are_set_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine, done, waiting = with_evidence()
    machine.broker.controller_link.write(
        [
            ConfigRecord(resource_type=2, resource_name="__erasures", name=name, value=value)
            for name, value in (("cleanup.policy", "delete"), ("retention.ms", "1"))
        ]
    )
    machine.stop()
    caplog.clear()
    machine.start()
    for _ in range(10):
        machine.advance(HOUR_MS)

    assert "cleanup.policy=delete" in caplog.text
    assert machine.broker.partitions.get(JOURNAL).log.config.cleanup_policy == ("compact",)
    check_all_there(machine, done, waiting)


# -- what happens to files ------------------------------------------------------------------------


def restart(machine: ErasingMachine) -> str:
    machine.kill()
    machine.settle()
    return str(readiness(machine.broker).body)


def test_foreign_record_is_named_and_does_not_count() -> None:
    machine, done, waiting = with_evidence()
    forged = record_of(machine.erasure(done)).value.replace(b"ticket 4711", b"ticket 4712")
    offsets = [
        append_to_journal(machine, done.encode(), None),
        append_to_journal(machine, waiting.encode(), forged),
        append_to_journal(machine, done.encode(), forged),
        append_to_journal(machine, b"secrets", b"{}"),
        append_to_journal(machine, b"breaks", b"{}"),
        append_to_journal(machine, b"no id", b"[]"),
    ]

    told = restart(machine)

    assert machine.erasure(done).reason == "ticket 4711"
    for offset in offsets:
        assert f"offset {offset}: it has no link: somebody else wrote it" in told
    check_all_there(machine, done, waiting)
    # Nor does it once the records that it stands in front of are compacted away.
    machine.broker.cleaning.ask(JOURNAL)
    machine.settle()
    restart(machine)
    assert machine.erasure(done).reason == "ticket 4711"
    assert machine.erasure(done).receipt is not None


def test_malformed_record_of_an_older_journal_stops_nobody() -> None:
    machine = machine_with(partitions=1)
    machine.put(0, (KEY, b"1"), (b"bob", b"1"))
    first = machine.erase(after_ms=DAY_MS)

    malformed = [(b"ER-0000000000000000", b'{"version": 1}'), (b"\xff\xfe", b"{}")]
    offset = _without_chain(machine, *malformed)
    told = str(readiness(machine.broker).body)

    assert f"offset {offset}: 14 bytes that are no erasure: KeyError" in told
    assert f"offset {offset + 1}: a journal key of 2 bytes is no erasure id" in told
    assert machine.broker.erasing.trouble is None
    assert machine.run(first).stage is Stage.RECEIPTED
    assert machine.run(machine.erase(b"bob")).stage is Stage.RECEIPTED


def _without_chain(machine: ErasingMachine, *more: tuple[bytes, bytes]) -> int:
    """The journal as older brokers wrote it; the offset of the first of `more`."""
    machine.fs.unlink(MARK)
    logs = _journal_files(machine)
    end = machine.journal_end
    for path, content in logs.items():
        records = [
            (record.offset, record.timestamp, record.key, record.value)
            for position, _ in iter_headers(content)
            for record in iter_records(content, position)
        ]
        if path == max(logs):
            now_ms = machine.clock.now_ms()
            records += [(end + index, now_ms, *each) for index, each in enumerate(more)]
        file = machine.fs.open(path)
        file.truncate(0)
        if records:
            offsets = [offset for offset, *_ in records]
            parts = [(at_ms, key, value, ()) for _, at_ms, key, value in records]
            file.pwrite(build_batch(parts, base_offset=offsets[0], offsets=offsets), 0)
        file.fsync()
        for kind in ("index", "timeindex"):
            if machine.fs.exists(index := path.removesuffix("log") + kind):
                machine.fs.unlink(index)
    machine.kill()
    machine.settle()
    return end


def _journal_files(machine: ErasingMachine) -> dict[str, bytes]:
    return {
        path: content
        for path, content in machine.fs.files().items()
        if path.startswith("/data/__erasures-0/") and path.endswith(".log")
    }


def test_older_journal_is_continued_with_a_chain() -> None:
    machine, done, waiting = with_evidence()

    _without_chain(machine)

    assert readiness(machine.broker).body == "ready\n"
    assert machine.call("GET", "erasures-journal")["sequence"] == 1
    check_all_there(machine, done, waiting)
    append_to_journal(machine, done.encode(), None)
    assert "somebody else wrote it" in restart(machine)


def wipe_topic(machine: ErasingMachine) -> None:
    """As older brokers did for DeleteTopics."""
    topic_id = machine.broker.image.topics["__erasures"].topic_id
    machine.broker.controller_link.write([RemoveTopicRecord(topic_id=topic_id)])


def cut_tail(machine: ErasingMachine) -> None:
    log = machine.broker.partitions.get(JOURNAL).log
    machine.broker.log_dir.truncate_to(JOURNAL, log.log_end_offset - 1)


def cut_head(machine: ErasingMachine) -> None:
    log = machine.broker.partitions.get(JOURNAL).log
    log.raise_log_start_offset(log.high_watermark - 1)


@pytest.mark.parametrize("wipe", [wipe_topic, cut_tail, cut_head])
def test_journal_that_lost_something_makes_the_broker_unready_for_good(
    wipe: Callable[[ErasingMachine], None], caplog: pytest.LogCaptureFixture
) -> None:
    machine, _, _ = with_evidence()

    wipe(machine)
    machine.stop()
    caplog.clear()
    machine.start()
    machine.settle()
    first = readiness(machine.broker)
    # The rest goes on, and the loss stays known over restarts and compaction.
    machine.put(0, (b"carol", b"1"))
    done = machine.run(machine.erase(b"carol"))
    machine.broker.cleaning.ask(JOURNAL)
    machine.settle()
    later = restart(machine)

    assert first.status == 503
    assert "the journal of erasures, __erasures: it" in first.body
    assert any("journal of erasures broken" in each.getMessage() for each in caplog.records
               if each.levelno == logging.ERROR)  # fmt: skip
    assert done.stage is Stage.RECEIPTED
    assert later.splitlines()[:2] == first.body.splitlines()[:2]
    assert "ledgerstone_erasures_journal_breaks" in exposition(samples(machine.broker))


def test_acknowledged_break_is_ready_again_and_stays_in_the_history() -> None:
    machine, done, _ = with_evidence()
    offset = append_to_journal(machine, done.encode(), None)
    restart(machine)

    answer = machine.call("POST", "erasures-journal/acknowledge", by="operator")
    nobody = machine.page("POST", "erasures-journal/acknowledge", by=7)
    again = machine.page("POST", "erasures-journal/acknowledge", by="operator")
    told = restart(machine)

    (found,) = machine.call("GET", "erasures-journal")["breaks"]
    assert told == "ready\n"
    assert [found] == answer["breaks"]
    assert found["acknowledged_by"] == "operator"
    assert found["reason"].startswith(f"offset {offset}: ")
    assert (nobody.status, again.status) == (400, 400)


def test_lost_mark_is_told() -> None:
    machine, done, waiting = with_evidence()
    machine.fs.unlink(MARK)

    told = restart(machine)

    assert "how far it had gone was not remembered" in told
    check_all_there(machine, done, waiting)


def test_damaged_batch_is_named_and_the_others_are_read() -> None:
    machine, done, waiting = with_evidence()
    (path,) = [each for each, data in _journal_files(machine).items() if waiting.encode() in data]
    position = machine.fs.files()[path].index(b'"scheduled"')
    machine.fs.open(path).pwrite(b"S", position + 1)
    machine.stop()
    machine.start()
    machine.settle()

    told = readiness(machine.broker).body

    assert "the batch cannot be read" in told
    assert machine.broker.erasing.trouble is None
    assert machine.erasure(done).receipt is not None
    assert machine.page("GET", f"erasures/{waiting}").status == 404


def test_mark_that_cannot_be_written_is_told_and_written_later() -> None:
    machine, done, waiting = with_evidence()
    machine.put(0, (b"carol", b"1"), (b"dora", b"1"))
    machine.fs.fail_matching("pwrite", MARK, errno.ENOSPC)
    machine.erase(b"carol", after_ms=DAY_MS)

    told = readiness(machine.broker).body
    machine.fs.clear_faults()
    machine.erase(b"dora", after_ms=DAY_MS)

    assert "/data/erasure.mark cannot be written" in told
    assert readiness(machine.broker).status == 200
    assert restart(machine) == "ready\n"
    check_all_there(machine, done, waiting)


def test_journal_whose_later_batch_was_refused_keeps_its_numbers() -> None:
    machine = machine_with(partitions=1)
    keys = [b"%d" % number + b"k" * 300_000 for number in range(6)]
    machine.put(0, (KEY, b"1"))
    machine.erase(after_ms=DAY_MS)
    used = sum(map(len, machine.fs.files().values()))
    machine.fs.capacity_bytes = used + 1_500_000

    refused = machine.page(
        "POST", f"topics/{TOPIC}/erasures", reason="", requested_by="c", after_ms=DAY_MS,
        keys=[base64(each) for each in keys],
    )  # fmt: skip
    machine.fs.capacity_bytes = None
    machine.erase(b"bob", after_ms=DAY_MS)
    before = [each.id for each in machine.broker.erasing.journal.book]

    assert refused.status == 503
    assert restart(machine) == "ready\n"
    assert [each.id for each in machine.broker.erasing.journal.book] == before


def test_no_death_of_process_or_machine_looks_like_a_loss() -> None:
    """Killed while a record is written, read by the next process, then power is lost."""

    def prepared() -> ErasingMachine:
        machine = machine_with(partitions=1)
        machine.erase(after_ms=DAY_MS)
        return machine

    machine = prepared()
    before = machine.fs.operation_count
    machine.erase(b"bob", after_ms=DAY_MS)
    operations = machine.fs.operation_count - before
    for operation in range(1, operations + 1):
        machine = prepared()
        machine.fs.crash_at(machine.fs.operation_count + operation, torn=operation % 2 == 1)
        with suppress(SimulatedCrash):
            machine.erase(b"bob", after_ms=DAY_MS)

        machine.kill()
        assert machine.broker.erasing.journal.breaks == [], operation
        known = [each.id for each in machine.broker.erasing.journal.book]
        machine.lose_power()

        assert machine.broker.erasing.journal.breaks == [], operation
        assert [each.id for each in machine.broker.erasing.journal.book] == known
    assert operations >= 4
