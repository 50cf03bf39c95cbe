"""Scripts about the transaction coordinator: ids, epochs, partitions, ends, and what is shown."""

import time
from functools import partial

from tests.compat.both_brokers import FromSide, Side
from tests.compat.txn_pen import TIMEOUT_MS, Pen, each_version, script

MAX_TIMEOUT_MS = 900_000
INIT_VERSIONS = range(6)
ADD_VERSIONS = range(6)
OLD_END_VERSIONS = range(5)


# -- InitProducerId --------------------------------------------------------------------------------


def init_twice(pen: Pen, version: int) -> None:
    pen.init(version)
    pen.init(version)
    pen.describe()


def bad_inits(pen: Pen, version: int) -> None:
    pen.init(version, transactional_id="")
    for timeout_ms in (0, -1, MAX_TIMEOUT_MS + 1):
        pen.init(version, transaction_timeout_ms=timeout_ms)
    pen.describe()
    pen.init(version, transaction_timeout_ms=MAX_TIMEOUT_MS)
    pen.init(version, transaction_timeout_ms=1)
    pen.describe()


def expected_epochs(pen: Pen, version: int) -> None:
    pen.init(version, producer_id=-1, producer_epoch=5)
    pen.init(version, producer_id=5, producer_epoch=-1)
    pen.init(version, producer_id=4000, producer_epoch=7)
    pen.expecting(version)
    pen.expecting(version, epoch=-1)
    pen.expecting(version, epoch=-2)
    pen.expecting(version, epoch=1)
    pen.expecting(version, pid=1)
    pen.expecting(version, pid=1, epoch=32_766)
    pen.init(version)
    pen.expecting(version, epoch=-1)
    pen.describe()


def init_while_open(pen: Pen, end_version: int) -> None:
    """The second InitProducerId aborts the transaction and fences its producer."""
    pen.init()
    pen.add(0, version=3)
    pen.produce(11)
    pen.init(transaction_timeout_ms=TIMEOUT_MS + 1)
    pen.settled()
    pen.describe()
    pen.end(True, end_version)
    pen.end(False, end_version)
    pen.add(1, version=3)
    pen.produce(11, sequence=1)
    pen.init()
    pen.settled()
    pen.end(True, end_version, epoch=-2)
    pen.read()
    pen.producers(0)


# -- AddPartitionsToTxn, AddOffsetsToTxn -----------------------------------------------------------


def add_refused(pen: Pen, version: int) -> None:
    pen.add(0, version=version)
    pen.init()
    pen.add(0, version=version, pid=1)
    pen.add(0, version=version, epoch=-1)
    pen.add(0, version=version, epoch=1)
    pen.add(0, version=version, tid="")
    pen.add(version=version, topics=[("nowhere", [0])])
    pen.add(version=version, topics=[("a b", [0])])
    pen.add(version=version, topics=[(pen.topic, [0, 9])])
    pen.add(version=version, topics=[("nowhere", [0]), (pen.topic, [0])])
    pen.add(version=version, topics=[(pen.topic, [0]), ("__consumer_offsets", [0])])
    pen.add(version=version, topics=[("__transaction_state", [0])])
    pen.describe()


def add_taken(pen: Pen, version: int) -> None:
    pen.init()
    pen.add(version=version, topics=[])
    pen.describe()
    pen.add(0, version=version)
    pen.describe()
    pen.add(0, version=version)
    pen.add(0, 1, 1, version=version)
    pen.add(2, 0, version=version)
    pen.describe()
    pen.add(1, version=version, epoch=-1)


def add_after_the_end(pen: Pen, version: int) -> None:
    pen.init()
    for committed in (True, False):
        pen.add(0, version=version)
        pen.end(committed, 4)
        pen.settled()
    pen.add(1, version=version)
    pen.describe()


def verify(pen: Pen, version: int) -> None:
    ask = partial(pen.add, version=version, verify_only=True)
    ask(0)
    pen.init()
    ask(0)
    pen.add(0, version=3)
    ask(0)
    ask(0, 1)
    ask(0, pid=1)
    ask(0, epoch=-1)
    ask(0, epoch=1)
    ask(topics=[("nowhere", [0])])
    ask(topics=[("nowhere", [0]), (pen.topic, [0, 1])])
    ask(0, tid="")
    pen.end(True, 4)
    pen.settled()
    ask(0)


def several_at_once(pen: Pen, version: int) -> None:
    """Brokers ask for many transactions in one request."""
    pen.init()
    topics = [{"name": pen.topic, "partitions": [0]}]
    one = {
        "transactional_id": pen.tid,
        "producer_id": pen.pid(),
        "producer_epoch": pen.epoch(),
        "topics": topics,
    }
    unknown = one | {"transactional_id": "unknown"}
    pen.ask("two", "AddPartitionsToTxn", version, {"transactions": [one, unknown]})
    pen.describe()


def add_offsets(pen: Pen, version: int) -> None:
    pen.add_offsets(version)
    pen.init()
    pen.add_offsets(version, pid=1)
    pen.add_offsets(version, epoch=-1)
    pen.add_offsets(version, epoch=1)
    pen.add_offsets(version, transactional_id="")
    pen.add_offsets(version, group_id="")
    pen.describe()
    pen.add_offsets(version)
    pen.add_offsets(version)
    pen.describe()


# -- EndTxn ----------------------------------------------------------------------------------------


def end_refused(pen: Pen, version: int) -> None:
    pen.end(True, version)
    pen.init()
    pen.end(True, version, transactional_id="")
    pen.end(True, version, transactional_id="unknown")
    pen.end(True, version)
    pen.end(False, version, pid=1)
    pen.end(True, version, epoch=1)
    pen.end(True, version, epoch=-1)
    pen.init()
    pen.end(True, version, epoch=-1)
    pen.end(False, version, epoch=-1)
    pen.end(False, version, epoch=-2)
    pen.describe()


