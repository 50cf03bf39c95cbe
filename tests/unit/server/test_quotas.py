"""Quotas at work: answered first, then muted; by eight levels, on the virtual clock."""

from typing import Any

import pytest

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ledgerstone.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from ledgerstone.protocol.messages.fetch import FetchReplicaState, FetchResponse
from ledgerstone.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ledgerstone.protocol.messages.produce import ProduceResponse
from tests.kit.in_process import Client, InProcess
from tests.kit.logs import batch
from tests.unit.server.asks import BY_NAME, create_topic, fetch, produce
from tests.unit.server.quota_kit import client_of, muted_ms, set_quota

HELLO = ApiVersionsRequest(client_software_name="test", client_software_version="1")
ANN = {"user": "ann"}
RECORDS = batch(("k", "v" * 1000))
MS = 1_000_000


@pytest.fixture
def machine() -> InProcess:
    started = InProcess()
    create_topic(started.connect(), partitions=2)
    started.advance(1)
    return started


def write(client: Client, *, acks: int = 1, version: int | None = None) -> int:
    """One batch; its throttle time."""
    message = produce(RECORDS, acks=acks)
    return client.ask(message, ProduceResponse, version).throttle_time_ms


def frame_size(client: Client) -> int:
    """Of such a request, without the size in front of it."""
    return len(client.frame(produce(RECORDS), expects_answer=False)[1]) - 4


# -- produce ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [3, 8, 9, 12, None])
def test_producer_over_its_quota_is_answered_at_once_then_muted(
    machine: InProcess, version: int | None
) -> None:
    set_quota(machine, ANN, producer_byte_rate=100)
    client = client_of(machine)
    wait_ms = write(client, version=version)
    behind = client.frame(HELLO)[1]
    client.feed(behind)

    machine.advance(wait_ms - 1)
    early = list(client.answers)
    machine.advance(1)

    # (size / 10 s - 100) / 100 of 10 s, for a header of any version.
    assert 0 < wait_ms < 1500
    assert early == []
    assert client.take(ApiVersionsResponse).error_code == ErrorCode.NONE
    machine.check_invariants()


def test_throttle_time_is_that_of_the_whole_request_without_its_size(machine: InProcess) -> None:
    set_quota(machine, ANN, producer_byte_rate=100)
    client = client_of(machine)
    size = frame_size(client)

    wait_ms = write(client)

    assert wait_ms == int((size / 10 - 100) / 100 * 10_000 + 0.5)
    assert muted_ms(client) == wait_ms


def test_failed_produce_counts_too(machine: InProcess) -> None:
    set_quota(machine, ANN, producer_byte_rate=100)
    client = client_of(machine)

    answer = client.ask(produce(RECORDS, topic="nowhere"), ProduceResponse)

    assert answer.responses[0].partition_responses[0].error_code
    assert answer.throttle_time_ms > 0
    assert muted_ms(client) == answer.throttle_time_ms


def test_produce_without_acks_is_muted_without_an_answer(machine: InProcess) -> None:
    set_quota(machine, ANN, producer_byte_rate=100)
    client = client_of(machine)

    client.send(produce(RECORDS, acks=0), expects_answer=False)

    assert client.answers == []
    assert muted_ms(client) > 0


def test_produce_that_waits_is_counted_when_it_is_answered() -> None:
    machine = InProcess(settings={"min.insync.replicas": "1"})
    create_topic(machine.connect())
    machine.advance(1)
    set_quota(machine, ANN, producer_byte_rate=100)
    client = client_of(machine)

    assert write(client, acks=-1) > 0


def test_client_without_a_quota_is_not_touched(machine: InProcess) -> None:
    set_quota(machine, ANN, producer_byte_rate=100)
    other = client_of(machine, "bob")

    assert [write(other) for _ in range(5)] == [0] * 5
    assert muted_ms(other) == 0


def test_quota_that_is_removed_throttles_nobody(machine: InProcess) -> None:
    set_quota(machine, ANN, producer_byte_rate=100)
    client = client_of(machine)
    machine.advance(write(client))
    set_quota(machine, ANN, producer_byte_rate=None)

    assert write(client) == 0
    assert not machine.broker.quotas.is_active


