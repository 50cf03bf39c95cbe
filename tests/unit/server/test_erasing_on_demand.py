"""A broker makes the agent of erasures when it is needed, and is none the worse for it."""

from ledgerstone.erasure.mark_slot import MARK_FILE
from ledgerstone.fs import join
from ledgerstone.server.http.monitor import readiness, samples
from tests.kit.in_process import InProcess
from tests.unit.server.asks import create_topic
from tests.unit.server.erasing_kit import TOPIC, ErasingMachine


class SlowStarter(ErasingMachine):
    """Does not ask for the agent when it starts, as real brokers do not."""

    def start(self) -> None:
        self.held_scans = None
        self.held_passes = None
        InProcess.start(self)
        self.broker.erasing_on_demand.installed_verifiers = lambda: tuple(self.verifiers)


def compacted(machine: SlowStarter) -> None:
    create_topic(machine.connect(), TOPIC, cleanup_policy="compact")


def test_broker_that_erases_nothing_makes_no_agent() -> None:
    machine = SlowStarter()
    compacted(machine)

    machine.advance(60_000)

    assert readiness(machine.broker).status == 200
    assert not machine.broker.erasing_on_demand.is_made
    assert machine.broker.agents.all.count(machine.broker.erasing_on_demand) == 1


def test_first_erasure_finds_an_agent_that_is_loaded_and_takes_its_place() -> None:
    machine = SlowStarter()
    compacted(machine)

    erasure_id = machine.erase()

    broker = machine.broker
    assert broker.erasing.loads is None
    assert erasure_id in broker.erasing.journal.unfinished
    assert broker.erasing in broker.agents.all
    assert broker.erasing_on_demand not in broker.agents.all
    assert broker.following.erasing is broker.erasing


def test_journal_is_read_at_a_start_without_being_asked_for() -> None:
    machine = SlowStarter()
    compacted(machine)
    erasure_id = machine.erase()

    machine.kill()

    assert machine.broker.erasing_on_demand.is_made
    assert erasure_id in machine.broker.erasing.journal.unfinished


def test_mark_without_a_journal_is_trouble_at_once() -> None:
    machine = SlowStarter()
    machine.stop()
    mark = join(machine.broker.log_dir.path, MARK_FILE)
    with_mark = SlowStarter()
    compacted(with_mark)
    with_mark.erase()
    file = with_mark.fs.open_read_only(mark)
    content = file.pread(file.size(), 0)
    file.close()
    file = machine.fs.open(mark, create=True)
    file.pwrite(content, 0)
    file.close()

    machine.start()

    assert machine.broker.erasing_on_demand.is_made
    assert machine.broker.erasing.trouble is not None
    assert readiness(machine.broker).status == 503


def test_metrics_name_erasures_before_there_is_one() -> None:
    machine = SlowStarter()

    names = {each.name for each in samples(machine.broker)}

    assert any("erasure" in name for name in names)
