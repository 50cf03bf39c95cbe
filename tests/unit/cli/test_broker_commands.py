"""`ledgerstone topics, produce, consume, groups, configs` as a user meets them."""

import io
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from ledgerstone.cli import lazy, options
from ledgerstone.cli.admin_http import AdminCallFailed
from ledgerstone.cli.main import main
from ledgerstone.client.cluster import NO_NODE, Endpoint
from ledgerstone.client.session import SessionConfig
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntry,
)
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    CreateTopicsResponseTopic,
)
from ledgerstone.protocol.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsResponsePartition,
    DeleteRecordsResponseTopic,
)
from ledgerstone.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicsResult,
)
from ledgerstone.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasEntity,
    DescribeClientQuotasEntry,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeClientQuotasValue,
)
from ledgerstone.protocol.messages.describe_configs import (
    DescribeConfigsConfig,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from ledgerstone.protocol.messages.describe_groups import (
    DescribeGroupsGroup,
    DescribeGroupsMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ledgerstone.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResponseTopic,
    DescribeLogDirsResult,
)
from ledgerstone.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResult,
)
from ledgerstone.protocol.messages.list_groups import (
    ListGroupsGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from ledgerstone.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from ledgerstone.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ledgerstone.protocol.messages.produce import (
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicResponse,
)
from ledgerstone.records.builder import build_batch
from ledgerstone.records.record import Record, iter_records
from ledgerstone.types import TopicPartition
from tests.unit.client.fake_cluster import FakeCluster

T = 1_700_000_000_000
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Result(NamedTuple):
    exit_code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]


Run = Callable[..., Result]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    made = FakeCluster()
    made.topic("t", [1, 1])

    def client_of(_: list[Endpoint], config: SessionConfig) -> object:
        return made.client(config)

    monkeypatch.setattr(options, "Client", client_of)
    return made


