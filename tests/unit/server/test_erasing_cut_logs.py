"""Which records of a key a scan may take for a later life: only those of the log as it stands.

What was cut off a log lies in files that wait to be unlinked, in a copy for another directory, or
was read just before. Its offsets are given again to other records, and say nothing."""

import pytest

from ledgerstone.erasure.erasure import ReplicaScan
from ledgerstone.erasure.host_messages import ScanOrder, TombstoneAt
from ledgerstone.erasure.key_print import SALT_BYTES, PrintKey
from ledgerstone.erasure.residue import scan_dirs
from ledgerstone.erasure.scan_plan import KeyPrints, ResiduePlan
from ledgerstone.fs import join
from ledgerstone.records.builder import build_batch
from ledgerstone.replication.partition import Partition
from ledgerstone.server.erasing.looking import proof_of, scan_here
from ledgerstone.server.erasing.scans import ScanFailed
from ledgerstone.storage.log_shrink import truncate_to
from ledgerstone.types import TopicPartition
from ledgerstone.uuid_text import uuid_to_text
from tests.unit.server.erasing_kit import DAY_MS, KEY, TOPIC, ErasingMachine, machine_with

UUID = "0" * 32


@pytest.fixture
def machine() -> ErasingMachine:
    """Its log has others at 0 and 1, and at 2, in a segment of its own, the key."""
    machine = machine_with(partitions=1)
    machine.put(0, (b"bob", b"Bonn"), (b"carol", b"Cottbus"))
    hosted(machine).log.roll()
    machine.put(0, (KEY, b"Ulm"))
    return machine


def hosted(machine: ErasingMachine) -> Partition:
    return machine.broker.partitions.get(TopicPartition(TOPIC, 0))


def cut_and_go_on(machine: ErasingMachine) -> None:
    """As a leader that was replaced does: its end is cut, and others come in its place."""
    hosted(machine).log.roll()
    truncate_to(hosted(machine).log, 1)
    machine.put(0, *[(b"dave", b"%d" % each) for each in range(5)])


def begin_scan(
    machine: ErasingMachine, topic_id: str = "", *tombstones: TombstoneAt
) -> list[ReplicaScan]:
    found: list[ReplicaScan] = []

    def ended(scans: list[ReplicaScan] | ScanFailed) -> None:
        assert not isinstance(scans, ScanFailed)
        found.extend(scans)

    topic_id = topic_id or uuid_to_text(machine.broker.image.topics[TOPIC].topic_id)
    orders = [ScanOrder("ER-1", TOPIC, topic_id, tombstones)]
    print_key = PrintKey.from_salt(bytes(SALT_BYTES))
    keys = KeyPrints.under(print_key, [print_key.print_of(TOPIC, KEY)])
    scan_here(machine.broker.erasing, orders, keys, ended)
    return found


def scan(machine: ErasingMachine, topic_id: str = "", *tombstones: TombstoneAt) -> ReplicaScan:
    found = begin_scan(machine, topic_id, *tombstones)
    machine.settle()
    (only,) = found
    return only


def test_what_was_cut_off_is_no_later_life_while_its_file_waits(machine: ErasingMachine) -> None:
    cut_and_go_on(machine)
    assert any(
        name.endswith(".deleted") for name in machine.fs.list_dir(hosted(machine).log.directory)
    )

    early = scan(machine)
    machine.clock.advance(ms=DAY_MS)
    machine.broker.clock_moved()
    machine.settle()
    late = scan(machine)

    assert "was cut" in str(early.trouble)
    assert (late.trouble, late.records) == (None, ())


def test_log_that_is_cut_while_it_is_scanned_is_scanned_again(machine: ErasingMachine) -> None:
    """The scan has read what is gone when it ends, and what stands there then is committed."""
    machine.held_scans = []
    found = begin_scan(machine)
    machine.settle()
    (effect,) = machine.held_scans
    machine.held_scans = None
    assert isinstance(effect.plan, ResiduePlan)
    report = scan_dirs(machine.fs, effect.plan)
    cut_and_go_on(machine)
    machine.clock.advance(ms=DAY_MS)
    machine.broker.clock_moved()
    machine.settle()

    machine.finish_scan(effect, report)
    machine.settle()

    assert "was cut" in str(found[0].trouble)


