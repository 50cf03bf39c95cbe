"""Transactions begun on one broker and gone on with on another, which gets its files.

`begin` leaves one transactional id in every state that a broker can be killed in. `go_on` does on
the other broker what clients would do next, and returns every answer and what readers find then.
Which broker did which half must not show in it.
"""

import shutil
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.compat.both_brokers import Case, Outcome, Side
from tests.compat.txn_confluent import Confluent
from tests.compat.txn_pen import Pen, Script, script
from tests.compat.txn_script import run
from tests.compat.txn_served import make_topic
from tests.kit.broker import wait_until

TOPIC: Final = "exchanged"
PARTITIONS: Final = 4
PREPARED_IN: Final = 3
# Never timed out: golden files are read at any later time.
NEVER_MS: Final = 2**31 - 1
SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.max.timeout.ms": str(NEVER_MS),
    "log.retention.ms": "-1",
    "offsets.retention.minutes": str(NEVER_MS),
    "transaction.remove.expired.transaction.cleanup.interval.ms": str(NEVER_MS),
    # Or markers, which are newer than the records, would roll segments.
    "log.roll.hours": "876000",
    # A killed broker leaves its indexes as large as they may grow.
    "log.index.size.max.bytes": "4096",
}
EXCHANGED: Final = (
    "__transaction_state-0",
    "__consumer_offsets-0",
    *(f"{TOPIC}-{number}" for number in range(PARTITIONS)),
)
# What a partition keeps of the broker that it comes to.
OWN_FILES: Final = ("partition.metadata",)
# What the new broker knows of the old files.
KNOWLEDGE: Final = (
    ".kafka_cleanshutdown",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
ENDED: Final = {"prepared commit": "CompleteCommit", "prepared abort": "CompleteAbort"}


# -- the first half --------------------------------------------------------------------------------


def ongoing(pen: Pen) -> None:
    pen.init(transaction_timeout_ms=NEVER_MS)
    pen.produce(12, count=2)
    pen.produce(12, partition=1)
    pen.commit_offset(5, 5)


def ongoing_in_the_old_way(pen: Pen) -> None:
    pen.init(transaction_timeout_ms=NEVER_MS)
    pen.add(0, 2, version=3)
    pen.produce(11)
    pen.add_offsets()
    pen.commit_offset(7, 3)


def only_added(pen: Pen) -> None:
    """The coordinator knows of it, the partition does not."""
    pen.init(transaction_timeout_ms=NEVER_MS)
    pen.add(2, version=3)


def prepared(pen: Pen, committed: bool) -> None:
    """A newer coordinator seems to have been here: the leader refuses the marker, and the decision
    waits for a coordinator that is newer still."""
    pen.init()
    pen.mark(False, PREPARED_IN, coordinator_epoch=1)
    pen.produce(12, partition=PREPARED_IN)
    pen.end(committed, 5)


def ended(pen: Pen, committed: bool) -> None:
    pen.init()
    pen.produce(12, partition=1)
    pen.commit_offset(3, 5)
    pen.end(committed, 5)
    pen.settled()


def fenced(pen: Pen) -> None:
    pen.init()
    pen.init()


FIRST: Final = {
    "ended commit": partial(ended, committed=True),
    "ended abort": partial(ended, committed=False),
    "fenced": fenced,
    "ongoing": ongoing,
    "ongoing old": ongoing_in_the_old_way,
    "only added": only_added,
    "prepared commit": partial(prepared, committed=True),
    "prepared abort": partial(prepared, committed=False),
}


# -- the second half -------------------------------------------------------------------------------


def end_of_ongoing(pen: Pen) -> None:
    pen.describe()
    # Only those with an open transaction: others are forgotten a day after the making.
    pen.producers(0)
    pen.ends(0)
    pen.offset()
    pen.produce(12, sequence=2)
    pen.produce(12, sequence=9)
    pen.end(True, 5, epoch=-1)
    pen.end(True, 5)
    pen.settled()
    pen.offset()
    pen.describe()


def end_of_the_old_way(pen: Pen) -> None:
    pen.describe()
    pen.offset()
    pen.produce(11, sequence=1)
    pen.produce(11, partition=1)
    pen.end(False, 4)
    pen.settled()
    pen.offset()
    pen.describe()


def end_of_only_added(pen: Pen) -> None:
    pen.describe()
    pen.produce(11, partition=2)
    pen.end(True, 4)
    pen.settled()
    pen.describe()


def end_of_prepared(pen: Pen) -> None:
    pen.describe()
    pen.ends(PREPARED_IN)
    pen.produce(12, partition=PREPARED_IN)
    pen.end(False, 5)
    pen.settled()
    pen.describe()


def after_the_end(pen: Pen) -> None:
    pen.describe()
    pen.offset()
    pen.expecting()
    pen.produce(12, partition=1)
    pen.commit_offset(8, 5)
    pen.end(True, 5)
    pen.settled()
    pen.offset()
    pen.describe()


SECOND: Final = {
    "ongoing": end_of_ongoing,
    "ongoing old": end_of_the_old_way,
    "only added": end_of_only_added,
    "prepared commit": end_of_prepared,
    "prepared abort": end_of_prepared,
    "ended commit": after_the_end,
    "ended abort": after_the_end,
    "fenced": after_the_end,
}


def _scripts(half: Any) -> list[Script]:
    return [script(name, write, TOPIC) for name, write in half.items()]


def begin(side: Side) -> None:
    """The broker may be killed after it."""
    make_topic(side.bootstrap, TOPIC, PARTITIONS)
    for each in _scripts(FIRST):
        run(side, each)


def make_topics_only(side: Side) -> None:
    """For the broker that gets the files: it has to know the topics, internal ones too."""
    make_topic(side.bootstrap, TOPIC, PARTITIONS)
    run(side, Script("topics", TOPIC, "any", "any", ()))


class LostMarker(Exception):
    """Kafka counts a marker as written where it knows of no leader yet, as right after its start.

    The transaction hangs from then on. The files have to be given to it anew."""


def go_on(side: Side, work: Path) -> dict[str, Any]:
    """`known` of the side has to be that of the first one."""
    for name, state in ENDED.items():
        wait_until(lambda n=name, s=state: _state(side, n) == s, f"{name} ends", 60.0)  # type: ignore[misc]
    client = Confluent(side.bootstrap, work)
    ends = [client.read(TOPIC, PREPARED_IN, committed=each).position for each in (True, False)]
    if ends[0] != ends[1]:
        raise LostMarker
    answers = {each.name: _without_own(run(side, each)) for each in _scripts(SECOND)}
    return {
        "answers": answers,
        "committed": [client.read(TOPIC, number) for number in range(PARTITIONS)],
        "uncommitted": [
            client.read(TOPIC, number, committed=False) for number in range(PARTITIONS)
        ],
    }


def _without_own(answers: dict[str, Outcome]) -> dict[str, Outcome]:
    """Epochs count a broker's own starts, and each has words of its own."""
    return {
        label: {
            path: value
            for path, value in answer.items()
            if not path.endswith(("leader_epoch", "error_message"))
        }
        for label, answer in answers.items()
        if not isinstance(answer, str)
    }


def _state(side: Side, name: str) -> str:
    asked = {"transactional_ids": [Pen(name).tid]}
    answer: Any = side.ask(Case("", "DescribeTransactions", asked), 0)
    return str(answer.transaction_states[0].transaction_state)


# -- files -----------------------------------------------------------------------------------------


def transplant(source: Path, target: Path) -> None:
    """Neither broker runs. The files of each partition go over; their ids and epochs do not."""
    for name in EXCHANGED:
        _clear(target / name)
        for file in sorted((source / name).iterdir()):
            if file.name not in OWN_FILES:
                shutil.copy(file, target / name)
    for name in KNOWLEDGE:
        (target / name).unlink(missing_ok=True)


def _clear(directory: Path) -> None:
    for file in directory.iterdir():
        if file.name not in OWN_FILES:
            file.unlink()


def unlike(found: Any, expected: Any, at: str = "") -> list[tuple[str, Any, Any]]:
    """Where the two differ."""
    if isinstance(found, dict) and isinstance(expected, dict):
        keys = [*expected, *(key for key in found if key not in expected)]
        return [
            each
            for key in keys
            for each in unlike(found.get(key, "absent"), expected.get(key, "absent"), f"{at}/{key}")
        ]
    return [] if found == expected else [(at, found, expected)]


def plain(found: Any) -> Any:
    """As JSON has it."""
    if isinstance(found, dict):
        return {key: plain(each) for key, each in found.items()}
    if isinstance(found, Iterable) and not isinstance(found, str):
        return [plain(each) for each in found]
    return found