@pytest.fixture
def run(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    def run_command(*arguments: str, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "argv", ["ledgerstone", *arguments])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as stopped:
            main()
        return Result(int(stopped.value.code or 0), *capsys.readouterr())

    return run_command


def fill(cluster: FakeCluster, partition: TopicPartition, *values: bytes | None) -> None:
    for value in values:
        batch = build_batch([(T, b"k", value, (("h", b"x"),))])
        cluster.logs[partition].append(batch)


def records_in(cluster: FakeCluster) -> list[Record]:
    return [r for log in cluster.logs.values() for b in log.batches for r in iter_records(b)]


# -- every command --------------------------------------------------------------------------------


def test_help_loads_no_command() -> None:
    program = (
        "import sys; sys.argv = ['ledgerstone', '--help']\n"
        "from ledgerstone.cli.main import main\n"
        "try: main()\n"
        "finally: print([m for m in sys.modules if 'ledgerstone.client' in m or m in "
        "('rich.console', 'numpy', 'ledgerstone.storage', 'asyncio')])"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout.splitlines()[-1] == "[]"
    for name in lazy.COMMANDS:
        assert f"  {name} " in done.stdout


@pytest.mark.parametrize("name", list(lazy.COMMANDS))
def test_every_command_has_help_that_begins_with_what_it_does(run: Run, name: str) -> None:
    result = run(name, "--help")

    assert result.exit_code == 0
    assert "--help" in result.out


def test_broker_that_is_not_there_is_one_line_and_exit_code_1(
    run: Run, cluster: FakeCluster
) -> None:
    cluster.down.append(cluster.nodes[1])

    result = run("topics", "list")

    assert (result.exit_code, result.out, cluster.sleeps_ms) == (1, "", [])
    assert result.err == (
        "ledgerstone: no broker at node1:9092: node1:9092: [Errno 111] Connection refused\n"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("produce", "t", "--tombstone"),
        ("produce", "t", "-k", "a", "-v", "b", "--tombstone"),
        ("produce", "t", "-v", "a", "--acks", "2"),
        ("produce", "t", "-v", "a", "--compression", "rar"),
        ("produce", "t", "-v", "0xzz"),
        ("produce", "t", "-v", "a", "-H", "novalue"),
        ("produce", "t", "--key-separator", ""),
        ("consume", "t", "-b", "--offset", "3"),
        ("consume", "t", "--until-end", "--follow"),
        ("consume", "t", "--from", "yesterday"),
        ("consume", "t", "-b", "--bootstrap", "a:b:c"),
        ("groups", "reset-offsets", "g", "-t", "t"),
        ("groups", "reset-offsets", "g", "-t", "t", "--to-latest", "--to-offset", "3"),
        ("groups", "reset-offsets", "g", "-t", "t", "--to-latest", "--shift-by", "0"),
        ("groups", "delete-offsets", "g"),
        ("topics", "delete-records", "t"),
        ("topics", "delete-records", "t", "--before", "-2"),
        ("configs", "get", "planet", "x"),
        ("configs", "set", "topic", "t", "novalue"),
        ("configs", "get", "broker", "one"),
        ("quotas", "set", "producer_byte_rate=1"),
        ("quotas", "set", "--user", "a", "producer_byte_rate=much"),
        ("quotas", "set", "--user", "a", "--default-user", "producer_byte_rate=1"),
        ("quotas", "remove"),
        ("topics", "create", "t", "--compacted", "-c", "cleanup.policy=delete"),
        ("topics", "alter", "t", "-p", "0"),
        ("nonsense",),
    ],
)
def test_wrong_usage_is_exit_code_2_and_asks_no_broker(
    run: Run, cluster: FakeCluster, arguments: tuple[str, ...]
) -> None:
    result = run(*arguments)

    assert result.exit_code == 2
    assert result.err
    assert cluster.requests == []


@pytest.mark.parametrize(
    ("text", "endpoints"),
    [
        ("a:1", [("a", 1)]),
        ("a", [("a", 9092)]),
        ("a:1, b:2", [("a", 1), ("b", 2)]),
        ("[::1]:5", [("::1", 5)]),
    ],
)
def test_bootstrap_is_a_list_of_hosts_and_ports(
    text: str, endpoints: list[tuple[str, int]]
) -> None:
    assert options.parse_bootstrap(text) == endpoints


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("1700000000000", T),
        ("2h", T - 7_200_000),
        ("2023-11-14T22:13:20Z", T),
        ("2023-11-14T22:13:20", T),
        ("2023-11-14T23:13:20+01:00", T),
    ],
)
def test_time_can_be_given_in_several_ways(text: str, time_ms: int) -> None:
    assert options.parse_time(text, T) == time_ms


@pytest.mark.parametrize("text", ["1969-12-31T23:59:59.999Z", "1960-01-01", "99999d"])
def test_time_before_all_timestamps_is_wrong_usage(run: Run, text: str) -> None:
    # To a broker, -1 is the end of the log, and -2 its start.
    result = run("consume", "t", "--from", text)

    assert result.exit_code == 2
    assert "before 1970" in result.err


# -- topics ---------------------------------------------------------------------------------------


def test_topics_are_listed(run: Run) -> None:
    result = run("topics", "list")

    assert result.lines == ["TOPIC  PARTITIONS  REPLICATION", "t               2            1"]


def test_topics_are_listed_as_json(run: Run) -> None:
    result = run("topics", "list", "--json")

    assert result.objects == [{"topic": "t", "partitions": 2, "replication": 1}]


def test_compacted_topic_is_created(run: Run, cluster: FakeCluster) -> None:
    topic = CreateTopicsResponseTopic(name="n")
    cluster.once(CreateTopicsRequest, CreateTopicsResponse(topics=[topic]))

    result = run("topics", "create", "n", "-p", "4", "--compacted", "-c", "segment.ms=9")

    assert (result.exit_code, result.out) == (0, "created topic n\n")
    request = cluster.requests[-1][1]
    assert isinstance(request, CreateTopicsRequest)
    configs = {each.name: each.value for each in request.topics[0].configs}
    assert configs == {"cleanup.policy": "compact", "segment.ms": "9"}


