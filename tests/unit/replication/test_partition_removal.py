"""A hosted partition and its removal marks: what is written when, and what a follower does."""

import errno
from dataclasses import replace
from typing import Any

import pytest

from ledgerstone.errors import LogStorageError
from ledgerstone.protocol.codec import encode_request
from ledgerstone.protocol.messages.fetch import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    FetchTopicResponse,
)
from ledgerstone.replication.fetching.followed import FetchNoteKind
from ledgerstone.replication.partition import Partition
from ledgerstone.replication.partition_removal import (
    CleaningKnowledge,
    FollowerReport,
    PartitionRemoval,
)
from ledgerstone.replication.removal import LeaderWord
from ledgerstone.storage.removal_marks import encode_marks
from tests.kit.followers import FOLLOWER, LEADER, TOPIC_ID, TP, FollowerBench, led
from tests.kit.logs import batch
from tests.kit.roles import led_by

MARKS = f"/data/{TP}/removal-marks"
COMPACTED: Any = {"cleanup_policy": ("compact",)}


class Bench(FollowerBench):
    """A follower of a compacted topic; `clean_to` is what its cleaner says."""

    def __init__(self) -> None:
        self.clean_to = 0
        super().__init__()
        self.coordinate()
        self.follow(1)

    def coordinate(self) -> None:
        knowledge = CleaningKnowledge(lambda _: self.clean_to, lambda _: None)
        partition = self.partitions[TP]
        partition.log.reconfigure(replace(partition.log.config, **COMPACTED))
        partition.removal = PartitionRemoval(log=partition.log, knowledge=knowledge)

    @property
    def partition(self) -> Partition:
        return self.partitions[TP]

    @property
    def removal(self) -> PartitionRemoval:
        assert self.partition.removal is not None
        return self.partition.removal

    @property
    def on_disk(self) -> bytes | None:
        content = self.disk.fs.files().get(MARKS)
        return None if content is None else bytes(content)

    def out_of_sync(self, epoch: int) -> None:
        self.partition.assume(led(epoch, in_sync=False))
        self.take(self.fetcher.follow(TP, TOPIC_ID, self.partition, epoch))


def said(records: bytes = b"", **fields: int) -> FetchResponse:
    told = {"high_watermark": 0, "log_start_offset": 0, **fields}
    one = FetchPartitionResponse(partition_index=0, records=records, **told)  # type: ignore[arg-type]
    return FetchResponse(responses=[FetchTopicResponse(topic_id=TOPIC_ID, partitions=[one])])


def values(*offsets: int) -> bytes:
    return b"".join(bytes(batch(("k", str(each)), base_offset=each)) for each in offsets)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def asked(bench: Bench) -> FetchPartition:
    request = bench.ask()
    assert isinstance(request, FetchRequest)
    return request.topics[0].partitions[0]


def test_a_follower_of_a_topic_that_is_not_compacted_says_nothing() -> None:
    plain = FollowerBench()

    one = asked(plain)  # type: ignore[arg-type]

    assert (one.clean_to, one.removed_to) == (-1, -1)


def test_what_is_not_told_is_not_sent() -> None:
    """Apache Kafka gets the bytes of Apache Kafka."""

    def encoded(told: int) -> int:
        one = FetchPartition(partition=0, fetch_offset=3, clean_to=told, removed_to=told)
        request = FetchRequest(topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[one])])
        pieces: list[Any] = list(encode_request(request, 17))
        return sum(len(each) for each in pieces)

    # Tag, size and value of each; a tag of 10,000 takes two bytes.
    assert encoded(0) - encoded(-1) == 2 * (2 + 1 + 8)


def test_a_follower_reports_how_far_it_is_clean(bench: Bench) -> None:
    bench.clean_to = 0

    assert (asked(bench).clean_to, asked_again(bench).removed_to) == (0, 0)


def asked_again(bench: Bench) -> FetchPartition:
    bench.give(said(values(0), removable_to=0, removed_to=0, clean_to=0))
    return asked(bench)


def test_what_the_leader_lacks_is_noted_before_it_is_copied(bench: Bench) -> None:
    bench.ask()

    bench.give(said(values(4), removable_to=0, removed_to=3, clean_to=9))

    assert bench.log.log_end_offset == 5
    assert bench.on_disk == encode_marks(3)
    assert asked(bench).removed_to == 3


def test_records_are_not_taken_if_the_mark_cannot_be_written(bench: Bench) -> None:
    bench.ask()
    removal = bench.removal
    assert removal.removed_to == 0

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ledgerstone.replication.partition_removal.write_atomically", refuse)
        with pytest.raises(LogStorageError, match="removal marks were not written"):
            bench.partition.hear(LeaderWord(0, 3, 9), has_records=True)

    assert removal.removed_to == 0


