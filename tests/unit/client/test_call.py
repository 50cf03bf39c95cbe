"""One request's life, step by step and without a socket."""

import pytest

from ledgerstone.client.call import Answered, Call, Pause, SendRequest
from ledgerstone.client.cluster import Endpoint
from ledgerstone.client.errors import BrokerError, BrokerUnreachable, CallTimedOut
from ledgerstone.client.routing import (
    AnyBroker,
    Coordinator,
    KeyType,
    Target,
    ToBroker,
    ToController,
    target_of,
)
from ledgerstone.client.session import ClientSession, Purpose, SessionConfig
from ledgerstone.errors import TopicAuthorizationFailed
from ledgerstone.protocol.api import OFFERED
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages import ApiKey
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    CreateTopicsResponseTopic,
)
from ledgerstone.protocol.messages.describe_groups import DescribeGroupsRequest
from ledgerstone.protocol.messages.find_coordinator import (
    FindCoordinatorCoordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ledgerstone.protocol.messages.init_producer_id import InitProducerIdRequest
from ledgerstone.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ledgerstone.protocol.messages.metadata import (
    MetadataBroker,
    MetadataRequest,
    MetadataResponse,
)
from ledgerstone.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from ledgerstone.protocol.messages.produce import ProduceRequest, ProduceResponse
from ledgerstone.sim.dice import SeededDice

A, B = Endpoint("a", 1), Endpoint("b", 2)
METADATA = MetadataResponse(
    brokers=[MetadataBroker(1, "a", 1), MetadataBroker(2, "b", 2)], controller_id=2
)


def session_of(*bootstrap: Endpoint, **settings: int) -> ClientSession:
    return ClientSession(bootstrap or (A,), SeededDice(0), SessionConfig(**settings))  # type: ignore[arg-type]


def sent(call: Call, now_ms: int) -> SendRequest:
    step = call.next_step(now_ms)
    assert isinstance(step, SendRequest)
    return step


def wait(call: Call, now_ms: int) -> int:
    step = call.next_step(now_ms)
    assert isinstance(step, Pause)
    return step.duration_ms


def coordinator_at(endpoint: Endpoint, key: str = "g", code: int = 0) -> FindCoordinatorResponse:
    found = FindCoordinatorCoordinator(key, 1, endpoint.host, endpoint.port, code)
    return FindCoordinatorResponse(coordinators=[found])


@pytest.mark.parametrize(
    ("request_", "target"),
    [
        (MetadataRequest(), AnyBroker()),
        (CreateTopicsRequest(), ToController()),
        (OffsetFetchRequest(group_id="g"), Coordinator("g")),
        (DescribeGroupsRequest(groups=["g"]), Coordinator("g")),
        (InitProducerIdRequest(transactional_id=None), AnyBroker()),
        (InitProducerIdRequest(transactional_id="x"), Coordinator("x", KeyType.TRANSACTION)),
    ],
)
def test_request_says_where_it_goes(request_: ApiMessage, target: Target) -> None:
    assert target_of(request_) == target


def test_first_request_goes_to_the_first_bootstrap_endpoint() -> None:
    call = Call(session_of(A, B), ListGroupsRequest(), AnyBroker(), now_ms=0)

    step = sent(call, 0)

    assert step.link == (A, Purpose.DATA)
    assert step.at_most_version == OFFERED[ApiKey.LIST_GROUPS].last


def test_answer_ends_the_call() -> None:
    call = Call(session_of(), ListGroupsRequest(), AnyBroker(), now_ms=0)
    response = ListGroupsResponse()

    sent(call, 0)
    call.answered(response, 5)

    assert call.next_step(5) == Answered(response=response)


def test_next_bootstrap_endpoint_is_tried_at_once_when_the_first_refuses() -> None:
    call = Call(session_of(A, B), ListGroupsRequest(), AnyBroker(), now_ms=0)

    sent(call, 0)
    call.failed("refused", 0)

    assert sent(call, 0).link.endpoint == B


def test_cluster_that_cannot_be_reached_is_named_after_one_pass() -> None:
    call = Call(session_of(A, B, reach_timeout_ms=0), ListGroupsRequest(), AnyBroker(), now_ms=0)

    for _ in range(2):
        sent(call, 0)
        call.failed("refused", 0)

    with pytest.raises(BrokerUnreachable, match=r"no broker at a:1, b:2: b:2: refused"):
        call.next_step(0)


def test_cluster_that_was_reached_once_is_waited_for_until_the_deadline() -> None:
    session = session_of(A, reach_timeout_ms=0, call_timeout_ms=1000)
    first = Call(session, ListGroupsRequest(), AnyBroker(), now_ms=0)
    sent(first, 0)
    first.answered(ListGroupsResponse(), 0)
    call = Call(session, ListGroupsRequest(), AnyBroker(), now_ms=0)
    now_ms = 0

    while now_ms < 1000:
        step = call.next_step(now_ms)
        if isinstance(step, Pause):
            now_ms += step.duration_ms
        else:
            call.failed("reset", now_ms)

    with pytest.raises(CallTimedOut, match=r"ListGroups to any broker: no answer .* a:1: reset"):
        call.next_step(1000)


def test_waits_double_up_to_the_limit() -> None:
    session = session_of(backoff_ms=100, max_backoff_ms=1000)

    waits = [session.backoff.after(failures) for failures in range(1, 8)]

    for found, limit in zip(waits, [100, 200, 400, 800, 1000, 1000, 1000], strict=True):
        assert limit * 4 // 5 <= found <= limit


def test_request_for_the_controller_asks_for_metadata_first() -> None:
    call = Call(session_of(), CreateTopicsRequest(), ToController(), now_ms=0)

    first = sent(call, 0)
    call.answered(METADATA, 0)
    second = sent(call, 0)

    assert isinstance(first.request, MetadataRequest)
    assert (second.link.endpoint, second.request) == (B, call.request)


def test_not_controller_makes_the_call_ask_again_after_a_pause() -> None:
    call = Call(session_of(), CreateTopicsRequest(), ToController(), now_ms=0)
    sent(call, 0)
    call.answered(METADATA, 0)
    sent(call, 0)

    refused = CreateTopicsResponseTopic(name="t", error_code=ErrorCode.NOT_CONTROLLER)
    call.answered(CreateTopicsResponse(topics=[refused]), 0)
    pause_ms = wait(call, 0)
    again = sent(call, pause_ms)

    assert isinstance(again.request, MetadataRequest)


def test_error_of_one_topic_is_the_callers_business() -> None:
    call = Call(session_of(), CreateTopicsRequest(), ToController(), now_ms=0)
    sent(call, 0)
    call.answered(METADATA, 0)
    sent(call, 0)
    response = CreateTopicsResponse(
        topics=[CreateTopicsResponseTopic(name="t", error_code=ErrorCode.TOPIC_ALREADY_EXISTS)]
    )

    call.answered(response, 0)

    assert call.next_step(0) == Answered(response=response)


def test_coordinator_is_found_first_and_has_a_connection_of_its_own() -> None:
    call = Call(session_of(A), OffsetFetchRequest(group_id="g"), Coordinator("g"), now_ms=0)

    first = sent(call, 0)
    call.answered(coordinator_at(B), 0)
    second = sent(call, 0)

    assert isinstance(first.request, FindCoordinatorRequest)
    assert (first.request.key, first.request.coordinator_keys) == ("g", ["g"])
    assert first.link == (A, Purpose.DATA)
    assert second.link == (B, Purpose.COORDINATOR)


def test_coordinator_is_remembered_for_the_next_call() -> None:
    session = session_of(A)
    first = Call(session, OffsetFetchRequest(group_id="g"), Coordinator("g"), now_ms=0)
    sent(first, 0)
    first.answered(coordinator_at(B), 0)

    second = Call(session, OffsetFetchRequest(group_id="g"), Coordinator("g"), now_ms=0)

    assert sent(second, 0).link == (B, Purpose.COORDINATOR)


def test_coordinator_in_the_layout_before_version_4_is_understood() -> None:
    call = Call(session_of(A), OffsetFetchRequest(group_id="g"), Coordinator("g"), now_ms=0)

    sent(call, 0)
    call.answered(FindCoordinatorResponse(node_id=2, host="b", port=2), 0)

    assert sent(call, 0).link == (B, Purpose.COORDINATOR)


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_moved_coordinator_is_looked_for_again(code: ErrorCode) -> None:
    call = Call(session_of(A), OffsetFetchRequest(group_id="g"), Coordinator("g"), now_ms=0)
    sent(call, 0)
    call.answered(coordinator_at(B), 0)
    sent(call, 0)

    call.answered(OffsetFetchResponse(error_code=code), 0)
    pause_ms = wait(call, 0)

    assert isinstance(sent(call, pause_ms).request, FindCoordinatorRequest)


def test_loading_coordinator_is_asked_again_after_a_pause() -> None:
    call = Call(session_of(A), OffsetFetchRequest(group_id="g"), Coordinator("g"), now_ms=0)
    sent(call, 0)
    call.answered(coordinator_at(B), 0)
    sent(call, 0)

    loading = OffsetFetchResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    call.answered(loading, 0)
    pause_ms = wait(call, 0)

    assert sent(call, pause_ms).request is call.request


def test_refused_search_for_a_coordinator_is_raised() -> None:
    call = Call(session_of(A), OffsetFetchRequest(group_id="g"), Coordinator("g"), now_ms=0)
    sent(call, 0)

    with pytest.raises(TopicAuthorizationFailed, match="coordinator of group g"):
        call.answered(coordinator_at(A, code=29), 0)


def test_broker_nobody_knows_is_refused_with_those_that_are_known() -> None:
    call = Call(session_of(), ListGroupsRequest(), ToBroker(7), now_ms=0)
    sent(call, 0)

    with pytest.raises(BrokerError, match="known brokers: 1, 2"):
        call.answered(METADATA, 0)


def test_broken_connection_to_one_broker_is_repeated_with_fresh_metadata() -> None:
    call = Call(session_of(), ListGroupsRequest(), ToBroker(2), now_ms=0)
    sent(call, 0)
    call.answered(METADATA, 0)
    sent(call, 0)

    call.failed("reset", 0)
    pause_ms = wait(call, 0)

    assert isinstance(sent(call, pause_ms).request, MetadataRequest)


def test_broken_connection_ends_a_call_with_one_try() -> None:
    call = Call(session_of(), ListGroupsRequest(), ToBroker(2), now_ms=0, one_try=True)
    sent(call, 0)
    call.answered(METADATA, 0)
    sent(call, 0)

    with pytest.raises(BrokerError, match="NETWORK_EXCEPTION: b:2: reset") as caught:
        call.failed("reset", 0)

    assert caught.value.code == ErrorCode.NETWORK_EXCEPTION


def test_broker_that_asks_for_a_pause_gets_it() -> None:
    session = session_of(A)
    first = Call(session, ListGroupsRequest(), AnyBroker(), now_ms=0)
    sent(first, 0)
    first.answered(ListGroupsResponse(throttle_time_ms=700), 100)

    second = Call(session, ListGroupsRequest(), AnyBroker(), now_ms=100)

    assert wait(second, 100) == 700
    assert sent(second, 800)


def test_produce_without_acks_expects_no_response() -> None:
    call = Call(session_of(A), ProduceRequest(acks=0), AnyBroker(), now_ms=0)

    step = sent(call, 0)
    call.sent_without_response()

    assert not step.expects_response
    assert call.next_step(0) == Answered(response=ProduceResponse())


def test_send_may_take_no_longer_than_is_left() -> None:
    call = Call(session_of(A), ListGroupsRequest(), AnyBroker(), now_ms=0, timeout_ms=1000)

    assert sent(call, 400).timeout_ms == 600
