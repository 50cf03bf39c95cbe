"""What readers and writers of records can ask wrongly: Produce, Fetch, ListOffsets, epochs."""

from typing import Any

from ledgerstone.records.builder import build_batch
from tests.compat.both_brokers import NO_ID, Case, FromSide, Keep, Side, known, topic_id

# A log of 20 records in 4 batches of which the first 7 were deleted; its leader epoch is 0.
LOG = "log"
T0 = 1_700_000_000_000


def _fetch(
    topic: str, partition: int = 0, offset: int = 10, *, ident: Any = None, **more: Any
) -> dict[str, Any]:
    asked = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    topic_fields = {"topic": topic, "topic_id": topic_id(topic) if ident is None else ident}
    return {
        "max_bytes": 1 << 20,
        "topics": [{**topic_fields, "partitions": [asked | more]}],
    }


def _follow(replica_id: int, **more: Any) -> dict[str, Any]:
    """As a follower that is no replica of the log."""
    state = {"replica_id": replica_id, "replica_epoch": 3}
    return _fetch(LOG, **more) | {"replica_id": replica_id, "replica_state": state}


def _list_offsets(topic: str, partition: int, timestamp: int, **more: Any) -> dict[str, Any]:
    asked = {"partition_index": partition, "timestamp": timestamp, **more}
    return {"replica_id": -1, "topics": [{"name": topic, "partitions": [asked]}]}


def _epoch(topic: str, partition: int, epoch: int, **more: Any) -> dict[str, Any]:
    asked = {"partition": partition, "leader_epoch": epoch, **more}
    return {"replica_id": -1, "topics": [{"topic": topic, "partitions": [asked]}]}


def _produce(topic: str, records: Any, partition: int = 0, **more: Any) -> dict[str, Any]:
    data = {"index": partition, "records": records}
    fields = {"acks": -1, "timeout_ms": 5000, **more}
    return {**fields, "topic_data": [_named(topic) | {"partition_data": [data]}]}


def _named(topic: str) -> dict[str, Any]:
    """With its id, for versions that want that; nobody's where there is no such topic."""

    def ident(side: Side, version: int) -> bytes:
        name = topic.replace("{v}", str(version))
        return next((key for key, each in side.topic_ids.items() if each == name), NO_ID)

    return {"name": topic, "topic_id": FromSide(ident)}


def _marker(topic: str, *partitions: int, **more: Any) -> dict[str, Any]:
    """Of a producer with a number of its own for each version."""
    fields = {"producer_epoch": 1, "transaction_result": False, "coordinator_epoch": 0, **more}
    topics = [{"name": topic, "partition_indexes": list(partitions or ([0] * (topic != "two")))}]
    return {"markers": [{"producer_id": 700, "topics": topics, **fields}]}


def _txn_offsets(topic: str, partition: int = 0, group: str = "g") -> dict[str, Any]:
    wanted = {"partition_index": partition, "committed_offset": 5, "committed_metadata": ""}
    return {
        "transactional_id": "t",
        "group_id": group,
        "producer_id": 5,
        "producer_epoch": 0,
        "topics": [{"name": topic, "partitions": [wanted]}],
    }


def _records(records: bytes | bytearray) -> FromSide:
    """Separate bytes for each side: stamping happens in place."""
    return FromSide(lambda *_: bytearray(records))


def _batch(count: int = 1, size: int = 10, **more: Any) -> bytearray:
    return build_batch([(T0, b"k", b"v" * size, ()) for _ in range(count)], **more)


def _broken(position: int, value: int) -> FromSide:
    batch = _batch()
    batch[position] = value
    return _records(batch)


def _keyless() -> FromSide:
    return _records(build_batch([(T0, b"k", b"v", ()), (T0, None, b"v", ())]))


def _late(timestamp: int) -> FromSide:
    return _records(build_batch([(timestamp, b"k", b"v", ())]))


