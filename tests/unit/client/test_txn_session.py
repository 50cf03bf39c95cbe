"""The session of a transactional producer: states, both protocols, what each error code means."""

import pytest

from ledgerstone.client.committed import CommittedOffset
from ledgerstone.client.producer_id import ProducerId
from ledgerstone.client.txn_errors import MustAbort, MustClose, TransactionError
from ledgerstone.client.txn_session import (
    FEATURE,
    TV1,
    TV2,
    GroupMetadata,
    Prepared,
    TxnProtocol,
    TxnSession,
    TxnState,
)
from ledgerstone.errors import ConfigError, InvariantViolation
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from ledgerstone.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from ledgerstone.protocol.messages.api_versions import ApiVersionsResponse, FinalizedFeature
from ledgerstone.protocol.messages.end_txn import EndTxnResponse
from ledgerstone.protocol.messages.init_producer_id import InitProducerIdResponse
from ledgerstone.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ledgerstone.types import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
GROUP = GroupMetadata("g", generation_id=3, member_id="m")
both_protocols = pytest.mark.parametrize("protocol", [TV1, TV2], ids=["tv1", "tv2"])


def versions(level: int | None) -> ApiVersionsResponse:
    features = [] if level is None else [FinalizedFeature(FEATURE, level, level)]
    return ApiVersionsResponse(finalized_features=features)


def started(protocol: TxnProtocol, epoch: int = 0) -> TxnSession:
    session = TxnSession("id")
    session.init_request()
    answer = InitProducerIdResponse(producer_id=7, producer_epoch=epoch)
    session.initialized(answer, versions(protocol.number))
    return session


def opened(protocol: TxnProtocol) -> TxnSession:
    session = started(protocol)
    session.begin()
    session.before([P0])
    session.acknowledged(P0, 5)
    return session


def added(*codes: int) -> AddPartitionsToTxnResponse:
    results = [AddPartitionsToTxnPartitionResult(n, code) for n, code in enumerate(codes)]
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[AddPartitionsToTxnTopicResult("t", results)]
    )


@pytest.mark.parametrize(
    ("level", "protocol"), [(None, TV1), (0, TV1), (1, TV1), (2, TV2), (3, TV2)]
)
def test_finalized_features_choose_the_protocol(level: int | None, protocol: TxnProtocol) -> None:
    session = TxnSession("id")
    session.initialized(InitProducerIdResponse(producer_id=7, producer_epoch=0), versions(level))

    assert session.protocol is protocol


def test_empty_id_is_refused() -> None:
    with pytest.raises(ConfigError):
        TxnSession("")


def test_first_request_has_no_epoch_and_fences() -> None:
    request = TxnSession("id", timeout_ms=5).init_request()

    assert (request.transactional_id, request.transaction_timeout_ms) == ("id", 5)
    assert (request.producer_id, request.producer_epoch) == (-1, -1)


def test_version_1_adds_each_partition_once() -> None:
    session = started(TV1)
    session.begin()

    first = session.before([P0])
    session.added(added(ErrorCode.NONE))
    second = session.before([P0, P1])
    assert first is not None
    assert second is not None

    assert [each.partitions for each in first.v3_and_below_topics] == [[0]]
    assert [each.partitions for each in second.v3_and_below_topics] == [[1]]
    session.added(added(ErrorCode.NONE, ErrorCode.NONE))
    assert session.before([P0, P1]) is None


def test_version_1_adds_partitions_again_in_the_next_transaction() -> None:
    session = opened(TV1)
    session.added(added(ErrorCode.NONE))
    session.end_request(commit=True)
    session.ended(EndTxnResponse())
    session.begin()

    assert session.before([P0]) is not None


def test_version_2_adds_nothing_itself() -> None:
    session = started(TV2)
    session.begin()

    assert session.before([P0]) is None
    assert session.before_offsets("g") is None


def test_version_1_sequences_go_on_and_version_2_starts_again() -> None:
    for protocol, answer, sequence in (
        (TV1, EndTxnResponse(), 5),
        (TV2, EndTxnResponse(producer_id=7, producer_epoch=1), 0),
    ):
        session = opened(protocol)
        session.end_request(commit=True)
        session.ended(answer)
        session.begin()

        assert session.next_sequence(P0) == sequence


def test_version_2_goes_on_with_the_producer_of_the_answer() -> None:
    session = opened(TV2)
    session.end_request(commit=True)
    # The epochs of the old producer id are used up.
    session.ended(EndTxnResponse(producer_id=9, producer_epoch=0))
    session.begin()

    assert session.identity == ProducerId(9, 0)


@both_protocols
def test_transaction_without_requests_needs_no_end(protocol: TxnProtocol) -> None:
    session = started(protocol)
    for commit in (True, False):
        session.begin()
        assert session.end_request(commit=commit) is None
        assert session.state is TxnState.READY


@both_protocols
def test_only_a_failed_request_must_be_aborted_as_well(protocol: TxnProtocol) -> None:
    session = started(protocol)
    session.begin()
    session.before([P0])
    session.broke()

    # The leader may have taken the batch, or have added the partition.
    assert session.end_request(commit=False) is not None


