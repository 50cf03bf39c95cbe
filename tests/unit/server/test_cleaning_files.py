"""When what passes did is written down, in which order, and what happens if it is refused."""

import errno

from ledgerstone.server.cleaning.files import WRITE_INTERVAL_MS
from ledgerstone.server.http.monitor import readiness
from ledgerstone.types import TopicPartition
from tests.kit.in_process import Client, InProcess
from tests.kit.logs import batch
from tests.unit.server.asks import create_topic, delete_topic, produced
from tests.unit.server.test_cleaning import (
    HISTORY,
    checkpoint,
    compact_now,
    compacted,
    log_of,
    on_disk,
    put,
    runs,
)

OTHER = TopicPartition("other", 0)


def compact_other(machine: InProcess) -> None:
    machine.broker.cleaning.ask(OTHER)
    machine.tick()


def test_first_pass_is_written_down_at_once_and_the_next_one_a_little_later(
    machine: InProcess, client: Client
) -> None:
    compacted(client)
    put(machine, client, ("a", "1"))

    compact_now(machine)
    first = checkpoint(machine)
    put(machine, client, ("a", "2"))
    compact_now(machine)
    at_once = checkpoint(machine)
    machine.advance(WRITE_INTERVAL_MS)

    assert (first, at_once) == ({"events-0": 1}, {"events-0": 1})
    assert checkpoint(machine) == {"events-0": 2}
    assert len(runs(machine)) == 2


def test_many_passes_in_a_row_cost_one_write(machine: InProcess, client: Client) -> None:
    compacted(client)
    put(machine, client, ("a", "1"))
    compact_now(machine)
    machine.fs.fail_matching("create", "*cleaner-offset-checkpoint*", errno.EIO, times=None)

    for _ in range(20):
        put(machine, client, ("a", "2"))
        compact_now(machine)
    without_a_write = readiness(machine.broker).status
    machine.fs.clear_faults()
    machine.advance(WRITE_INTERVAL_MS)

    assert without_a_write == 200
    assert checkpoint(machine) == {"events-0": 21}


def test_crash_before_the_write_costs_another_pass_and_nothing_else(
    machine: InProcess, client: Client
) -> None:
    compacted(client, delete_retention_ms="0")
    put(machine, client, ("a", "1"), ("b", "1"))
    compact_now(machine)
    put(machine, client, ("a", None))
    compact_now(machine)
    compact_now(machine)

    machine.kill()
    found = (on_disk(machine), checkpoint(machine))
    compact_now(machine)

    assert found == ([("b", "1")], {"events-0": 2})
    assert on_disk(machine) == [("b", "1")]
    assert log_of(machine).log_end_offset == 3


def test_broker_that_stops_writes_down_what_is_left_to_write(
    machine: InProcess, client: Client
) -> None:
    compacted(client)
    put(machine, client, ("a", "1"))
    compact_now(machine)
    put(machine, client, ("a", "2"))
    compact_now(machine)

    machine.perform(machine.broker.stop_cleaning())

    assert checkpoint(machine) == {"events-0": 2}


def test_refused_history_holds_back_its_own_checkpoint_and_no_other(
    machine: InProcess, client: Client
) -> None:
    compacted(client)
    create_topic(client, OTHER.topic, cleanup_policy="compact")
    put(machine, client, ("a", "1"))
    produced(client, batch(("a", "1"), timestamp=machine.clock.now_ms()), OTHER.topic)
    machine.fs.fail_matching("pwrite", f"{HISTORY}*", errno.ENOSPC, times=None)

    compact_now(machine)
    compact_other(machine)
    machine.advance(WRITE_INTERVAL_MS)
    during = (checkpoint(machine), readiness(machine.broker).status)
    machine.fs.clear_faults()
    machine.advance(WRITE_INTERVAL_MS)

    assert during == ({"other-0": 1}, 503)
    assert checkpoint(machine) == {"events-0": 1, "other-0": 1}
    assert readiness(machine.broker).status == 200


def test_history_of_a_deleted_topic_is_not_waited_for(machine: InProcess, client: Client) -> None:
    compacted(client)
    put(machine, client, ("a", "1"))
    compact_now(machine)
    put(machine, client, ("a", "2"))
    compact_now(machine)

    delete_topic(client)
    machine.advance(WRITE_INTERVAL_MS)

    assert checkpoint(machine) == {}
    assert readiness(machine.broker).status == 200


def test_what_an_earlier_pass_set_aside_waits_no_longer_than_what_the_next_does(
    machine: InProcess, client: Client
) -> None:
    compacted(client, file_delete_delay_ms="60000")
    put(machine, client, ("a", "1"), ("a", "2"))
    compact_now(machine)
    aside = "/data/events-0/00000000000000000000.log.deleted"
    put(machine, client, ("a", "3"))
    assert aside in machine.fs.files()

    compact_now(machine)
    machine.advance(2_000)
    soon = list(machine.fs.files())
    machine.advance(60_000)

    second = "/data/events-0/00000000000000000000.log.1.deleted"
    assert aside not in soon
    assert second in soon
    assert second not in machine.fs.files()
