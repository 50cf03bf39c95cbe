"""Requests cleaning passes and waits for them. Shell, over a broker's thread."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from ledgerstone.cleaner.deadlines import Pending, must_roll, reason_now
from ledgerstone.cleaner.selection import kafka_candidates
from ledgerstone.replication.partition import Partition
from ledgerstone.server.bootstrap import RunningBroker
from ledgerstone.server.broker import Broker
from ledgerstone.testing.findings import gates, lines_of
from ledgerstone.testing.local_api import topic_path
from ledgerstone.testing.under_test import ServesApi
from ledgerstone.testing.waiting import wait_until


class CompactionFailed(AssertionError):
    """A pass failed; the message says which and why."""


class PassResult(NamedTuple):
    """The result of a pass over one partition. If there was none, `refusal` says why."""

    partition: int
    refusal: str | None
    records_before: int = 0
    records_after: int = 0
    superseded: int = 0
    tombstones_stamped: int = 0
    tombstones_removed: int = 0


def compact(cluster: ServesApi, topic: str, timeout_s: float) -> list[PassResult]:
    """A pass over every partition, now; returns when they are done and old files are unlinked."""
    tickets = cluster.api.post(topic_path(topic, "compact"))["tickets"]
    results = []
    for ticket in tickets:
        done = _await_ticket(cluster, ticket, timeout_s)
        results.append(_result(topic, done))
    await_unlinked(cluster, topic, timeout_s)
    return results


def _await_ticket(cluster: ServesApi, ticket: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    def done() -> dict[str, Any] | None:
        found = cluster.api.get(f"tickets/{ticket['ticket']}")
        return found if found["done"] else None

    topic = ticket["topic"]
    what = f"the pass over {topic}-{ticket['partition']} is done"
    return wait_until(done, what, timeout_s, lambda: _situation(cluster, topic))


def _result(topic: str, ticket: dict[str, Any]) -> PassResult:
    run = ticket["run"]
    if run is None:
        return PassResult(ticket["partition"], ticket["refusal"])
    if run["outcome"] != "cleaned":
        raise CompactionFailed(
            f"the pass over {topic}-{ticket['partition']} was {run['outcome']}: {run['detail']}"
        )
    stats = run["stats"]
    return PassResult(
        ticket["partition"],
        None,
        records_before=stats["records_read"],
        records_after=stats["records_kept"],
        superseded=stats["dropped_superseded"],
        tombstones_stamped=stats["tombstones_stamped"],
        tombstones_removed=stats["dropped_tombstones"],
    )


def await_compaction(cluster: ServesApi, topic: str, timeout_s: float) -> None:
    """Until no pass over the topic is running, and none is due."""

    def settled() -> bool:
        return cluster.on_the_loop(lambda running: _is_settled(running.broker, topic))

    what = f"nothing is left to compact in {topic}"
    wait_until(settled, what, timeout_s, lambda: _situation(cluster, topic))
    await_unlinked(cluster, topic, timeout_s)


def await_unlinked(cluster: ServesApi, topic: str, timeout_s: float) -> None:
    """Until replaced files whose delay has passed are unlinked."""

    def unlinked() -> bool:
        return cluster.on_the_loop(look)

    def look(running: RunningBroker) -> bool:
        broker = running.broker
        now_ms = broker.clock.now_ms()
        if not any(each.log.deleted_files.due(now_ms) for each in _hosted(broker, topic)):
            return True
        broker.housekeeping.unlink_soon()
        running.runtime.wake()
        return False

    wait_until(unlinked, f"the replaced files of {topic} are unlinked", timeout_s)


def _hosted(broker: Broker, topic: str) -> Iterable[Partition]:
    return [each for each in broker.partitions if each.topic_partition.topic == topic]


def _is_settled(broker: Broker, topic: str) -> bool:
    partitions = _hosted(broker, topic)
    for each in partitions:
        trouble = broker.cleaning.troubles.get(each.topic_partition)
        if trouble is not None:
            raise CompactionFailed(f"{each.topic_partition} cannot be cleaned: {trouble.detail}")
    return not any(_wants_a_pass(broker, each) for each in partitions)


def _wants_a_pass(broker: Broker, partition: Partition) -> bool:
    """The cleaner's own choice, without rolling or starting anything."""
    cleaning, tp, log = broker.cleaning, partition.topic_partition, partition.log
    if not log.config.compacts:
        return False
    if tp in cleaning.asked or not cleaning.states.is_free(tp):
        return True
    now_ms = broker.clock.now_ms()
    appraisal = cleaning.appraise(log)
    if must_roll(appraisal.facts, appraisal.dues, now_ms=now_ms):
        return True
    pending = cleaning.pending.get(tp, Pending())
    if reason_now(appraisal.log, pending, appraisal.dues, now_ms=now_ms) is not None:
        return True
    return any(True for _ in kafka_candidates([appraisal.log]))


def _situation(cluster: ServesApi, topic: str) -> str:
    return "what blocks the cleaner:\n" + lines_of(closed_gates(cluster, topic))


def closed_gates(cluster: ServesApi, topic: str) -> list[str]:
    return gates(topic, cluster.api.get(topic_path(topic, "cleaning"))["partitions"])
