"""Files that were set aside: once they are reported gone, not even power loss brings them back."""

import errno

from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem
from ledgerstone.storage.deleted_files import UnlinkPlan, unlink_all
from ledgerstone.storage.log_loader import settle_interrupted_swap

DIRECTORY = "/data/t-0"
NAMES = ("00000000000000000000.log.deleted", "00000000000000000007.log.deleted")
FILES = tuple(f"{DIRECTORY}/{name}" for name in NAMES)


def durable_disk() -> SimFilesystem:
    fs = SimFilesystem(dice=SeededDice(0))
    fs.make_dir(DIRECTORY)
    for path in FILES:
        file = fs.open(path, create=True)
        file.pwrite(b"alice", 0)
        file.fsync()
    for path in (DIRECTORY, "/data", "/"):
        fs.fsync_dir(path)
    return fs


def test_what_was_unlinked_does_not_come_back_after_power_loss() -> None:
    fs = durable_disk()

    done = unlink_all(fs, UnlinkPlan(files=FILES))
    fs.power_loss("none")

    assert done.gone == FILES
    assert fs.list_dir(DIRECTORY) == []


def test_a_directory_that_was_removed_does_not_come_back() -> None:
    fs = durable_disk()

    unlink_all(fs, UnlinkPlan(files=(), directories=(DIRECTORY,)))
    fs.power_loss("none")

    assert fs.list_dir("/data") == []


def test_files_are_not_gone_while_their_directory_cannot_be_synced() -> None:
    fs = durable_disk()
    fs.fail_matching("fsync_dir", DIRECTORY, errno.EIO)

    refused = unlink_all(fs, UnlinkPlan(files=FILES))
    again = unlink_all(fs, UnlinkPlan(files=FILES))
    fs.power_loss("none")

    assert refused.gone == ()
    assert refused.failure is not None
    assert again.gone == FILES
    assert fs.list_dir(DIRECTORY) == []


def test_what_a_start_unlinks_does_not_come_back_either() -> None:
    fs = durable_disk()

    settle_interrupted_swap(fs, DIRECTORY)
    fs.power_loss("none")

    assert fs.list_dir(DIRECTORY) == []