def test_a_log_that_may_need_what_its_leader_lacks_is_copied_again(bench: Bench) -> None:
    bench.ask()
    bench.give(said(values(0, 1), high_watermark=2, removable_to=0, removed_to=0, clean_to=0))
    bench.out_of_sync(2)
    assert bench.log.log_end_offset == 2
    bench.ask()

    bench.give(said(values(5), removable_to=0, removed_to=4, clean_to=4))

    assert (bench.log.log_start_offset, bench.log.log_end_offset) == (0, 0)
    assert bench.notes[-1][0] is FetchNoteKind.REBUILT
    assert bench.removal.rebuilds == 1
    assert asked(bench).fetch_offset == 0
    # And this time what is missing is missing for good.
    bench.give(said(values(5), removable_to=0, removed_to=4, clean_to=4))
    assert bench.log.log_end_offset == 6
    assert bench.on_disk == encode_marks(4)


def test_a_rebuild_whose_mark_cannot_be_written_goes_on(bench: Bench) -> None:
    bench.ask()
    bench.give(said(values(0, 1), high_watermark=2, removable_to=0, removed_to=1, clean_to=1))
    bench.out_of_sync(2)
    bench.ask()
    bench.disk.fs.fail_matching("*", MARKS + "*", errno.ENOSPC)
    bench.give(said(values(5), removable_to=0, removed_to=4, clean_to=4))
    assert (bench.log.log_start_offset, bench.log.log_end_offset) == (0, 0)
    assert bench.on_disk == encode_marks(1)
    bench.now_ms += bench.settings.backoff_ms

    assert asked(bench).fetch_offset == 0
    bench.give(said(values(5), removable_to=0, removed_to=4, clean_to=4))
    assert (bench.log.log_end_offset, bench.on_disk) == (6, encode_marks(4))


def test_a_replica_in_sync_is_never_wiped(bench: Bench) -> None:
    bench.ask()
    bench.give(said(values(0, 1), high_watermark=2, removable_to=0, removed_to=0, clean_to=0))
    bench.follow(2)
    bench.ask()

    bench.give(said(values(5), removable_to=0, removed_to=4, clean_to=4))

    assert bench.log.log_end_offset == 2
    assert bench.notes[-1][0] is FetchNoteKind.FAILED


def test_a_log_without_marks_may_lack_all_that_passes_have_been_through(bench: Bench) -> None:
    bench.ask()
    bench.give(said(values(0, 1, 2, 3), removable_to=0, removed_to=0, clean_to=0))
    bench.disk.fs.unlink(MARKS)
    bench.clean_to = 3
    bench.coordinate()

    bench.partition.assume(led_by(FOLLOWER, 5, (FOLLOWER,), replicas=(LEADER, FOLLOWER)))

    # As long as it had one replica, nothing was written down.
    word = bench.removal.word()
    assert word is not None
    assert word.removed_to == 3
    assert bench.on_disk == encode_marks(3)


@pytest.mark.parametrize("content", [b"", b"version: 1\nremoved_to: 1\n", b"\xff", b"9" * 99])
def test_marks_that_cannot_be_read_allow_nothing(bench: Bench, content: bytes) -> None:
    bench.ask()
    bench.give(said(values(0, 1), high_watermark=2, removable_to=0, removed_to=0, clean_to=0))
    file = bench.disk.fs.open(MARKS)
    file.truncate(0)
    file.pwrite(content, 0)
    bench.coordinate()

    bench.partition.assume(led_by(FOLLOWER, 5, (FOLLOWER,), replicas=(LEADER, FOLLOWER)))

    assert bench.removal.removed_to == 2


def test_a_log_with_one_replica_is_not_limited_but_remembers(bench: Bench) -> None:
    bench.ask()
    bench.give(said(values(0, 1), high_watermark=2, removable_to=0, removed_to=0, clean_to=0))
    bench.clean_to = 2
    bench.partition.assume(led_by(FOLLOWER, 5, (FOLLOWER,), replicas=(FOLLOWER,)))
    assert bench.removal.standing() is None

    bench.removal.before_removal(2)

    assert bench.on_disk == encode_marks(2)


def test_a_leader_waits_for_its_follower(bench: Bench) -> None:
    bench.ask()
    bench.give(said(values(0, 1, 2), removable_to=0, removed_to=0, clean_to=0))
    bench.clean_to = 3
    bench.partition.assume(led_by(FOLLOWER, 5, (FOLLOWER,), replicas=(LEADER, FOLLOWER)))
    standing = bench.removal.standing()
    assert standing is not None
    assert (standing.removable_to, standing.holder) == (0, f"replica {LEADER} has not reported")

    bench.removal.reported(LEADER, FollowerReport(2, 0))

    standing = bench.removal.standing()
    assert standing is not None
    assert (standing.removable_to, standing.given_up) == (2, ())
    bench.disk.clock.advance(ms=7 * 24 * 3_600_000)
    standing = bench.removal.standing()
    assert standing is not None
    assert standing.removable_to == 3
    assert [each.replica_id for each in standing.given_up] == [LEADER]
