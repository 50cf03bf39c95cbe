"""What a follower asks its leader, and what it does with each answer.

Numbers in comments are those of the replication scenarios that Kafka's rules were drawn up as.
"""

import errno

import pytest

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.fetch import (
    FetchDivergingEpoch,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopicResponse,
)
from ledgerstone.protocol.messages.list_offsets import ListOffsetsRequest
from ledgerstone.replication.fetching.fetcher import ReplicaFetcher
from ledgerstone.replication.fetching.followed import FetchNoteKind
from ledgerstone.types import TopicPartition
from tests.kit.followers import (
    BROKER_EPOCH,
    FOLLOWER,
    LEADER,
    SETTINGS,
    TOPIC_ID,
    TP,
    FollowerBench,
    led,
    stored,
)
from tests.kit.logs import batch
from tests.kit.roles import led_by


@pytest.fixture
def bench() -> FollowerBench:
    return FollowerBench()


def asked(request: ApiMessage | None) -> dict[int, FetchPartition]:
    """Partitions of the one topic that a Fetch names."""
    assert isinstance(request, FetchRequest), request
    return {each.partition: each for topic in request.topics for each in topic.partitions}


def said(**fields: object) -> FetchResponse:
    """An answer about the one partition, in no session."""
    partition = FetchPartitionResponse(partition_index=0, **fields)  # type: ignore[arg-type]
    return FetchResponse(responses=[FetchTopicResponse(topic_id=TOPIC_ID, partitions=[partition])])


# -- what is asked -------------------------------------------------------------------------------


def test_request_names_the_replica_its_epoch_and_its_limits(bench: FollowerBench) -> None:
    request = bench.ask()

    assert isinstance(request, FetchRequest)
    state = request.replica_state
    assert state is not None
    assert (state.replica_id, state.replica_epoch) == (FOLLOWER, BROKER_EPOCH)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 1, 10 << 20)
    one = asked(request)[0]
    assert (one.fetch_offset, one.current_leader_epoch, one.last_fetched_epoch) == (0, 0, -1)
    assert (one.log_start_offset, one.partition_max_bytes) == (0, 1 << 20)
    assert request.topics[0].topic_id == TOPIC_ID


def test_one_request_is_in_flight(bench: FollowerBench) -> None:
    bench.ask()

    assert bench.fetcher.next_due_ms(bench.now_ms) is None
    with pytest.raises(AssertionError):
        bench.ask()


def test_session_names_only_what_changed() -> None:
    bench = FollowerBench(partitions=3)
    bench.step()
    assert asked(bench.last_request).keys() == {0, 1, 2}
    bench.leading.append(2)
    bench.step()
    assert asked(bench.last_request) == {}
    bench.step()

    named = asked(bench.last_request)
    assert named.keys() == {0}
    assert (named[0].fetch_offset, named[0].last_fetched_epoch) == (2, 0)


def test_idle_fetch_looks_at_no_partition() -> None:
    bench = FollowerBench(partitions=50)
    bench.run(3)
    for partition in bench.partitions.values():
        partition.log = None  # type: ignore[assignment]
    bench.run(3)

    assert asked(bench.last_request) == {}


@pytest.mark.parametrize(
    "code", [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH]
)
def test_lost_session_is_opened_again_at_once(code: ErrorCode) -> None:
    bench = FollowerBench(partitions=2)
    bench.run(2)
    bench.ask()
    bench.give(FetchResponse(error_code=code))
    request = bench.ask()

    assert asked(request).keys() == {0, 1}
    assert isinstance(request, FetchRequest)
    assert request.session_epoch == 0
    is_gone = code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    # A session that the leader may still have is named, so that it ends it.
    assert (request.session_id == 0) == is_gone
    bench.give(FetchResponse(error_code=code))
    assert bench.ask() is None, "the leader refuses again and again"


