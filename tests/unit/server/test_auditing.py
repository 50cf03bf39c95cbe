"""The audit log of a whole broker: before the effect, bounded, and whole after any crash."""

import json
from typing import Any

import pytest

from ledgerstone.config.broker import Listener
from ledgerstone.errors import ConfigError
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
from ledgerstone.protocol.messages.delete_groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from ledgerstone.protocol.messages.delete_records import (
    DeleteRecordsRequest,
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
from ledgerstone.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ledgerstone.protocol.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from ledgerstone.security.audit_chain import ChainEnd, verified
from ledgerstone.security.principal import Principal
from ledgerstone.server.auditing import audit_file
from ledgerstone.server.auditing.audit_file import audit_files, lines_of
from tests.kit.in_process import Client, InProcess

DIRECTORY = "/audit"
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
    "ledgerstone.audit.dir": DIRECTORY,
}


@pytest.fixture
def machine() -> InProcess:
    return InProcess(settings=SETTINGS)


def _login(machine: InProcess, name: str = "admin") -> Client:
    client = machine.connect()
    machine.broker.peers.by_number[client.number].session.principal = Principal("User", name)
    return client


def _log(machine: InProcess) -> list[dict[str, Any]]:
    """Every line; the chain is whole from its first one on."""
    lines = [
        line
        for path in audit_files(machine.fs, DIRECTORY)
        for line in lines_of(machine.fs.open(path))
    ]
    return [line for line, _ in verified(lines, ChainEnd())]


def _create(client: Client, name: str, **fields: Any) -> int:
    topic = CreateTopicsRequestTopic(name, 1, 1)
    answer = client.ask(CreateTopicsRequest(topics=[topic], **fields), CreateTopicsResponse)
    return answer.topics[0].error_code


def test_change_is_written_before_and_its_outcome_after(machine: InProcess) -> None:
    admin = _login(machine)

    _create(admin, "tea")
    _create(admin, "tea")

    start, asked, done, again, refused = _log(machine)
    assert (start["kind"], start["seq"]) == ("start", 1)
    assert (asked["kind"], asked["outcome"], asked["what"]) == ("topic.create", "asked", ["tea"])
    assert asked["who"]["principal"] == "User:admin"
    assert asked["who"]["host"] == "10.0.0.1"
    assert (done["outcome"], done["codes"]) == ("done", {"0": 2})
    assert again["outcome"] == "asked"
    assert (refused["outcome"], refused["codes"]["36"]) == ("refused", 1)


def test_what_only_asks_and_validates_is_not_written(machine: InProcess) -> None:
    admin = _login(machine)

    _create(admin, "tea", validate_only=True)
    admin.ask(MetadataRequest(topics=None), MetadataResponse)

    assert [each["kind"] for each in _log(machine)] == ["start"]


def test_topic_that_is_made_for_the_asking_is_written_before(machine: InProcess) -> None:
    admin = _login(machine)
    topics = [MetadataRequestTopic(name=each) for each in ("tea", "no topic")]

    admin.ask(MetadataRequest(topics=topics), MetadataResponse)
    admin.ask(MetadataRequest(topics=topics), MetadataResponse)

    _, asked, done = _log(machine)
    assert (asked["kind"], asked["outcome"], asked["what"]) == ("topic.create", "asked", ["tea"])
    assert asked["api"] == "Metadata"
    assert asked["who"]["principal"] == "User:admin"
    assert (done["kind"], done["codes"]) == ("topic.create", {"0": 1, "17": 1})


