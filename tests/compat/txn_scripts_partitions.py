"""Scripts about partitions and offsets: who may write, markers, readers, pending offsets."""

from functools import partial

from ledgerstone.records.builder import build_batch
from tests.compat.both_brokers import FromSide
from tests.compat.txn_pen import T0, Pen, each_version, script

TV1, TV2 = 11, 12


# -- Produce ---------------------------------------------------------------------------------------


def produce_refused(pen: Pen, version: int) -> None:
    """The client's own adds, as until version 11."""
    pen.produce(version)
    pen.init()
    pen.produce(version)
    pen.add(0, version=3)
    pen.produce(version, partition=1)
    pen.produce(version, epoch=1)
    pen.produce(version, pid=1)
    pen.produce(version, transactional_id=None)
    pen.produce(version, transactional_id="")
    pen.produce(version, transactional_id="unknown")
    pen.produce(version, acks=1)
    pen.produce(version, acks=1, sequence=3)
    pen.produce(version, transactional=False, partition=2)
    pen.ends()
    pen.produce(version)
    pen.produce(version, sequence=5)
    pen.produce(version, sequence=1)
    pen.produce(version, sequence=1)
    pen.ends()
    pen.end(True, 4)
    pen.settled()
    pen.produce(version, sequence=2)
    pen.produce(version, epoch=-1, sequence=2)
    pen.ends()
    pen.read()


def first_sequence(pen: Pen, version: int) -> None:
    """A leader that knows nothing of the producer."""
    pen.init()
    pen.add(0, version=3)
    pen.produce(version, sequence=3)
    pen.produce(version, sequence=0)
    pen.ends()


def two_producers_in_one_request(pen: Pen, version: int) -> None:
    pen.init()
    pen.add(0, 1, version=3)

    def batch(delta: int) -> FromSide:
        return FromSide(
            lambda side, v: build_batch(
                [(T0, b"k", b"v", ())],
                producer_id=pen.pid(delta).get(side, v),
                producer_epoch=pen.epoch().get(side, v),
                base_sequence=0,
                transactional=True,
            )
        )

    data = [{"index": each, "records": batch(each)} for each in (0, 1)]
    fields = {
        "transactional_id": pen.tid,
        "acks": -1,
        "timeout_ms": 5000,
        "topic_data": [{"name": pen.topic, "partition_data": data}],
    }
    pen.ask("two producers", "Produce", version, fields)
    pen.ends()


def implicit_adds(pen: Pen) -> None:
    """Produce 12 adds its partitions; EndTxn 5 gives the epoch of the next transaction."""
    pen.produce(TV2)
    pen.init()
    pen.produce(TV2, sequence=4)
    pen.produce(TV2)
    pen.describe()
    pen.produce(TV2, partition=1, count=3)
    pen.produce(TV2, sequence=1)
    pen.produce(TV2, partition=2, epoch=1)
    pen.produce(TV2, partition=2, pid=1)
    pen.produce(TV2, partition=2, transactional_id="unknown")
    pen.describe()
    pen.end(True, 5)
    pen.settled()
    pen.describe()
    pen.produce(TV2, sequence=2, epoch=-1)
    pen.produce(TV2, sequence=0, epoch=-1)
    pen.produce(TV2, sequence=2)
    pen.produce(TV2)
    pen.end(False, 5)
    pen.settled()
    pen.end(False, 5)
    pen.settled()
    pen.producers(0, 1)
    pen.read()
    pen.read(1)


def changing_protocol(pen: Pen) -> None:
    """A client that finds out between two transactions that the other protocol is there."""
    pen.init()
    pen.add(0, version=3)
    pen.produce(TV1)
    pen.end(True, 4)
    pen.settled()
    pen.expecting()
    pen.produce(TV2)
    pen.end(True, 5)
    pen.settled()
    pen.add(0, version=3)
    pen.produce(TV1)
    pen.end(False, 4)
    pen.settled()
    pen.read()
    pen.producers(0)


# -- readers ---------------------------------------------------------------------------------------


def readers(pen: Pen) -> None:
    pen.init()
    pen.produce(TV2, count=2)
    pen.ends()
    pen.read()
    pen.read(isolation=0)
    pen.producers(0)
    pen.end(False, 5)
    pen.settled()
    pen.produce(TV2, count=2)
    for offset in range(6):
        pen.read(offset=offset)
    pen.end(True, 5)
    pen.settled()
    for offset in range(7):
        pen.read(offset=offset)
    pen.ends()
    pen.ends(timestamp=-2)
    pen.ends(timestamp=-3)
    pen.ends(timestamp=T0)
    pen.ends(timestamp=T0 + 10)


def largest_timestamp(pen: Pen) -> None:
    pen.init()
    pen.produce(TV2, count=2)
    pen.ends(timestamp=T0)
    pen.ends(timestamp=-3)
    pen.end(False, 5)


# -- WriteTxnMarkers -------------------------------------------------------------------------------