def test_partition_that_got_data_goes_to_the_end_of_a_full_request() -> None:
    bench = FollowerBench(partitions=3)
    bench.leader.logs[TopicPartition("t", 1)].append()
    bench.leader.logs[TP].append()
    bench.step()
    bench.fetcher.lost(bench.now_ms, "gone")
    bench.now_ms += SETTINGS.backoff_ms

    assert list(asked(bench.ask())) == [2, 0, 1]


def test_partition_that_is_no_longer_followed_leaves_the_session() -> None:
    bench = FollowerBench(partitions=2)
    bench.run(2)
    bench.fetcher.unfollow(TP)
    request = bench.ask()

    assert isinstance(request, FetchRequest)
    assert [each.partitions for each in request.forgotten_topics_data] == [[0]]


def test_leader_without_room_for_a_session_is_asked_for_everything_each_time() -> None:
    bench = FollowerBench()
    for _ in range(2):
        request = bench.ask()
        assert isinstance(request, FetchRequest)
        assert (request.session_id, request.session_epoch) == (0, 0)
        assert asked(request).keys() == {0}
        bench.give(said(high_watermark=0, log_start_offset=0))


# -- data ----------------------------------------------------------------------------------------


def test_batches_enter_the_log_as_they_are(bench: FollowerBench) -> None:
    bench.leading.append(3)
    bench.leading.append(2, commits=False)
    bench.step()

    assert stored(bench.log) == [each.data for each in bench.leading.written]
    assert (bench.log.log_end_offset, bench.log.high_watermark) == (5, 3)
    assert bench.committed == [TP]


def test_high_watermark_comes_with_the_next_answer(bench: FollowerBench) -> None:
    bench.leading.append(2, commits=False)
    bench.run(2)
    assert (bench.log.high_watermark, bench.committed) == (0, [])
    bench.leading.high_watermark = 2
    bench.step()

    assert (bench.log.high_watermark, bench.committed) == (2, [TP])
    assert next(iter(bench.fetcher)).lag == 0


def test_high_watermark_is_at_most_the_end_and_never_falls(bench: FollowerBench) -> None:
    bench.leading.append(2)
    bench.leading.high_watermark = 99
    bench.step()
    assert bench.log.high_watermark == 2
    bench.leading.high_watermark = 1
    bench.step()

    assert bench.log.high_watermark == 2


def test_log_start_of_the_leader_is_taken_over_and_told(bench: FollowerBench) -> None:
    bench.leading.append(3)
    bench.leading.append(3)
    bench.run(2)
    bench.leading.delete_before(4)
    bench.run(2)

    assert bench.log.log_start_offset == 4
    assert asked(bench.last_request)[0].log_start_offset == 4


def test_cut_off_batch_waits_for_the_next_answer(bench: FollowerBench) -> None:
    bench.leading.append(2)
    bench.leading.append(2)
    whole = b"".join(each.data for each in bench.leading.written)
    bench.ask()
    bench.give(said(high_watermark=4, log_start_offset=0, records=whole[:-5]))

    assert bench.log.log_end_offset == 2
    bench.run(1)
    assert bench.log.log_end_offset == 4


def test_batch_of_a_later_epoch_is_not_appended(bench: FollowerBench) -> None:
    """KAFKA-18723: the leader was replaced between question and answer."""
    bench.leading.append(2)
    later = bytes(batch(("k", "v"), base_offset=2, leader_epoch=1))
    bench.ask()
    bench.give(
        said(
            high_watermark=3,
            log_start_offset=0,
            records=bench.leading.written[0].data + later,
        )
    )

    assert (bench.log.log_end_offset, bench.log.epochs.latest_epoch) == (2, 0)


def test_answer_for_another_offset_or_epoch_is_ignored(bench: FollowerBench) -> None:
    bench.leading.append(2)
    request = bench.ask()
    assert request is not None
    answer = bench.leader.answer(request)
    bench.follow(1)
    bench.give(answer)

    assert bench.log.log_end_offset == 0
    assert asked(bench.ask())[0].current_leader_epoch == 1