@pytest.mark.parametrize("option", ["--replication-factor", "--replication", "-r"])
def test_topic_is_created_with_replicas(run: Run, cluster: FakeCluster, option: str) -> None:
    topic = CreateTopicsResponseTopic(name="n")
    cluster.once(CreateTopicsRequest, CreateTopicsResponse(topics=[topic]))

    result = run("topics", "create", "n", option, "3")

    request = cluster.requests[-1][1]
    assert result.exit_code == 0
    assert isinstance(request, CreateTopicsRequest)
    assert request.topics[0].replication_factor == 3


@pytest.mark.parametrize(("option", "exit_code"), [((), 1), (("--if-not-exists",), 0)])
def test_topic_that_is_there_is_an_error_unless_it_may_be(
    run: Run, cluster: FakeCluster, option: tuple[str, ...], exit_code: int
) -> None:
    topic = CreateTopicsResponseTopic(name="t", error_code=ErrorCode.TOPIC_ALREADY_EXISTS)
    cluster.once(CreateTopicsRequest, CreateTopicsResponse(topics=[topic]))

    assert run("topics", "create", "t", *option).exit_code == exit_code


@pytest.mark.parametrize(("option", "exit_code"), [((), 1), (("--if-exists",), 0)])
def test_topic_that_is_not_there_is_an_error_unless_it_need_not_be(
    run: Run, cluster: FakeCluster, option: tuple[str, ...], exit_code: int
) -> None:
    refused = DeleteTopicsResult(name="n", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    cluster.once(DeleteTopicsRequest, DeleteTopicsResponse(responses=[refused]))

    assert run("topics", "delete", "n", *option).exit_code == exit_code


def test_records_are_deleted_below_an_offset(run: Run, cluster: FakeCluster) -> None:
    done = DeleteRecordsResponsePartition(partition_index=1, low_watermark=5)
    answer = DeleteRecordsResponseTopic(name="t", partitions=[done])
    cluster.once(DeleteRecordsRequest, DeleteRecordsResponse(topics=[answer]))

    result = run("topics", "delete-records", "t", "--before", "5", "-p", "1", "--json")

    assert result.objects == [{"topic": "t", "partition": 1, "start_offset": 5}]


def test_refused_topic_is_exit_code_1_with_the_reason(run: Run, cluster: FakeCluster) -> None:
    topic = CreateTopicsResponseTopic(
        name="n", error_code=ErrorCode.INVALID_PARTITIONS, error_message="-3 \x1b[31m"
    )
    cluster.once(CreateTopicsRequest, CreateTopicsResponse(topics=[topic]))

    result = run("topics", "create", "n", "-p", "-3")

    assert result.exit_code == 1
    assert result.err == "ledgerstone: topic n: INVALID_PARTITIONS: -3 \\x1b[31m\n"


def test_topic_is_described(run: Run, cluster: FakeCluster) -> None:
    fill(cluster, P0, b"a", b"b")
    logs = [DescribeLogDirsPartition(partition_index=0, partition_size=158)]
    topic = DescribeLogDirsResponseTopic(name="t", partitions=logs)
    log_dir = DescribeLogDirsResult(log_dir="d", topics=[topic])
    cluster.once(DescribeLogDirsRequest, DescribeLogDirsResponse(results=[log_dir]))
    config = DescribeConfigsConfig(name="cleanup.policy", value="compact", config_source=1)
    default = DescribeConfigsConfig(name="segment.ms", value="1", config_source=5)
    found = DescribeConfigsResult(configs=[config, default])
    cluster.once(DescribeConfigsRequest, DescribeConfigsResponse(results=[found]))

    (result,) = run("topics", "describe", "t", "--json").objects

    first, second = result["partitions"]
    assert (first["leader"], first["isr"], first["end_offset"], first["bytes"]) == (1, [1], 2, 158)
    assert (second["start_offset"], second["end_offset"], second["bytes"]) == (0, 0, None)
    assert result["configs"] == {
        "cleanup.policy": {"value": "compact", "source": "DYNAMIC_TOPIC_CONFIG"}
    }


def test_unknown_topic_is_exit_code_1(run: Run) -> None:
    result = run("topics", "describe", "nope")

    assert result.exit_code == 1
    assert result.err == "ledgerstone: topic nope: UNKNOWN_TOPIC_OR_PARTITION\n"


# -- produce --------------------------------------------------------------------------------------


def test_record_from_arguments(run: Run, cluster: FakeCluster) -> None:
    result = run("produce", "t", "-k", "abc", "-v", "0x00ff", "-H", "a=b", "--timestamp", str(T))

    assert (result.exit_code, result.out) == (0, "t-1 offset=0\n")
    assert records_in(cluster) == [Record(0, T, b"abc", b"\x00\xff", (("a", b"b"),))]


def test_header_may_come_several_times_and_need_not_be_text(run: Run, cluster: FakeCluster) -> None:
    raw = b"raw=\xff".decode("utf-8", "surrogateescape")

    result = run("produce", "t", "-v", "x", "-H", "trace=1", "-H", "trace=2", "-H", raw)

    assert result.exit_code == 0
    expected = (("trace", b"1"), ("trace", b"2"), ("raw", b"\xff"))
    assert [record.headers for record in records_in(cluster)] == [expected]


def test_tombstone_from_arguments(run: Run, cluster: FakeCluster) -> None:
    (result,) = run("produce", "t", "-k", "abc", "--tombstone", "--json").objects

    assert (result["partition"], result["offset"]) == (1, 0)
    assert records_in(cluster)[0].value is None


def test_every_line_of_stdin_is_a_record(run: Run, cluster: FakeCluster) -> None:
    result = run("produce", "t", "-p", "0", stdin=b"one\r\n\nnull\nlast")

    assert len(result.lines) == 4
    assert [r.value for r in records_in(cluster)] == [b"one", b"", b"null", b"last"]


def test_lines_with_keys(run: Run, cluster: FakeCluster) -> None:
    result = run("produce", "t", "--key-separator", "::", "-p", "0", "-q", stdin=b"a::1\nb::2::3\n")

    assert result.out == "2 records written\n"
    assert [(r.key, r.value) for r in records_in(cluster)] == [(b"a", b"1"), (b"b", b"2::3")]


def test_line_without_the_separator_is_wrong_usage(run: Run) -> None:
    result = run("produce", "t", "--key-separator", ":", stdin=b"a:1\nnothing\n")

    assert result.exit_code == 2
    assert "nothing" in result.err


def test_refused_record_is_exit_code_1(run: Run, cluster: FakeCluster) -> None:
    answer = ProducePartitionResponse(
        index=0, error_code=ErrorCode.INVALID_RECORD, error_message="no key"
    )
    topic = ProduceTopicResponse("t", partition_responses=[answer])
    cluster.once(ProduceRequest, ProduceResponse(responses=[topic]))

    result = run("produce", "t", "-p", "0", "-v", "x")

    assert (result.exit_code, result.out) == (1, "")
    assert result.err == "ledgerstone: Produce t-0: INVALID_RECORD: no key\n"


# -- consume --------------------------------------------------------------------------------------


def test_records_are_lines_and_tombstones_say_so(run: Run, cluster: FakeCluster) -> None:
    fill(cluster, P0, b"a", None)

    result = run("consume", "t", "-b")

    assert result.lines == [
        't-0 offset=0 time=2023-11-14T22:13:20.000Z key="k" "a" headers={"h": "x"}',
        't-0 offset=1 time=2023-11-14T22:13:20.000Z key="k" TOMBSTONE headers={"h": "x"}',
    ]


def test_records_are_json(run: Run, cluster: FakeCluster) -> None:
    fill(cluster, P0, b"\xff", None)

    first, second = run("consume", "t", "-b", "--json").objects

    assert first == {
        "topic": "t",
        "partition": 0,
        "offset": 0,
        "timestamp_ms": T,
        "key": "k",
        "value_hex": "ff",
        "tombstone": False,
        "headers": [{"name": "h", "value": "x"}],
    }
    assert (second["value"], second["tombstone"]) == (None, True)


def test_terminal_is_not_given_orders(run: Run, cluster: FakeCluster) -> None:
    fill(cluster, P0, b"\x1b[2J")

    result = run("consume", "t", "-b")

    assert "\x1b" not in result.out
    assert "0x1b5b324a" in result.out


@pytest.mark.parametrize(
    ("arguments", "offsets"),
    [
        (("-b",), [0, 1, 2, 3]),
        (("-b", "--max", "2"), [0, 1]),
        (("--offset", "2", "-p", "0"), [2, 3]),
        (("--from", "0"), [0, 1, 2, 3]),
        (("--from", str(T + 1)), []),
        (("-b", "-p", "1"), []),
        (("-b", "--key", "k"), [0, 1, 2, 3]),
        (("-b", "--key", "other"), []),
        (("--until-end",), []),
    ],
)
def test_start_and_filter_decide_what_is_read(
    run: Run, cluster: FakeCluster, arguments: tuple[str, ...], offsets: list[int]
) -> None:
    fill(cluster, P0, b"a", b"b", None, b"d")

    result = run("consume", "t", "--json", *arguments)

    assert result.exit_code == 0
    assert [each["offset"] for each in result.objects] == offsets


def test_what_is_written_after_the_start_is_not_waited_for(run: Run, cluster: FakeCluster) -> None:
    cluster.logs[P0].append(build_batch([(T, b"k", b"v", ())] * 3))
    ends = [ListOffsetsResponsePartition(partition_index=0, offset=2)]
    topic = ListOffsetsResponseTopic(name="t", partitions=ends)
    cluster.once(ListOffsetsRequest, ListOffsetsResponse(topics=[topic]))

    result = run("consume", "t", "-b", "-p", "0", "-g", "g", "--json")

    assert [each["offset"] for each in result.objects] == [0, 1]
    assert cluster.committed == {("g", P0): 2}


def test_partition_that_is_not_there_is_named(run: Run) -> None:
    result = run("consume", "t", "-b", "-p", "9")

    assert (result.exit_code, result.err) == (1, "ledgerstone: t has 2 partitions, not 9\n")


def test_group_goes_on_behind_what_was_shown(run: Run, cluster: FakeCluster) -> None:
    fill(cluster, P0, b"a", b"b", b"c")

    first = run("consume", "t", "-g", "g", "--max", "2", "--json")
    committed = dict(cluster.committed)
    second = run("consume", "t", "-g", "g", "--json")

    assert [each["offset"] for each in first.objects] == [0, 1]
    assert committed == {("g", P0): 2, ("g", P1): 0}
    assert [each["offset"] for each in second.objects] == [2]
    assert cluster.committed["g", P0] == 3


def test_group_that_is_further_than_a_reader_may_be_keeps_its_place(
    run: Run, cluster: FakeCluster
) -> None:
    place = TopicPartition("t", 0)
    run("produce", "t", "-p", "0", "-v", "x")
    cluster.committed["g", place] = 5  # by who reads open transactions, too

    result = run("consume", "t", "-p", "0", "-g", "g")

    assert (result.exit_code, result.out) == (0, "")
    assert cluster.committed["g", place] == 5


# -- groups ---------------------------------------------------------------------------------------


def script_group(cluster: FakeCluster, *, members: int = 0) -> None:
    listed = ListGroupsGroup("g", "consumer", "Empty", "classic")
    cluster.once(ListGroupsRequest, ListGroupsResponse(groups=[listed]))
    found = [DescribeGroupsMember(member_id=f"m{number}") for number in range(members)]
    group = DescribeGroupsGroup(group_id="g", group_state="Stable", members=found)
    cluster.once(DescribeGroupsRequest, DescribeGroupsResponse(groups=[group]))
    cluster.offered.remove(69)


def test_groups_are_listed(run: Run, cluster: FakeCluster) -> None:
    script_group(cluster)

    assert run("groups", "list", "--json").objects == [
        {"group": "g", "state": "Empty", "type": "classic", "protocol": "consumer"}
    ]


def test_lag_of_a_group_is_shown_per_partition(run: Run, cluster: FakeCluster) -> None:
    fill(cluster, P0, b"a", b"b", b"c")
    cluster.committed["g", P0] = 1
    script_group(cluster)
    # A broker without an HTTP API: what only that could tell is left open.
    cluster.once(DescribeConfigsRequest, DescribeConfigsResponse())

    (result,) = run("groups", "describe", "g", "--json").objects

    (partition,) = result["partitions"]
    assert (partition["committed_offset"], partition["lag"]) == (1, 2)
    assert (partition["tombstone_margin_ms"], partition["missed_deletes"]) == (None, None)


def test_group_is_shown_though_a_partition_has_no_leader_and_a_topic_is_gone(
    run: Run, cluster: FakeCluster
) -> None:
    fill(cluster, P0, b"a", b"b", b"c")
    cluster.logs[P1].leader_id = NO_NODE
    gone = TopicPartition("gone", 0)
    cluster.committed |= {("g", each): 1 for each in (P0, P1, gone)}
    script_group(cluster)
    cluster.once(DescribeConfigsRequest, DescribeConfigsResponse())

    (result,) = run("groups", "describe", "g", "--json").objects

    shown = {(each["topic"], each["partition"]): each for each in result["partitions"]}
    assert shown[P0]["lag"] == 2
    for place in (P1, gone):
        unknown = [shown[place][name] for name in ("start_offset", "end_offset", "lag")]
        assert (shown[place]["committed_offset"], unknown) == (1, [None] * 3)
        assert shown[place]["missed"] is False


@pytest.mark.parametrize(
    ("arguments", "after"),
    [
        (("--to-earliest",), [0, 0]),
        (("--to-latest",), [3, 0]),
        (("--to-offset", "2"), [2, 0]),
        (("--to-time", str(T)), [0, 0]),
        (("--shift-by", "1"), [2, 0]),
        (("--shift-by", "-9"), [0, 0]),
        (("--shift-by", "9"), [3, 0]),
    ],
)
def test_offsets_of_a_group_are_moved(
    run: Run, cluster: FakeCluster, arguments: tuple[str, ...], after: list[int]
) -> None:
    fill(cluster, P0, b"a", b"b", b"c")
    cluster.committed["g", P0], cluster.committed["g", P1] = 1, 0
    script_group(cluster)

    result = run("groups", "reset-offsets", "g", "-t", "t", "--json", *arguments)

    assert [each["after"] for each in result.objects] == after
    assert [cluster.committed["g", each] for each in (P0, P1)] == after


def test_group_that_is_nowhere_cannot_be_shifted(run: Run, cluster: FakeCluster) -> None:
    result = run("groups", "reset-offsets", "g", "-t", "t", "--shift-by", "1")

    assert (result.exit_code, cluster.committed) == (2, {})
    assert "group g has no offset for t-0" in result.err


def test_offsets_of_a_group_are_deleted_and_shown(run: Run, cluster: FakeCluster) -> None:
    cluster.committed["g", P0] = 7
    cluster.once(OffsetDeleteRequest, OffsetDeleteResponse())

    result = run("groups", "delete-offsets", "g", "-t", "t", "--json")

    assert result.objects == [{"topic": "t", "partition": 0, "deleted_offset": 7}]
    request = cluster.requests[-1][1]
    assert isinstance(request, OffsetDeleteRequest)
    assert [each.partition_index for each in request.topics[0].partitions] == [0, 1]


def test_dry_run_moves_nothing(run: Run, cluster: FakeCluster) -> None:
    result = run("groups", "reset-offsets", "g", "-t", "t", "--to-latest", "--dry-run")

    assert result.exit_code == 0
    assert cluster.committed == {}


def test_group_with_members_is_not_moved(run: Run, cluster: FakeCluster) -> None:
    script_group(cluster, members=2)

    result = run("groups", "reset-offsets", "g", "-t", "t", "--to-latest")

    assert (result.exit_code, cluster.committed) == (1, {})
    assert result.err == "ledgerstone: group g has 2 members; stop them first\n"


# -- configs --------------------------------------------------------------------------------------


def script_configs(cluster: FakeCluster) -> None:
    configs = [
        DescribeConfigsConfig(name="b", value="2", config_source=1),
        DescribeConfigsConfig(name="a", value="1", config_source=5),
        DescribeConfigsConfig(name="c", value=None, config_source=1, is_sensitive=True),
    ]
    result = DescribeConfigsResult(configs=configs)
    cluster.once(DescribeConfigsRequest, DescribeConfigsResponse(results=[result]))


@pytest.mark.parametrize(
    ("arguments", "keys"), [((), ["b", "c"]), (("a",), ["a"]), (("--all",), ["a", "b", "c"])]
)
def test_settings_are_shown_with_their_source(
    run: Run, cluster: FakeCluster, arguments: tuple[str, ...], keys: list[str]
) -> None:
    script_configs(cluster)

    result = run("configs", "get", "topic", "t", "--json", *arguments)

    assert [each["key"] for each in result.objects] == keys


def test_secret_setting_is_not_shown_as_unset(run: Run, cluster: FakeCluster) -> None:
    script_configs(cluster)

    result = run("configs", "get", "topic", "t", "c")

    assert result.lines[1].split() == ["c", "(secret)", "DYNAMIC_TOPIC_CONFIG"]


@pytest.mark.parametrize(
    ("arguments", "sent", "said"),
    [
        (("set", "topic", "t", "a=1=2"), ("a", 0, "1=2"), "topic t: a = 1=2\n"),
        (("unset", "topic", "t", "a"), ("a", 1, None), "topic t: a unset\n"),
    ],
)
def test_setting_is_changed(
    run: Run,
    cluster: FakeCluster,
    arguments: tuple[str, ...],
    sent: tuple[str, int, str | None],
    said: str,
) -> None:
    done = IncrementalAlterConfigsResponse(responses=[IncrementalAlterConfigsResult()])
    cluster.once(IncrementalAlterConfigsRequest, done)

    result = run("configs", *arguments)

    assert (result.exit_code, result.out) == (0, said)
    request = cluster.requests[-1][1]
    assert isinstance(request, IncrementalAlterConfigsRequest)
    (config,) = request.resources[0].configs
    assert (config.name, config.config_operation, config.value) == sent


# -- quotas ---------------------------------------------------------------------------------------


def script_quotas(cluster: FakeCluster) -> None:
    user, client_id = ("user", "ann"), ("client-id", None)
    parts = [DescribeClientQuotasEntity(*user), DescribeClientQuotasEntity(*client_id)]
    values = [DescribeClientQuotasValue("producer_byte_rate", 1024.0)]
    entry = DescribeClientQuotasEntry(parts, values)
    cluster.once(DescribeClientQuotasRequest, DescribeClientQuotasResponse(entries=[entry]))


class FakeApi:
    """One broker's HTTP API, on which a client had to wait."""

    endpoint = Endpoint("node1", 9094)

    def get(self, path: str) -> dict[str, object]:
        assert path == "quotas"
        waited: dict[str, object] = {
            "quota": "producer_byte_rate",
            "user": "ann",
            "client_id": None,
            "level": "user",
            "limit": 1024.0,
            "used": 1030.5,
            "waits_ms": 70,
            "times": 3,
            "total_ms": 900,
            "too_large": 0,
        }
        return {"throttled": [waited]}


def test_quotas_are_shown_with_who_had_to_wait(
    run: Run, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    script_quotas(cluster)
    monkeypatch.setattr("ledgerstone.cli.quotas.apis_of", lambda client: [FakeApi()])

    result = run("quotas", "show")

    assert result.lines[1].split() == ["ann", "(default)", "-", "producer_byte_rate", "1024"]
    expected = "node1:9094 ann (any) producer_byte_rate user 1024 1030 70 3 900 -"
    assert " ".join(result.lines[-1].split()) == expected


def test_quotas_are_shown_where_no_broker_has_an_http_api(
    run: Run, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    script_quotas(cluster)

    def nowhere(client: object) -> None:
        raise AdminCallFailed("none")

    monkeypatch.setattr("ledgerstone.cli.quotas.apis_of", nowhere)

    assert len(run("quotas", "show", "--json").objects) == 1


@pytest.mark.parametrize(
    ("arguments", "parts", "op", "said"),
    [
        (
            ("set", "--user", "a", "--client-id", "c", "request_percentage=2.5"),
            {"user": "a", "client-id": "c"},
            ("request_percentage", 2.5, False),
            "client-id 'c', user 'a': request_percentage = 2.5\n",
        ),
        (
            ("set", "--default-ip", "connection_creation_rate=5"),
            {"ip": None},
            ("connection_creation_rate", 5.0, False),
            "ip <default>: connection_creation_rate = 5\n",
        ),
        (
            ("remove", "--default-user", "producer_byte_rate"),
            {"user": None},
            ("producer_byte_rate", 0.0, True),
            "user <default>: producer_byte_rate removed\n",
        ),
    ],
)
def test_quota_is_changed(
    run: Run,
    cluster: FakeCluster,
    arguments: tuple[str, ...],
    parts: dict[str, str | None],
    op: tuple[str, float, bool],
    said: str,
) -> None:
    done = AlterClientQuotasResponse(entries=[AlterClientQuotasResponseEntry()])
    cluster.once(AlterClientQuotasRequest, done)

    result = run("quotas", *arguments)

    assert (result.exit_code, result.out) == (0, said)
    request = cluster.requests[-1][1]
    assert isinstance(request, AlterClientQuotasRequest)
    (entry,) = request.entries
    assert {each.entity_type: each.entity_name for each in entry.entity} == parts
    assert [(each.key, each.value, each.remove) for each in entry.ops] == [op]


def test_all_quotas_of_an_entity_are_removed(run: Run, cluster: FakeCluster) -> None:
    script_quotas(cluster)
    done = AlterClientQuotasResponse(entries=[AlterClientQuotasResponseEntry()])
    cluster.once(AlterClientQuotasRequest, done)

    result = run("quotas", "remove", "--user", "ann", "--default-client-id")

    assert result.lines == ["client-id <default>, user 'ann': producer_byte_rate removed"]


def test_refused_quota_is_exit_code_1_with_the_reason(run: Run, cluster: FakeCluster) -> None:
    refused = AlterClientQuotasResponseEntry(ErrorCode.INVALID_REQUEST, "must be greater than 0")
    cluster.once(AlterClientQuotasRequest, AlterClientQuotasResponse(entries=[refused]))

    result = run("quotas", "set", "--user", "a", "producer_byte_rate=0")

    assert result.exit_code == 1
    assert "must be greater than 0" in result.err