def end_without_a_transaction(pen: Pen, version: int) -> None:
    pen.init()
    pen.end(False, version)
    pen.settled()
    pen.describe()
    pen.end(False, version)
    pen.settled()
    pen.describe()


def ended_again(pen: Pen, version: int, committed: bool, epochs: tuple[int, ...]) -> None:
    """Every repeat, in every epoch that a client may have."""
    pen.init()
    pen.add(0, version=3)
    pen.end(committed, version)
    pen.settled()
    pen.describe()
    for epoch in epochs:
        for again in (True, False):
            # TV2 takes an abort of the transaction that is next, and bumps the epoch.
            if version < 5 or again or epoch != 0:
                pen.end(again, version, epoch=epoch)
                pen.settled()
    pen.describe()
    pen.add(1, version=3)
    pen.end(not committed, version)
    pen.settled()
    pen.describe()


def ended_while_open(pen: Pen, version: int) -> None:
    """The next transaction is open; a late EndTxn of the one before it comes."""
    pen.init()
    pen.add(0, version=3)
    pen.end(True, version)
    pen.settled()
    pen.add(1, version=3)
    pen.end(True, version, epoch=-1)
    pen.end(False, version, epoch=-1)
    pen.end(True, version, epoch=1)
    pen.describe()
    pen.end(False, version)
    pen.settled()
    pen.describe()


# -- what is shown ---------------------------------------------------------------------------------


def find_coordinator(pen: Pen, version: int) -> None:
    for key in (pen.tid, "", "a b", "x" * 300):
        fields = {"key": key, "key_type": 1, "coordinator_keys": [key]}
        pen.ask(f"find {key[:10]!r}", "FindCoordinator", version, fields)
    both = {"key": "a", "key_type": 1, "coordinator_keys": ["a", "b"]}
    pen.ask("find two", "FindCoordinator", version, both)


def shown(pen: Pen) -> None:
    unknown = {"transactional_ids": ["unknown", pen.tid, ""]}
    pen.ask("describe three", "DescribeTransactions", 0, unknown)
    pen.init(transaction_timeout_ms=7_000)
    pen.describe()
    pen.add(2, 0, version=3)
    pen.describe()
    pen.end(True, 4)
    pen.settled()
    pen.describe()
    pen.ask("describe twice", "DescribeTransactions", 0, {"transactional_ids": [pen.tid] * 2})


def none_but_elapsed(side: Side, version: int) -> int:
    """Brokers count the age of a transaction in whole milliseconds, and want more than this one:
    on a fast machine it is not a millisecond old yet."""
    start_ms = time.time_ns() // 1_000_000
    while time.time_ns() // 1_000_000 <= start_ms + 1:
        pass
    return 0


def listed(pen: Pen, version: int) -> None:
    pen.init()

    def ask(label: str, **filters: object) -> None:
        own = {"producer_id_filters": [pen.pid()], **filters}
        pen.ask(label, "ListTransactions", version, own)

    ask("own")
    ask("empty", state_filters=["Empty"])
    ask("ongoing", state_filters=["Ongoing"])
    ask("small letters", state_filters=["empty"])
    ask("nonsense", state_filters=["Nonsense"])
    ask("nonsense and empty", state_filters=["Nonsense", "Empty"])
    ask("dead", state_filters=["Dead"])
    ask("all", state_filters=["Empty", "Ongoing", "PrepareCommit", "CompleteAbort"])
    pen.add(0, version=3)
    ask("own, ongoing", state_filters=["Ongoing"])
    ask("another id", producer_id_filters=[-1])
    if version >= 1:
        ask("long", duration_filter=3_600_000)
        ask("short", duration_filter=FromSide(none_but_elapsed))
        ask("no duration", duration_filter=-1)
    if version >= 2:
        for pattern in (pen.tid, "id of listed.*", "id", "", "(", ".*[0-9]", "(?i)ID OF.*"):
            ask(f"like {pattern}", transactional_id_pattern=pattern)
    pen.end(False, 4)
    pen.settled()
    ask("ended")
    if version >= 1:
        ask("ended, short", duration_filter=0)


SCRIPTS = [
    *each_version("init", init_twice, INIT_VERSIONS),
    *each_version("bad inits", bad_inits, (0, 1, 2, 5)),
    *each_version("expected epochs", expected_epochs, (3, 4, 5)),
    *(
        script(f"init while open, end v{each}", partial(init_while_open, end_version=each))
        for each in (1, 4, 5)
    ),
    *each_version("add refused", add_refused, ADD_VERSIONS),
    *each_version("add taken", add_taken, ADD_VERSIONS),
    *each_version("add after the end", add_after_the_end, (3, 4, 5)),
    *each_version("verify", verify, (4, 5)),
    *each_version("several at once", several_at_once, (4, 5)),
    *each_version("add offsets", add_offsets, range(5)),
    *each_version("end refused", end_refused, range(6)),
    *each_version("end without a transaction", end_without_a_transaction, (1, 4, 5)),
    *(
        script(
            f"ended again v{version} {'commit' if committed else 'abort'}",
            partial(ended_again, version=version, committed=committed, epochs=epochs),
        )
        for version, epochs in ((4, (0, -1)), (5, (-1, -2, 0, 1)))
        for committed in (True, False)
    ),
    *each_version("ended while open", ended_while_open, (4, 5)),
    *each_version("find coordinator", find_coordinator, range(1, 7)),
    script("shown", shown),
    *each_version("listed", listed, range(3)),
]