def test_empty_log_may_begin_inside_a_batch(bench: FollowerBench) -> None:
    """85: DeleteRecords cut the leader's log inside a batch."""
    bench.leading.append(10)
    bench.leading.append(1)
    whole = bench.leading.written[0]
    bench.leading.delete_before(4)
    assert bench.leading.written[0] == whole
    bench.run(6)

    assert stored(bench.log) == [each.data for each in bench.leading.written]
    assert (bench.log.log_start_offset, bench.log.log_end_offset) == (4, 11)
    assert (FetchNoteKind.RESTARTED, TP) in bench.notes


def test_batch_below_the_end_of_a_log_with_records_stops_the_partition(
    bench: FollowerBench,
) -> None:
    bench.leading.append(10)
    bench.step()
    bench.ask()
    overlap = bytes(batch(("k", "v"), ("k", "v"), base_offset=9, leader_epoch=0))
    bench.give(said(high_watermark=11, log_start_offset=0, records=overlap))

    assert bench.log.log_end_offset == 10
    assert list(bench.fetcher.failed) == [TP]


# -- divergence ----------------------------------------------------------------------------------


def test_log_is_cut_where_epochs_diverge(bench: FollowerBench) -> None:
    """81, 82: by epoch, not by high watermark."""
    bench.leading.append(2)
    bench.leading.append(2, commits=False)
    bench.run(2)
    # The next leader has only the first batch, and writes another one in its place.
    bench.leading.lead_next(1, keeps=2)
    bench.leading.append(1)
    bench.follow(1)
    bench.run(4)

    assert stored(bench.log) == [each.data for each in bench.leading.written]
    assert bench.log.epochs.entries() == [(0, 0), (1, 2)]
    assert (FetchNoteKind.TRUNCATED, TP) in bench.notes


def test_answer_that_diverges_moves_neither_high_watermark_nor_log_start(
    bench: FollowerBench,
) -> None:
    """83."""
    bench.leading.append(2)
    bench.leading.append(2)
    bench.leading.high_watermark = 1
    bench.run(2)
    bench.leading.lead_next(1, keeps=2)
    bench.leading.append(1)
    bench.leading.append(1)
    bench.leading.delete_before(1)
    bench.follow(1)
    bench.step()

    assert (bench.log.log_end_offset, bench.log.high_watermark) == (2, 1)
    assert bench.log.log_start_offset == 0


def test_records_below_the_high_watermark_survive_a_restart(bench: FollowerBench) -> None:
    """81: the follower knows an old high watermark, and its leader dies right after."""
    bench.leading.append(2)
    bench.leading.append(2)
    bench.leading.high_watermark = 2
    bench.run(1)
    bench.leading.high_watermark = 4
    bench.restart(0)
    assert bench.log.high_watermark <= 2
    bench.leading.lead_next(1)
    bench.follow(1)
    bench.run(3)

    assert bench.log.log_end_offset == 4
    assert not any(kind is FetchNoteKind.TRUNCATED for kind, _ in bench.notes)


def test_log_without_epochs_goes_on_at_its_high_watermark() -> None:
    bench = FollowerBench()
    bench.leading.append(2)
    bench.run(1)
    bench.leading.append(2, commits=False)
    bench.run(1)
    bench.log.epochs.clear()
    bench.follow(0)

    assert bench.log.log_end_offset == 2
    assert asked(bench.ask())[0].fetch_offset == 2


def test_leader_that_lost_its_lead_forgets_the_epoch_in_which_it_wrote_nothing() -> None:
    bench = FollowerBench()
    bench.leading.append(2)
    bench.run(2)
    partition = bench.partitions[TP]
    partition.assume(led_by(FOLLOWER, 1, (FOLLOWER, LEADER)))
    bench.fetcher.unfollow(TP)
    assert bench.log.epochs.latest_epoch == 1
    bench.leading.lead_next(2)
    bench.leading.append(1)
    partition.assume(led(2))
    bench.follow(2)
    bench.run(4)

    assert stored(bench.log) == [each.data for each in bench.leading.written]
    assert bench.log.epochs.entries() == [(0, 0), (2, 2)]


