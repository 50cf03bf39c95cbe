"""Disks with a past, and things to do to them: what the crash sweeps and the error sweeps share."""

from dataclasses import replace

from ledgerstone.records.builder import build_batch
from ledgerstone.storage.checkpoints import OffsetCheckpoint
from ledgerstone.storage.filenames import (
    RECOVERY_POINT_CHECKPOINT,
    SIZES_AT_STOP,
    Kind,
    file_name,
)
from ledgerstone.storage.sync_plan import sync_all
from ledgerstone.types import INT32_MAX
from tests.kit.logs import T0, TP, batch, unlink_due
from tests.kit.machines import DATA, SMALL, Machine

# -- pasts --------------------------------------------------------------------------------------


def killed() -> Machine:
    """Some of it synced, most of it not, an open and an aborted transaction, three segments."""
    machine = Machine()
    machine.start()
    machine.append_keys("a", "b", "c", "a", "b")
    machine.flush()
    machine.log_dir.checkpoint()
    machine.append_txn(5, 0, "x", "y")
    machine.append_marker(5, commit=False)
    machine.append_keys("d", "e", leader_epoch=1)
    machine.append_txn(6, 0, "z")
    machine.kill()
    return machine


def stopped() -> Machine:
    machine = killed()
    machine.start()
    machine.stop()
    return machine


def preallocated() -> Machine:
    machine = Machine(config=replace(SMALL, preallocate=True))
    machine.start()
    machine.append_keys("a", "b", "c", "a", "b")
    machine.flush()
    machine.append_keys("c", "d", "e", "f", "g")
    machine.kill()
    return machine


def flushed_by_message() -> Machine:
    machine = Machine(config=replace(SMALL, flush_messages=1))
    machine.start()
    machine.append_keys("a", "b")
    machine.kill()
    return machine


def deleting() -> Machine:
    machine = Machine(config=replace(SMALL, retention_bytes=400, retention_ms=1_000))
    machine.start()
    machine.append_keys(*"abcdefghijklm")
    machine.flush()
    machine.log.advance_high_watermark(machine.log.log_end_offset)
    machine.stop()
    return machine


def with_keys_to_clean() -> Machine:
    """Four sealed segments; `gone` was deleted, and its tombstone lies in the third of them."""
    machine = Machine(config=replace(SMALL, cleanup_policy=("compact",)))
    machine.start()
    machine.append_keys("gone", "a", "b", "gone", "c", "a", "gone")
    machine.append_txn(5, 0, "b", "gone")
    machine.append_marker(5, commit=False)
    machine.append_keys("gone", value=None)
    machine.append_keys("b", "d", "e", "d", "a", "f")
    machine.stop()
    return machine


def with_superseded_tails() -> Machine:
    """Segments of which nothing is left, once later ones are taken into account."""
    machine = Machine(config=replace(SMALL, cleanup_policy=("compact",)))
    machine.start()
    machine.append_keys("k", "a", "b", "c", *("a", "b", "c") * 4, "k")
    machine.stop()
    return machine


def overflowed() -> Machine:
    """What Kafka before 2.1 could write: offsets too far from their segment's base for an index."""
    machine = Machine(config=replace(SMALL, segment_bytes=10_000))
    machine.start()
    machine.append_keys("a", "b")
    machine.append_txn(5, 0, "x")
    machine.append_marker(5, commit=False)
    machine.stop()
    path = f"{DATA}/{TP}/{file_name(0, Kind.LOG)}"
    file = machine.fs.open(path)
    for offset in (INT32_MAX + 10, 2 * INT32_MAX + 20):
        far = bytes(build_batch([(T0, b"k", b"v", ())], base_offset=offset, leader_epoch=0))
        file.pwrite(far, file.size())
        machine.ledger.batches.append(far)
        machine.ledger.acked = machine.ledger.durable = offset + 1
    file.fsync()
    file.close()
    # Kafka's own stop: it knows where the log ends, and leaves no list of sizes.
    machine.fs.unlink(f"{DATA}/{SIZES_AT_STOP}")
    checkpoint = OffsetCheckpoint(machine.fs, f"{DATA}/{RECOVERY_POINT_CHECKPOINT}")
    checkpoint.write({TP: machine.ledger.durable})
    machine.fs.fsync_dir(DATA)
    return machine


