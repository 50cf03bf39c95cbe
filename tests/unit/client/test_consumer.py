"""Reading: raw batches, gaps, transactions, ends, and positions that are gone."""

import pytest

from ledgerstone.client.blocking import Client
from ledgerstone.client.consumer import Consumer
from ledgerstone.client.fetcher import READ_COMMITTED, READ_UNCOMMITTED, FetchConfig, Fetcher
from ledgerstone.client.offsets import (
    LATEST,
    CommittedOffset,
    commit_offsets,
    committed_offsets,
    list_offsets,
)
from ledgerstone.errors import CorruptRecord, OffsetOutOfRange
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.fetch import (
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopicResponse,
)
from ledgerstone.protocol.messages.list_offsets import ListOffsetsRequest
from ledgerstone.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ledgerstone.protocol.messages.offset_fetch import (
    OffsetFetchPartition,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseTopic,
)
from ledgerstone.records.builder import build_batch
from ledgerstone.records.control import end_txn_marker
from ledgerstone.types import AbortedTxn, TopicPartition
from tests.unit.client.fake_cluster import FakeCluster, topic_id_of

P0 = TopicPartition("t", 0)
T = 1_700_000_000_000


def batch(*values: bytes, producer_id: int = -1) -> bytearray:
    return build_batch(
        [(T, b"k", value, ()) for value in values],
        producer_id=producer_id,
        producer_epoch=-1 if producer_id < 0 else 0,
        base_sequence=-1 if producer_id < 0 else 0,
        transactional=producer_id >= 0,
    )


def marker(producer_id: int, *, commit: bool) -> bytearray:
    return end_txn_marker(
        commit=commit, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=T
    )


def cluster_with(*batches: bytearray) -> FakeCluster:
    cluster = FakeCluster()
    cluster.topic("t", [1])
    for each in batches:
        cluster.logs[P0].append(each)
    return cluster


def values_read(cluster: FakeCluster, start_offset: int = 0, isolation: int = 1) -> list[bytes]:
    """Every value from an offset to the end."""
    with cluster.client() as client:
        fetcher = Fetcher(client, FetchConfig(isolation_level=isolation, max_wait_ms=0))
        consumer = Consumer(fetcher, {P0: start_offset})
        found = []
        while consumer.positions[P0] < cluster.logs[P0].end_offset:
            found += [each.record.value or b"" for each in consumer.poll()]
        return found


def values_of(client: Client, isolation_level: int) -> list[bytes | None]:
    fetcher = Fetcher(client, FetchConfig(isolation_level=isolation_level))
    return [each.record.value for each in Consumer(fetcher, {P0: 0}).poll()]


def answer_of(records: bytes) -> FetchResponse:
    partition = FetchPartitionResponse(partition_index=0, high_watermark=99, records=records)
    topic = FetchTopicResponse(topic_id=topic_id_of("t"), partitions=[partition])
    return FetchResponse(responses=[topic])


def test_records_come_in_order_across_batches() -> None:
    cluster = cluster_with(batch(b"a", b"b"), batch(b"c"))

    assert values_read(cluster) == [b"a", b"b", b"c"]


def test_records_below_the_position_are_passed_over() -> None:
    cluster = cluster_with(batch(b"a", b"b", b"c"))

    assert values_read(cluster, start_offset=1) == [b"b", b"c"]


def test_reader_goes_on_after_a_batch_and_not_after_its_last_record() -> None:
    thinned = build_batch([(T, b"k", b"a", ())], offsets=[0], last_offset_delta=7)
    cluster = cluster_with(thinned, batch(b"b"))

    with cluster.client() as client:
        (fetched,) = Fetcher(client).fetch({P0: 0})

    assert fetched.next_offset == 8
    assert values_read(cluster) == [b"a", b"b"]


def test_leader_that_is_gone_does_not_keep_others_from_answering() -> None:
    cluster = FakeCluster((1, 2))
    cluster.topic("t", [1, 2])
    places = [TopicPartition("t", number) for number in range(2)]
    for each in places:
        cluster.logs[each].append(batch(b"a"))

    with cluster.client() as client:
        fetcher = Fetcher(client)
        fetcher.fetch(dict.fromkeys(places, 0))
        cluster.down.append(cluster.nodes[1])
        cluster.logs[places[0]].leader_id = 2
        found = fetcher.fetch(dict.fromkeys(places, 0))

    assert [each.next_offset for each in found] == [1, 1]


