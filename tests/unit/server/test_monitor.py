"""The figures of the second port, under the names existing dashboards know."""

import pytest

from ledgerstone.protocol.messages.fetch import FetchResponse
from ledgerstone.protocol.messages.produce import ProduceResponse
from ledgerstone.replication.hosted_partitions import SLICE_PARTITIONS
from ledgerstone.server.http.monitor import (
    PARTITIONS_AT_ONCE,
    readiness,
    sample_slices,
    samples,
)
from ledgerstone.server.http.monitor_routes import routes
from ledgerstone.server.http.server import Page, SlowPage
from ledgerstone.types import TopicPartition
from tests.kit.in_process import Client, InProcess
from tests.kit.logs import batch
from tests.kit.roles import led_by
from tests.unit.server.asks import (
    TOPIC,
    commit_offset,
    create_topic,
    delete_topic,
    exposition,
    fetch,
    join,
    produce,
    write,
)


def figures(machine: InProcess) -> dict[str, float]:
    """By name and labels, as they are written."""
    lines = exposition(samples(machine.broker)).splitlines()
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))
    }


def test_every_metric_is_explained_once_and_no_sample_is_given_twice(
    machine: InProcess, client: Client
) -> None:
    create_topic(client, partitions=2)
    write(client, "v")

    lines = exposition(samples(machine.broker)).splitlines()

    explained = [line.split(" ")[2] for line in lines if line.startswith("# TYPE")]
    given = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]
    assert len(explained) == len(set(explained))
    assert len(given) == len(set(given))


def test_replicas_and_topics_are_counted_as_kafka_names_them(
    machine: InProcess, client: Client
) -> None:
    create_topic(client, partitions=3)

    found = figures(machine)

    prefix = "kafka_server_replicamanager_"
    assert found[f"{prefix}partitioncount"] == found[f"{prefix}leadercount"] == 3
    assert found[f"{prefix}underreplicatedpartitions"] == 0
    assert found[f"{prefix}underminisrpartitioncount"] == 0
    assert found[f"{prefix}atminisrpartitioncount"] == 3
    assert found[f"{prefix}offlinereplicacount"] == 0
    assert found["kafka_controller_kafkacontroller_globaltopiccount"] == 1
    assert found["kafka_controller_kafkacontroller_globalpartitioncount"] == 3
    assert found["kafka_controller_kafkacontroller_activebrokercount"] == 1


def test_topic_that_wants_more_in_sync_replicas_than_there_are_is_seen(
    machine: InProcess, client: Client
) -> None:
    create_topic(client, partitions=2, min_insync_replicas="2")
    partition = machine.broker.partitions.get(TopicPartition(TOPIC, 0))
    partition.assume(led_by(1, 1, (1,), replicas=(1, 2)))

    found = figures(machine)

    assert found["kafka_server_replicamanager_underminisrpartitioncount"] == 1
    assert found["kafka_server_replicamanager_atminisrpartitioncount"] == 1


def test_failed_log_counts_as_an_offline_replica(machine: InProcess, client: Client) -> None:
    create_topic(client, partitions=2)
    next(iter(machine.broker.partitions)).log.fail("the disk is gone")

    assert figures(machine)["kafka_server_replicamanager_offlinereplicacount"] == 1


def test_groups_are_counted_by_state(machine: InProcess, client: Client) -> None:
    create_topic(client)
    commit_offset(client, "empty", 0)
    machine.connect().send(join("joining"), 3)

    found = figures(machine)

    prefix = "kafka_coordinator_group_groupmetadatamanager_num"
    assert found[f"{prefix}groups"] == 2
    assert found[f"{prefix}groupsempty"] == 1
    assert found[f"{prefix}groupspreparingrebalance"] == 1
    assert found[f"{prefix}groupsstable"] == 0
    assert found[f"{prefix}offsets"] == 1


def test_waiting_requests_are_told_apart(machine: InProcess, client: Client) -> None:
    create_topic(client)
    client.send(fetch({0: 0}, max_wait_ms=1000, min_bytes=1), 12)

    found = figures(machine)

    name = "kafka_server_delayedoperationpurgatory_purgatorysize"
    assert found[f'{name}{{delayedOperation="Fetch"}}'] == 1
    assert found[f'{name}{{delayedOperation="Produce"}}'] == 0


def test_time_in_handlers_is_summed_by_api(machine: InProcess, client: Client) -> None:
    create_topic(client)

    name = 'kafka_network_requestmetrics_localtimems_sum{request="CreateTopics"}'
    assert figures(machine)[name] == 0  # the virtual clock stands still


def test_what_consumers_got_is_counted_by_topic(machine: InProcess, client: Client) -> None:
    create_topic(client)
    write(client, "v")
    topic_id = machine.broker.image.topics[TOPIC].topic_id
    client.ask(fetch(), FetchResponse, 12)
    by_id = fetch()
    by_id.topics[0].topic_id = topic_id
    client.ask(by_id, FetchResponse, 16)

    found = figures(machine)

    prefix = "kafka_server_brokertopicmetrics_bytes"
    once = found[f'{prefix}in_total{{topic="{TOPIC}"}}']
    assert once == len(batch(("key", "v")))
    assert found[f'{prefix}out_total{{topic="{TOPIC}"}}'] == 2 * once


