"""The audit log of a broker in the topic `__audit`: it follows the file, and nobody else writes."""

import json
from typing import Any

import pytest

from ledgerstone.errors import NotEnoughReplicas
from ledgerstone.metadata.topic_names import AUDIT
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.create_acls import (
    CreateAclsCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from ledgerstone.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
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
from ledgerstone.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from ledgerstone.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from ledgerstone.protocol.messages.produce import (
    ProducePartitionData,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicData,
)
from ledgerstone.records.builder import build_batch
from ledgerstone.replication.replay_reader import replay_batches
from ledgerstone.security.audit_chain import AuditEvent
from ledgerstone.security.audit_check import ChainCheck
from ledgerstone.security.principal import Principal
from ledgerstone.server.auditing import audit_feed, audit_file
from ledgerstone.server.auditing.audit_topic import AUDIT_PARTITION, AuditTopic
from ledgerstone.server.auditing.redaction import redact
from ledgerstone.server.http.monitor import readiness, samples
from tests.kit.in_process import Client, InProcess

DIRECTORY = "/audit"
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
    "ledgerstone.audit.dir": DIRECTORY,
    "ledgerstone.audit.topic.enable": "true",
}


@pytest.fixture
def machine() -> InProcess:
    return InProcess(settings=SETTINGS)


def _login(machine: InProcess, name: str = "admin") -> Client:
    client = machine.connect()
    machine.broker.peers.by_number[client.number].session.principal = Principal("User", name)
    return client


def _create(machine: InProcess, name: str) -> None:
    topic = CreateTopicsRequestTopic(name, 1, 1)
    _login(machine).ask(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)


def _records(machine: InProcess) -> list[tuple[bytes, bytes]]:
    log = machine.broker.partitions.get(AUDIT_PARTITION).log
    return [
        (record.key or b"", record.value or b"")
        for batch in replay_batches(log)
        for record in batch.records
    ]


def _check(machine: InProcess) -> ChainCheck:
    check = ChainCheck()
    for _, value in _records(machine):
        check.take_any(value)
    check.finish()
    return check


def _lag(machine: InProcess) -> float:
    (sample,) = [
        each for each in samples(machine.broker) if each.name == "ledgerstone_audit_topic_lag"
    ]
    return sample.value


def test_topic_has_every_line_of_the_file(machine: InProcess) -> None:
    _create(machine, "tea")
    machine.advance(70_000)

    auditor = machine.broker.auditor
    assert auditor is not None
    check = _check(machine)
    assert check.end == auditor.file.link
    assert check.first == 1
    assert check.sealed_to == check.end.seq - 1
    keys = [key.decode().split("/") for key, _ in _records(machine)]
    assert [int(seq) for _, _, seq in keys] == list(range(1, check.end.seq + 1))
    assert _lag(machine) == 0
    assert "lags" not in str(readiness(machine.broker).body)


def test_writing_lines_makes_no_lines(machine: InProcess) -> None:
    machine.advance(70_000)
    before = len(_records(machine))

    machine.advance(600_000)

    assert len(_records(machine)) == before
    kinds = [json.loads(value)["kind"] for _, value in _records(machine)]
    assert kinds == ["start", "audit.seal"]


@pytest.mark.parametrize("loss", [None, "none", "random"])
def test_lines_follow_after_a_crash(machine: InProcess, loss: Any) -> None:
    _create(machine, "tea")
    machine.advance(200)

    for turn in range(3):
        _create(machine, f"coffee-{turn}")
        machine.kill() if loss is None else machine.lose_power(loss)
        machine.advance(1_000)

    auditor = machine.broker.auditor
    assert auditor is not None
    assert _check(machine).end == auditor.file.link


def test_long_log_follows_in_parcels_over_many_files(
    machine: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_file, "ROLL_BYTES", 50_000)
    machine.advance(200)
    auditor = machine.broker.auditor
    assert auditor is not None
    for number in range(1_700):
        auditor.write(AuditEvent("k", "done", {}, {"number": number}))

    machine.advance(5_000)

    assert len(audit_file.audit_files(machine.fs, DIRECTORY)) > 5
    assert _check(machine).end == auditor.file.link
    assert _lag(machine) == 0


def test_redacted_line_takes_the_place_of_the_named_one(machine: InProcess) -> None:
    _create(machine, "tea")
    machine.advance(200)
    machine.jump(days=1)
    _create(machine, "coffee")
    machine.advance(1_000)

    assert redact(machine.fs, DIRECTORY, [2], may_change_newest=False) == 1
    machine.advance(61_000)

    copies = [json.loads(value) for key, value in _records(machine) if key.endswith(b"/2")]
    assert ["who" in each for each in copies] == [True, False]
    assert _check(machine).redacted == 1
    assert json.loads(_records(machine)[-1][1])["kind"] in ("audit.redact", "topic.create")
    kinds = [json.loads(value)["kind"] for _, value in _records(machine)]
    assert kinds.count("audit.redact") == 1

    machine.kill()
    machine.jump(hours=2)
    machine.advance(120_000)

    kinds = [json.loads(value)["kind"] for _, value in _records(machine)]
    assert kinds.count("audit.redact") == 1
    copies = [json.loads(value) for key, value in _records(machine) if key.endswith(b"/2")]
    assert copies
    assert not any("who" in each for each in copies), "compacted away"
    _check(machine)