# -- work ---------------------------------------------------------------------------------------


def append_everything(machine: Machine) -> None:
    machine.append_keys("a", "b")
    machine.append(batch(("i", "1"), producer_id=8, producer_epoch=0, base_sequence=0))
    machine.append_txn(7, 0, "q", "r")
    machine.append_marker(6, commit=False)
    machine.append(batch(("i", "2"), producer_id=8, producer_epoch=0, base_sequence=1))
    machine.append_marker(7, commit=True)
    machine.append_keys("c")


def append_plainly(machine: Machine) -> None:
    machine.append_keys("f", "g", "h", "i")


def roll(machine: Machine) -> None:
    machine.append_keys("a")
    machine.log.roll()
    machine.log.roll()
    machine.append_keys("b")
    machine.flush()
    machine.log.roll()
    machine.append_keys("c")


def flush(machine: Machine) -> None:
    machine.append_keys("a", "b")
    machine.flush()
    machine.append_keys("c", "d", "e", "f")
    machine.flush()


def flush_beside_a_roll(machine: Machine) -> None:
    """The plan is made, then a segment rolls, then the plan is performed, as off the loop."""
    machine.append_keys("a")
    machine.flush()
    machine.append_keys("b")
    plan = machine.log.plan_flush()
    assert plan is not None
    acked = machine.ledger.acked
    machine.log.roll()
    machine.append_keys("b")
    sync_all(machine.log.fs, plan.syncs)
    machine.log.flush_done(plan)
    machine.ledger.durable = acked
    machine.append_keys("c")
    machine.flush()


def write_checkpoints(machine: Machine) -> None:
    machine.append_keys("a", "b")
    machine.flush()
    machine.log.advance_high_watermark(machine.log.log_end_offset)
    machine.log_dir.checkpoint()
    machine.delete_records(6)
    machine.append_keys("c")
    machine.log_dir.checkpoint()


def change_leader_epochs(machine: Machine) -> None:
    machine.append_keys("a", leader_epoch=3)
    machine.log.note_leader_epoch(4, machine.log.log_end_offset)
    machine.append_keys("b", leader_epoch=4)
    machine.append_keys("c", "d", leader_epoch=7)


def delete_by_size_and_time(machine: Machine) -> None:
    machine.log.advance_high_watermark(machine.log.log_end_offset)
    machine.delete_old_segments()
    machine.append_keys("n")
    machine.clock.advance(hours=1)
    machine.log.advance_high_watermark(machine.log.log_end_offset)
    machine.delete_old_segments()
    machine.log_dir.checkpoint()
    unlink_due(machine.log_dir)
    machine.append_keys("o")


def delete_records_then_segments(machine: Machine) -> None:
    machine.log.advance_high_watermark(machine.log.log_end_offset)
    machine.delete_records(10)
    machine.delete_old_segments()
    # The start of the first segment says it now, so the checkpoint no longer does.
    machine.log_dir.checkpoint()
    machine.append_keys("n")


def truncate(machine: Machine) -> None:
    machine.truncate_to(8)
    machine.append_keys("other", "more", "and", "more", leader_epoch=5)
    machine.flush()
    machine.truncate_to(3)
    machine.append_keys("last", leader_epoch=6)


def truncate_fully(machine: Machine) -> None:
    machine.start_anew_at(40)
    machine.append_keys("new", "log", leader_epoch=5)
    machine.flush()


def swap_two(machine: Machine) -> None:
    machine.swap(0, 2, drop_tombstones=False, keep_tail=True)
    machine.append_keys("g")


def swap_three_and_drop_tombstones(machine: Machine) -> None:
    machine.swap(0, 3, drop_tombstones=True, keep_tail=True)
    machine.append_keys("g")


def swap_away_the_tail(machine: Machine) -> None:
    machine.swap(1, 3, drop_tombstones=False, keep_tail=False)
    machine.append_keys("g")


def swap_to_nothing(machine: Machine) -> None:
    machine.swap(1, 1, drop_tombstones=False, keep_tail=False)


def stop(machine: Machine) -> None:
    machine.append_keys("a")
    machine.stop()


def nothing(machine: Machine) -> None:
    """The start itself is the work."""