def test_range_is_read_to_its_end_and_no_further() -> None:
    cluster = cluster_with(batch(b"a"), batch(b"b"), batch(b"c"))

    with cluster.client() as client:
        found = list(Fetcher(client).read_range(P0, 0, 2))

    assert [each.next_offset for each in found] == [1, 2]
    assert [bytes(each.records) for each in found] == cluster.logs[P0].batches[:2]


def test_range_beyond_the_end_stops_at_the_end() -> None:
    cluster = cluster_with(batch(b"a"))

    with cluster.client() as client:
        found = list(Fetcher(client).read_range(P0, 0, 100))

    assert [each.high_watermark for each in found] == [1]


def test_range_goes_on_after_an_election_before_its_leader_knows_what_is_committed() -> None:
    cluster = cluster_with(batch(b"a"))
    behind = answer_of(b"")
    behind.responses[0].partitions[0].high_watermark = 0
    cluster.once(FetchRequest, behind)

    with cluster.client() as client:
        found = list(Fetcher(client).read_range(P0, 0, 1))

    assert [each.next_offset for each in found] == [1]


def test_range_waits_where_more_is_there_but_did_not_come() -> None:
    cluster = cluster_with(batch(b"a"))
    cluster.once(FetchRequest, answer_of(b""))

    with cluster.client() as client:
        found = list(Fetcher(client).read_range(P0, 0, 1))

    waits = [each.max_wait_ms for _, each in cluster.requests if isinstance(each, FetchRequest)]
    assert waits == [0, 500]
    assert len(found) == 1


def test_batch_cut_short_by_the_broker_is_left_for_the_next_fetch() -> None:
    cluster = cluster_with(batch(b"a"), batch(b"b"))
    whole, cut = cluster.logs[P0].batches
    cluster.once(FetchRequest, answer_of(whole + cut[:-5]))

    with cluster.client() as client:
        (fetched,) = Fetcher(client).fetch({P0: 0})

    assert (bytes(fetched.records), fetched.next_offset) == (whole, 1)


def test_answer_that_does_not_reach_the_position_is_refused() -> None:
    cluster = cluster_with(batch(b"a"))
    cluster.once(FetchRequest, answer_of(cluster.logs[P0].batches[0]))

    with cluster.client() as client, pytest.raises(CorruptRecord, match="none of them at 5"):
        Fetcher(client).fetch({P0: 5})


def test_position_that_is_gone_is_said_with_what_is_there() -> None:
    cluster = cluster_with(batch(b"a"), batch(b"b"))
    cluster.logs[P0].start_offset = 1

    with cluster.client() as client, pytest.raises(OffsetOutOfRange, match="offsets 1 to 2"):
        Fetcher(client).fetch({P0: 0})


def test_former_leader_is_told_whom_the_reader_takes_for_the_leader() -> None:
    """A replica that is copied again has none of the offsets. Without an epoch, it would take the
    reader for one that prefers followers, and answer OFFSET_OUT_OF_RANGE."""
    cluster = cluster_with(batch(b"a"), batch(b"b"))

    def answer_of_a_follower(request: ApiMessage) -> ApiMessage:
        assert isinstance(request, FetchRequest)
        ((asked,),) = (topic.partitions for topic in request.topics)
        knows_epoch = asked.current_leader_epoch == 0
        code = ErrorCode.FENCED_LEADER_EPOCH if knows_epoch else ErrorCode.OFFSET_OUT_OF_RANGE
        answer = FetchPartitionResponse(partition_index=0, error_code=code)
        topic = FetchTopicResponse(topic_id=topic_id_of("t"), partitions=[answer])
        return FetchResponse(responses=[topic])

    with cluster.client() as client:
        client.topic("t")
        cluster.once(FetchRequest, answer_of_a_follower)
        (fetched,) = Fetcher(client).fetch({P0: 1})
    assert fetched.next_offset == 2


def test_end_of_the_log_is_asked_of_the_leader_that_the_reader_knows() -> None:
    cluster = cluster_with(batch(b"a"))
    with cluster.client() as client:
        list_offsets(client, {P0: LATEST})
    ((request,),) = ([r for _, r in cluster.requests if isinstance(r, ListOffsetsRequest)],)
    assert request.topics[0].partitions[0].current_leader_epoch == 0