def markers(pen: Pen, version: int) -> None:
    pen.init()
    pen.init()
    pen.ask("no markers", "WriteTxnMarkers", version, {"markers": []})
    pen.mark(True, 0, version=version, topic="nowhere")
    pen.mark(True, 9, version=version)
    pen.mark(True, version=version)
    pen.mark(True, 0, 2, version=version)
    pen.ends()
    pen.produce(TV2, partition=1)
    pen.mark(False, 1, version=version, epoch=-1)
    pen.ends(1)
    pen.mark(False, 1, version=version, coordinator_epoch=5)
    pen.ends(1)
    pen.mark(True, 1, version=version, coordinator_epoch=4)
    pen.mark(True, 1, version=version, coordinator_epoch=5)
    pen.mark(True, 1, version=version, coordinator_epoch=5, epoch=1)
    pen.producers(0, 1)


def strict_markers(pen: Pen) -> None:
    """Version 2 says which protocol the client has: TV2 wants a newer epoch than the data's."""
    mark = partial(pen.mark, version=2, transaction_version=2)
    pen.init()
    pen.init()
    pen.produce(TV2)
    mark(True, 0)
    mark(True, 0, epoch=-1)
    pen.ends()
    mark(True, 0, epoch=1)
    pen.ends()
    mark(True, 0, epoch=1)
    mark(False, 0, epoch=1)
    mark(True, 0, epoch=1, coordinator_epoch=3)
    mark(True, 0, epoch=1, coordinator_epoch=2)
    pen.producers(0)
    pen.read()


# -- offsets ---------------------------------------------------------------------------------------


def pending_offsets(pen: Pen, version: int, committed: bool) -> None:
    pen.init()
    pen.offset()
    if version < 5:
        pen.add_offsets()
    pen.commit_offset(5, version)
    pen.offset()
    pen.commit_offset(6, version)
    pen.end(committed, 4 if version < 5 else 5)
    pen.settled()
    pen.offset()
    pen.describe()


def offsets_refused(pen: Pen, version: int) -> None:
    pen.commit_offset(5, version)
    pen.init()
    pen.commit_offset(5, version)
    pen.end(False, 4 if version < 5 else 5)
    pen.settled()
    pen.add_offsets()
    pen.commit_offset(5, version, pid=1)
    pen.commit_offset(5, version, epoch=-1)
    pen.commit_offset(5, version, epoch=1)
    pen.commit_offset(5, version, transactional_id="")
    pen.commit_offset(5, version, transactional_id="unknown")
    pen.commit_offset(5, version, group_id="")
    pen.commit_offset(5, version, topic="nowhere")
    pen.commit_offset(5, version, metadata="m" * 5000)
    pen.commit_offset(5, version, metadata=None)
    if version >= 3:
        pen.commit_offset(6, version, generation_id=3, member_id="nobody")
        pen.commit_offset(6, version, generation_id=3)
        pen.commit_offset(6, version, member_id="nobody")
        pen.commit_offset(6, version, group_instance_id="nobody")
    pen.offset()
    pen.end(True, 4 if version < 5 else 5)
    pen.settled()
    pen.offset()


def overtaken(pen: Pen, committed: bool) -> None:
    """A plain commit after a pending one wins, whatever becomes of the transaction."""
    pen.init()
    pen.commit_offset(5, 5)
    plain = {
        "group_id": pen.group,
        "topics": [
            {"name": pen.topic, "partitions": [{"partition_index": 0, "committed_offset": 9}]}
        ],
    }
    pen.ask("plain commit", "OffsetCommit", 8, plain)
    pen.offset()
    pen.end(committed, 5)
    pen.settled()
    pen.offset()


def pending_and_deleted(pen: Pen) -> None:
    """Groups with pending offsets are not deleted."""
    pen.init()
    pen.commit_offset(5, 5)
    pen.ask("delete group", "DeleteGroups", 2, {"groups_names": [pen.group]})
    topics = [{"name": pen.topic, "partitions": [{"partition_index": 0}]}]
    fields = {"group_id": pen.group, "topics": topics}
    pen.ask("delete offsets", "OffsetDelete", 0, fields)
    pen.offset()
    pen.end(True, 5)
    pen.settled()
    pen.offset()
    pen.ask("delete group", "DeleteGroups", 2, {"groups_names": [pen.group]})


SCRIPTS = [
    *each_version("produce refused", produce_refused, (3, 7, 9, 10, 11)),
    *each_version("first sequence", first_sequence, (10, 11, 12)),
    *each_version("two producers in one request", two_producers_in_one_request, (10, 11)),
    script("implicit adds", implicit_adds),
    script("changing protocol", changing_protocol),
    script("readers", readers),
    script("largest timestamp", largest_timestamp),
    *each_version("markers", markers, (1, 2)),
    script("strict markers", strict_markers),
    *(
        script(
            f"pending offsets v{version} {'commit' if committed else 'abort'}",
            partial(pending_offsets, version=version, committed=committed),
        )
        for version in (0, 2, 3, 4, 5)
        for committed in (True, False)
    ),
    *each_version("offsets refused", offsets_refused, range(6)),
    *(
        script(
            f"overtaken, then {'commit' if committed else 'abort'}",
            partial(overtaken, committed=committed),
        )
        for committed in (True, False)
    ),
    script("pending and deleted", pending_and_deleted),
]
