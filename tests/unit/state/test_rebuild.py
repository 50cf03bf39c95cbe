"""The state of a topic from its brokers, from a snapshot on, and when that is refused."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.client.blocking import Client
from ledgerstone.client.isolation_level import IsolationLevel
from ledgerstone.errors import UnknownTopicOrPartition
from ledgerstone.protocol.messages.describe_configs import (
    DescribeConfigsConfig,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from ledgerstone.protocol.messages.fetch import (
    FetchAbortedTransaction,
    FetchPartition,
    FetchPartitionResponse,
)
from ledgerstone.records.batch import read_header
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem
from ledgerstone.state.fold import FoundKey, KeyStatus
from ledgerstone.state.points import AtOffset, AtOffsets, AtTime, PointInTime
from ledgerstone.state.rebuild import Progress, pieces_at, pieces_of, rebuild, resume
from ledgerstone.state.rows import Row, row_at, rows
from ledgerstone.state.snapshot import Snapshot, write_snapshot
from ledgerstone.state.topic_state import (
    StaleSnapshot,
    StateError,
    TopicState,
)
from ledgerstone.types import TopicPartition
from tests.kit.sized import examples
from tests.unit.client.fake_cluster import FakeCluster, FakeLog
from tests.unit.state.model import (
    Model,
    T,
    Written,
    model_of,
    models,
    plain_checksum,
    put,
    small_values,
)

PATH = "/snapshot"
DAY_MS = 86_400_000


class Cluster(FakeCluster):
    """Lists the aborted transactions that an answer touches, and no others, as brokers do."""

    def __init__(self) -> None:
        super().__init__()
        self.models: dict[int, Model] = {}

    def _fetch_partition(self, log: FakeLog, asked: FetchPartition) -> FetchPartitionResponse:
        answer = super()._fetch_partition(log, asked)
        if isinstance(answer.records, bytes):
            header = read_header(answer.records)
            model = self.models[asked.partition]
            touched = model.aborted_within(header.base_offset, header.last_offset)
            answer.aborted_transactions = [FetchAbortedTransaction(*each) for each in touched]
        return answer


def cluster_with(*partitions: Model) -> Cluster:
    cluster = Cluster()
    cluster.topic("t", [1] * len(partitions))
    show(cluster, *partitions)
    return cluster


def show(cluster: Cluster, *partitions: Model) -> None:
    """Makes the logs of topic t these."""
    for number, model in enumerate(partitions):
        log = cluster.logs[TopicPartition("t", number)]
        log.batches = [batch.data for batch in model.batches]
        log.end_offset = model.end_offset
        cluster.models[number] = model


def keep_for(cluster: FakeCluster, retention_ms: int) -> None:
    entry = DescribeConfigsConfig(name="delete.retention.ms", value=str(retention_ms))
    cluster.once(
        DescribeConfigsRequest,
        DescribeConfigsResponse(results=[DescribeConfigsResult(configs=[entry])]),
    )


def new_disk() -> SimFilesystem:
    return SimFilesystem(dice=SeededDice(0))


def save(disk: SimFilesystem, client: Client, state: TopicState, old: Snapshot | None) -> Snapshot:
    write_snapshot(disk, PATH, state, pieces_of(client, state, old))
    return Snapshot(disk, PATH)


def all_rows(client: Client, state: TopicState, old: Snapshot | None = None) -> list[Row]:
    return list(rows(state, pieces_of(client, state, old), deleted=True))


@examples(30)
@given(models(small_values), models(small_values), st.sampled_from(IsolationLevel))
def test_state_is_that_of_all_partitions(
    first: Model, second: Model, isolation: IsolationLevel
) -> None:
    committed = isolation is IsolationLevel.READ_COMMITTED
    tables = [model.state(committed=committed)[0] for model in (first, second)]
    live = [{k: v for k, (_, v) in table.items() if v is not None} for table in tables]

    with cluster_with(first, second).client() as client:
        state = rebuild(client, "t", isolation=isolation)
        found = all_rows(client, state)

    totals = state.totals()
    in_both = [key for key in live[0] if key in live[1]]
    assert totals.live_keys == len(live[0]) + len(live[1])
    assert totals.distinct_keys == totals.live_keys - len(in_both)
    assert totals.keys_in_several_partitions == len(in_both)
    assert state.checksum == sum(map(plain_checksum, live)) % 2**128
    assert state.is_complete
    assert {(row.partition, row.key): (row.offset, row.value) for row in found} == {
        (number, key): entry for number, table in enumerate(tables) for key, entry in table.items()
    }


@examples(30)
@given(models(small_values), st.data())
def test_going_on_from_a_snapshot_is_the_same_as_reading_everything(
    model: Model, data: st.DataObject
) -> None:
    middle = data.draw(st.integers(0, model.end_offset))
    disk = new_disk()
    cluster = cluster_with(model)
    keep_for(cluster, DAY_MS)

    with cluster.client() as client:
        whole = rebuild(client, "t")
        early = save(disk, client, rebuild(client, "t", at=AtOffset(middle)), None)
        if middle < model.end_offset and model.state(start_offset=middle)[1].missing:
            # A point in the past with missing offsets: what they were is unknown.
            with pytest.raises(StaleSnapshot, match="deletes may have been missed"):
                resume(client, early)
            return
        resumed = resume(client, early)
        later = save(disk, client, resumed, early)
        again = later.load(seed=bytes(16))

        assert resumed.checksum == again.checksum == whole.checksum
        assert resumed.totals() == again.totals() == whole.totals()
        assert resumed.counts.records == whole.counts.records
        assert resumed.counts.missing == whole.counts.missing
        assert all_rows(client, resumed, early) == all_rows(client, whole)
        assert list(rows(again, later.pieces(), deleted=True)) == all_rows(client, whole)


def test_going_on_reads_only_what_is_new() -> None:
    model = model_of(put((b"a", b"1"), (b"b", b"2")), put((b"c", b"3")))
    cluster, disk = cluster_with(model), new_disk()
    seen: list[Progress] = []

    with cluster.client() as client:
        snapshot = save(disk, client, rebuild(client, "t"), None)
        model.write(put((b"a", None)))
        show(cluster, model)
        state = resume(client, snapshot, progress=seen.append)

    assert [(each.partition, each.next_offset, each.end_offset) for each in seen] == [
        (TopicPartition("t", 0), 4, 4)
    ]
    assert seen[0].bytes == len(model.batches[-1].data)
    assert state.lookup(b"a") == {0: FoundKey(KeyStatus.DELETED, 3)}
    assert state.counts.deletes_applied == 1


def test_new_partition_is_read_from_its_start() -> None:
    model = model_of(put((b"a", b"1")))
    cluster, disk = cluster_with(model), new_disk()

    with cluster.client() as client:
        snapshot = save(disk, client, rebuild(client, "t"), None)
        cluster.topic("t", [1, 1])
        show(cluster, model, model_of(put((b"b", b"2"))))
        state = resume(client, snapshot)

    assert state.totals().live_keys == 2


def test_record_of_one_key_is_found_without_reading_everything() -> None:
    model = model_of(put((b"a", b"1")), put((b"b", b"2")), put((b"c", b"3")))
    cluster, disk = cluster_with(model), new_disk()

    with cluster.client() as client:
        state = rebuild(client, "t")
        from_log = row_at(state, pieces_at(client, state, None, 0, 1), 1)
        snapshot = save(disk, client, state, None)
        from_file = row_at(state, pieces_at(None, state, snapshot, 0, 1), 1)
        nowhere = row_at(state, pieces_at(client, state, None, 0, 1), 7)

    assert from_log == from_file == Row(0, 1, T + 1, b"b", b"2")
    assert nowhere is None


@pytest.mark.parametrize(
    ("at", "keys"),
    [
        (AtOffset(2), 2),
        (AtOffset(99), 3),
        (AtOffset(0), 0),
        (AtOffsets({0: 1}), 1),
        (AtTime(T + 2), 2),
        (AtTime(T + 99), 3),
    ],
)
def test_point_in_time(at: PointInTime, keys: int) -> None:
    model = model_of(put((b"a", b"1")), put((b"b", b"2")), put((b"c", b"3")))

    with cluster_with(model).client() as client:
        state = rebuild(client, "t", at=at)

    assert state.totals().live_keys == keys
    assert state.is_complete


@pytest.mark.parametrize(
    ("offsets", "error", "reason"),
    [
        ({0: 1, 7: 1}, UnknownTopicOrPartition, "no partition 7"),
        ({}, StateError, "no offset is given for t-0"),
        ({0: 9}, StateError, "offset 9 is given for t-0, which can be read up to 1"),
        ({0: -1}, StateError, "offset -1 is given"),
    ],
)
def test_offsets_that_cannot_be_are_refused(
    offsets: dict[int, int], error: type[Exception], reason: str
) -> None:
    with (
        cluster_with(model_of(put((b"a", b"1")))).client() as client,
        pytest.raises(error, match=reason),
    ):
        rebuild(client, "t", at=AtOffsets(offsets))


def test_past_of_a_compacted_log_may_be_incomplete() -> None:
    model = model_of(
        put((b"a", b"1")),
        Written(records=((b"b", b"2"), (b"c", b"3")), thinned=(0,)),
        put((b"b", b"4")),
    )

    with cluster_with(model).client() as client:
        before_the_gap = rebuild(client, "t", at=AtOffset(1))
        behind_the_gap = rebuild(client, "t", at=AtOffset(3))
        now = rebuild(client, "t")

    assert before_the_gap.because is None
    assert behind_the_gap.because is not None
    assert behind_the_gap.because.startswith(
        "1 offsets of partition 0 below 3 no longer have a record"
    )
    assert now.because is None


def test_later_past_from_a_snapshot_that_may_lack_keys_may_lack_them_too() -> None:
    model = model_of(
        Written(records=((b"a", b"1"), (b"b", b"2")), thinned=(0,)),
        put((b"c", b"3")),
        put((b"a", b"4")),
    )
    cluster, disk = cluster_with(model), new_disk()

    with cluster.client() as client:
        snapshot = save(disk, client, rebuild(client, "t", at=AtOffset(2)), None)
        later = resume(client, snapshot, at=AtOffset(3))
        from_later = resume(client, save(disk, client, later, snapshot), at=AtOffset(3))
        now = resume(client, snapshot)

    assert later.lookup(b"a") == {}  # it was 1 then
    assert later.because == from_later.because == snapshot.manifest.because
    assert later.because is not None
    assert now.because is None


def test_past_of_a_log_without_its_beginning_may_be_incomplete() -> None:
    model = model_of(put((b"a", b"1"), gap=5), put((b"b", b"2")))
    cluster = cluster_with(model)
    cluster.logs[TopicPartition("t", 0)].start_offset = 5

    with cluster.client() as client:
        past = rebuild(client, "t", at=AtOffset(6))
        long_past = rebuild(client, "t", at=AtOffset(3))
        now = rebuild(client, "t")

    assert past.because == long_past.because == "partition 0 starts at offset 5"
    assert past.totals().live_keys == 1
    assert long_past.totals().live_keys == 0
    assert now.because is None


def test_transaction_markers_are_no_gap() -> None:
    model = model_of(
        Written(records=((b"a", b"1"),), producer_id=7),
        Written(producer_id=7, ends=False),
        put((b"b", b"2")),
        put((b"c", b"3")),
    )

    with cluster_with(model).client() as client:
        state = rebuild(client, "t", at=AtOffset(3))

    assert state.is_complete
    assert state.counts.aborted_batches == 1
    assert state.lookup(b"a") == {}


def test_damaged_batch_is_an_error_that_names_its_place() -> None:
    model = model_of(put((b"a", b"1")), put((b"b", b"2")))
    cluster = cluster_with(model)
    log = cluster.logs[TopicPartition("t", 0)]
    log.batches[1] = log.batches[1][:-3] + b"???"

    with (
        cluster.client() as client,
        pytest.raises(StateError, match=r"t-0 from offset 1 on: .*crc"),
    ):
        rebuild(client, "t")


def stale(cluster: Cluster, disk: SimFilesystem, model: Model) -> tuple[Client, Snapshot]:
    client = cluster.client()
    snapshot = save(disk, client, rebuild(client, "t"), None)
    show(cluster, model)
    return client, snapshot


def test_log_that_begins_behind_the_snapshot_is_refused() -> None:
    cluster, model = cluster_with(model_of(put((b"a", b"1")))), model_of(put((b"b", b"2"), gap=4))
    client, snapshot = stale(cluster, new_disk(), model)
    cluster.logs[TopicPartition("t", 0)].start_offset = 4

    with client, pytest.raises(StaleSnapshot, match=r"t-0 up to 1, .* starts at 4.*--rebuild"):
        resume(client, snapshot)


def test_log_that_ends_before_the_snapshot_is_refused() -> None:
    cluster = cluster_with(model_of(put((b"a", b"1"), (b"b", b"2"))))
    client, snapshot = stale(cluster, new_disk(), model_of(put((b"a", b"1"))))

    with client, pytest.raises(StaleSnapshot, match="now ends at 1: it was truncated"):
        resume(client, snapshot)


def test_topic_created_again_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(put((b"a", b"1")))
    cluster = cluster_with(model)
    client, snapshot = stale(cluster, new_disk(), model)
    monkeypatch.setattr("tests.unit.client.fake_cluster.topic_id_of", lambda _: bytes(range(16)))

    with client, pytest.raises(StaleSnapshot, match="deleted and recreated"):
        resume(client, snapshot)


def test_delete_that_may_have_been_missed_is_refused_once_tombstones_may_be_gone() -> None:
    """The tombstone of `a` at offset 1 was compacted away; a resumed state would keep `a`."""
    model = model_of(put((b"a", b"1")), put((b"b", b"2"), gap=1))
    cluster = cluster_with(model_of(put((b"a", b"1"))))
    client, snapshot = stale(cluster, new_disk(), model)
    keep_for(cluster, DAY_MS)
    keep_for(cluster, DAY_MS)

    with client:
        fresh = resume(client, snapshot)
        cluster.clock.advance(ms=DAY_MS)
        with pytest.raises(
            StaleSnapshot, match="1 offsets of partition 0 since 1 no longer have a record"
        ):
            resume(client, snapshot)

    assert fresh.totals().live_keys == 2


def test_snapshot_is_good_for_ever_where_nothing_was_compacted() -> None:
    model = model_of(put((b"a", b"1")), put((b"a", None)))
    cluster = cluster_with(model_of(put((b"a", b"1"))))
    client, snapshot = stale(cluster, new_disk(), model)
    cluster.clock.advance(ms=365 * DAY_MS)

    with client:
        state = resume(client, snapshot)

    assert state.totals().live_keys == 0


def test_what_retention_took_is_forgotten_when_going_on() -> None:
    model = model_of(put((b"a", b"1")), put((b"b", b"2")))
    cluster = cluster_with(model)
    client, snapshot = stale(cluster, new_disk(), model)
    cluster.logs[TopicPartition("t", 0)].start_offset = 1

    with client:
        state = resume(client, snapshot)
        whole = rebuild(client, "t")

    assert state.checksum == whole.checksum == plain_checksum({b"b": b"2"})


def test_past_before_the_snapshot_is_refused() -> None:
    model = model_of(put((b"a", b"1"), (b"b", b"2")))
    client, snapshot = stale(cluster_with(model), new_disk(), model)

    with client, pytest.raises(StateError, match="up to offset 2, but the state asked for ends at"):
        resume(client, snapshot, at=AtOffset(1))


def test_reading_ahead_leaves_no_thread_behind() -> None:
    model = model_of(*(put((b"%d" % n, b"v")) for n in range(20)))
    before = threading.active_count()

    with cluster_with(model).client() as client:
        state = rebuild(client, "t")
        pieces = pieces_of(client, state)
        next(rows(state, pieces))
        pieces.close()

        assert threading.active_count() == before
