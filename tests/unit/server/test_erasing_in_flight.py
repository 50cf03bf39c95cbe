"""A journal of erasures that is replicated: nothing in it is true before it is committed.

Broker 2 is a follower that exists in the metadata alone; `fetched_by` is its progress."""

from collections.abc import Callable

import pytest

from ledgerstone.erasure.erasure import Stage
from ledgerstone.erasure.host_messages import SearchWord, WorkKind, encoded, search_word_json
from ledgerstone.erasure.scan_plan import SearchReport
from ledgerstone.replication.partition import Partition
from ledgerstone.server.erasing.others import OtherBrokers, Said, Unanswered
from ledgerstone.types import TopicPartition
from tests.kit.roles import change_partition, fetched_by
from tests.unit.server.erasing_kit import KEY, TOPIC, ErasingMachine, base64, machine_with

JOURNAL = TopicPartition("__erasures", 0)
ERASE = f"topics/{TOPIC}/erasures"
FIELDS = {"reason": "ticket 4711", "requested_by": "clerk", "key": base64(b"bob@example.org")}


@pytest.fixture
def machine() -> ErasingMachine:
    machine = machine_with(partitions=1)
    machine.put(0, (KEY, b"mail"))
    machine.held_scans = []
    machine.erase()
    change_partition(machine, JOURNAL, leader=1, isr=[1, 2], replicas=[1, 2])
    return machine


@pytest.fixture
def partition(machine: ErasingMachine) -> Partition:
    return machine.broker.partitions.get(JOURNAL)


def test_erasure_that_is_not_committed_is_refused_for_now_and_true_later(
    machine: ErasingMachine, partition: Partition
) -> None:
    journal = machine.broker.erasing.journal
    refused = machine.page("POST", ERASE, **FIELDS)
    end = machine.journal_end
    known = len(journal.book)
    again = machine.page("POST", ERASE, **FIELDS)

    assert (refused.status, again.status) == (503, 503)
    assert "not committed yet" in refused.body
    assert (known, machine.journal_end) == (1, end), "one change is in flight at a time"
    fetched_by(machine, partition, 2)
    assert len(journal.book) == 2
    assert journal.chain is not None
    assert machine.broker.erasing.trouble is None


def test_step_that_is_not_committed_is_not_taken_twice(
    machine: ErasingMachine, partition: Partition, caplog: pytest.LogCaptureFixture
) -> None:
    (erasure_id,) = machine.broker.erasing.journal.unfinished
    machine.release()
    caplog.clear()
    machine.settle()
    # A replicated journal has every step in flight for a moment: no trouble to be told.
    assert [each for each in caplog.records if each.levelname == "ERROR"] == []
    end = machine.journal_end
    machine.settle()

    assert machine.erasure(erasure_id).stage is Stage.REQUESTED
    assert machine.journal_end == end
    fetched_by(machine, partition, 2)
    change_partition(machine, JOURNAL, isr=[1])
    assert machine.run(erasure_id).stage is Stage.RECEIPTED


def test_lost_journal_is_read_anew_when_it_is_regained(
    machine: ErasingMachine, partition: Partition
) -> None:
    machine.page("POST", ERASE, **FIELDS)

    change_partition(machine, JOURNAL, leader=2)
    lost = machine.page("POST", ERASE, **FIELDS)
    shown = len(machine.broker.erasing.journal.book)
    change_partition(machine, JOURNAL, leader=1, isr=[1])

    assert lost.status == 503
    assert shown == 0
    # The next leader is this broker again, so what was in flight is committed after all.
    assert len(machine.broker.erasing.journal.book) == 2
    assert machine.broker.erasing.trouble is None
    assert machine.page("POST", ERASE, **FIELDS).status == 200
    assert not machine.broker.erasing.journal.breaks


def test_regained_journal_waits_until_all_of_it_is_committed(
    machine: ErasingMachine, partition: Partition
) -> None:
    machine.page("POST", ERASE, **FIELDS)
    change_partition(machine, JOURNAL, leader=2)
    change_partition(machine, JOURNAL, leader=1)

    erasing = machine.broker.erasing
    assert "not committed to its end" in str(erasing.trouble)
    assert len(erasing.journal.book) == 0
    assert machine.page("POST", ERASE, **FIELDS).status == 503
    fetched_by(machine, partition, 2)

    assert erasing.trouble is None
    assert len(erasing.journal.book) == 2


def test_whoever_does_not_lead_the_journal_names_its_leader_and_leaves_it_alone(
    machine: ErasingMachine, partition: Partition
) -> None:
    change_partition(machine, JOURNAL, leader=2)
    refused = machine.page("POST", ERASE, **FIELDS)
    assert refused.status == 503
    assert "broker 2 leads the journal" in refused.body
    change_partition(machine, JOURNAL, leader=3, isr=[1, 2, 3], replicas=[1, 2, 3])
    assert "broker 3 leads" in str(machine.broker.erasing.trouble)

    # Also after a restart: a follower has the whole log, and reads nothing from it.
    machine.kill()

    assert "broker 3 leads" in str(machine.broker.erasing.trouble)
    assert not machine.broker.erasing.journal.unfinished
    change_partition(machine, JOURNAL, leader=1, isr=[1])
    assert machine.broker.erasing.trouble is None
    assert len(machine.broker.erasing.journal.unfinished) == 1


def test_secrets_are_not_made_where_another_broker_leads_the_journal() -> None:
    machine = machine_with(partitions=1)
    machine.put(0, (KEY, b"mail"))
    machine.held_scans = []
    machine.erase()
    path = machine.broker.erasing.keys_path
    machine.fs.unlink(path)
    change_partition(machine, JOURNAL, leader=2, isr=[1, 2], replicas=[1, 2])

    assert machine.page("POST", ERASE, **FIELDS).status == 503

    assert not machine.fs.exists(path)


class SearchesAtOnce(OtherBrokers):
    """Broker 2 has found nothing, whatever it is asked for."""

    def __init__(self) -> None:
        self.asked: list[WorkKind] = []

    def ask(
        self,
        broker_id: int,
        kind: WorkKind,
        on_word: Callable[[Said | Unanswered], None],
        content: bytes = b"",
        *,
        job: int = 0,
        position: int = 0,
    ) -> None:
        self.asked.append(kind)
        report = SearchReport(spans=(), places=(), is_truncated=False, scanned_bytes=7)
        result = encoded(search_word_json(SearchWord((), report)))
        is_begun = kind is WorkKind.START
        on_word(Said(0, b"{}") if is_begun else Said(len(result), result))


def test_search_that_somebody_asked_for_ends_though_the_journal_moves_meanwhile(
    machine: ErasingMachine,
) -> None:
    """Its jobs were forgotten with those of erasures: it was under way for ever."""
    change_partition(machine, TopicPartition(TOPIC, 0), leader=2, isr=[1, 2], replicas=[1, 2])
    machine.broker.erasing.jobs.others = there = SearchesAtOnce()
    begun = machine.call("POST", f"topics/{TOPIC}/where", key=base64(KEY))
    assert not begun["done"]

    change_partition(machine, JOURNAL, leader=2)
    machine.clock.advance(seconds=1)
    machine.settle()

    found = machine.call("GET", f"searches/{begun['search']}")
    assert (found["done"], found["failure"]) == (True, None)
    assert there.asked[:2] == [WorkKind.START, WorkKind.RESULT]