def test_what_a_waiting_consumer_gets_is_counted_once(machine: InProcess, client: Client) -> None:
    create_topic(client)
    machine.connect().send(fetch({0: 0}, max_wait_ms=1000, min_bytes=1), 12)
    write(client, "v")

    size = figures(machine)[f'kafka_server_brokertopicmetrics_bytesout_total{{topic="{TOPIC}"}}']

    assert size == len(batch(("key", "v")))


def test_refused_batches_are_counted_and_keyless_ones_apart(
    machine: InProcess, client: Client
) -> None:
    create_topic(client, cleanup_policy="compact")
    for records in (batch((None, "v")), batch(("k", "v"), base_offset=3), batch(("k", "v"))):
        client.ask(produce(records), ProduceResponse)
    client.ask(produce(batch(("k", "v")), "nowhere"), ProduceResponse)

    found = figures(machine)

    assert found["ledgerstone_rejected_batches_total"] == 2
    assert found["kafka_server_brokertopicmetrics_nokeycompactedtopicrecords_total"] == 1


def test_errors_that_were_answered_are_counted_by_api(machine: InProcess, client: Client) -> None:
    create_topic(client)
    for version in (8, 10):
        client.ask(produce(batch(("k", "v")), "nowhere"), ProduceResponse, version)
    client.ask(fetch({0: 5}), FetchResponse, 12)
    client.ask(fetch({0: 0}, session_id=99, session_epoch=7), FetchResponse, 12)

    found = figures(machine)

    errors = {
        name.partition("{")[2].rstrip("}"): count
        for name, count in found.items()
        if name.startswith("kafka_network_requestmetrics_errors_total")
    }
    assert errors == {
        'request="Fetch",error="1"': 1,
        'request="Fetch",error="70"': 1,
        'request="Produce",error="3"': 2,
    }


def test_partitions_still_to_be_made_are_shown(machine: InProcess, client: Client) -> None:
    create_topic(client, TOPIC, SLICE_PARTITIONS + 5)
    before = figures(machine)["ledgerstone_partitions_backlog"]

    machine.advance(0)

    assert before == 5
    assert figures(machine)["ledgerstone_partitions_backlog"] == 0


@pytest.mark.parametrize("path", ["/livez", "/healthz", "/readyz", "/metrics"])
def test_pages_are_there(machine: InProcess, path: str) -> None:
    page = routes(machine.broker)[path]()

    assert (page if isinstance(page, Page) else finished(page)).status == 200


def finished(page: SlowPage) -> Page:
    while True:
        try:
            next(page)
        except StopIteration as end:
            return Page(*end.value)


def test_many_partitions_are_shown_in_slices(machine: InProcess, client: Client) -> None:
    create_topic(client, partitions=2 * PARTITIONS_AT_ONCE + 1)
    machine.advance(5_000)

    slices = list(sample_slices(machine.broker))

    sizes = [sum(each.name == "kafka_log_log_size" for each in part) for part in slices]
    assert sizes == [PARTITIONS_AT_ONCE, PARTITIONS_AT_ONCE, 1, 0]


def test_topic_deleted_while_the_page_is_made_is_left_out(
    machine: InProcess, client: Client
) -> None:
    create_topic(client, "first", partitions=PARTITIONS_AT_ONCE)
    create_topic(client, "second", partitions=PARTITIONS_AT_ONCE, cleanup_policy="compact")
    machine.advance(5_000)
    page = routes(machine.broker)["/metrics"]()
    assert not isinstance(page, Page)

    next(page)
    delete_topic(client, "second")
    create_topic(client, "third")
    machine.advance(5_000)
    text = finished(page).body

    assert 'kafka_log_log_size{topic="first",partition="0"}' in text
    assert 'topic="second"' not in text
    assert f"kafka_server_replicamanager_partitioncount {PARTITIONS_AT_ONCE + 1}\n" in text


def test_topics_that_come_and_go_leave_nothing_to_count() -> None:
    machine = InProcess()
    client = machine.connect()
    for number in range(5):
        create_topic(client, f"topic-{number}")
        write(client, "a", topic=f"topic-{number}")
        delete_topic(client, f"topic-{number}")
    counters = machine.broker.counters
    kept = [*counters.bytes_in, *counters.batches_in, *counters.bytes_out]
    assert [each for each in kept if each.startswith("topic-")] == []


def test_a_listener_in_plain_text_that_others_reach_is_a_note_and_no_reason_to_be_red() -> None:
    inside = readiness(InProcess().broker)
    settings = {
        "listeners": "PLAINTEXT://0.0.0.0:9092",
        "advertised.listeners": "PLAINTEXT://broker.example:9092",
    }
    outside = readiness(InProcess(settings=settings).broker)

    assert (inside.status, inside.body) == (200, "ready\n")
    assert outside.status == 200
    assert str(outside.body).startswith(
        "ready\nnote: listeners: PLAINTEXT://0.0.0.0:9092 has no TLS"
    )
