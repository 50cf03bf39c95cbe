"""`ledgerstone groups describe`: a row tells one story about the deletes a group was to read."""

import json
from typing import Any

import pytest

from ledgerstone.cli.groups import verdict
from ledgerstone.client.groups import GroupLag
from ledgerstone.client.offsets import CommittedOffset, commit_offsets
from ledgerstone.testing.broker import LedgerstoneBroker
from ledgerstone.types import TopicPartition
from tests.kit import command_line

USERS = TopicPartition("users", 0)
MISSED = {"first_offset": 2, "last_offset": 5}


def lag(committed: int | None = 3, start: int = 0) -> GroupLag:
    return GroupLag(
        partition=USERS, committed_offset=committed, log_start_offset=start, log_end_offset=10
    )


@pytest.mark.parametrize(
    ("where", "deletes", "text"),
    [
        (lag(), None, None),
        (lag(), {"margin_ms": None, "missed": None}, "safe"),
        (lag(), {"margin_ms": 3_600_000, "missed": None}, "1.0 h"),
        (lag(), {"margin_ms": 0, "missed": None}, "AT RISK NOW"),
        (lag(), {"margin_ms": None, "missed": MISSED}, "MAY HAVE MISSED 2 to 5"),
        (lag(), {"margin_ms": 1000, "missed": MISSED}, "MAY HAVE MISSED 2 to 5; next 1.0 s"),
        (lag(1, 2), None, "MISSED what was before 2"),
        (lag(1, 2), {"margin_ms": None, "missed": None}, "MISSED what was before 2"),
    ],
)
def test_who_missed_something_is_never_called_safe(
    where: GroupLag, deletes: dict[str, Any] | None, text: str | None
) -> None:
    assert verdict(where, deletes) == text


def test_group_that_came_too_late_for_a_tombstone_is_told_so_once(
    ledgerstone: LedgerstoneBroker,
) -> None:
    # The row once said `MISSED no`, `safe` and `MISSED-DELETES 2 to 2`.
    ledgerstone.topic("users", compacted=True)
    ledgerstone.produce("users", "alice", "1")
    ledgerstone.produce("users", "bob", "2")
    ledgerstone.tombstone("users", "alice")
    with ledgerstone.client() as client:
        commit_offsets(client, "sink", {USERS: CommittedOffset(1)})
    ledgerstone.finish_deletes("users")

    text = described(ledgerstone, "sink")
    (row,) = [line for line in text.splitlines() if line.startswith("users")]
    assert "MAY HAVE MISSED 2 to 2" in row
    assert "safe" not in row
    assert " no " not in row
    (partition,) = json.loads(described(ledgerstone, "sink", "--json"))["partitions"]
    assert partition["missed"]
    assert not partition["missed_records"]
    assert partition["missed_deletes"]["first_offset"] == 2


def described(broker: LedgerstoneBroker, group: str, *options: str) -> str:
    done = command_line.ledgerstone(
        "groups", "describe", group, "--bootstrap", broker.bootstrap, *options
    )
    assert done.code == 0, done.stderr
    return done.stdout