def test_divergence_that_changes_nothing_is_not_asked_about_at_once(bench: FollowerBench) -> None:
    bench.leading.append(2)
    bench.run(2)
    bench.ask()
    bench.give(said(high_watermark=2, diverging_epoch=FetchDivergingEpoch(0, 2)))

    assert bench.ask() is None
    assert bench.fetcher.next_due_ms(bench.now_ms) == SETTINGS.backoff_ms


# -- out of range --------------------------------------------------------------------------------


def test_log_longer_than_the_leaders_is_cut_to_it(bench: FollowerBench) -> None:
    """84: an unclean leader whose epochs do not reach ours."""
    bench.leading.append(2)
    bench.leading.append(2)
    bench.run(2)
    bench.leading.lead_next(1, keeps=2)
    bench.leading.errors = [ErrorCode.OFFSET_OUT_OF_RANGE]
    bench.follow(1)
    bench.run(1)
    request = bench.ask()
    assert isinstance(request, ListOffsetsRequest)
    assert (request.replica_id, request.topics[0].partitions[0].timestamp) == (FOLLOWER, -1)
    bench.give(bench.leader.answer(request))

    assert bench.log.log_end_offset == 2
    bench.run(2)
    assert stored(bench.log) == [each.data for each in bench.leading.written]


def test_log_that_ends_below_the_leaders_start_begins_anew(bench: FollowerBench) -> None:
    """84."""
    bench.leading.append(2)
    bench.run(2)
    for _ in range(3):
        bench.leading.append(2)
    bench.leading.delete_before(6)
    bench.run(6)

    assert (bench.log.log_start_offset, bench.log.log_end_offset) == (6, 8)
    assert stored(bench.log) == [each.data for each in bench.leading.written]
    asked_for = [each for each in bench.leader.requests if isinstance(each, ListOffsetsRequest)]
    assert [each.topics[0].partitions[0].timestamp for each in asked_for] == [-1, -2]


def test_offset_within_the_leaders_range_is_asked_again_after_a_pause(
    bench: FollowerBench,
) -> None:
    bench.leading.append(2)
    bench.run(2)
    bench.leading.errors = [ErrorCode.OFFSET_OUT_OF_RANGE]
    bench.run(3)

    assert bench.ask() is None
    bench.now_ms += SETTINGS.backoff_ms
    assert asked(bench.ask())[0].fetch_offset == 2