def test_what_a_pass_has_replaced_is_judged_by_its_offsets(machine: ErasingMachine) -> None:
    """Passes see only what is committed: a key that is written all the time would hold its receipt
    back for ever."""
    machine.put(0, (KEY, b"Ulm again"))
    hosted(machine).log.roll()
    machine.put(0, (b"erin", b"Essen"))
    machine.broker.cleaning.ask(TopicPartition(TOPIC, 0))
    machine.settle()
    log = hosted(machine).log
    assert any(name.endswith(".log.deleted") for name in machine.fs.list_dir(log.directory))

    found = scan(machine)

    assert found.trouble is None
    assert [each.first_offset for each in found.records] == [2]


@pytest.mark.parametrize("name", [f"{TOPIC}-0.{UUID}-future", f"{TOPIC}-7"])
def test_directory_that_is_not_the_hosted_log_s_proves_nothing(
    machine: ErasingMachine, name: str
) -> None:
    """A copy for another directory may have been begun before the log was cut, and is not kept in
    step; one that nobody hosts may be of a former topic."""
    log = hosted(machine).log
    content = machine.fs.files()[join(log.directory, f"{2:020d}.log")]
    directory = join(machine.broker.log_dir.path, name)
    machine.fs.make_dir(directory)
    file = machine.fs.open(join(directory, f"{2:020d}.log"), create=True)
    file.pwrite(content, 0)
    file.close()

    assert f"0/{name}/" in str(scan(machine).trouble)


def test_proof_lists_no_partitions_of_a_later_topic_of_that_name(machine: ErasingMachine) -> None:
    """So whoever knows that the topic was deleted sees which broker has not heard of it."""
    topic_id = uuid_to_text(machine.broker.image.topics[TOPIC].topic_id)
    erasing = machine.broker.erasing

    here, other = proof_of(erasing, TOPIC, topic_id), proof_of(erasing, TOPIC, "A" * 22)

    assert (here.hosted_count, other.hosted_count) == (1, 0)


def test_scan_says_under_which_leader_the_records_were_written(machine: ErasingMachine) -> None:
    (before,) = scan(machine).records
    partition = hosted(machine)
    partition.log.lead_from(partition.leader_epoch + 4, partition.log.log_end_offset)
    data = build_batch([(1, KEY, b"Kiel", ())])
    partition.log.append_as_leader(data, leader_epoch=partition.leader_epoch + 4)
    partition.log.high_watermark = partition.log.log_end_offset

    (after,) = scan(machine).records

    assert (before.records, before.leader_epoch) == (1, partition.leader_epoch)
    assert (after.records, after.leader_epoch) == (2, partition.leader_epoch)


def test_log_of_another_topic_of_the_name_is_told(machine: ErasingMachine) -> None:
    assert not scan(machine).has_namesake
    assert scan(machine, topic_id=uuid_to_text(bytes(range(16)))).has_namesake


def test_log_where_a_newer_leader_wrote_in_the_place_of_the_tombstone_is_told(
    machine: ErasingMachine,
) -> None:
    """A leader was elected uncleanly and has the key at offset 3, while the one before it, cut off,
    had the tombstone committed there."""
    partition, before = hosted(machine), hosted(machine).leader_epoch
    partition.log.lead_from(before + 1, partition.log.log_end_offset)
    data = build_batch([(1, KEY, b"Kiel", ())])
    partition.log.append_as_leader(data, leader_epoch=before + 1)
    partition.log.high_watermark = partition.log.log_end_offset

    def without(*places: TombstoneAt) -> tuple[int, ...]:
        return scan(machine, "", *places).without_tombstone

    assert without(TombstoneAt(0, 3, before), TombstoneAt(1, 3, before)) == (0,)
    assert without(TombstoneAt(0, 2, before)) == ()
    assert without(TombstoneAt(0, 3, before + 1)) == ()
    # From before epochs were noted.
    assert without(TombstoneAt(0, 3, -1)) == ()