FETCH = [
    Case("fetch", "Fetch", _fetch(LOG)),
    Case("fetch at the end", "Fetch", _fetch(LOG, offset=20)),
    Case("fetch, committed only", "Fetch", _fetch(LOG) | {"isolation_level": 1}),
    Case("fetch the end, committed only", "Fetch", _fetch(LOG, offset=20) | {"isolation_level": 1}),
    Case("fetch an empty partition", "Fetch", _fetch("two", 1, 0)),
    Case("fetch below the start", "Fetch", _fetch(LOG, offset=3)),
    Case("fetch below zero", "Fetch", _fetch(LOG, offset=-1)),
    Case("fetch above the end", "Fetch", _fetch(LOG, offset=21)),
    Case(
        "fetch above the end, committed", "Fetch", _fetch(LOG, offset=21) | {"isolation_level": 1}
    ),
    Case("fetch an unknown topic", "Fetch", _fetch("nowhere", ident=NO_ID)),
    Case("fetch without a topic id", "Fetch", _fetch(LOG, ident=bytes(16)), since=13),
    Case("fetch an unknown partition", "Fetch", _fetch(LOG, 9)),
    Case("fetch a negative partition", "Fetch", _fetch(LOG, -1)),
    Case("fetch at the leader's epoch", "Fetch", _fetch(LOG, current_leader_epoch=0), since=9),
    Case("fetch at a later epoch", "Fetch", _fetch(LOG, current_leader_epoch=7), since=9),
    Case("fetch, last fetched epoch", "Fetch", _fetch(LOG, last_fetched_epoch=0), since=12),
    Case("fetch, diverging", "Fetch", _fetch(LOG, last_fetched_epoch=5), since=12),
    Case(
        "fetch, diverging below the start",
        "Fetch",
        _fetch(LOG, offset=2, last_fetched_epoch=0),
        since=12,
    ),
    Case(
        "fetch, session nobody has",
        "Fetch",
        _fetch(LOG) | {"session_id": 4711, "session_epoch": 3},
        since=7,
    ),
    Case(
        "fetch, session below zero",
        "Fetch",
        _fetch(LOG) | {"session_id": -5, "session_epoch": 3},
        since=7,
    ),
    Case(
        "fetch, session id with the first epoch",
        "Fetch",
        _fetch(LOG) | {"session_id": 4711, "session_epoch": 0},
        since=7,
    ),
    Case(
        "fetch, epoch without a session",
        "Fetch",
        _fetch(LOG) | {"session_id": 0, "session_epoch": 5},
        since=7,
    ),
    Case(
        "fetch, a session begins",
        "Fetch",
        _fetch(LOG) | {"session_epoch": 0},
        since=7,
        keep=(Keep("session{v}", "session_id"),),
    ),
    Case(
        "fetch, another epoch of the session",
        "Fetch",
        _fetch(LOG) | {"session_id": known("session{v}"), "session_epoch": 9},
        since=7,
    ),
    Case(
        "fetch, next epoch of the session",
        "Fetch",
        {"max_bytes": 1 << 20, "session_id": known("session{v}"), "session_epoch": 1},
        since=7,
    ),
    Case(
        "fetch, session that began empty",
        "Fetch",
        {"max_bytes": 1 << 20, "session_epoch": 0},
        since=7,
    ),
    Case(
        "fetch, a session that begins with an error",
        "Fetch",
        _fetch(LOG, offset=500) | {"session_epoch": 0},
        since=7,
    ),
    Case(
        "fetch, a session of an unknown topic",
        "Fetch",
        _fetch("nowhere", ident=NO_ID) | {"session_epoch": 0},
        since=7,
        keep=(Keep("lost{v}", "session_id"),),
    ),
    Case(
        "fetch, again of an unknown topic",
        "Fetch",
        {"max_bytes": 1 << 20, "session_id": known("lost{v}"), "session_epoch": 1},
        since=7,
    ),
    Case("fetch nothing", "Fetch", {"max_bytes": 1 << 20}),
    Case("fetch no bytes", "Fetch", _fetch(LOG) | {"max_bytes": 0}),
    Case("fetch, isolation nobody knows", "Fetch", _fetch(LOG) | {"isolation_level": 9}),
]