def test_emptied_directory_overwrites_nothing(machine: InProcess) -> None:
    _create(machine, "tea")
    machine.advance(1_000)
    for name in machine.fs.list_dir(DIRECTORY):
        if name.endswith(".jsonl"):
            machine.fs.unlink(f"{DIRECTORY}/{name}")
    machine.fs.fsync_dir(DIRECTORY)

    machine.kill()
    machine.advance(1_000)

    keys = [key for key, _ in _records(machine)]
    assert len(keys) == len(set(keys))
    assert len({key.split(b"/")[1] for key in keys}) == 2


def test_no_client_changes_the_topic(machine: InProcess) -> None:
    machine.advance(1_000)
    before = len(_records(machine))
    admin = _login(machine)
    admin.client_id = "__admin_client"
    batch = build_batch([(0, b"1/aaaaaaaaaaaaaaaa/1", b"{}", ())])
    data = ProduceTopicData(name=AUDIT, partition_data=[ProducePartitionData(0, batch)])
    setting = IncrementalAlterConfigsConfig("retention.ms", 0, "1")

    produced = admin.ask(ProduceRequest(acks=1, topic_data=[data]), ProduceResponse)
    deleted = admin.ask(
        DeleteTopicsRequest(topics=[DeleteTopicsTopic(name=AUDIT)]), DeleteTopicsResponse
    )
    cut = admin.ask(
        DeleteRecordsRequest(
            [DeleteRecordsRequestTopic(AUDIT, [DeleteRecordsRequestPartition(0, 1)])]
        ),
        DeleteRecordsResponse,
    )
    grown = admin.ask(
        CreatePartitionsRequest(topics=[CreatePartitionsTopic(AUDIT, 2)]), CreatePartitionsResponse
    )
    altered = admin.ask(
        IncrementalAlterConfigsRequest([IncrementalAlterConfigsResource(2, AUDIT, [setting])]),
        IncrementalAlterConfigsResponse,
    )

    assert (
        produced.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    )
    assert deleted.responses[0].error_code == ErrorCode.POLICY_VIOLATION
    assert cut.topics[0].partitions[0].error_code != 0
    assert grown.results[0].error_code == ErrorCode.POLICY_VIOLATION
    assert altered.responses[0].error_code == ErrorCode.POLICY_VIOLATION
    values = [value for _, value in _records(machine)[:before]]
    assert b"{}" not in values


def _fetch_code(client: Client, topic_id: bytes) -> int:
    wanted = FetchTopic(topic_id=topic_id, partitions=[FetchPartition(0, fetch_offset=0)])
    answer = client.ask(FetchRequest(max_wait_ms=0, topics=[wanted]), FetchResponse)
    return answer.responses[0].partitions[0].error_code


def test_reading_needs_an_acl_for_this_very_name(machine: InProcess) -> None:
    machine.advance(1_000)
    topic_id = machine.broker.image.topics[AUDIT].topic_id
    admin, reader = _login(machine), _login(machine, "reader")

    def allow(name: str, pattern: int) -> None:
        acl = CreateAclsCreation(2, name, pattern, "User:reader", "*", 3, 3)
        assert admin.ask(CreateAclsRequest([acl]), CreateAclsResponse).results[0].error_code == 0

    assert _fetch_code(admin, topic_id) == 0
    allow("*", 3)
    allow("__", 4)
    assert _fetch_code(reader, topic_id) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    allow(AUDIT, 3)
    assert _fetch_code(reader, topic_id) == 0


def test_topic_that_cannot_be_written_lags_and_catches_up(
    machine: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.advance(1_000)

    def refuse(*_: object, **__: object) -> None:
        raise NotEnoughReplicas("two are down")

    monkeypatch.setattr(AuditTopic, "append", refuse)
    _create(machine, "tea")
    machine.advance(60_000)

    assert _lag(machine) >= 2
    page = readiness(machine.broker)
    assert page.status == 200
    assert "__audit lags by" in str(page.body)
    assert "two are down" in str(page.body)

    monkeypatch.undo()
    machine.advance(20_000)

    assert _lag(machine) == 0
    assert "lags" not in str(readiness(machine.broker).body)
    _check(machine)


def test_file_that_is_replaced_while_it_is_read_loses_no_line(
    machine: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_feed, "_PARCEL", 5)
    machine.advance(1_000)
    auditor = machine.broker.auditor
    assert auditor is not None
    for number in range(30):
        auditor.write(AuditEvent("k", "done", {}, {"number": number}))
    real, sent = AuditTopic.append, []

    def slowly(self: AuditTopic, lines: list[bytes], **how: Any) -> Any:
        sent.append(len(lines))
        if len(sent) == 3:
            # Whoever redacts does not wait for the feed, and what follows lies elsewhere then.
            redact(machine.fs, DIRECTORY, [2, 3, 4, 20], may_change_newest=True)
        return real(self, lines, **how)

    monkeypatch.setattr(AuditTopic, "append", slowly)
    machine.jump(days=1)
    machine.advance(70_000)

    assert len(sent) > 6
    assert _check(machine).end == auditor.file.link
    assert _check(machine).redacted == 4
