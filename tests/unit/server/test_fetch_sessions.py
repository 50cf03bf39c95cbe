"""Fetch sessions as a client meets them; the rules by themselves are tests/unit/replication."""

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.fetch import FetchRequest, FetchResponse
from tests.kit.in_process import Client, InProcess
from tests.unit.server.asks import (
    BY_NAME,
    create_topic,
    delete_topic,
    fetch,
    partitions_in,
    write,
)


def ask(client: Client, request: FetchRequest) -> FetchResponse:
    return client.ask(request, FetchResponse, BY_NAME)


def opened(client: Client, partitions: int = 3) -> int:
    """A session over all partitions; its id."""
    create_topic(client, partitions=partitions)
    offsets = dict.fromkeys(range(partitions), 0)
    response = ask(client, fetch(offsets, session_epoch=0))
    assert partitions_in(response) == list(offsets)
    assert response.session_id > 0
    return response.session_id


def test_session_names_only_partitions_that_have_news(client: Client) -> None:
    session_id = opened(client)

    quiet = ask(client, fetch({}, session_id=session_id, session_epoch=1))
    write(client, "news", partition=1)
    loud = ask(client, fetch({}, session_id=session_id, session_epoch=2))

    assert partitions_in(quiet) == []
    assert partitions_in(loud) == [1]
    assert loud.session_id == session_id


def test_session_moves_on_with_the_offsets_it_is_told(client: Client) -> None:
    session_id = opened(client)
    write(client, "a", partition=1)
    ask(client, fetch({}, session_id=session_id, session_epoch=1))

    moved = ask(client, fetch({1: 1}, session_id=session_id, session_epoch=2))
    write(client, "b", partition=1)
    again = ask(client, fetch({}, session_id=session_id, session_epoch=3))

    assert partitions_in(moved) == []
    assert again.responses[0].partitions[0].high_watermark == 2


def test_forgotten_partition_is_not_read_any_more(client: Client) -> None:
    session_id = opened(client)
    write(client, "a", partition=0)
    write(client, "b", partition=1)

    response = ask(client, fetch({}, forget=[1], session_id=session_id, session_epoch=1))

    assert partitions_in(response) == [0]


def test_session_without_partitions_ends(machine: InProcess, client: Client) -> None:
    session_id = opened(client, partitions=1)

    emptied = ask(client, fetch({}, forget=[0], session_id=session_id, session_epoch=1))
    gone = ask(client, fetch({}, session_id=session_id, session_epoch=2))

    assert emptied.error_code == ErrorCode.NONE
    assert gone.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(machine.broker.fetch_sessions) == 0


def test_unknown_session_and_wrong_epoch_have_their_errors(client: Client) -> None:
    session_id = opened(client)

    unknown = ask(client, fetch({}, session_id=session_id + 1, session_epoch=1))
    skipped = ask(client, fetch({}, session_id=session_id, session_epoch=2))
    right = ask(client, fetch({}, session_id=session_id, session_epoch=1))
    repeated = ask(client, fetch({}, session_id=session_id, session_epoch=1))

    assert (unknown.error_code, skipped.error_code) == (
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    )
    assert (right.error_code, repeated.error_code) == (
        ErrorCode.NONE,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    )


def test_session_may_not_change_from_names_to_ids(client: Client) -> None:
    session_id = opened(client)

    request = FetchRequest(session_id=session_id, session_epoch=1)
    response = client.ask(request, FetchResponse, 13)

    assert response.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_final_epoch_closes_the_session(machine: InProcess, client: Client) -> None:
    session_id = opened(client)

    response = ask(client, fetch({}, session_id=session_id, session_epoch=-1))

    assert (response.error_code, response.session_id) == (ErrorCode.NONE, 0)
    assert len(machine.broker.fetch_sessions) == 0


def test_error_is_told_each_time_and_recovery_from_it_once(
    machine: InProcess, client: Client
) -> None:
    session_id = opened(client, partitions=1)
    delete_topic(client)

    first = ask(client, fetch({}, session_id=session_id, session_epoch=1))
    second = ask(client, fetch({}, session_id=session_id, session_epoch=2))
    create_topic(client)
    better = ask(client, fetch({}, session_id=session_id, session_epoch=3))
    quiet = ask(client, fetch({}, session_id=session_id, session_epoch=4))

    codes = [each.responses[0].partitions[0].error_code for each in (first, second, better)]
    assert codes == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
    ]
    assert partitions_in(quiet) == []


def test_reader_is_served_without_a_session_while_all_slots_are_in_use() -> None:
    machine = InProcess(settings={"max.incremental.fetch.session.cache.slots": "1"})
    client = machine.connect()
    session_id = opened(client, partitions=1)

    crowded = ask(client, fetch(session_epoch=0))
    machine.advance(120_000)
    evicting = ask(client, fetch(session_epoch=0))
    evicted = ask(client, fetch({}, session_id=session_id, session_epoch=1))

    assert crowded.session_id == 0
    assert evicting.session_id not in (0, session_id)
    assert evicted.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_long_poll_in_a_session_is_woken_by_a_partition_it_did_not_name(
    machine: InProcess, client: Client
) -> None:
    session_id = opened(client)
    reader = machine.connect()
    request = fetch({}, session_id=session_id, session_epoch=1, max_wait_ms=1_000, min_bytes=1)
    reader.send(request, BY_NAME)

    write(client, "news", partition=2)

    assert partitions_in(reader.take(FetchResponse)) == [2]