LIST_OFFSETS = [
    Case("list offsets, latest", "ListOffsets", _list_offsets(LOG, 0, -1)),
    Case("list offsets, earliest", "ListOffsets", _list_offsets(LOG, 0, -2)),
    Case("list offsets, largest time", "ListOffsets", _list_offsets(LOG, 0, -3), since=7),
    Case("list offsets, largest time too old", "ListOffsets", _list_offsets(LOG, 0, -3), until=6),
    Case("list offsets, local", "ListOffsets", _list_offsets(LOG, 0, -4)),
    Case("list offsets, tiered", "ListOffsets", _list_offsets(LOG, 0, -5)),
    Case("list offsets, pending upload", "ListOffsets", _list_offsets(LOG, 0, -6)),
    Case("list offsets, no such question", "ListOffsets", _list_offsets(LOG, 0, -7)),
    Case("list offsets, long ago", "ListOffsets", _list_offsets(LOG, 0, 0)),
    Case("list offsets, of a record", "ListOffsets", _list_offsets(LOG, 0, T0 + 12)),
    Case("list offsets, in the future", "ListOffsets", _list_offsets(LOG, 0, T0 * 2)),
    Case("list offsets, empty log", "ListOffsets", _list_offsets("two", 0, -3), since=7),
    Case("list offsets, empty log by time", "ListOffsets", _list_offsets("two", 0, 0)),
    Case("list offsets, unknown topic", "ListOffsets", _list_offsets("nowhere", 0, -1)),
    Case("list offsets, unknown partition", "ListOffsets", _list_offsets(LOG, 9, -1)),
    Case(
        "list offsets, later epoch",
        "ListOffsets",
        _list_offsets(LOG, 0, -1, current_leader_epoch=7),
        since=4,
    ),
    Case(
        "list offsets, partition twice",
        "ListOffsets",
        {
            "replica_id": -1,
            "topics": [
                {
                    "name": LOG,
                    "partitions": [
                        {"partition_index": 0, "timestamp": -1},
                        {"partition_index": 0, "timestamp": -2},
                    ],
                }
            ],
        },
    ),
]

EPOCHS = [
    Case("epoch end", "OffsetForLeaderEpoch", _epoch(LOG, 0, 0)),
    Case("epoch end, later than any", "OffsetForLeaderEpoch", _epoch(LOG, 0, 9)),
    Case("epoch end, none", "OffsetForLeaderEpoch", _epoch(LOG, 0, -1)),
    Case("epoch end, unknown topic", "OffsetForLeaderEpoch", _epoch("nowhere", 0, 0)),
    Case("epoch end, unknown partition", "OffsetForLeaderEpoch", _epoch(LOG, 9, 0)),
    Case(
        "epoch end, leader's epoch",
        "OffsetForLeaderEpoch",
        _epoch(LOG, 0, 0, current_leader_epoch=0),
    ),
    Case(
        "epoch end, later leader epoch",
        "OffsetForLeaderEpoch",
        _epoch(LOG, 0, 0, current_leader_epoch=7),
    ),
    Case("epoch end, empty log", "OffsetForLeaderEpoch", _epoch("two", 1, 0)),
]

FOLLOWERS = [
    Case("follow as a stranger", "Fetch", _follow(7)),
    Case("follow as the leader", "Fetch", _follow(1)),
    Case("follow at the leader's epoch", "Fetch", _follow(7, current_leader_epoch=0), since=9),
    Case("follow at a later epoch", "Fetch", _follow(7, current_leader_epoch=7), since=9),
    Case("follow above the end", "Fetch", _follow(7, offset=21)),
    Case("follow, diverging", "Fetch", _follow(7, last_fetched_epoch=5), since=12),
    Case("fetch to debug", "Fetch", _follow(-2)),
    Case("fetch in a rack", "Fetch", _fetch(LOG) | {"rack_id": "r"}, since=11),
    *(
        Case(
            f"list offsets as replica {replica_id}, {name}",
            "ListOffsets",
            _list_offsets(LOG, 0, timestamp) | {"replica_id": replica_id},
        )
        for replica_id in (7, -2)
        for name, timestamp in (("latest", -1), ("in the future", T0 * 2))
    ),
    Case("epoch end as a replica", "OffsetForLeaderEpoch", _epoch(LOG, 0, 0) | {"replica_id": 7}),
    Case(
        "epoch end as a replica, later",
        "OffsetForLeaderEpoch",
        _epoch(LOG, 0, 9) | {"replica_id": 7},
    ),
]

