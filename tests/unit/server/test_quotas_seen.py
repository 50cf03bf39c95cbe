"""Quotas as operators see them: metrics, the JSON API, the log."""

import json
import logging
from typing import Any

import pytest

from ledgerstone.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ledgerstone.protocol.messages.fetch import FetchResponse
from ledgerstone.protocol.messages.produce import ProduceResponse
from ledgerstone.server.http.quotas import calls, quotas_json
from ledgerstone.server.quotas import view
from tests.kit.in_process import Client, InProcess
from tests.kit.logs import batch
from tests.unit.server.asks import BY_NAME, create_topic, exposition, fetch, produce
from tests.unit.server.quota_kit import client_of, set_quota

RECORDS = batch(("k", "v" * 1000))
HELLO = ApiVersionsRequest(client_software_name="test", client_software_version="1")
MS = 1_000_000


@pytest.fixture
def machine() -> InProcess:
    started = InProcess()
    create_topic(started.connect())
    started.advance(1)
    return started


def write(client: Client) -> int:
    return client.ask(produce(RECORDS), ProduceResponse).throttle_time_ms


def metrics(machine: InProcess) -> str:
    broker = machine.broker
    now_ms = machine.clock.monotonic_ms()
    return exposition(view.samples(broker.quota_agent, now_ms, broker.peers.muted_count))


def test_client_that_waits_is_named_with_level_and_time(machine: InProcess) -> None:
    set_quota(machine, {"user": None, "client-id": None}, producer_byte_rate=100)
    wait_ms = write(client_of(machine))
    machine.advance(5)

    (row,) = quotas_json(machine.broker)["throttled"]

    assert (row["user"], row["client_id"], row["quota"]) == ("ann", "c", "producer_byte_rate")
    assert row["level"] == "default user and client id"
    assert (row["limit"], row["times"], row["total_ms"]) == (100.0, 1, wait_ms)
    assert row["waits_ms"] == wait_ms - 5
    assert quotas_json(machine.broker)["muted_connections"] == 1


def test_request_time_is_shown_in_percent_of_the_loop(machine: InProcess) -> None:
    set_quota(machine, {"user": "ann"}, request_percentage=10)
    client = client_of(machine)
    client.ask(HELLO, ApiVersionsResponse)
    machine.broker.turn_took(client.number, 2000 * MS)
    client.ask(HELLO, ApiVersionsResponse)

    (row,) = quotas_json(machine.broker)["throttled"]

    assert (row["limit"], row["used"]) == (10.0, 20.0)
    assert 'kafka_server_request_request_time{user="ann",client_id=""} 20' in metrics(machine)


def test_metrics_have_kafkas_names(machine: InProcess) -> None:
    set_quota(machine, {"user": "ann"}, producer_byte_rate=100, controller_mutation_rate=5)
    set_quota(machine, {"ip": None}, connection_creation_rate=100)
    machine.broker.admission("PLAINTEXT", "10.1.1.1")
    client = client_of(machine)
    wait_ms = write(client)

    text = metrics(machine)

    labels = '{user="ann",client_id=""}'
    assert f"kafka_server_produce_throttle_time{labels} {wait_ms}" in text
    assert f"ledgerstone_produce_throttle_ms_total{labels} {wait_ms}" in text
    assert "kafka_server_produce_queue_size 1" in text
    assert "ledgerstone_muted_connections 1" in text
    assert f"kafka_server_produce_byte_rate{labels}" in text
    assert 'kafka_server_socketservermetrics_connection_accept_rate{ip="10.1.1.1"}' in text


def test_limits_are_listed_and_the_answer_is_json(machine: InProcess) -> None:
    set_quota(machine, {"user": "a/b ,=ü", "client-id": None}, producer_byte_rate=100)

    found = calls(machine.broker, ["quotas"])

    assert found is not None
    answer: Any = json.loads(json.dumps(found["GET"]()))
    assert answer["limits"] == [
        {
            "entity": {"client-id": None, "user": "a/b ,=ü"},
            "quotas": {"producer_byte_rate": 100.0},
        }
    ]
    assert calls(machine.broker, ["quotas", "x"]) is None


def test_consumer_whose_batch_never_passes_is_told_of_once(
    machine: InProcess, caplog: pytest.LogCaptureFixture
) -> None:
    write(machine.connect())
    set_quota(machine, {"user": "ann"}, consumer_byte_rate=10)
    client_of(machine).ask(fetch(max_wait_ms=0), FetchResponse, BY_NAME)

    with caplog.at_level(logging.WARNING):
        machine.advance(180_000)

    assert caplog.text.count("its quota never lets pass user=ann") == 1
    (row,) = quotas_json(machine.broker)["throttled"]
    assert row["too_large"] > 1000