@both_protocols
@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.REQUEST_TIMED_OUT,
    ],
)
def test_refused_batch_must_be_aborted(protocol: TxnProtocol, code: ErrorCode) -> None:
    session = opened(protocol)

    with pytest.raises(MustAbort) as caught:
        session.refused(code, "Produce t-0")

    assert caught.value.code == code
    with pytest.raises(MustAbort):
        session.before([P0])
    with pytest.raises(MustAbort):
        session.end_request(commit=True)
    assert session.end_request(commit=False) is not None


@both_protocols
@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
    ],
)
def test_fenced_or_refused_producer_is_at_its_end(protocol: TxnProtocol, code: ErrorCode) -> None:
    session = opened(protocol)

    with pytest.raises(MustClose):
        session.refused(code, "Produce t-0")

    with pytest.raises(MustClose):
        session.end_request(commit=False)
    with pytest.raises(MustClose):
        session.begin()


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.INVALID_PRODUCER_EPOCH, MustClose),
        (ErrorCode.INVALID_TXN_STATE, MustClose),
        (ErrorCode.PRODUCER_FENCED, MustClose),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, MustClose),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, MustAbort),
        (ErrorCode.TRANSACTION_ABORTABLE, MustAbort),
    ],
)
def test_coordinator_knows_who_owns_the_id(code: ErrorCode, kind: type[TransactionError]) -> None:
    session = opened(TV1)

    with pytest.raises(kind):
        session.added(added(code))


def test_partition_that_failed_is_blamed_and_not_one_that_was_not_tried() -> None:
    session = opened(TV1)

    with pytest.raises(MustAbort, match="t-1: UNKNOWN_TOPIC_OR_PARTITION"):
        session.added(
            added(ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        )


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.ILLEGAL_GENERATION, MustAbort),
        (ErrorCode.UNKNOWN_MEMBER_ID, MustAbort),
        (ErrorCode.FENCED_INSTANCE_ID, MustAbort),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, MustAbort),
        (ErrorCode.INVALID_PRODUCER_EPOCH, MustClose),
        (ErrorCode.PRODUCER_FENCED, MustClose),
    ],
)
def test_offsets_of_a_member_that_is_gone_are_aborted(
    code: ErrorCode, kind: type[TransactionError]
) -> None:
    session = opened(TV2)
    answer = TxnOffsetCommitResponse(
        topics=[TxnOffsetCommitResponseTopic("t", [TxnOffsetCommitResponsePartition(0, code)])]
    )

    with pytest.raises(kind):
        session.offsets_taken(GROUP, answer)


def test_version_1_adds_a_group_once_and_names_its_member() -> None:
    session = opened(TV1)

    first = session.before_offsets("g")
    session.added_offsets("g", AddOffsetsToTxnResponse())
    request = session.offsets_request(GROUP, {P1: CommittedOffset(4, metadata="note")})

    assert first is not None
    assert first.group_id == "g"
    assert session.before_offsets("g") is None
    assert (request.group_id, request.generation_id, request.member_id) == ("g", 3, "m")
    (part,) = request.topics[0].partitions
    assert (part.partition_index, part.committed_offset, part.committed_metadata) == (1, 4, "note")


def test_version_1_raises_the_epoch_after_a_broken_transaction() -> None:
    session = opened(TV1)
    session.broke()
    session.end_request(commit=False)
    session.ended(EndTxnResponse())

    request = session.init_request()
    assert (request.producer_id, request.producer_epoch) == (7, 0)
    session.initialized(InitProducerIdResponse(producer_id=7, producer_epoch=1), versions(0))
    session.begin()
    assert session.next_sequence(P0) == 0


def test_version_2_has_its_new_epoch_from_the_abort() -> None:
    session = opened(TV2)
    session.broke()
    session.end_request(commit=False)
    session.ended(EndTxnResponse(producer_id=7, producer_epoch=1))

    session.begin()
    assert session.identity == ProducerId(7, 1)
    assert session.next_sequence(P0) == 0


@both_protocols
def test_unanswered_commit_can_only_be_repeated(protocol: TxnProtocol) -> None:
    session = opened(protocol)
    first = session.end_request(commit=True)

    with pytest.raises(InvariantViolation, match="committing"):
        session.end_request(commit=False)
    with pytest.raises(InvariantViolation):
        session.before([P0])
    again = session.end_request(commit=True)

    assert first is not None
    assert again is not None
    assert again.committed
    assert again.producer_epoch == first.producer_epoch


@both_protocols
def test_unanswered_abort_can_only_be_repeated(protocol: TxnProtocol) -> None:
    session = opened(protocol)
    session.end_request(commit=False)

    with pytest.raises(InvariantViolation, match="aborting"):
        session.end_request(commit=True)
    assert session.end_request(commit=False) is not None


def test_nothing_is_sent_outside_of_a_transaction() -> None:
    session = started(TV2)

    for action in (
        lambda: session.before([P0]),
        lambda: session.before_offsets("g"),
        lambda: session.end_request(commit=True),
        session.prepared,
    ):
        with pytest.raises(InvariantViolation):
            action()


def test_transaction_of_another_process_is_ended_with_its_epoch() -> None:
    prepared = opened(TV2).prepared()

    request = TxnSession.of_prepared(prepared, versions(2)).end_request(commit=True)

    assert prepared == Prepared("id", 7, 0)
    assert request is not None
    assert (request.transactional_id, request.producer_id, request.producer_epoch) == prepared