def test_refused_question_for_offsets_is_asked_again_after_a_pause(bench: FollowerBench) -> None:
    bench.leading.errors = [ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    bench.run(2)

    assert bench.ask() is None
    bench.now_ms += SETTINGS.backoff_ms
    assert asked(bench.ask()).keys() == {0}


def test_offsets_of_an_epoch_that_is_over_count_for_nothing(bench: FollowerBench) -> None:
    bench.leading.append(2)
    bench.run(2)
    bench.leading.errors = [ErrorCode.OFFSET_OUT_OF_RANGE]
    bench.run(1)
    request = bench.ask()
    assert isinstance(request, ListOffsetsRequest)
    bench.leading.written.clear()
    answer = bench.leader.answer(request)
    bench.follow(1)
    bench.give(answer)

    assert bench.log.log_end_offset == 2


# -- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_LEADER_EPOCH,  # 71
        ErrorCode.NOT_LEADER_OR_FOLLOWER,  # 72
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_refused_partition_pauses_and_others_go_on(code: ErrorCode) -> None:
    bench = FollowerBench(partitions=2)
    bench.run(2)
    bench.leading.errors = [code]
    bench.run(1)
    bench.run(1)
    request = bench.last_request
    assert isinstance(request, FetchRequest)
    assert [each.partitions for each in request.forgotten_topics_data] == [[0]]
    bench.now_ms += SETTINGS.backoff_ms - 1
    bench.run(1)
    assert asked(bench.last_request) == {}
    bench.now_ms += 1

    assert asked(bench.ask()).keys() == {0}


def test_leader_that_has_not_heard_of_the_partition_is_asked_again_soon(
    bench: FollowerBench,
) -> None:
    """A follower may learn of an election, or of a topic, before the leader does."""
    bench.leading.errors = [ErrorCode.UNKNOWN_LEADER_EPOCH] * 7
    pauses = []
    for _ in range(7):
        bench.run(1)
        due_ms = bench.fetcher.next_due_ms(bench.now_ms)
        assert due_ms is not None
        pauses.append(due_ms - bench.now_ms)
        bench.now_ms = due_ms
    assert pauses == [31, 62, 125, 250, 500, 1000, 1000]
    # Nobody wants to read of every new topic; of one that is not led after a second, yes.
    assert bench.notes == [(FetchNoteKind.DELAYED, TP)] * 2

    bench.run(1)
    bench.follow(1)
    bench.leading.errors = [ErrorCode.UNKNOWN_LEADER_EPOCH]
    bench.run(1)
    assert bench.fetcher.next_due_ms(bench.now_ms) == bench.now_ms + 31, "another epoch"


def test_fenced_partition_waits_for_the_metadata(bench: FollowerBench) -> None:
    """70."""
    bench.leading.lead_next(1)
    bench.run(1)
    assert list(bench.fetcher.failed) == [TP]
    bench.now_ms += 10 * SETTINGS.backoff_ms
    assert bench.ask() is None
    bench.leading.append(1)
    bench.follow(1)
    bench.run(2)

    assert bench.log.log_end_offset == 1
    assert bench.fetcher.failed == {}


def test_damaged_batch_is_fetched_again_after_a_pause(bench: FollowerBench) -> None:
    bench.leading.append(2)
    damaged = bytearray(bench.leading.written[0].data)
    damaged[-1] ^= 1
    bench.ask()
    bench.give(said(high_watermark=2, log_start_offset=0, records=bytes(damaged)))

    assert (bench.log.log_end_offset, bench.ask()) == (0, None)
    bench.now_ms += SETTINGS.backoff_ms
    bench.run(1)
    assert bench.log.log_end_offset == 2


def test_broken_connection_pauses_everything_and_ends_the_session() -> None:
    bench = FollowerBench(partitions=2)
    bench.run(2)
    bench.ask()
    bench.lose()
    assert bench.ask() is None
    assert bench.fetcher.next_due_ms(bench.now_ms) == SETTINGS.backoff_ms
    bench.now_ms += SETTINGS.backoff_ms
    request = bench.ask()

    assert asked(request).keys() == {0, 1}
    assert isinstance(request, FetchRequest)
    assert request.session_epoch == 0


def test_full_disk_pauses_the_partition_until_there_is_room(bench: FollowerBench) -> None:
    bench.leading.append(2)
    bench.run(1)
    bench.leading.append(2)
    bench.disk.fs.fail_matching("pwrite", "*.log", errno.ENOSPC)
    bench.run(1)
    assert (bench.log.log_end_offset, bench.log.failure) == (2, None)
    assert bench.fetcher.failed == {}
    bench.now_ms += SETTINGS.backoff_ms
    bench.run(1)

    assert bench.log.log_end_offset == 4


def test_full_disk_while_an_empty_log_begins_inside_a_batch_is_only_a_pause(
    bench: FollowerBench,
) -> None:
    bench.leading.append(10)
    bench.leading.append(1)
    bench.leading.delete_before(4)
    bench.run(3)
    assert (bench.log.log_start_offset, bench.log.log_end_offset) == (4, 4)
    # The log begins anew at the batch's base, and then takes nothing.
    bench.disk.fs.fail_matching("pwrite", "*.log", errno.ENOSPC)
    bench.run(1)
    assert bench.log.log_end_offset == 0
    for _ in range(2):
        bench.now_ms += SETTINGS.backoff_ms
        bench.run(6)

    assert bench.fetcher.failed == {}
    assert (bench.log.log_start_offset, bench.log.log_end_offset) == (4, 11)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EMFILE])