def test_damaged_batch_is_not_handed_out() -> None:
    damaged = batch(b"aaaa")
    damaged[-3] ^= 1
    cluster = cluster_with(damaged)

    with pytest.raises(CorruptRecord, match="crc"):
        values_read(cluster)


def test_markers_are_never_seen() -> None:
    cluster = cluster_with(batch(b"a", producer_id=7), marker(7, commit=True), batch(b"b"))

    assert values_read(cluster) == [b"a", b"b"]


def test_aborted_transaction_is_hidden_until_its_marker() -> None:
    batches = [
        batch(b"gone", producer_id=7),
        marker(7, commit=False),
        batch(b"kept", producer_id=7),
        marker(7, commit=True),
    ]
    cluster = cluster_with(*batches)
    cluster.logs[P0].aborted = [AbortedTxn(7, 0)]
    everything = b"".join(cluster.logs[P0].batches)
    cluster.logs[P0].batches = [everything]

    with cluster.client() as client:
        committed = values_of(client, READ_COMMITTED)
        uncommitted = values_of(client, READ_UNCOMMITTED)

    assert committed == [b"kept"]
    assert uncommitted == [b"gone", b"kept"]


def test_other_producers_are_seen_while_one_aborts() -> None:
    cluster = cluster_with(
        batch(b"gone", producer_id=7), batch(b"other", producer_id=8), batch(b"plain")
    )
    cluster.logs[P0].aborted = [AbortedTxn(7, 0)]

    assert values_read(cluster) == [b"other", b"plain"]


def test_every_partition_is_first_in_turn() -> None:
    cluster = FakeCluster()
    cluster.topic("t", [1, 1, 1])

    with cluster.client() as client:
        positions = {TopicPartition("t", number): 0 for number in range(3)}
        consumer = Consumer(Fetcher(client, FetchConfig(max_wait_ms=0)), positions)
        for _ in range(3):
            list(consumer.poll())

    asked = [each for _, each in cluster.requests if isinstance(each, FetchRequest)]
    assert [each.topics[0].partitions[0].partition for each in asked] == [0, 1, 2]


def test_commit_is_read_back() -> None:
    cluster = cluster_with(batch(b"a"))

    with cluster.client() as client:
        commit_offsets(client, "g", {P0: CommittedOffset(1)})
        found = committed_offsets(client, "g", [P0])

    assert found == {P0: CommittedOffset(1)}


def test_answer_about_offsets_before_version_8_is_understood() -> None:
    cluster = cluster_with()
    partition = OffsetFetchPartition(partition_index=0, committed_offset=3)
    topic = OffsetFetchResponseTopic(name="t", partitions=[partition])
    asked: list[OffsetFetchRequest] = []

    def answer(request: object) -> OffsetFetchResponse:
        assert isinstance(request, OffsetFetchRequest)
        asked.append(request)
        return OffsetFetchResponse(topics=[topic])

    cluster.limit_version(OffsetFetchRequest.api_key, 7)
    cluster.once(OffsetFetchRequest, answer)
    with cluster.client() as client:
        found = committed_offsets(client, "g", [P0])

    assert found == {P0: CommittedOffset(3)}
    assert (asked[0].group_id, asked[0].groups) == ("g", [])


def test_refused_commit_is_raised() -> None:
    cluster = cluster_with()
    refused = OffsetCommitResponsePartition(0, ErrorCode.OFFSET_METADATA_TOO_LARGE)
    topic = OffsetCommitResponseTopic(name="t", partitions=[refused])
    cluster.once(OffsetCommitRequest, OffsetCommitResponse(topics=[topic]))

    with cluster.client() as client, pytest.raises(Exception, match="commit of group g for t-0"):
        commit_offsets(client, "g", {P0: CommittedOffset(1)})


def test_position_stays_before_what_was_not_taken() -> None:
    cluster = cluster_with(batch(b"a", b"b"))

    with cluster.client() as client:
        consumer = Consumer(Fetcher(client), {P0: 0})
        taken = next(consumer.poll())

    assert taken.record.value == b"a"
    assert consumer.positions == {P0: 0}