PRODUCE = [
    Case("produce", "Produce", _produce("target-{v}", _records(_batch()))),
    Case("produce, own broker's time", "Produce", _produce("stamped-{v}", _records(_batch()))),
    Case("produce to an unknown topic", "Produce", _produce("nowhere", _records(_batch()))),
    Case("produce to an unknown partition", "Produce",
         _produce("target-{v}", _records(_batch()), 9)),
    Case("produce with acks 2", "Produce", _produce("target-{v}", _records(_batch()), acks=2)),
    Case("produce with acks -2", "Produce", _produce("target-{v}", _records(_batch()), acks=-2)),
    Case("produce nothing", "Produce", {"acks": -1, "timeout_ms": 5000}),
    Case("produce no bytes", "Produce", _produce("target-{v}", _records(b""))),
    Case("produce, checksum wrong", "Produce", _produce("target-{v}", _broken(-1, 0x55))),
    Case("produce, magic 1", "Produce", _produce("target-{v}", _broken(16, 1))),
    Case("produce, magic 3", "Produce", _produce("target-{v}", _broken(16, 3))),
    Case("produce, cut short", "Produce", _produce("target-{v}", _records(_batch()[:40]))),
    Case("produce, too large", "Produce", _produce("small", _records(_batch(size=400)))),
    Case("produce, larger than a segment", "Produce",
         _produce("short-segments", _records(_batch(size=1 << 21)))),
    Case("produce without keys to a compacted topic", "Produce", _produce("compacted", _keyless())),
    Case("produce, too far in the past", "Produce", _produce("timely", _late(T0))),
    Case("produce, too far in the future", "Produce", _produce("timely", _late(T0 * 2))),
    Case("produce, unknown codec", "Produce", _produce("target-{v}", _broken(22, 5))),
    Case("produce, zstd", "Produce", _produce("target-{v}", FromSide(lambda *_: _zstd()))),
    Case("produce, two batches", "Produce", _produce("target-{v}", _records(_batch() + _batch()))),
    Case("produce, control batch", "Produce",
         _produce("target-{v}", FromSide(lambda *_: _batch(control=True, producer_id=1,
                                                      producer_epoch=0, base_sequence=0)))),
    Case("produce, a sequence", "Produce",
         _produce("target-{v}", FromSide(lambda *_: _batch(producer_id=900, producer_epoch=0,
                                                      base_sequence=0)))),
    Case("produce, the same sequence again", "Produce",
         _produce("target-{v}", FromSide(lambda *_: _batch(producer_id=900, producer_epoch=0,
                                                      base_sequence=0)))),
    Case("produce, sequence with a gap", "Produce",
         _produce("target-{v}", FromSide(lambda *_: _batch(producer_id=900, producer_epoch=0,
                                                      base_sequence=40)))),
    Case("produce, a new epoch with a sequence", "Produce",
         _produce("target-{v}", FromSide(lambda *_: _batch(producer_id=900, producer_epoch=1,
                                                      base_sequence=40)))),
    Case("produce to a topic that is internal", "Produce",
         _produce("__consumer_offsets", _records(_batch()))),
    Case("produce to a name that is none", "Produce", _produce("a b", _records(_batch()))),
    Case("produce to an empty name", "Produce", _produce("", _records(_batch()))),
    Case("produce to two topics, one unknown", "Produce",
         FromSide(lambda *_: {"acks": -1, "timeout_ms": 5000, "topic_data": [
             _named("target-{v}") | {"partition_data": [{"index": 0, "records": _batch()}]},
             _named("nowhere") | {"partition_data": [{"index": 0, "records": _batch()}]}]})),
    Case("produce in a transaction without an id", "Produce",
         _produce("target-{v}", FromSide(lambda *_: _batch(producer_id=901, producer_epoch=0,
                                                      base_sequence=0, transactional=True)))),
    Case("produce, an id and no transaction", "Produce",
         _produce("target-{v}", _records(_batch()), transactional_id="t")),
]  # fmt: skip

MARKERS = [
    Case("no markers", "WriteTxnMarkers"),
    Case("marker for an unknown topic", "WriteTxnMarkers", _marker("nowhere")),
    Case("marker for an unknown partition", "WriteTxnMarkers", _marker("two", 9)),
    Case("marker without partitions", "WriteTxnMarkers", _marker("two")),
    Case("marker without a transaction", "WriteTxnMarkers", _marker("two", 0)),
    Case("marker of an older coordinator", "WriteTxnMarkers",
         _marker("two", 0, coordinator_epoch=-1)),
    Case("marker of an older epoch", "WriteTxnMarkers", _marker("two", 0, producer_epoch=0)),
    Case("marker, the same again", "WriteTxnMarkers", _marker("two", 0)),
]  # fmt: skip

TXN_OFFSETS = [
    Case("offsets in a transaction, unknown topic", "TxnOffsetCommit", _txn_offsets("nowhere")),
    Case("offsets in a transaction, unknown partition", "TxnOffsetCommit", _txn_offsets("two", 9)),
    Case("offsets in a transaction, nothing to commit", "TxnOffsetCommit",
         {"transactional_id": "t", "group_id": "g", "producer_id": 5, "producer_epoch": 0}),
    Case("offsets in a transaction, no group", "TxnOffsetCommit", _txn_offsets("two", group="")),
]  # fmt: skip


def _zstd() -> bytearray:
    from ledgerstone.records.batch import Codec

    return _batch(codec=Codec.ZSTD)


CASES = FETCH + LIST_OFFSETS + EPOCHS + FOLLOWERS + PRODUCE + MARKERS + TXN_OFFSETS