def test_clients_of_a_user_share_one_counter_and_a_pair_has_its_own(machine: InProcess) -> None:
    size = frame_size(client_of(machine))
    set_quota(machine, ANN, producer_byte_rate=size // 10 * 2 + 5)
    one, two = client_of(machine, client_id="one"), client_of(machine, client_id="two")

    shared = [write(one), write(two), write(two)]
    set_quota(machine, {"user": "ann", "client-id": "two"}, producer_byte_rate=10**9)

    assert shared[0] == shared[1] == 0
    assert shared[2] > 0
    machine.advance(shared[2])
    assert write(two) == 0


def test_anonymous_user_can_be_limited(machine: InProcess) -> None:
    set_quota(machine, {"user": "ANONYMOUS"}, producer_byte_rate=100)
    client = machine.connect()

    assert write(client) > 0


@pytest.mark.parametrize("client_id", ["", None])
def test_empty_client_id_does_not_escape(machine: InProcess, client_id: str | None) -> None:
    """In Kafka it does."""
    set_quota(machine, {"client-id": None}, producer_byte_rate=100)
    client = client_of(machine, client_id=client_id)

    assert write(client) > 0


def test_wall_clock_that_jumps_a_year_changes_no_throttle(machine: InProcess) -> None:
    set_quota(machine, ANN, producer_byte_rate=100)
    client = client_of(machine)
    wait_ms = write(client)

    machine.clock.set_wall_ms(machine.clock.now_ms() + 365 * 86_400_000)
    machine.tick()

    assert muted_ms(client) == wait_ms


def test_muted_client_that_leaves_leaves_nothing_behind(machine: InProcess) -> None:
    set_quota(machine, ANN, producer_byte_rate=100)
    client = client_of(machine)
    write(client)

    client.leave()

    assert machine.broker.peers.next_unmute_ms is None
    assert machine.broker.peers.muted_count == 0


def test_muted_producer_holds_no_memory(machine: InProcess) -> None:
    set_quota(machine, ANN, producer_byte_rate=100)
    client, memory = client_of(machine), machine.broker.peers.memory
    before = memory.reserved_bytes

    write(client)

    assert muted_ms(client) > 0
    assert memory.reserved_bytes == before


def test_quotas_are_back_after_a_restart(machine: InProcess) -> None:
    name = {"user": "a/b ,=ü"}
    set_quota(machine, name, producer_byte_rate=100)

    machine.kill()

    described = machine.connect().ask(DescribeClientQuotasRequest(), DescribeClientQuotasResponse)
    assert described.entries is not None
    (entry,) = described.entries
    assert {each.entity_type: each.entity_name for each in entry.entity} == name
    assert machine.broker.quotas.is_active
    assert write(client_of(machine, "a/b ,=ü")) > 0


# -- fetch -----------------------------------------------------------------------------------------


def fetched(client: Client, **how: Any) -> FetchResponse:
    return client.ask(fetch(max_wait_ms=0, **how), FetchResponse, BY_NAME)


def names(answer: FetchResponse) -> list[int]:
    return [each.partition_index for topic in answer.responses for each in topic.partitions]


def filled(machine: InProcess, batches: int = 1) -> None:
    writer = machine.connect()
    for _ in range(batches):
        write(writer)


def test_consumer_over_its_quota_gets_nothing_and_waits(machine: InProcess) -> None:
    filled(machine)
    client = client_of(machine)
    size = _size_of_a_fetch(machine)
    set_quota(machine, ANN, consumer_byte_rate=(size + 1) // 10 + 1)

    first = fetched(client)
    second = fetched(client)

    assert (first.throttle_time_ms, names(first)) == (0, [0])
    assert second.throttle_time_ms > 0
    assert (names(second), second.error_code) == ([], ErrorCode.NONE)
    assert muted_ms(client) == second.throttle_time_ms
    machine.advance(second.throttle_time_ms)


def _size_of_a_fetch(machine: InProcess) -> int:
    """What Kafka counts: four bytes and the body, without the header."""
    client = client_of(machine, "somebody")
    before = client.received_bytes
    fetched(client)
    # Size, correlation id, and the tags of the header.
    return client.received_bytes - before - 4 - 5 + 4


def test_throttled_fetch_is_taken_back_so_the_wait_does_not_grow(machine: InProcess) -> None:
    filled(machine)
    set_quota(machine, ANN, consumer_byte_rate=50)
    waits = []

    for _ in range(3):
        client = client_of(machine)
        waits.append(fetched(client).throttle_time_ms)

    assert waits[0] > 0
    assert len({*waits}) == 1


def test_session_goes_on_after_a_throttled_fetch_and_brings_the_data_then(
    machine: InProcess,
) -> None:
    filled(machine)
    client = client_of(machine)
    opened = fetched(client, session_epoch=0)
    set_quota(machine, ANN, consumer_byte_rate=60)
    held = client.ask(
        fetch(max_wait_ms=0, session_id=opened.session_id, session_epoch=1), FetchResponse, BY_NAME
    )
    set_quota(machine, ANN, consumer_byte_rate=None)
    machine.advance(held.throttle_time_ms)

    answer = client.ask(
        fetch(max_wait_ms=0, session_id=opened.session_id, session_epoch=2), FetchResponse, BY_NAME
    )

    assert opened.session_id
    assert held.throttle_time_ms > 0
    assert held.session_id == opened.session_id
    assert names(held) == []
    assert names(answer) == [0]


def test_throttled_fetch_opens_no_session(machine: InProcess) -> None:
    filled(machine)
    set_quota(machine, ANN, consumer_byte_rate=50)
    client = client_of(machine)

    held = fetched(client, session_epoch=0)

    assert held.throttle_time_ms > 0
    assert held.session_id == 0
    assert len(machine.broker.fetch_sessions) == 0


def test_fetch_asks_for_no_more_than_ten_seconds_of_quota(machine: InProcess) -> None:
    filled(machine, batches=20)
    size = _size_of_a_fetch(machine)
    set_quota(machine, ANN, consumer_byte_rate=size // 40)

    client = client_of(machine)
    # The names around the records may make it a little more.
    held = fetched(client)
    machine.advance(held.throttle_time_ms)
    answer = fetched(client)

    assert held.throttle_time_ms < 500
    assert answer.throttle_time_ms == 0
    assert 0 < _record_bytes(answer) < size / 3


def _record_bytes(answer: FetchResponse) -> int:
    found = [each.records for topic in answer.responses for each in topic.partitions]
    return sum(len(each) for each in found if isinstance(each, memoryview | bytes | bytearray))


def test_parked_fetch_is_counted_when_data_comes(machine: InProcess) -> None:
    set_quota(machine, ANN, consumer_byte_rate=50)
    client = client_of(machine)
    client.send(fetch(max_wait_ms=5000, min_bytes=1), BY_NAME)
    waiting = client.is_waiting

    filled(machine)

    answer = client.take(FetchResponse)
    assert waiting
    assert answer.throttle_time_ms > 0
    assert names(answer) == []


def test_batch_that_never_passes_is_noted(machine: InProcess) -> None:
    filled(machine)
    set_quota(machine, ANN, consumer_byte_rate=10)

    fetched(client_of(machine))

    (counter,) = (each for each in machine.broker.quotas.fetch if each.throttled is not None)
    assert counter.throttled is not None
    assert counter.throttled.too_large > 1000


def test_fetch_of_a_follower_counts_for_nobody(machine: InProcess) -> None:
    filled(machine)
    set_quota(machine, {"client-id": None}, consumer_byte_rate=10, request_percentage=0.001)
    follower = client_of(machine)
    request = fetch(max_wait_ms=0)
    request.replica_state = FetchReplicaState(replica_id=7, replica_epoch=-1)
    request.replica_id = 7

    answer = follower.ask(request, FetchResponse, BY_NAME)

    assert answer.throttle_time_ms == 0
    assert muted_ms(follower) == 0


# -- time of the loop ------------------------------------------------------------------------------


def spend(client: Client, ms: float) -> None:
    client.machine.broker.turn_took(client.number, int(ms * MS))


def test_time_of_turns_counts_for_the_next_request_and_waits_at_most_a_window(
    machine: InProcess,
) -> None:
    set_quota(machine, ANN, request_percentage=10)
    client = client_of(machine)
    first = client.ask(MetadataRequest(topics=[]), MetadataResponse).throttle_time_ms
    spend(client, 1005)

    second = client.ask(MetadataRequest(topics=[]), MetadataResponse).throttle_time_ms
    machine.advance(second)
    spend(client, 5000)
    third = client.ask(MetadataRequest(topics=[]), MetadataResponse).throttle_time_ms

    assert (first, second, third) == (0, 50, 1000)


def test_of_two_quotas_the_longer_wait_counts(machine: InProcess) -> None:
    set_quota(machine, ANN, producer_byte_rate=10, request_percentage=1)
    client = client_of(machine)
    client.ask(HELLO, ApiVersionsResponse)
    spend(client, 105)

    wait_ms = write(client)

    assert wait_ms > 1000
    assert muted_ms(client) == wait_ms


def test_fetch_over_its_time_is_empty_too(machine: InProcess) -> None:
    filled(machine)
    set_quota(machine, ANN, request_percentage=1)
    client = client_of(machine)
    client.ask(HELLO, ApiVersionsResponse)
    spend(client, 500)

    answer = fetched(client)

    assert answer.throttle_time_ms == 1000
    assert names(answer) == []


def test_time_of_connections_that_asked_for_nothing_is_exempt(machine: InProcess) -> None:
    set_quota(machine, ANN, request_percentage=1)
    client = client_of(machine)

    spend(client, 500)

    now_ms = machine.clock.monotonic_ms()
    assert machine.broker.quotas.exempt.total(now_ms) == 500 * MS
    assert client.ask(HELLO, ApiVersionsResponse).throttle_time_ms == 0


def test_answer_without_a_place_for_it_is_muted_all_the_same(machine: InProcess) -> None:
    set_quota(machine, ANN, request_percentage=1)
    client = client_of(machine)
    client.ask(HELLO, ApiVersionsResponse)
    spend(client, 105)

    client.ask(HELLO, ApiVersionsResponse, 0)

    assert muted_ms(client) > 0


# -- eight levels ----------------------------------------------------------------------------------


def test_limits_follow_as_quotas_are_removed_from_the_most_specific_on(machine: InProcess) -> None:
    levels: list[dict[str, str | None]] = [
        {"user": "ann", "client-id": "c"},
        {"user": "ann", "client-id": None},
        {"user": "ann"},
        {"user": None, "client-id": "c"},
        {"user": None, "client-id": None},
        {"user": None},
        {"client-id": "c"},
        {"client-id": None},
    ]
    for number, level in enumerate(levels, 1):
        set_quota(machine, level, producer_byte_rate=10_000_000 * number)
    client, found = client_of(machine), []

    for level in levels:
        write(client)
        charges = machine.broker.peers.by_number[client.number].session.charges
        assert charges is not None
        assert charges.produce is not None
        assert charges.produce.level is not None
        found.append((charges.produce.level.number, charges.produce.bound))
        set_quota(machine, level, producer_byte_rate=None)

    assert found == [(number, 10_000_000.0 * number) for number in range(1, 9)]


def test_nothing_is_counted_while_no_quota_is_set(machine: InProcess) -> None:
    client = client_of(machine)

    write(client)
    fetched(client)

    assert machine.broker.peers.by_number[client.number].session.charges is None
    assert not machine.broker.quotas.is_active


def test_key_that_nobody_has_a_quota_of_is_not_counted(machine: InProcess) -> None:
    set_quota(machine, ANN, producer_byte_rate=10**9)
    client = client_of(machine)

    fetched(client)
    write(client)

    charges = machine.broker.peers.by_number[client.number].session.charges
    assert charges is not None
    assert (charges.fetch, charges.request) == (None, None)
    assert not machine.broker.quotas.counts_time
