"""Assertions about a topic; failures say what was found instead. Shell."""

import json
from collections.abc import Mapping
from typing import Any

from ledgerstone.server.bootstrap import RunningBroker
from ledgerstone.testing.findings import difference, lines_of, places, show
from ledgerstone.testing.local_api import topic_path
from ledgerstone.testing.passes import closed_gates
from ledgerstone.testing.under_test import BrokerUnderTest
from ledgerstone.testing.waiting import wait_until


def assert_gone(cluster: BrokerUnderTest, topic: str, key: bytes) -> None:
    __tracebackhide__ = True
    answer = cluster.where(topic, key)
    if answer["records"]:
        raise AssertionError(
            f"{topic} still holds {show(key)}, {answer['records']} times:\n"
            f"{lines_of(places(topic, answer))}\n"
            f"the broker's time is {cluster.clock.now:%Y-%m-%d %H:%M:%S} UTC; what keeps them:\n"
            f"{lines_of(closed_gates(cluster, topic))}"
        )


def assert_deleted(cluster: BrokerUnderTest, topic: str, key: bytes) -> None:
    __tracebackhide__ = True
    latest = {each.partition: each for each in cluster.records(topic) if each.key == key}
    live = [each for each in latest.values() if not each.is_tombstone]
    if live:
        found = [
            f"{topic}-{each.partition} offset {each.offset}: {show(each.value)}" for each in live
        ]
        hint = ""
        if len(live) < len(latest):
            # The tombstone is in a partition where it deletes nothing.
            astray = [number for number, each in latest.items() if each.is_tombstone]
            hint = f"\nits tombstone is in partition {astray[0]}, where it has no effect on this"
        raise AssertionError(f"{show(key)} is not deleted:\n{lines_of(found)}{hint}")


def assert_state(cluster: BrokerUnderTest, topic: str, expected: Mapping[bytes, bytes]) -> None:
    __tracebackhide__ = True
    found = cluster.state(topic)
    wrong = difference(found, expected)
    if wrong:
        raise AssertionError(
            f"{topic} has {len(found)} live keys, expected {len(expected)}:\n{lines_of(wrong)}"
        )


def erase(
    cluster: BrokerUnderTest,
    topic: str,
    key: str,
    reason: str,
    timeout_s: float,
    *,
    abort_open: bool,
) -> dict[str, Any]:
    """`key` is base64. Returns the receipt; AssertionError if there is none."""
    path = topic_path(topic, "erasures")
    asked = cluster.api.post(
        path, key=key, reason=reason, requested_by="test", abort_open=abort_open
    )
    (made,) = asked["erasures"]

    def over() -> dict[str, Any] | None:
        found = cluster.api.get(f"erasures/{made['id']}")
        until_ms = found["waits_until_ms"]
        if not found["is_over"] and until_ms is not None and until_ms > found["now_ms"]:
            cluster.clock.advance(ms=until_ms - found["now_ms"] + 1)
        return found if found["is_over"] else None

    def describe() -> str:
        found = cluster.api.get(f"erasures/{made['id']}")
        return f"stage {found['status']}, waits for {found['waits_for']}"

    what = f"the erasure {made['id']} of a key of {topic} is done"
    ended = wait_until(over, what, timeout_s, describe)
    if ended["stage"] != "receipted":
        raise AssertionError(f"the erasure ended without a receipt: {ended['stage']}")
    return cluster.on_the_loop(lambda running: _receipt(running, ended["id"]))


def _receipt(running: RunningBroker, erasure_id: str) -> dict[str, Any]:
    erasure = running.broker.erasing.journal.book.get(erasure_id)
    assert erasure is not None
    assert erasure.receipt is not None
    receipt: dict[str, Any] = json.loads(erasure.receipt)
    return receipt
