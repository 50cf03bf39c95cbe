"""Disks that come and go while erasures are under way: each is scanned, or named."""

from ledgerstone.erasure.erasure import HostDisk, Stage
from ledgerstone.protocol.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from ledgerstone.uuid_text import uuid_to_text
from tests.unit.server.erasing_kit import KEY, ErasingMachine, machine_with

OTHER = 7
DISK = b"7" * 16


def held_at_tombstoned() -> tuple[ErasingMachine, str]:
    machine = machine_with(partitions=1)
    machine.put(0, (KEY, b"Ulm"))
    machine.held_passes = []
    erasure_id = machine.erase()
    machine.run(erasure_id, until=Stage.TOMBSTONED)
    return machine, erasure_id


def test_disk_of_a_broker_that_came_and_went_between_two_stages_is_not_forgotten() -> None:
    """It may have copied the key and left with it. Disks were noted with stages alone."""
    machine, erasure_id = held_at_tombstoned()
    register = RegisterBrokerRecord(broker_id=OTHER, broker_epoch=70, log_dirs=[DISK], fenced=True)
    machine.broker.controller_link.write([register])
    machine.broker.erasing.something_happened()
    machine.settle()
    machine.broker.controller_link.write([UnregisterBrokerRecord(broker_id=OTHER, broker_epoch=70)])
    machine.release()

    machine.run(erasure_id, until=Stage.UNLINKED)
    machine.settle()

    assert machine.erasure(erasure_id).stage is Stage.UNLINKED
    assert HostDisk(OTHER, uuid_to_text(DISK)) in machine.erasure(erasure_id).hosts
    reason = str(machine.broker.erasing.outlooks[erasure_id].waits_for)
    assert reason == "node 7: the scan is incomplete: broker 7 is not registered"
    machine.call("POST", f"erasures/{erasure_id}/accept", broker=OTHER, by="ops", reason="shredded")
    assert machine.run(erasure_id).stage is Stage.RECEIPTED


def test_broker_that_has_a_new_disk_since_its_scan_is_scanned_again() -> None:
    """Its scan was clean, so none was made again; the new disk was never seen, and the broker was
    alive, so nobody could give it up: the receipt waited for ever."""
    machine, erasure_id = held_at_tombstoned()
    register = RegisterBrokerRecord(broker_id=OTHER, broker_epoch=70, fenced=True)
    machine.broker.controller_link.write([register])
    machine.release()
    machine.run(erasure_id, until=Stage.UNLINKED)
    # Broker 7 is waited for with its scan, and not with its copies of the journal.
    machine.broker.erasing.journal.sealed.clear()
    machine.broker.erasing.something_happened()
    machine.settle()
    assert machine.broker.erasing.replica_scans[erasure_id][1].trouble is None
    scans_before = len(machine.scans_done)
    own = machine.broker.image.brokers[1]

    def have_disks(*disks: bytes) -> None:
        change = BrokerRegistrationChangeRecord(
            broker_id=1, broker_epoch=own.broker_epoch, log_dirs=list(disks)
        )
        machine.broker.controller_link.write([change])
        machine.broker.erasing.something_happened()
        machine.settle()

    have_disks(*own.log_dirs, DISK)
    machine.broker.controller_link.write([
        UnregisterBrokerRecord(broker_id=OTHER, broker_epoch=70)
    ])  # fmt: skip
    machine.broker.erasing.something_happened()
    machine.settle()

    assert len(machine.scans_done) == scans_before + 1
    # The disk is in the metadata alone. Once it is taken out there, too, it can be given up.
    assert "other log directories" in str(machine.broker.erasing.outlooks[erasure_id].waits_for)
    have_disks(*own.log_dirs)
    machine.call("POST", f"erasures/{erasure_id}/accept", broker=1, by="ops", reason="shredded")
    assert machine.run(erasure_id, days=1).stage is Stage.RECEIPTED