def test_epochs_that_cannot_be_written_do_not_keep_the_log_start_back(
    bench: FollowerBench, error: int
) -> None:
    bench.leading.append(10)
    bench.leading.append(1)
    bench.run(3)
    bench.leading.delete_before(4)
    bench.disk.fs.fail_matching("*", "*leader-epoch-checkpoint*", error)
    bench.run(2)
    assert bench.log.log_start_offset == 4
    assert bench.fetcher.failed == {}
    # The file still has what the log has not, and a load cuts it.
    bench.restart(0)
    assert bench.log.epochs.entries() == [(0, bench.log.log_start_offset)]
    bench.leading.append(3)
    bench.run(6)

    assert (bench.log.log_start_offset, bench.log.log_end_offset) == (4, 14)


def test_lost_epoch_that_cannot_be_cut_from_its_file_stops_nothing(bench: FollowerBench) -> None:
    bench.leading.append(2)
    bench.run(2)
    partition = bench.partitions[TP]
    partition.assume(led_by(FOLLOWER, 1, (FOLLOWER, LEADER)))
    bench.fetcher.unfollow(TP)
    bench.leading.lead_next(2)
    bench.leading.append(1)
    partition.assume(led(2))
    bench.follow(2)
    bench.disk.fs.fail_matching("*", "*leader-epoch-checkpoint*", errno.EMFILE)
    bench.run(4)

    assert bench.fetcher.failed == {}
    assert stored(bench.log) == [each.data for each in bench.leading.written]
    assert bench.log.epochs.entries() == [(0, 0), (2, 2)]


def test_log_that_takes_no_writes_is_not_fetched_any_more(bench: FollowerBench) -> None:
    bench.leading.append(2)
    bench.log.fail("fsync failed")
    bench.run(1)

    assert list(bench.fetcher.failed) == [TP]
    assert bench.ask() is None


def test_answer_about_partitions_that_were_not_asked_for_is_not_used(bench: FollowerBench) -> None:
    bench.ask()
    stranger = FetchPartitionResponse(partition_index=7, records=b"")
    bench.give(
        FetchResponse(responses=[FetchTopicResponse(topic_id=TOPIC_ID, partitions=[stranger])])
    )

    assert bench.log.log_end_offset == 0
    bench.now_ms += SETTINGS.backoff_ms
    assert asked(bench.ask()).keys() == {0}


# -- throttle ------------------------------------------------------------------------------------


class _Holding:
    is_active = True

    def __init__(self) -> None:
        self.held: set[TopicPartition] = set()

    def holds(self, topic_partition: TopicPartition, now_ms: int) -> bool:
        return topic_partition in self.held


def test_throttled_partition_is_left_out_unless_it_is_in_sync() -> None:
    throttle = _Holding()
    bench = FollowerBench(partitions=2)
    bench.fetcher = ReplicaFetcher(SETTINGS, throttle)
    for topic_partition in bench.partitions:
        bench.follow(0, topic_partition)
    bench.leading.append(1)
    throttle.held = {TP, TopicPartition("t", 1)}
    assert asked(bench.ask()).keys() == {0, 1}, "both are in the ISR"
    bench.lose()
    bench.now_ms += SETTINGS.backoff_ms
    bench.partitions[TP].assume(led(0, in_sync=False))
    bench.run(2)
    assert bench.log.log_end_offset == 0
    throttle.held.clear()
    bench.run(2)

    assert bench.log.log_end_offset == 1


def test_throttled_partition_is_looked_at_again() -> None:
    throttle = _Holding()
    bench = FollowerBench()
    bench.fetcher = ReplicaFetcher(SETTINGS, throttle)
    bench.follow(0)
    bench.partitions[TP].assume(led(0, in_sync=False))
    throttle.held = {TP}
    assert bench.ask() is None
    due_ms = bench.fetcher.next_due_ms(bench.now_ms)
    assert due_ms == SETTINGS.backoff_ms
    throttle.held.clear()
    bench.now_ms = due_ms

    assert bench.fetcher.next_due_ms(bench.now_ms) == due_ms
    assert asked(bench.ask()).keys() == {0}