def test_topic_is_not_made_for_the_asking_where_that_cannot_be_written(
    machine: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, auditor = _login(machine), machine.broker.auditor
    assert auditor is not None

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(auditor.file, "append", full)
    topics = [MetadataRequestTopic(name="tea")]
    answer = admin.ask(MetadataRequest(topics=topics), MetadataResponse)

    assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "tea" not in machine.broker.image.topics


def test_values_of_settings_are_not_written(machine: InProcess) -> None:
    admin = _login(machine)
    change = IncrementalAlterConfigsConfig("log.retention.ms", 0, "987654321")
    resource = IncrementalAlterConfigsResource(4, "", [change])

    admin.ask(IncrementalAlterConfigsRequest(resources=[resource]), IncrementalAlterConfigsResponse)

    log = _log(machine)
    assert log[1]["what"] == ["4::log.retention.ms"]
    assert "987654321" not in json.dumps(log)


def test_full_disk_refuses_the_change_and_lets_data_go_on(machine: InProcess) -> None:
    admin = _login(machine)
    _create(admin, "tea")
    before = len(_log(machine))
    original = machine.broker.auditor
    assert original is not None

    class FullFile:
        link = ChainEnd()

        def append(self, *_: object, **__: object) -> None:
            raise OSError(28, "No space left on device")

    original._file = FullFile()  # type: ignore[assignment]
    code = _create(admin, "coffee")

    assert code == ErrorCode.KAFKA_STORAGE_ERROR
    assert list(machine.broker.image.topics) == ["tea"]
    assert len(_log(machine)) == before
    names = admin.ask(MetadataRequest(topics=None), MetadataResponse).topics
    assert [each.name for each in names] == ["tea"]


def test_names_that_are_no_ascii_leave_a_chain_that_can_be_read(machine: InProcess) -> None:
    admin = _login(machine)
    names = [f"{number}-{'😀' * 300}" for number in range(50)]
    # Of no type that there is.
    resources = [IncrementalAlterConfigsResource(99, name, []) for name in names]

    admin.ask(IncrementalAlterConfigsRequest(resources=resources), IncrementalAlterConfigsResponse)
    machine.lose_power("none")

    kinds = [each["kind"] for each in _log(machine)]
    assert kinds == ["start", "config.alter", "start"]


def test_storm_of_denials_is_bounded_and_counted(machine: InProcess) -> None:
    stranger = _login(machine, "stranger")
    wanted = MetadataRequest(topics=[MetadataRequestTopic(name="secret")])

    for _ in range(500):
        stranger.ask(wanted, MetadataResponse)
    machine.advance(1_500)

    denials = [each for each in _log(machine) if each["kind"] == "authz.deny"]
    assert len(denials) <= 12
    assert sum(each["times"] for each in denials) == 500
    assert denials[0]["op"] == "DESCRIBE"
    assert denials[0]["resource"] == "TOPIC:secret"
    assert denials[0]["who"]["principal"] == "User:stranger"


def _repeated(name: str) -> list[CreateTopicsRequestTopic]:
    return [CreateTopicsRequestTopic(name, 1, 1), CreateTopicsRequestTopic(name, 1, 1)]


@pytest.mark.parametrize(
    ("request_", "answer_of", "kind"),
    [
        (CreateTopicsRequest(topics=_repeated("tea")), CreateTopicsResponse, "topic.create"),
        (CreateTopicsRequest(topics=[]), CreateTopicsResponse, "topic.create"),
        (
            DeleteTopicsRequest(topics=[DeleteTopicsTopic(None)], timeout_ms=1),
            DeleteTopicsResponse,
            "topic.delete",
        ),
        (
            CreatePartitionsRequest(topics=[CreatePartitionsTopic("tea", 2, None)] * 2),
            CreatePartitionsResponse,
            "topic.grow",
        ),
        (
            IncrementalAlterConfigsRequest(
                resources=[IncrementalAlterConfigsResource(99, "tea", [])]
            ),
            IncrementalAlterConfigsResponse,
            "config.alter",
        ),
        (
            IncrementalAlterConfigsRequest(resources=[]),
            IncrementalAlterConfigsResponse,
            "config.alter",
        ),
        (DeleteRecordsRequest(topics=[], timeout_ms=1), DeleteRecordsResponse, "records.delete"),
        (DeleteGroupsRequest(groups_names=[]), DeleteGroupsResponse, "group.delete"),
    ],
)
def test_requests_that_are_only_wrong_are_counted_as_denials_are(
    machine: InProcess, request_: Any, answer_of: Any, kind: str
) -> None:
    stranger = _login(machine, "stranger")
    synced = machine.fs.operation_count

    for _ in range(300):
        stranger.ask(request_, answer_of)
    machine.advance(1_500)

    _, *lines = _log(machine)
    assert len(lines) <= 12
    assert {each["kind"] for each in lines} == {"authz.deny"}
    assert sum(each["times"] for each in lines) == 300
    assert lines[0]["resource"] == kind
    assert lines[0]["who"]["principal"] == "User:stranger"
    assert machine.fs.operation_count - synced < 50


def test_wrong_request_of_somebody_with_a_right_is_written_like_any_change(
    machine: InProcess,
) -> None:
    admin = _login(machine)

    admin.ask(CreateTopicsRequest(topics=_repeated("tea")), CreateTopicsResponse)

    _, asked, refused = _log(machine)
    assert (asked["kind"], asked["outcome"]) == ("topic.create", "asked")
    assert refused["outcome"] == "refused"


def test_lists_that_leave_something_out_deny_nothing(machine: InProcess) -> None:
    _create(_login(machine), "tea")
    before = len(_log(machine))

    _login(machine, "stranger").ask(MetadataRequest(topics=None), MetadataResponse)

    assert len(_log(machine)) == before


def test_what_was_asked_survives_a_loss_of_power(machine: InProcess) -> None:
    _create(_login(machine), "tea")

    machine.lose_power("none")

    log = _log(machine)
    assert "topic.create" in [each["kind"] for each in log]
    assert [each["kind"] for each in log][-1] == "start"
    assert _create(_login(machine), "coffee") == 0
    assert _log(machine)[-1]["outcome"] == "done"


def test_line_that_was_cut_off_is_cut_away_and_said(machine: InProcess) -> None:
    _create(_login(machine), "tea")
    (path,) = audit_files(machine.fs, DIRECTORY)
    file = machine.fs.open(path)
    file.pwrite(b'{"v":1,"seq":99,"cut', file.size())
    file.fsync()

    machine.kill()

    kinds = [each["kind"] for each in _log(machine)]
    assert kinds[-2:] == ["audit.gap", "start"]
    assert _log(machine)[-2]["lost_bytes"] == 20


def test_full_file_is_followed_by_the_next(
    machine: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_file, "ROLL_BYTES", 3_000)
    admin = _login(machine)
    acl = CreateAclsCreation(2, "t", 3, "User:a", "*", 3, 3)

    for _ in range(10):
        admin.ask(CreateAclsRequest([acl]), CreateAclsResponse)
    machine.kill()

    assert len(audit_files(machine.fs, DIRECTORY)) > 2
    log = _log(machine)
    assert [each["seq"] for each in log] == list(range(1, len(log) + 1))
    assert [each["kind"] for each in log].count("audit.rotate") > 1
    assert len([each for each in log if each["kind"] == "acl.create"]) == 20
    bound = [{key: each[key] for key in each if key != "who"} for each in log]
    assert "User:a" in json.dumps(log), "whom it is for"
    assert "User:a" not in json.dumps(bound), "and can be redacted"
    assert all(machine.fs.mode_of(path) & 0o077 == 0 for path in audit_files(machine.fs, DIRECTORY))


def test_directory_that_cannot_be_used_stops_the_start() -> None:
    machine = InProcess()
    machine.fs.open("/file", create=True)

    raw = {**machine.config.raw, "ledgerstone.audit.dir": "/file/audit"}
    machine.config = type(machine.config).from_raw(raw)

    with pytest.raises(ConfigError, match=r"ledgerstone\.audit\.dir"):
        machine.kill()


def test_failed_logins_are_written_without_what_was_tried() -> None:
    jaas = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="a" password="b" user_ann="right";'
    )
    settings = {
        **SETTINGS,
        "listeners": "SASL_PLAINTEXT://127.0.0.1:9092",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
    }
    address = Listener("SASL_PLAINTEXT", "broker.example", 9092)
    machine = InProcess(settings=settings, advertised=[address])
    client = machine.connect(listener=address.name)
    client.ask(SaslHandshakeRequest("PLAIN"), SaslHandshakeResponse, version=1)

    client.send(SaslAuthenticateRequest(b"\0ann\0wrong-password"), version=2)
    machine.advance(500)

    last = _log(machine)[-1]
    assert (last["kind"], last["op"], last["resource"]) == ("authn.fail", "PLAIN", address.name)
    assert last["who"]["host"] == "10.0.0.1"
    assert "wrong-password" not in json.dumps(_log(machine))
